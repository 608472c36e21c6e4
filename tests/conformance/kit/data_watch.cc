// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/data_watch.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

namespace sl::conform {
namespace {

constexpr uint64_t kFewestBlocked = 16;

struct Facts {
  std::atomic<const SlotInfo*> slot{nullptr};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> blocked{0};
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> lines{0};
};
constinit Facts g_facts[64];  // more than any table has slots
constinit std::atomic<bool> g_watching{false};

Facts* FactsOf(const SlotInfo* slot) noexcept {
  for (Facts& facts : g_facts) {
    const SlotInfo* known = facts.slot.load();
    if (known == slot) return &facts;
    if (known == nullptr && (facts.slot.compare_exchange_strong(known, slot) || known == slot)) return &facts;
  }
  return nullptr;
}

// The facts of the [data] slot that this thread is in; NULL: none, or nobody watches.
Facts* Current() noexcept {
  if (!g_watching.load(std::memory_order_relaxed)) return nullptr;
  const SlotInfo* slot = CurrentSlot();
  return slot != nullptr && slot->is_data ? FactsOf(slot) : nullptr;
}

// How often this thread has given up the processor by itself.
int64_t Switches() noexcept {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

DataWatch::DataWatch() {
  for (Facts& facts : g_facts) {
    facts.slot.store(nullptr);
    for (std::atomic<uint64_t>* count : {&facts.calls, &facts.blocked, &facts.allocations, &facts.lines}) {
      count->store(0);
    }
  }
  g_watching.store(true);
}

DataWatch::~DataWatch() { g_watching.store(false); }

void DataWatch::ExpectNothing(Trial& trial) const {
  for (const Facts& facts : g_facts) {
    const SlotInfo* slot = facts.slot.load();
    if (slot == nullptr) continue;
    const uint64_t calls = facts.calls.load();
    const uint64_t blocked = facts.blocked.load();
    trial.Expect(blocked < kFewestBlocked || blocked * 2 < calls,
                 "{}() is [data] and never blocks, but slept or waited in {} of {} calls", slot->name, blocked, calls);
    trial.Expect(facts.allocations.load() == 0, "{}() is [data], but asked for memory {} times in {} calls", slot->name,
                 facts.allocations.load(), calls);
    trial.Expect(facts.lines.load() == 0, "{}() is [data], but logged {} lines in {} calls", slot->name,
                 facts.lines.load(), calls);
  }
}

void DataWatch::Allocated() noexcept {
  if (Facts* facts = Current()) ++facts->allocations;
}

void DataWatch::Logged() noexcept {
  if (Facts* facts = Current()) ++facts->lines;
}

DataCall::DataCall(const SlotInfo& slot) noexcept {
  if (!slot.is_data || !g_watching.load(std::memory_order_relaxed)) return;
  slot_ = &slot;
  switches_ = Switches();
}

DataCall::~DataCall() {
  if (slot_ == nullptr) return;
  Facts* facts = FactsOf(slot_);
  if (facts == nullptr) return;
  ++facts->calls;
  if (Switches() != switches_) ++facts->blocked;
}

}  // namespace sl::conform
