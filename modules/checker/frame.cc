// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/frame.h"

#include <cstdarg>
#include <cstring>

namespace sl::checker {
namespace {

// In the static TLS block, so that its first use on a thread allocates nothing.
[[gnu::tls_model("initial-exec")]] thread_local uint32_t t_callbacks = 0;

bool SharesNothing(const Call& call) {
  return (call.words == Words::kControl || call.words == Words::kData) && !call.shared;
}

}  // namespace

bool IsInCallback() { return t_callbacks != 0; }
CallbackScope::CallbackScope() { ++t_callbacks; }
CallbackScope::~CallbackScope() { --t_callbacks; }

Frame::~Frame() {
  Leave();
  if (has_ended_) Heap::Drop(subject());
}

void Frame::Refuse(sl_status_t status, const char* text) {
  if (instance_ != nullptr) {
    const sl_host_t* host = instance_->reporter.host();
    host->set_error(host->ctx, status, text);
  }
  Answer(status);
}

void Frame::Break(RuleId rule, const char* format, ...) {
  va_list details;
  va_start(details, format);
  const Object* named = objects_[call_.subject] != nullptr ? objects_[call_.subject] : objects_[0];
  BreakList(named != nullptr ? named : made_, rule, format, details);
  va_end(details);
}

void Frame::BreakOf(const Object* object, RuleId rule, const char* format, ...) {
  va_list details;
  va_start(details, format);
  BreakList(object, rule, format, details);
  va_end(details);
}

void Frame::BreakList(const Object* object, RuleId rule, const char* format, va_list details) {
  if (instance_ == nullptr) return Answer(RefusalOf(rule));
  const sl_status_t status = instance_->reporter.Report(rule, call_, object, format, details);
  if (status != SL_OK) Answer(status);
}

void Frame::Identify(sl_instance_t* instance) {
  instance_ = instance;
  if (call_.interface != Interface::kCount && ops<void>() == nullptr) Answer(SL_ERR_UNSUPPORTED);
}

void Frame::Identify(const void* handle) {
  const Object* object = Heap::Find(handle);
  instance_ = object != nullptr && object->owner != nullptr ? object->owner : NewestOf(call_.interface);
}

// A handle that is not alive never reaches the module below, whatever the mode.
void* Frame::Take(const void* handle, Kind kind, uint32_t position, bool outside) {
  Object* object = Heap::Find(handle);
  if (object == nullptr && (outside || (call_.native && position == call_.subject))) return const_cast<void*>(handle);
  const uint32_t life = object == nullptr ? Object::kFree : object->life.load(std::memory_order_acquire);
  if (life == Object::kEnded && object->kind == kind) {
    const bool again = call_.ends && position == call_.subject;
    BreakOf(object, again ? RuleId::kEndedTwice : RuleId::kUsedAfterEnd, "parameter %u is a %s that has ended",
            position + 1, KindName(kind));
    Answer(SL_ERR_STATE);
    return nullptr;
  }
  if (life != Object::kAlive || object->kind != kind || object->owner != instance_) {
    BreakOf(nullptr, RuleId::kForeign, "parameter %u, %p, is %s%s, not a %s of this table", position + 1, handle,
            life == Object::kAlive ? "a " : "", life == Object::kAlive ? KindName(object->kind) : "nothing we know",
            KindName(kind));
    Answer(SL_ERR_INVALID);
    return nullptr;
  }
  objects_[position] = object;
  return object->inner;
}

// Revision 1 of every interface: nothing may be shorter yet than what it is here. Without any the call has nothing to
// go on with, whatever the mode.
void Frame::CheckSize(const void* structure, size_t known, uint32_t position) {
  if (structure == nullptr) {
    BreakOf(nullptr, RuleId::kStructSize, "parameter %u is NULL", position + 1);
    return Answer(SL_ERR_INVALID);
  }
  uint32_t bytes = 0;
  std::memcpy(&bytes, structure, sizeof bytes);
  if (bytes >= known) return;
  BreakOf(nullptr, RuleId::kStructSize, "parameter %u says that it has %u bytes, wanted %zu", position + 1, bytes,
          known);
}

void Frame::Missing(uint32_t position) {
  BreakOf(nullptr, RuleId::kOutNull, "parameter %u is NULL", position + 1);
  Answer(SL_ERR_INVALID);
}

void Frame::Enter() {
  if (instance_ == nullptr) return Answer(SL_ERR_INVALID);
  if (call_.makes && instance_->quiesced.load(std::memory_order_relaxed)) {
    Break(RuleId::kAfterQuiesce, "the module has been asked to come to rest");
  }
  if (call_.interface == Interface::kDevice && IsInCallback()) {
    Break(RuleId::kCallbackCalls, "the thread is inside a stream's callback");
  }
  Object* object = subject();
  if (object == nullptr || !SharesNothing(call_)) return;
  uintptr_t other = 0;
  if (object->busy.compare_exchange_strong(other, ThisThread(), std::memory_order_acquire)) {
    object->inside.store(&call_, std::memory_order_relaxed);
    entered_ = object;
    return;
  }
  const Call* inside = object->inside.load(std::memory_order_relaxed);
  Break(RuleId::kOverlap, "thread %#zx is inside %s() on the same object", static_cast<size_t>(other),
        inside != nullptr ? inside->name : "another call");
}

void Frame::Leave() {
  if (entered_ == nullptr) return;
  entered_->inside.store(nullptr, std::memory_order_relaxed);
  entered_->busy.store(0, std::memory_order_release);
  entered_ = nullptr;
}

void Frame::CheckStatus(sl_status_t status) {
  if (status > SL_OK) Break(RuleId::kStatusPositive, "it returned %d", status);
}

void Frame::End() { has_ended_ = subject() != nullptr && Heap::End(subject(), &call_); }

void Frame::Made(Object* object) { made_ = object; }

}  // namespace sl::checker
