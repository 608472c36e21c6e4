// SPDX-License-Identifier: Apache-2.0
//
// A checked call: one template makes the slot of any table out of a line that says which words stand at its
// declaration, and a hook with what is particular to it.
//
//   ops.retire = Checked<&sl_transport_ops_t::retire, kRetire, RetireHook>;
//
// Common to all: handles are known, alive and of this table; calls on one object do not overlap; structs have their
// size; outputs are written only on success; objects that are made get a handle, objects that are ended lose it.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "modules/checker/argument.h"
#include "modules/checker/waits.h"

namespace sl::checker {

// What a hook may do: look at and replace arguments before, judge and translate results after.
struct NoHook {
  template <typename Values>
  void Before(Frame&, Values&) {}
  template <typename R, typename Values>
  void After(Frame&, R&, Values&) {}
};

// Of a call that makes an object of which something is remembered.
template <typename F>
struct MakingHook : NoHook {
  template <typename Values>
  void Before(Frame&, Values&) {
    facts_ = std::make_unique<F>();
  }

 protected:
  // Where to note it; NULL: no object was made.
  F* Remember(Frame& frame) {
    if (frame.made() == nullptr) return nullptr;
    frame.made()->facts = facts_.get();
    return facts_.release();
  }

 private:
  std::unique_ptr<F> facts_;
};

// Stands for a builder or sink of the kernel's while the module below has it: during one call.
template <typename F>
class Lent {
 public:
  ~Lent() {
    if (object_ == nullptr) return;
    Heap::End(object_, call_);
    Heap::Drop(object_);
  }
  // `handle` becomes ours, unless the call is refused for want of room; what may be noted about it.
  template <typename T>
  F* Begin(Frame& frame, T** handle) {
    auto facts = std::make_unique<F>();
    object_ = Heap::Reserve();
    if (object_ == nullptr) {
      frame.Refuse(SL_ERR_LIMIT, kAllTaken);
      return nullptr;
    }
    call_ = &frame.call();
    object_->facts = facts.get();
    if (frame.object(0) != nullptr) object_->rank = frame.object(0)->rank;
    Heap::Begin(object_, kKindOf<T>, frame.instance(), nullptr, *handle);
    *handle = HandleOf<T>(object_);
    return facts.release();
  }
  const F& facts() const { return *object_->As<F>(); }

 private:
  const Call* call_ = nullptr;
  Object* object_ = nullptr;
};

// The void result of a call.
struct Nothing {};

template <typename R>
R RefusedResult(const Frame& frame) {
  if constexpr (std::is_same_v<R, sl_status_t>) {
    return frame.answer();
  } else if constexpr (std::is_same_v<R, uint32_t>) {
    return SL_CONNECTION_DOWN;
  } else if constexpr (!std::is_void_v<R>) {
    return R{};
  }
}

template <auto kSlot, const Call& kCall, typename Hook, typename Type>
struct CheckedSlot;

template <auto kSlot, const Call& kCall, typename Hook, typename Ops, typename R, typename... Args>
struct CheckedSlot<kSlot, kCall, Hook, R (*Ops::*)(Args...)> {
  using Result = std::conditional_t<std::is_void_v<R>, Nothing, R>;

  static R Run(Args... args) noexcept { return Go(std::index_sequence_for<Args...>(), args...); }

 private:
  template <size_t... I>
  static R Go(std::index_sequence<I...>, Args... args) {
    Frame frame(kCall);
    frame.Identify(std::get<0>(std::tie(args...)));
    std::tuple<Argument<Args, (I + kCall.outs >= sizeof...(Args))>...> all(
        Given<Args>{frame, args, static_cast<uint32_t>(I)}...);
    std::tuple<Args...> values(std::get<I>(all).value...);
    Hook hook;
    if (!frame.refused()) frame.Enter();
    if (!frame.refused()) frame.Prepare([&] { hook.Before(frame, values); });
    if (frame.refused()) return RefusedResult<R>(frame);
    if constexpr (kCall.ends && std::is_void_v<R>) frame.End();
    Result result = Watched(frame, values);
    bool succeeded = true;
    if constexpr (std::is_same_v<R, sl_status_t>) {
      succeeded = result == SL_OK;
      frame.CheckStatus(result);
      if (!succeeded && (std::get<I>(all).Changed() || ...)) {
        frame.Break(RuleId::kOutWritten, "an output was written, though the status is %d", result);
      }
    }
    (std::get<I>(all).Finish(frame, succeeded), ...);
    hook.After(frame, result, values);
    if constexpr (kCall.ends && !std::is_void_v<R>) {
      if (succeeded) frame.End();
    }
    frame.Leave();
    if constexpr (std::is_same_v<R, sl_status_t>) {
      // What was made or ended stays so.
      if (frame.refused() && frame.made() == nullptr && !kCall.ends) result = frame.answer();
    }
    if constexpr (!std::is_void_v<R>) return result;
  }

  // The call, looked at for waits now and then where the header says [data].
  template <typename Values>
  static Result Watched(Frame& frame, Values& values) {
    if constexpr (kCall.words != Words::kData) return Invoke(frame, values);
    static constinit Waits waits;
    if (!frame.instance()->looks_for_waits) return Invoke(frame, values);
    const Waits::Sample sample(&waits);
    Result result = Invoke(frame, values);
    if (sample.End()) {
      frame.Break(RuleId::kDataBlocks, "it slept or waited in %u of the last %u calls that were looked at",
                  waits.blocked(), waits.looked_at());
    }
    return result;
  }

  template <typename Values>
  static Result Invoke(const Frame& frame, Values& values) {
    const auto call = [&](auto... below) { return (frame.template ops<Ops>()->*kSlot)(below...); };
    if constexpr (std::is_void_v<R>) {
      std::apply(call, values);
      return {};
    } else {
      return std::apply(call, values);
    }
  }
};

template <auto kSlot, const Call& kCall, typename Hook = NoHook>
inline constexpr auto Checked = &CheckedSlot<kSlot, kCall, Hook, decltype(kSlot)>::Run;

// The tables, one for each interface.
extern const sl_device_ops_t kDeviceOps;
extern const sl_transport_ops_t kTransportOps;
extern const sl_algorithm_ops_t kAlgorithmOps;
extern const sl_fault_ops_t kFaultOps;
extern const sl_observer_ops_t kObserverOps;
extern const sl_topology_ops_t kTopologyOps;

}  // namespace sl::checker
