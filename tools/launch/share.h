// SPDX-License-Identifier: Apache-2.0
//
// How ranks that a launcher started learn what rank 0 knows, above all NCCL's unique id, before they can talk through
// the library that the id is for. The ways, in this order:
//
//   a file                 where the user names one that all hosts see
//   a Unix socket          where the launcher says that all ranks are on one host; only this user's processes are heard
//   a TCP port of rank 0   where MASTER_ADDR and MASTER_PORT name it, or Slurm its host
//   PMI                    under MPICH's mpiexec and its relatives: the launcher carries it
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tools/launch/place.h"

namespace sl::launch {

inline constexpr size_t kMaxShared = 256;  // bytes; a line of PMI carries twice as many characters

class Share {
 public:
  // `id_file` may be empty; otherwise it must not exist yet. Throws EnvironmentError when there is no way from rank 0
  // to the others.
  Share(const Place& place, const std::string& id_file);
  // Rank 0 removes the id file it wrote.
  ~Share();
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Copies `bytes` from rank 0 to the others. Every rank calls it once, with the same size. Blocks until the bytes have
  // come, rank 0 until all have fetched them (with a file: until it is written). Throws std::runtime_error when
  // `timeout` has passed, and says who was missing and where.   [one thread]
  void FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout);

  class Way;

 private:
  const std::unique_ptr<Way> way_;
};

}  // namespace sl::launch
