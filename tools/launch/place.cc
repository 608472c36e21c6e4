// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/place.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace sl::launch {
namespace {

// Ports that are derived from a job's number lie below those that the system hands out by itself, from 32768 on.
constexpr uint32_t kFirstDerivedPort = 20000;
constexpr uint32_t kDerivedBlocks = 1250;

const char* Get(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string TextOf(const char* name) { return Get(name) != nullptr ? Get(name) : ""; }

int NumberOf(const char* name, int low, int high) {
  const std::string text = TextOf(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw EnvironmentError(std::string("environment: ") + name + " is '" + text + "' where a number from " +
                           std::to_string(low) + " to " + std::to_string(high) + " is needed; correct or unset it");
  }
  return value;
}

// Whether a launcher has set its two variables. One without the other is a mistake that would start jobs of one rank.
bool HasPair(const char* rank, const char* size) {
  if ((Get(rank) != nullptr) == (Get(size) != nullptr)) return Get(rank) != nullptr;
  const bool has_rank = Get(rank) != nullptr;
  throw EnvironmentError(std::string("environment: ") + (has_rank ? rank : size) + " is set and " +
                         (has_rank ? size : rank) + " is not; set both, or neither");
}

Place ReadPair(Place::Launcher launcher, const char* rank, const char* size) {
  Place place{};
  place.launcher = launcher;
  place.size = NumberOf(size, 1, kMaxRanks);
  place.rank = NumberOf(rank, 0, place.size - 1);
  place.local_rank = -1;
  place.one_host = place.size == 1;
  return place;
}

// Who does not say how many ranks are local may have started them anywhere.
void ReadLocal(Place& place, const char* local_rank, const char* local_size) {
  int ranks = 0;
  if (Get(local_size) != nullptr) ranks = NumberOf(local_size, 1, place.size);
  if (Get(local_rank) != nullptr) place.local_rank = NumberOf(local_rank, 0, (ranks > 0 ? ranks : place.size) - 1);
  place.one_host = place.one_host || ranks == place.size;
}

// MASTER_ADDR and MASTER_PORT are torchrun's, and what users of torch export for other launchers.
void ReadMaster(Place& place) {
  place.master = TextOf("MASTER_ADDR");
  if (Get("MASTER_PORT") == nullptr) return;
  place.port = static_cast<uint16_t>(NumberOf("MASTER_PORT", 1, 65535 - kPorts));
  // Then torchrun itself answers on that port.
  if (TextOf("TORCHELASTIC_USE_AGENT_STORE") == "True") ++place.port;
}

// One process of this host that all ranks have in common: its id, and its start time, since ids are used again.
std::string KeyOf(pid_t process) {
  const std::string pid = std::to_string(process);
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name in parentheses may hold blanks; fields are counted after it, and the start time is the 20th from there.
  const size_t close = text.rfind(')');
  std::istringstream fields(close == std::string::npos ? "" : text.substr(close + 1));
  std::string field;
  for (int i = 0; i < 20 && fields >> field; ++i) continue;
  return "p" + pid + "-" + field;
}

std::string FitForAFileName(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!plain) c = '_';
  }
  return text.substr(0, 80);  // a Unix socket's name has room for 107 bytes
}

