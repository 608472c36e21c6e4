// SPDX-License-Identifier: Apache-2.0
//
// Which slot of the module under test each thread is in, so that a crash, a hang or an exception is blamed on a slot.
//
//   ops = Traced<sl_device_ops_t>::Wrap(ops);   // every call through this table is known
//   const Call call(kOpen);                     // and so is this stretch
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sl_base.h"
#include "tests/conformance/kit/trial.h"

namespace sl::conform {

struct SlotInfo {
  const char* name;
  bool is_data = false;  // its comment says [data]
};

// One call of a [data] slot, watched where somebody does (data_watch.h).
class DataCall {
 public:
  explicit DataCall(const SlotInfo& slot) noexcept;
  ~DataCall();
  DataCall(const DataCall&) = delete;
  DataCall& operator=(const DataCall&) = delete;

 private:
  const SlotInfo* slot_ = nullptr;  // NULL: nobody watches, or the slot is of another kind
  int64_t switches_ = 0;
};

// The slots of a table, in its order.
template <typename Ops>
const SlotInfo* SlotsOf();

// A thread is in a slot as long as this lives.
class Call {
 public:
  explicit Call(const SlotInfo& slot) noexcept;
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // In a handler: notes what the module threw across its boundary.
  void Threw() const noexcept;

 private:
  const SlotInfo& slot_;
  const SlotInfo* const outer_;  // that this thread was in; NULL: none
};

// The slot that the calling thread is in; NULL: it is outside the module.
const SlotInfo* CurrentSlot();

// Notes as failures what the module has thrown so far.
void ExpectNothingThrown(Trial& trial);

// From now on a crash of the process writes the slot it happened in to `fd`, and SIGTERM writes the slots that threads
// are in and ends the process. A line begins with kSlotMark.
inline constexpr char kSlotMark[] = "\n!";
void SayWhereItEnds(int fd);

template <typename Ops>
class Traced {
 public:
  // The module under test has one table of a kind; a later one takes the place of an earlier one.
  static Ops Wrap(const Ops& ops) {
    real_ = ops;
    return []<size_t... kSlots>(std::index_sequence<kSlots...>) { return Ops{sizeof(Ops), 0, Slot<kSlots>()...}; }
    (std::make_index_sequence<(sizeof(Ops) - kFirst) / sizeof(void (*)())>());
  }

 private:
  static constexpr size_t kFirst = 2 * sizeof(uint32_t);  // after struct_size and reserved

  template <size_t kIndex>
  struct Slot {
    template <typename R, typename... Args>
    using Function = R (*)(Args...);
    template <typename R, typename... Args>
    constexpr operator Function<R, Args...>() const {  // NOLINT(google-explicit-constructor)
      return [](Args... args) -> R {
        Function<R, Args...> real = nullptr;
        std::memcpy(&real, reinterpret_cast<const char*>(&real_) + kFirst + kIndex * sizeof real, sizeof real);
        const Call call(SlotsOf<Ops>()[kIndex]);
        const DataCall data_call(SlotsOf<Ops>()[kIndex]);
        try {
          return real(args...);
        } catch (...) {
          call.Threw();
          if constexpr (std::is_same_v<R, sl_status_t>) {
            return SL_ERR_EXCEPTION;
          } else if constexpr (!std::is_void_v<R>) {
            return R{};
          }
        }
      };
    }
  };

  static inline Ops real_ = {};
};

}  // namespace sl::conform
