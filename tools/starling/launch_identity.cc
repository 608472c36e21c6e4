// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_identity.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

const char* Get(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

int Number(const char* name, int low, int high) {
  const char* text = Get(name);
  int value = 0;
  std::string_view view = text ? text : "";
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < low || value > high) {
    throw CommandError(kExitUsage, std::string("environment: ") + name + " is '" + std::string(view) +
                                       "' where a number from " + std::to_string(low) + " to " + std::to_string(high) +
                                       " is needed; fix it, or unset it and use --ranks");
  }
  return value;
}

constexpr int kMaxProcesses = 1 << 20;

// One start by one launcher: its process id and that process's start time, which no other running job shares.
std::string ParentKey() {
  std::string pid = std::to_string(getppid());
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name in parentheses may hold blanks; fields are counted after it, and start time is the 20th from there.
  size_t close = text.rfind(')');
  std::istringstream fields(close == std::string::npos ? "" : text.substr(close + 1));
  std::string field;
  for (int i = 0; i < 20 && fields >> field; ++i) continue;
  return "p" + pid + "-" + field;
}

std::string Sanitised(std::string text) {
  for (char& c : text) {
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!plain) c = '_';
  }
  return text.substr(0, 100);
}

void ReadPair(Identity& self, const char* rank, const char* size) {
  self.processes = Number(size, 1, kMaxProcesses);
  self.process = Number(rank, 0, self.processes - 1);
}

// A launcher that does not say how many ranks are local leaves `one_host` false, unless there is one process.
void ReadLocalSize(Identity& self, const char* local_size) {
  self.one_host = self.processes == 1 || (Get(local_size) && Number(local_size, 1, kMaxProcesses) == self.processes);
}

Identity FromStarling(const char* text) {
  Identity self;
  self.launcher = Identity::Launcher::kStarling;
  std::istringstream fields(text);
  bool good = static_cast<bool>(fields >> self.process >> self.processes >> self.segment_fd);
  if (!good || self.process < 0 || self.process >= self.processes || self.segment_fd < 0) {
    throw CommandError(kExitUsage, "STARLING_TOOL_LAUNCH is set by starling itself; unset it");
  }
  unsetenv(kLaunchVariable);
  return self;
}

}  // namespace

Identity DetectIdentity() {
  if (const char* text = Get(kLaunchVariable)) return FromStarling(text);
  Identity self;
  if (Get("OMPI_COMM_WORLD_SIZE")) {
    self.launcher = Identity::Launcher::kOpenMpi;
    ReadPair(self, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    ReadLocalSize(self, "OMPI_COMM_WORLD_LOCAL_SIZE");
    const char* job = Get("PMIX_NAMESPACE");
    self.key = job ? Sanitised(std::string("ompi-") + job) : ParentKey();
  } else if (Get("PMI_SIZE") && Get("PMI_RANK")) {
    self.launcher = Identity::Launcher::kPmi;
    ReadPair(self, "PMI_RANK", "PMI_SIZE");
    ReadLocalSize(self, "MPI_LOCALNRANKS");
    self.key = ParentKey();
  } else if (Get("SLURM_PROCID") && Get("SLURM_NTASKS") && (Get("SLURM_STEP_ID") || Get("SLURM_STEPID"))) {
    // Without a step this is a batch script, whose tasks are not started yet.
    self.launcher = Identity::Launcher::kSlurm;
    ReadPair(self, "SLURM_PROCID", "SLURM_NTASKS");
    self.one_host =
        self.processes == 1 || !Get("SLURM_STEP_NUM_NODES") || Number("SLURM_STEP_NUM_NODES", 1, kMaxProcesses) == 1;
    const char* step = Get("SLURM_STEP_ID") ? Get("SLURM_STEP_ID") : Get("SLURM_STEPID");
    self.key = Sanitised(std::string("slurm-") + (Get("SLURM_JOB_ID") ? Get("SLURM_JOB_ID") : "") + "-" + step);
  } else if (Get("RANK") && Get("WORLD_SIZE")) {
    self.launcher = Identity::Launcher::kTorchrun;
    ReadPair(self, "RANK", "WORLD_SIZE");
    ReadLocalSize(self, "LOCAL_WORLD_SIZE");
    self.key = ParentKey();
  }
  return self;
}

const char* Name(Identity::Launcher launcher) {
  switch (launcher) {
    case Identity::Launcher::kNone:
      return "none";
    case Identity::Launcher::kStarling:
      return "starling";
    case Identity::Launcher::kOpenMpi:
      return "Open MPI";
    case Identity::Launcher::kPmi:
      return "PMI";
    case Identity::Launcher::kSlurm:
      return "Slurm";
    case Identity::Launcher::kTorchrun:
      return "torchrun";
  }
  return "unknown";
}

}  // namespace sl::tools
