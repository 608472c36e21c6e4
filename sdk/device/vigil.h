// SPDX-License-Identifier: Apache-2.0
//
// Spins that end: every wait looks at the abort word of its communicator now and then, and the first one that gives up
// says what it waited for. So does the first that sees that the CPU asks.
#pragma once

#include "sdk/device/sync.h"
#include "sl_algorithm.h"

#ifndef __CUDA_ARCH__
#include <thread>
#endif

namespace sl::dev {

// The first revision of sl.algorithm/1 whose kernels have room in sl_control_t for all that a Vigil writes. A module
// whose launches use one offers its algorithms to no older kernel: the record would reach past the end.
constexpr uint32_t kVigilRevision = 8;
static_assert(sizeof(sl_control_t) == SL_CONTROL_SIZE_1_7, "a record that grows needs a newer revision here");

// Where trouble is told. `claim` is a word of this rank's own memory: the question that was answered last, or kFault
// once somebody has given up; zero at first. Threads may dawdle by as much between steps (dawdle.h).
struct Warden {
  sl_control_t* control;
  uint32_t* claim;
  uint32_t dawdle_ns = 0;
  uint32_t pace = 1;  // turns that one counts for: more where turns are slow
};

// What is waited for, as it appears in the record.
struct Wanted {
  int32_t peer;  // -1: nobody to blame; nothing is recorded
  uint32_t step;
  uint64_t value;
};

// One wait, for one value: the object notes which question was the newest when it first looked, so that whoever asks
// knows how long this very wait has lasted. The abort word lies in host memory, about 1 us away, and many threads may
// wait at once: a thread looks every kTurns turns, which take some 10 ms.
class Vigil {
 public:
  SL_HD explicit Vigil(const Warden& warden) : warden_(warden) {}

  // Called once a turn that brought nothing. True when the wait must end; then the record is written.
  SL_HD bool GivesUp(const Wanted& wanted, uint64_t seen) {
    turns_ += warden_.pace;
#ifdef __CUDA_ARCH__
    if (turns_ % kTurns != 0) return false;
#else
    std::this_thread::yield();
#endif
    if (Poll(&warden_.control->abort) == 0) {
      Answer(wanted, seen);
      return false;
    }
    GiveUp(wanted, seen);
    return true;
  }
  // The record of a wait that is not begun, or ends.
  SL_HD void GiveUp(const Wanted& wanted, uint64_t seen) const {
    if (wanted.peer >= 0 && Claim(warden_.claim, kFault)) Record(wanted, seen, &warden_.control->fault, 1);
  }

 private:
  static constexpr uint32_t kTurns = 8192;
  static constexpr uint32_t kFault = 0xffffffff;  // as a claim: later than every question

  SL_HD void Answer(const Wanted& wanted, uint64_t seen) {
    const uint32_t asked = Poll(&warden_.control->asked);
    if (asked == 0 || wanted.peer < 0) return;
    if (since_ == 0) since_ = asked;
    if (!Claim(warden_.claim, asked)) return;
    Record(wanted, seen, &warden_.control->answered, asked);
  }

  SL_HD void Record(const Wanted& wanted, uint64_t seen, uint32_t* flag, uint32_t value) const {
    sl_control_t* control = warden_.control;
    control->peer = wanted.peer;
    control->step = wanted.step;
    control->seen = seen;
    control->wanted = wanted.value;
    control->since = since_;
    StoreRelease(flag, value);  // pairs with the CPU's acquire load of it
  }

  const Warden& warden_;
  uint32_t turns_ = 0;
  uint32_t since_ = 0;  // the newest question at the first look; 0: there was none
};

// Waits until *word >= wanted.value. What its writer wrote before is visible afterwards to this thread, and after the
// block's next Sync to all of it. False when the wait was ended.
SL_HD bool AwaitAtLeast(const uint64_t* word, const Wanted& wanted, const Warden& warden) {
  Vigil vigil(warden);
  for (;;) {
    const uint64_t seen = LoadAcquire(word);
    if (seen >= wanted.value) return true;
    if (vigil.GivesUp(wanted, seen)) return false;
  }
}

}  // namespace sl::dev
