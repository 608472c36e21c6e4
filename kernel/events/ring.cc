// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/ring.h"
#include "sdk/clock.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

namespace sl::kernel {

uint64_t g_event_mask = 0;

namespace {

constexpr uint32_t kDefaultCapacity = 4096;
constexpr uint32_t kMinCapacity = 16;
constexpr uint32_t kMaxCapacity = 1u << 22;

struct Entry {
  std::unique_ptr<EventRing> ring;
  bool thread_ended = false;
};

// All rings of the process. Leaked: threads may still emit while the process exits.
struct Registry {
  std::mutex mutex;            // guards the members below
  std::vector<Entry> entries;  // a drain holds drain_mutex, so entries with a living ring stay while it reads
  uint32_t next_number = 0;
  uint64_t dropped_by_gone = 0;
  std::mutex drain_mutex;  // one reader at a time; taken before mutex
};

std::atomic<uint32_t> g_capacity{kDefaultCapacity};

Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

// Ties a ring to its thread's life.
class ThreadRing {
 public:
  ~ThreadRing() {
    if (ring_ == nullptr) return;
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mutex);
    for (Entry& entry : registry.entries) {
      if (entry.ring.get() == ring_) entry.thread_ended = true;
    }
    ring_ = nullptr;
    ended_ = true;
  }

  // The ring, made at the first call; nullptr when there is no memory for one, or the thread is ending.
  EventRing* Get() noexcept {
    if (ring_ == nullptr && !ended_) Make();
    return ring_;
  }

 private:
  void Make() noexcept {
    try {
      Registry& registry = TheRegistry();
      std::lock_guard lock(registry.mutex);
      registry.entries.push_back({});
      const uint32_t number = registry.next_number++;
      try {
        registry.entries.back().ring = std::make_unique<EventRing>(number, g_capacity.load(std::memory_order_relaxed));
      } catch (...) {
        registry.entries.pop_back();
        throw;
      }
      ring_ = registry.entries.back().ring.get();
    } catch (...) {
      // No memory: this thread's records are lost, its work is not.
    }
  }

  EventRing* ring_ = nullptr;
  bool ended_ = false;
};

thread_local ThreadRing t_ring;

}  // namespace

EventRing::EventRing(uint32_t number, uint32_t capacity)
    : number_(number), index_mask_(capacity - 1), slots_(std::make_unique<sl_record_t[]>(capacity)) {}

bool EventRing::Push(const sl_record_t& record) noexcept {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  if (head - tail_seen_ > index_mask_) {
    tail_seen_ = tail_.load(std::memory_order_acquire);  // A2
    if (head - tail_seen_ > index_mask_) {
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return false;
    }
  }
  slots_[head & index_mask_] = record;
  head_.store(head + 1, std::memory_order_release);  // R1
  return true;
}

uint64_t EventRing::Peek(const sl_record_t** out_records) const noexcept {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  const uint64_t head = head_.load(std::memory_order_acquire);  // A1
  *out_records = &slots_[tail & index_mask_];
  return std::min(head - tail, index_mask_ + 1 - (tail & index_mask_));
}

void EventRing::Pop(uint64_t count) noexcept {
  tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);  // R2
}

void EmitWanted(const sl_record_t& record) noexcept {
  EventRing* ring = t_ring.Get();
  if (ring == nullptr) return;
  if (record.time_ns != 0) {
    ring->Push(record);
    return;
  }
  sl_record_t timed = record;
  timed.time_ns = NowNs();
  ring->Push(timed);
}

void SetEventMask(uint64_t mask) { std::atomic_ref<uint64_t>(g_event_mask).store(mask, std::memory_order_relaxed); }

uint64_t DrainEventRings(void (*take)(void* ctx, const EventBatch& batch), void* ctx) {
  Registry& registry = TheRegistry();
  std::lock_guard drain_lock(registry.drain_mutex);
  // (ring, had its thread ended before we looked?): only then is an empty ring empty for good.
  std::vector<std::pair<EventRing*, bool>> rings;
  {
    std::lock_guard lock(registry.mutex);
    rings.reserve(registry.entries.size());
    for (const Entry& entry : registry.entries) rings.emplace_back(entry.ring.get(), entry.thread_ended);
  }
  uint64_t taken = 0;
  for (auto [ring, ended] : rings) {
    // Twice: the part up to the end of the slots, and the part from their beginning. A busy writer cannot hold us.
    for (int part = 0; part < 2; ++part) {
      const sl_record_t* records = nullptr;
      const uint64_t count = ring->Peek(&records);
      if (count == 0) break;
      take(ctx, {ring->number(), ring->dropped(), records, count});
      ring->Pop(count);
      taken += count;
    }
  }
  std::lock_guard lock(registry.mutex);
  for (auto [ring, ended] : rings) {
    const sl_record_t* records = nullptr;
    if (!ended || ring->Peek(&records) != 0) continue;
    registry.dropped_by_gone += ring->dropped();
    EventRing* gone = ring;
    std::erase_if(registry.entries, [gone](const Entry& entry) { return entry.ring.get() == gone; });
  }
  return taken;
}

void SetEventRingCapacity(uint32_t records) {
  g_capacity.store(std::bit_ceil(std::clamp(records, kMinCapacity, kMaxCapacity)), std::memory_order_relaxed);
}

uint32_t EventRingCount() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  return static_cast<uint32_t>(registry.entries.size());
}

uint64_t EventRecordsDropped() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  uint64_t dropped = registry.dropped_by_gone;
  for (const Entry& entry : registry.entries) dropped += entry.ring->dropped();
  return dropped;
}

}  // namespace sl::kernel
