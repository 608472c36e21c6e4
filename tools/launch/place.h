// SPDX-License-Identifier: Apache-2.0
//
// The place that a launcher gave to this process among the ranks of its job, read from the environment alone.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace sl::launch {

// What a launcher left in the environment makes no sense: names the variable, its value and the remedy.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Place {
  enum class Launcher { kTorchrun, kOpenMpi, kHydra, kSlurm };
  Launcher launcher;
  int rank;  // 0 to size - 1
  int size;
  int local_rank;      // among the ranks of this host; -1 where the launcher does not say
  bool one_host;       // all ranks run on this host, says the launcher
  std::string job;     // the same in all ranks, and in no other job of this launcher; "" where it names none
  std::string key;     // the same in all ranks of this host, and in no other running job; fit for a file name
  std::string master;  // name or address of rank 0's host; "" unless known
  uint16_t port = 0;   // the first of kPorts ports there that rank 0 may listen on; 0 unless known
  int pmi_fd = -1;     // kHydra: the inherited connection to the launcher
};

inline constexpr uint16_t kPorts = 8;
inline constexpr int kMaxRanks = 1 << 20;

// Nothing when no launcher started this process. Of launchers around each other the innermost counts: torchrun, then
// mpirun and mpiexec, then srun. A batch script of Slurm is no rank, a task of a step is. Throws EnvironmentError.
std::optional<Place> FindPlace();

// As users call it: "torchrun", "mpirun", "mpiexec", "srun".
const char* Name(Place::Launcher launcher);

// The first host of one of Slurm's lists: "node[08-11,14],x1" begins with node08.
std::string FirstHost(const std::string& list);

}  // namespace sl::launch
