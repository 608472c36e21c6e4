// SPDX-License-Identifier: Apache-2.0
//
// Links in memory for tests: ranks of one process, bounded queues, faults on demand. Safe to use from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "kernel/link/link.h"
#include "sl_base.h"

namespace sl::kernel {

struct FakeNetOptions {
  uint32_t chunk_bytes = 4096;
  uint32_t slots = 2;
  bool doorbells = true;
  std::vector<uint32_t> networked = {};       // ranks whose links are not mapped
  std::span<const int32_t> descriptors = {};  // of every rank
};

// One direction between two ranks on one lane.
class FakePipe {
 public:
  FakePipe(const FakeNetOptions& options, sl_doorbell_t* receiver_bell);

  sl_status_t Reserve(void** out_payload);
  sl_status_t Post(uint32_t bytes, const OpTag& tag);
  sl_status_t Peek(Chunk* out_chunk);
  sl_status_t Release();
  void Break(sl_status_t status);
  uint64_t posted() const;
  uint64_t released() const;

 private:
  friend class FakeLink;
  struct Slot {
    ChunkHeader header;
    std::vector<uint8_t> payload;
  };
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;  // guarded by mutex_, as all below
  uint64_t posted_ = 0;
  uint64_t released_ = 0;
  sl_status_t broken_ = SL_OK;
  sl_doorbell_t* receiver_bell_;
};

// All ranks' links. Made at first use, as real ones are.
class FakeLinkNet {
 public:
  FakeLinkNet(uint32_t ranks, const FakeNetOptions& options);
  ~FakeLinkNet();

  LinkProvider* provider(uint32_t rank);
  FakePipe* pipe(uint32_t from, uint32_t to, uint32_t lane);
  sl_doorbell_t* bell(uint32_t rank) { return &bells_[rank]; }
  // Every chunk posted was released.
  bool Drained() const;
  // Chunks posted by anybody.
  uint64_t posted() const;
  const FakeNetOptions& options() const { return options_; }
  // What Progress() of every rank returns from now on.
  void FailProgress(sl_status_t status) { progress_ = status; }
  // Progress() of every rank finds no memory from now on.
  void ExhaustMemory() { exhausted_ = true; }
  sl_status_t Progress() {
    ++looks_;
    if (exhausted_) throw std::bad_alloc();
    return progress_;
  }
  // Calls of Progress() by anybody.
  uint64_t looks() const { return looks_; }

 private:
  class Provider;
  const FakeNetOptions options_;
  sl_status_t progress_ = SL_OK;
  bool exhausted_ = false;
  std::atomic<uint64_t> looks_{0};
  std::deque<sl_doorbell_t> bells_;
  mutable std::mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, std::unique_ptr<FakePipe>> pipes_;  // guarded by mutex_
  std::vector<std::unique_ptr<Provider>> providers_;
};

}  // namespace sl::kernel