Place FromTorchrun() {
  Place place = ReadPair(Place::Launcher::kTorchrun, "RANK", "WORLD_SIZE");
  ReadLocal(place, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  ReadMaster(place);
  if (place.port != 0) {
    place.job = "torch-" + TextOf("MASTER_PORT") + "-" + TextOf("TORCHELASTIC_RUN_ID") + "-" +
                TextOf("TORCHELASTIC_RESTART_COUNT");
  }
  return place;
}

Place FromOpenMpi() {
  Place place = ReadPair(Place::Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  ReadLocal(place, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  ReadMaster(place);
  if (Get("PMIX_NAMESPACE") != nullptr) place.job = "ompi-" + TextOf("PMIX_NAMESPACE");
  return place;
}

Place FromHydra() {
  Place place = ReadPair(Place::Launcher::kHydra, "PMI_RANK", "PMI_SIZE");
  ReadLocal(place, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  ReadMaster(place);
  if (Get("PMI_FD") == nullptr) return place;
  place.pmi_fd = NumberOf("PMI_FD", 0, 1 << 20);
  // The proxy at the other end is the parent of all ranks here, and stays it when a script stands between.
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(place.pmi_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) place.key = KeyOf(peer.pid);
  return place;
}

uint16_t DerivedPort(const std::string& job) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return static_cast<uint16_t>(kFirstDerivedPort + hash % kDerivedBlocks * kPorts);
}

// The size of the step; that of the job where the step's is not told.
const char* SlurmSize() { return Get("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS"; }
const char* SlurmStep() { return Get("SLURM_STEP_ID") != nullptr ? Get("SLURM_STEP_ID") : Get("SLURM_STEPID"); }

Place FromSlurm() {
  Place place = ReadPair(Place::Launcher::kSlurm, "SLURM_PROCID", SlurmSize());
  if (Get("SLURM_LOCALID") != nullptr) place.local_rank = NumberOf("SLURM_LOCALID", 0, place.size - 1);
  if (Get("SLURM_STEP_NUM_NODES") != nullptr && NumberOf("SLURM_STEP_NUM_NODES", 1, kMaxRanks) == 1) {
    place.one_host = true;
  }
  place.job = "slurm-" + TextOf("SLURM_JOB_ID") + "-" + SlurmStep();
  ReadMaster(place);
  // Task 0 runs on the step's first node, and all tasks know the job's number.
  if (place.master.empty()) place.master = FirstHost(TextOf("SLURM_STEP_NODELIST"));
  if (place.port == 0) place.port = DerivedPort(place.job);
  return place;
}

// RANK and WORLD_SIZE that torchrun did not set are a script's copy of another launcher's, or left over.
void CheckAgainst(const std::optional<Place>& torch, const std::optional<Place>& other, const char* rank,
                  const char* size) {
  if (!torch || !other || Get("LOCAL_RANK") != nullptr) return;
  if (torch->rank == other->rank && torch->size == other->size) return;
  throw EnvironmentError("environment: RANK " + TextOf("RANK") + " of WORLD_SIZE " + TextOf("WORLD_SIZE") +
                         " contradicts " + rank + " " + TextOf(rank) + " of " + size + " " + TextOf(size) +
                         "; unset the pair that is left over");
}

std::optional<Place> Choose() {
  std::optional<Place> torch, mpi;
  if (HasPair("RANK", "WORLD_SIZE")) torch = FromTorchrun();
  if (HasPair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    mpi = FromOpenMpi();
    CheckAgainst(torch, mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  } else if (HasPair("PMI_RANK", "PMI_SIZE")) {
    mpi = FromHydra();
    CheckAgainst(torch, mpi, "PMI_RANK", "PMI_SIZE");
  }
  // A batch script has a place as well but no step: its tasks are not started yet.
  if (SlurmStep() != nullptr && Get("SLURM_PROCID") != nullptr && Get(SlurmSize()) != nullptr) {
    const Place slurm = FromSlurm();
    // srun sets PMI's variables too.
    if (mpi && mpi->launcher == Place::Launcher::kHydra && mpi->rank == slurm.rank && mpi->size == slurm.size) {
      mpi.reset();
    }
    if (!mpi) {
      CheckAgainst(torch, slurm, "SLURM_PROCID", SlurmSize());
      mpi = slurm;
    }
  }
  // Two that agree: the one that says more.
  return torch && (!mpi || Get("LOCAL_RANK") != nullptr) ? torch : mpi;
}

}  // namespace

std::optional<Place> FindPlace() {
  std::optional<Place> place = Choose();
  if (!place) return place;
  if (place->key.empty()) place->key = place->job.empty() ? KeyOf(getppid()) : place->job;
  place->key = FitForAFileName(place->key);
  return place;
}

const char* Name(Place::Launcher launcher) {
  switch (launcher) {
    case Place::Launcher::kTorchrun:
      return "torchrun";
    case Place::Launcher::kOpenMpi:
      return "mpirun";
    case Place::Launcher::kHydra:
      return "mpiexec";
    case Place::Launcher::kSlurm:
      return "srun";
  }
  return "unknown";
}

std::string FirstHost(const std::string& list) {
  const size_t open = list.find_first_of("[,");
  if (open == std::string::npos || list[open] == ',') return list.substr(0, open);
  const size_t end = std::min(list.find_first_of("-,]", open), list.size());
  const size_t close = std::min(list.find(']', open), list.size() - 1);
  const size_t after = std::min(list.find(',', close), list.size());
  return list.substr(0, open) + list.substr(open + 1, end - open - 1) + list.substr(close + 1, after - close - 1);
}

}  // namespace sl::launch
