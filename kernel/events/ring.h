// SPDX-License-Identifier: Apache-2.0
//
// Event records on their way from the data path to observers: one ring per thread, one writer each, one reader for all.
// A full ring drops the new record and counts it; nothing a reader does can slow a writer.
//
// Ordering. The writer fills slot head % capacity, then stores head + 1 with release (R1); the reader loads head with
// acquire (A1) and so sees the record. The reader stores tail with release (R2) after the batch was consumed; the
// writer loads tail with acquire (A2) before it overwrites a slot, so no record changes while an observer looks at it.
//
// A ring outlives its thread until it has been drained.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "sl_host.h"

namespace sl::kernel {

// Bit k: records of kind k are wanted. Zero until an observer asks; hosts hand out its address (sl_host_t).
extern uint64_t g_event_mask;

inline bool EventWanted(uint32_t kind) {
  const uint64_t mask = std::atomic_ref<uint64_t>(g_event_mask).load(std::memory_order_relaxed);
  return __builtin_expect(static_cast<long>((mask >> (kind & 63u)) & 1u), 0) != 0;
}

// Appends a record to this thread's ring when its kind is wanted; fills time_ns when it is 0.
// thread: [data]; allocates on a thread's first record only
void EmitWanted(const sl_record_t& record) noexcept;
inline void Emit(const sl_record_t& record) noexcept {
  if (EventWanted(record.kind)) EmitWanted(record);
}

// Switches kinds on and off. Writers may see the old mask for a moment.
void SetEventMask(uint64_t mask);

// One thread's ring.
class EventRing {
 public:
  // `capacity` is a power of two; `number` names the ring in batches.
  EventRing(uint32_t number, uint32_t capacity);

  // Writer's side. False: full, the record is counted as dropped.
  bool Push(const sl_record_t& record) noexcept;

  // Reader's side: the oldest records, as far as they lie contiguously; 0 when empty. Valid until Pop.
  uint64_t Peek(const sl_record_t** out_records) const noexcept;
  void Pop(uint64_t count) noexcept;

  uint32_t number() const { return number_; }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  const uint32_t number_;
  const uint64_t index_mask_;
  const std::unique_ptr<sl_record_t[]> slots_;
  alignas(64) std::atomic<uint64_t> head_{0};  // next to write; writer's
  uint64_t tail_seen_ = 0;                     // writer's last look at tail_
  std::atomic<uint64_t> dropped_{0};           // writer's
  alignas(64) std::atomic<uint64_t> tail_{0};  // next to read; reader's
};

// What a drain hands on: records of one ring, oldest first, borrowed during the call.
struct EventBatch {
  uint32_t ring;
  uint64_t dropped;
  const sl_record_t* records;
  uint64_t count;
};

// Takes every record that stands in any ring; frees drained rings of ended threads. Drains exclude each other.
// Returns how many records it handed on.   thread: [control]
uint64_t DrainEventRings(void (*take)(void* ctx, const EventBatch& batch), void* ctx);

// Capacity of rings made from now on, in records, rounded up to a power of two.
void SetEventRingCapacity(uint32_t records);

// How many rings exist, and records dropped by all rings, living and gone.
uint32_t EventRingCount();
uint64_t EventRecordsDropped();

}  // namespace sl::kernel
