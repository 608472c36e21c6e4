// SPDX-License-Identifier: Apache-2.0
//
// Three ranks, each with a device that maps memory 4 GiB above where it lies, for each rank another time. What the
// ranks' devices know of allocations is the process's, until the next test.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/comm/reach.h"

struct sl_mapping_t {
  uint64_t source;
  uint64_t address;
};

struct sl_device_t {
  // What can be done with an allocation: as cudaMalloc makes it, as cuMemCreate does with a descriptor, neither.
  enum class Kind { kPlain, kByHand, kPrivate };
  struct Allocation {
    uint64_t bytes;
    uint64_t id;
    Kind kind;
  };
  static inline std::mutex mutex;
  static inline std::map<uint64_t, Allocation> allocations;  // by address; guarded by mutex
  uint64_t shift = 0;                                        // of what this device maps
  std::atomic<uint64_t> free_bytes{uint64_t{64} << 20};
  std::atomic<uint32_t> free_asked{0};
  std::atomic<uint32_t> imports{0};
  std::atomic<uint32_t> mappings{0};
  std::atomic<uint32_t> reservations{0};
  std::atomic<bool> refuses{false};
  std::atomic<uint32_t> imports_left{UINT32_MAX};  // then it refuses
  uint32_t last_type = 0;
  uint64_t next_reservation = 0;             // of address space
  std::map<uint64_t, uint64_t> placed = {};  // into reservations: from where, by address
  std::string done = {};                     // "iu": it has mapped something, then unmapped something
};

namespace sl::kernel {

constexpr uint64_t kMiB = 1 << 20;

inline void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

class ReachTest : public ::testing::Test {
 protected:
  using Kind = sl_device_t::Kind;

  static constexpr uint64_t kShift = uint64_t{4} << 30;
  static constexpr uint32_t kRanks = 3;

  ReachTest();
  ~ReachTest() override;

  static bool Yes() { return true; }  // it may be unmapped

  // Rank 2 is of a process of its own.
  std::unique_ptr<Reach> Make(uint32_t rank);
  // As over a switchboard, which has put the caller through.
  Result<HandleList> Fetch(uint32_t owner, const HandleDesk::Ticket& ticket);

  static void Allocate(uint64_t address, uint64_t id, Kind kind = Kind::kPlain, uint64_t bytes = kMiB);
  // A row of `count`, mapped by hand, from `address` on.
  static void AllocateRow(uint64_t address, uint64_t first_id, uint64_t count, uint64_t bytes = kMiB);
  static void Free(uint64_t address);

  void KeepPeers();
  // Of rank 0's memory, while the peers look at their boards.
  sl_status_t Ask(uint64_t address, uint64_t bytes = 16, uint64_t capture = 0);
  // The same for memory that is pinned.
  Reach::Pin PinWhileKept(uint64_t address, uint64_t bytes);
  // After a refusal because there was no memory.
  sl_status_t AskUntilItIsOffered(uint64_t address);

  uint64_t slice_;
  std::vector<uint8_t> memory_;
  sl_device_t devices_[kRanks];
  uint64_t patience_ns_ = 30'000'000'000;
  uint64_t rest_ns_ = 0;
  std::atomic<uint32_t> rings_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<uint32_t> waits_{0};     // how often somebody who waited has asked whether it is over
  std::atomic<bool> gives_up_{false};  // rank 0
  std::function<void()> on_fetch_ = [] {};
  HandleDesk desks_[kRanks];
  std::vector<std::unique_ptr<Reach>> ranks_;
  uint64_t addresses_[kRanks] = {};
};

}  // namespace sl::kernel
