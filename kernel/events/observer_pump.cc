// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/observer_pump.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kAllKinds = (uint64_t{1} << SL_EVENT_KIND_COUNT) - 1;

}  // namespace

ObserverPump::~ObserverPump() { Stop(); }

Status ObserverPump::Start(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    Observer observer{source.name, source.ops};
    const sl_status_t status =
        CallModule("create", source.ops->create, source.instance, &observer.handle, &observer.mask);
    if (status != SL_OK) {
      Logf(SL_LOG_WARN, "observer {} is left out: {}: {}", source.name, StatusName(status), LastError());
      continue;
    }
    observers_.push_back(observer);
  }
  UpdateMask();
  const bool wanted = std::any_of(observers_.begin(), observers_.end(), [](const Observer& o) { return o.mask != 0; });
  if (!wanted) return Status();
  Status started = thread_.Start("sl-observers", "for the observers", [this] { Run(); });
  if (!started.ok()) SetEventMask(0);
  return started;
}

bool ObserverPump::Stop(uint64_t patience_ns) {
  SetEventMask(0);
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    const auto has_ended = [this] { return has_ended_; };
    if (thread_.IsCurrent()) return false;
    if (patience_ns == UINT64_MAX) {
      ended_.wait(lock, has_ended);
    } else if (!ended_.wait_for(lock, std::chrono::nanoseconds(patience_ns), has_ended)) {
      Logf(SL_LOG_WARN, "observer {} does not return from consume: the last records are lost to all observers",
           consuming_ != nullptr ? consuming_->name : "unknown");
      return false;
    }
    lock.unlock();
    thread_.Join();
  }
  for (Observer& observer : observers_) {
    if (CallModule("destroy", observer.ops->destroy, observer.handle) != SL_OK) {
      Logf(SL_LOG_WARN, "observer {}: {}", observer.name, LastError());
    }
  }
  observers_.clear();
  return true;
}

void ObserverPump::SetConsuming(const Observer* observer) {
  const std::lock_guard lock(mutex_);
  consuming_ = observer;
}

void ObserverPump::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(period_ns_), [this] { return stopping_; });
    lock.unlock();
    Drain();
    lock.lock();
  }
  lock.unlock();
  Drain();  // Stop() may have come before the first turn
  lock.lock();
  has_ended_ = true;
  ended_.notify_all();
}

void ObserverPump::Drain() {
  DrainEventRings([](void* ctx, const EventBatch& batch) { static_cast<ObserverPump*>(ctx)->Deliver(batch); }, this);
}

void ObserverPump::Deliver(const EventBatch& batch) {
  for (Observer& observer : observers_) {
    if (observer.mask == 0) continue;
    SetConsuming(&observer);
    DeliverTo(observer, batch);
    SetConsuming(nullptr);
  }
}

void ObserverPump::DeliverTo(Observer& observer, const EventBatch& batch) {
  sl_status_t status = SL_ERR_EXCEPTION;
  try {
    const auto wanted = [&](const sl_record_t& record) { return (observer.mask >> (record.kind & 63u) & 1u) != 0; };
    filtered_.clear();
    std::copy_if(batch.records, batch.records + batch.count, std::back_inserter(filtered_), wanted);
    if (filtered_.empty()) return;
    sl_batch_t out{};
    out.struct_size = sizeof(out);
    out.thread = batch.ring;
    out.dropped = batch.dropped;
    out.count = filtered_.size();
    out.records = filtered_.data();
    status = observer.ops->consume(observer.handle, &out);
  } catch (...) {
    SetLastError(SL_ERR_EXCEPTION, "it threw in consume");
  }
  if (status == SL_OK) {
    observer.failures = 0;
    return;
  }
  if (++observer.failures < kFailuresInARow) return;
  Logf(SL_LOG_WARN, "observer {} is switched off after {} failures in a row, the last: {}: {}", observer.name,
       observer.failures, StatusName(status), LastError());
  observer.mask = 0;
  UpdateMask();
}

void ObserverPump::UpdateMask() {
  uint64_t mask = 0;
  for (Observer& observer : observers_) {
    observer.mask &= kAllKinds;
    mask |= observer.mask;
  }
  SetEventMask(mask);
}

}  // namespace sl::kernel
