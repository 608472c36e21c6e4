// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace digits {

// The ranks of one job, one process each, as one of them sees it. Before ranks can talk through NCCL they must agree on
// a unique id, and something other than NCCL has to carry it: that is all that Share() is for.
class World {
 public:
  World(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Copies `bytes` from rank 0 to the other ranks. Every rank calls it once, with the same size. Blocks until the bytes
  // are there; throws std::runtime_error when rank 0 has gone or, with an id file, when the timeout has passed.
  virtual void Share(std::span<std::byte> bytes) = 0;

 private:
  const int rank_;
  const int size_;
};

// Starts `ranks` child processes, which share through pipes, and waits for them. Each calls `body` and exits with what
// it returns. The caller must have no other thread and must not have touched NCCL: a forked copy of a running library
// is of no use. Returns 0 when every rank returned 0. Otherwise it returns 1: as soon as one rank has failed, the
// others get two seconds to report what they saw, then are killed; and all are killed when `timeout` has passed.
int RunLocally(int ranks, std::chrono::seconds timeout, const std::function<int(World&)>& body);

// The place that a launcher (torchrun, mpirun, srun) gave to this process.
struct LauncherPlace {
  std::string launcher;
  int rank;
  int size;
};

// Reads the environment; nothing when no launcher has left its variables there. Throws std::runtime_error when what it
// left makes no sense.
std::optional<LauncherPlace> FindLauncher();

// Joins the ranks that a launcher started. They share through the file `id_file`, which all of them must see and which
// must not exist yet; rank 0 creates it, readable to this user only, and removes it when the world is destroyed.
std::unique_ptr<World> JoinLauncher(const LauncherPlace& place, const std::string& id_file,
                                    std::chrono::seconds timeout);

}  // namespace digits
