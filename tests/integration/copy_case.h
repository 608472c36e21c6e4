// SPDX-License-Identifier: Apache-2.0
//
// Collectives that copy engines serve, on buffers of ints: what a rank sends, what it is to receive, and the call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nccl.h"

namespace sl::integration {

struct CopyCase {
  enum class Kind { kAllGather, kAllToAll, kBroadcast, kScatter, kGather };
  static constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kAllToAll, Kind::kBroadcast, Kind::kScatter, Kind::kGather};

  Kind kind;
  size_t count;
  int root = 0;
  bool in_place = false;  // of all-gathers and broadcasts

  // Values differ between ranks, places and salts.
  std::vector<int> Sent(int rank, int ranks, int salt) const {
    std::vector<int> values;
    if (in_place && kind == Kind::kBroadcast && rank != root) return values;
    const bool blocks = kind == Kind::kAllToAll || kind == Kind::kScatter;
    for (size_t at = 0; at < count * (blocks ? static_cast<size_t>(ranks) : 1); ++at) {
      values.push_back(ValueAt(rank, at, salt));
    }
    return values;
  }
  // Nothing where it receives nothing.
  std::vector<int> Wanted(int rank, int ranks, int salt) const {
    std::vector<int> values;
    if (kind == Kind::kGather && rank != root) return values;
    const bool blocks = kind == Kind::kAllGather || kind == Kind::kAllToAll || kind == Kind::kGather;
    const bool own = kind == Kind::kAllToAll || kind == Kind::kScatter;
    const size_t first = own ? static_cast<size_t>(rank) * count : 0;
    for (size_t at = 0; at < count * (blocks ? static_cast<size_t>(ranks) : 1); ++at) {
      values.push_back(ValueAt(blocks ? static_cast<int>(at / count) : root, first + at % count, salt));
    }
    return values;
  }
  // What is sent lies at `send`, or in place.
  int* SendIn(int* send, int* recv, int rank) const {
    if (!in_place) return send;
    return kind == Kind::kAllGather ? recv + static_cast<size_t>(rank) * count : recv;
  }
  // `send` as SendIn says; buffers that a rank has no part in are left out.
  ncclResult_t Issue(const int* send, int* recv, int rank, ncclComm_t comm, cudaStream_t stream) const {
    const bool is_root = rank == root;
    switch (kind) {
      case Kind::kAllGather:
        return ncclAllGather(send, recv, count, ncclInt32, comm, stream);
      case Kind::kAllToAll:
        return ncclAlltoAll(send, recv, count, ncclInt32, comm, stream);
      case Kind::kBroadcast:
        return ncclBroadcast(is_root ? send : nullptr, recv, count, ncclInt32, root, comm, stream);
      case Kind::kScatter:
        return ncclScatter(is_root ? send : nullptr, recv, count, ncclInt32, root, comm, stream);
      default:
        return ncclGather(send, is_root ? recv : nullptr, count, ncclInt32, root, comm, stream);
    }
  }
  std::string ToString() const {
    constexpr const char* kNames[] = {"all-gather", "all-to-all", "broadcast", "scatter", "gather"};
    return std::string(kNames[static_cast<size_t>(kind)]) + " of " + std::to_string(count) + ", root " +
           std::to_string(root) + (in_place ? ", in place" : "");
  }

 private:
  static int ValueAt(int rank, size_t at, int salt) { return salt * 1'000'003 + rank * 7919 + static_cast<int>(at); }
};

// Of every kind, short and long, with `largest` values in the longest ones.
inline std::vector<CopyCase> ManyCopyCases(int ranks, size_t largest) {
  using Moves = CopyCase::Kind;
  constexpr size_t kShort = 300;
  std::vector<CopyCase> cases;
  for (const Moves kind : CopyCase::kKinds) {
    cases.push_back({kind, kShort, ranks - 1});
    cases.push_back({kind, 1, 0});
  }
  cases.push_back({Moves::kAllGather, kShort, 0, true});
  cases.push_back({Moves::kBroadcast, kShort, ranks / 2, true});
  cases.push_back({Moves::kBroadcast, largest, ranks / 2});
  cases.push_back({Moves::kBroadcast, largest - 1, 0, true});
  return cases;
}

}  // namespace sl::integration
