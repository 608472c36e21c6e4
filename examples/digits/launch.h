// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tools/launch/place.h"

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
  // are there; throws std::runtime_error when a rank has gone or did not come in time.
  virtual void Share(std::span<std::byte> bytes) = 0;

 private:
  const int rank_;
  const int size_;
};

// Says on stderr what went wrong, a line in one write: those of ranks that end together stay whole.
void Complain(const std::string& what);

// Starts `ranks` child processes, which share through pipes, and waits for them. Each calls `body` and exits with what
// it returns. The caller must have no other thread and must not have touched NCCL: a forked copy of a running library
// is of no use. Returns 0 when every rank returned 0. Otherwise it returns 1: as soon as one rank has failed, the
// others get two seconds to report what they saw, then are killed; and all are killed when `timeout` has passed.
int RunLocally(int ranks, std::chrono::seconds timeout, const std::function<int(World&)>& body);

// Joins the ranks that a launcher started, of which `place` is this one. tools/launch/share.h says how they share; with
// an id file, it must not exist yet, and rank 0 removes it when the world is destroyed. Throws
// sl::launch::EnvironmentError when there is no way from rank 0 to the others.
std::unique_ptr<World> JoinLauncher(const sl::launch::Place& place, const std::string& id_file,
                                    std::chrono::seconds timeout);

}  // namespace digits
