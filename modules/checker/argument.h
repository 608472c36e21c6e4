// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a call on their way to the module below: handles become what they are there, outputs are remembered,
// structs are measured. What an argument is follows from its type, and from whether it is an output.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "modules/checker/frame.h"
#include "sl_algorithm.h"

namespace sl::checker {

template <typename T>
concept Sized = requires(T* structure) {
  structure->struct_size;
};

// The least a struct may say of its size: what the first release that had it said. A draft has no releases.
template <typename T>
inline constexpr uint32_t kLeastBytes = sizeof(T);
template <>
inline constexpr uint32_t kLeastBytes<sl_op_t> = SL_OP_SIZE_1_0;
template <>
inline constexpr uint32_t kLeastBytes<sl_algorithm_env_t> = SL_ALGORITHM_ENV_SIZE_1_0;

// An argument as its caller gave it.
template <typename T>
struct Given {
  Frame& frame;
  T value;
  uint32_t position;
};

// One argument on its way: plain ones pass.
template <typename T, bool kOut>
struct Argument {
  Argument(const Given<T>& given) : value(given.value) {}  // NOLINT(google-explicit-constructor)
  bool Changed() const { return false; }
  void Finish(Frame&, bool) {}
  T value;
};

template <bool kOut>
struct Argument<sl_instance_t*, kOut> {
  Argument(const Given<sl_instance_t*>& given) : value(given.frame.inner()) {}  // NOLINT(google-explicit-constructor)
  bool Changed() const { return false; }
  void Finish(Frame&, bool) {}
  sl_instance_t* value;
};

// A handle.
template <typename T>
requires(kKindOf<T> != Kind::kNone) struct Argument<T*, false> {
  Argument(const Given<T*>& given)  // NOLINT(google-explicit-constructor)
      : value(static_cast<T*>(
            given.frame.Take(given.value, kKindOf<T>, given.position, given.position != 0 && kOutside))) {}
  // Streams may be native; builders and sinks are the kernel's.
  static constexpr bool kOutside =
      kKindOf<T> == Kind::kStream || kKindOf<T> == Kind::kBuilder || kKindOf<T> == Kind::kSink;
  bool Changed() const { return false; }
  void Finish(Frame&, bool) {}
  T* value;
};

// A struct that is read.
template <Sized T>
struct Argument<const T*, false> {
  Argument(const Given<const T*>& given) : value(given.value) {  // NOLINT(google-explicit-constructor)
    given.frame.CheckSize(value, kLeastBytes<T>, given.position);
  }
  bool Changed() const { return false; }
  void Finish(Frame&, bool) {}
  const T* value;
};

// An output: what stood there is remembered.
template <typename T>
struct Argument<T*, true> {
  Argument(const Given<T*>& given) : value(given.value) {  // NOLINT(google-explicit-constructor)
    if (value == nullptr) {
      given.frame.Missing(given.position);
      return;
    }
    if constexpr (Sized<T>) {
      // It is filled as far as it goes.
      given.frame.CheckSize(value, sizeof(uint32_t), given.position);
      bytes = std::min<size_t>(value->struct_size, sizeof(T));
    }
    std::memcpy(before, value, bytes);
  }
  bool Changed() const { return value != nullptr && std::memcmp(before, value, bytes) != 0; }
  void Finish(Frame&, bool) {}
  T* value;
  size_t bytes = sizeof(T);
  alignas(T) unsigned char before[sizeof(T)];
};

inline constexpr char kAllTaken[] = "checker: 65,536 objects are alive, more it cannot tell apart";
static_assert(Heap::kObjects == 65536);

// A handle that is made: the module below writes its own, the caller gets ours.
template <typename T>
requires(kKindOf<T> != Kind::kNone) struct Argument<T**, true> {
  Argument(const Given<T**>& given) : outer(given.value) {  // NOLINT(google-explicit-constructor)
    if (outer != nullptr) {
      slot = Heap::Reserve();
      if (slot == nullptr) given.frame.Refuse(SL_ERR_LIMIT, kAllTaken);
    } else {
      given.frame.Missing(given.position);
    }
  }
  ~Argument() {
    if (slot != nullptr) Heap::GiveBack(slot);
  }
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  bool Changed() const { return inner != nullptr; }
  void Finish(Frame& frame, bool succeeded) {
    if (!succeeded || slot == nullptr) return;
    if (inner == nullptr) return frame.Break(RuleId::kNoObject, "success, but there is no %s", KindName(kKindOf<T>));
    Object* parent = frame.object(0);
    if (parent != nullptr && parent->kind == Kind::kConnection) parent = parent->parent;
    Heap::Begin(slot, kKindOf<T>, frame.instance(), parent, inner);
    *outer = HandleOf<T>(slot);
    frame.Made(std::exchange(slot, nullptr));
  }
  T** outer;
  T* inner = nullptr;
  T** value = &inner;
  Object* slot = nullptr;
};

}  // namespace sl::checker
