// SPDX-License-Identifier: Apache-2.0
//
// sl.observer/1, checked: here the kernel is the caller that must keep its word.
#include <map>

#include "modules/checker/call.h"

namespace sl::checker {
namespace {

constexpr Interface kInterface = Interface::kObserver;

struct ObserverFacts final : Facts {
  uint64_t mask = 0;
  uintptr_t thread = 0;                  // that consumes; 0: none yet
  std::map<uint32_t, uint64_t> dropped;  // by ring
};

// FNV-1a, a word at a time.
uint64_t HashOf(const sl_batch_t& batch) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto* words = reinterpret_cast<const unsigned char*>(batch.records);
  for (uint64_t i = 0; i < batch.count * sizeof(sl_record_t); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, words + i, sizeof word);
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

struct CreateHook : MakingHook<ObserverFacts> {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    if (ObserverFacts* facts = Remember(frame)) facts->mask = *std::get<2>(values);
  }
};

struct ConsumeHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto* facts = frame.object(0)->template As<ObserverFacts>();
    const sl_batch_t& batch = *std::get<1>(values);
    if (facts->thread == 0) facts->thread = ThisThread();
    if (facts->thread != ThisThread()) {
      frame.Break(RuleId::kConsumeThread, "earlier batches came from thread %#zx", static_cast<size_t>(facts->thread));
    }
    uint64_t& dropped = facts->dropped[batch.thread];
    if (batch.dropped < dropped) {
      frame.Break(RuleId::kDroppedShrinks, "ring %u has lost %llu after %llu", batch.thread,
                  static_cast<unsigned long long>(batch.dropped), static_cast<unsigned long long>(dropped));
    }
    dropped = batch.dropped;
    CheckRecords(frame, facts->mask, batch);
    hash = HashOf(batch);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    if (HashOf(*std::get<1>(values)) != hash) frame.Break(RuleId::kRecordChanged, "the batch is another one now");
  }

 private:
  static void CheckRecords(Frame& frame, uint64_t mask, const sl_batch_t& batch) {
    for (uint64_t i = 0; i < batch.count; ++i) {
      const uint32_t kind = batch.records[i].kind;
      if (kind >= 64 || (mask >> kind & 1) == 0) {
        return frame.Break(RuleId::kRecordUnwanted, "a record of kind %u, wanted are %#llx", kind,
                           static_cast<unsigned long long>(mask));
      }
      if (i != 0 && batch.records[i].time_ns < batch.records[i - 1].time_ns) {
        return frame.Break(RuleId::kRecordOrder, "record %llu is older than the one before it",
                           static_cast<unsigned long long>(i));
      }
    }
  }

  uint64_t hash = 0;
};

constexpr Call kCreate = {.name = "create", .interface = kInterface, .words = Words::kInit, .outs = 2, .makes = true};
constexpr Call kDestroy = {.name = "destroy", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kConsume = {.name = "consume", .interface = kInterface, .words = Words::kControl};

}  // namespace

constexpr sl_observer_ops_t kObserverOps = {
    .struct_size = sizeof(sl_observer_ops_t),
    .reserved = 0,
    .create = Checked<&sl_observer_ops_t::create, kCreate, CreateHook>,
    .destroy = Checked<&sl_observer_ops_t::destroy, kDestroy>,
    .consume = Checked<&sl_observer_ops_t::consume, kConsume, ConsumeHook>,
};

}  // namespace sl::checker
