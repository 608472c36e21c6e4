// SPDX-License-Identifier: Apache-2.0
//
// What the header says of one function, and one call of it in flight.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "modules/checker/instance.h"
#include "modules/checker/object.h"
#include "modules/checker/rules.h"

namespace sl::checker {

enum class Words : uint8_t { kInit, kControl, kData, kAny };

// What the header says of one function.
struct Call {
  const char* name;
  Interface interface;
  Words words;
  uint32_t outs = 0;     // so many last parameters are outputs
  uint32_t subject = 0;  // the parameter whose calls must not overlap, and which `ends`
  bool makes = false;    // new work, refused when the module is quiescing
  bool ends = false;     // the subject
  bool native = false;   // the subject may be of the program's making, which nothing is known of
  bool shared = false;   // calls on the subject may overlap: it is shared by a process
};

// One call in flight, on the stack.
class Frame {
 public:
  explicit Frame(const Call& call) : call_(call) {}
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // A rule is broken.
  __attribute__((format(printf, 3, 4))) void Break(RuleId rule, const char* format, ...);
  __attribute__((format(printf, 4, 5))) void BreakOf(const Object* object, RuleId rule, const char* format, ...);
  // The call returns `status` without reaching the module below.
  void Answer(sl_status_t status) {
    answered_ = true;
    answer_ = status;
  }
  // The same, for want of something that the checker itself needs.
  void Refuse(sl_status_t status, const char* text);
  // Runs what precedes the call. All memory for its books is taken here: once the module below has done something,
  // there is nobody left to refuse it.
  template <typename Body>
  void Prepare(Body&& body) noexcept {
    try {
      std::forward<Body>(body)();
    } catch (const std::bad_alloc&) {
      Refuse(SL_ERR_MEMORY, "checker: out of host memory for what it remembers of the call");
    }
  }

  // Finds out whose call it is, from its first parameter.
  void Identify(sl_instance_t* instance);
  void Identify(const void* handle);
  // Judges a handle; returns what the module below knows it by. `outside`: it may also come from elsewhere.
  void* Take(const void* handle, Kind kind, uint32_t position, bool outside);
  void CheckSize(const void* structure, size_t known, uint32_t position);
  // An output that is NULL; the module below is not to find out.
  void Missing(uint32_t position);
  // Before the call goes on: the moment, and who else is inside.
  void Enter();
  void Leave();
  void CheckStatus(sl_status_t status);
  // The subject of an ending call ends; what is remembered of it is there until the call is over.
  void End();
  void Made(Object* object);

  bool refused() const { return answered_; }
  sl_status_t answer() const { return answer_; }
  sl_instance_t* instance() const { return instance_; }
  sl_instance_t* inner() const { return instance_->inner[static_cast<size_t>(call_.interface)]; }
  const Call& call() const { return call_; }
  Object* object(uint32_t position) const { return objects_[position]; }
  Object* subject() const { return objects_[call_.subject]; }
  Object* made() const { return made_; }
  template <typename Ops>
  const Ops* ops() const {
    return static_cast<const Ops*>(instance_->ops[static_cast<size_t>(call_.interface)]);
  }

 private:
  static constexpr uint32_t kParameters = 10;

  void BreakList(const Object* object, RuleId rule, const char* format, va_list details);

  const Call& call_;
  sl_instance_t* instance_ = nullptr;
  Object* objects_[kParameters] = {};
  Object* entered_ = nullptr;
  Object* made_ = nullptr;
  bool has_ended_ = false;
  bool answered_ = false;
  sl_status_t answer_ = SL_OK;
};

// The thread is inside a stream's callback, where the device must not be called.
bool IsInCallback();
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
};

// The module below, or the builder or sink that the kernel passed in.
template <>
const sl_plan_builder_ops_t* Frame::ops<sl_plan_builder_ops_t>() const;
template <>
const sl_topology_sink_ops_t* Frame::ops<sl_topology_sink_ops_t>() const;

}  // namespace sl::checker
