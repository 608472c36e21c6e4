// SPDX-License-Identifier: Apache-2.0
//
// How long the waits have lasted that launches tell of in their control block (sl_control_t). Many threads of a launch
// may wait, and whoever is first answers a question, so two answers need not be of one wait. An answer says by the
// number of a question when its wait began; how long that is, only this side knows, which asked the questions.
#pragma once

#include <cstdint>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

// thread: one at a time.
class LaunchWaits {
 public:
  struct Wait {
    int32_t peer;
    uint32_t step;
    uint64_t seen;
    uint64_t wanted;
    uint64_t length_ns;  // at least, when the question was asked
    bool is_reported;
  };

  // The newest question; 0: none yet. The next one has the next number.
  uint32_t asked() const { return asked_; }
  // It was asked: not before `before_ns`, and whoever looked at `after_ns` or later has seen it.
  void Ask(uint64_t before_ns, uint64_t after_ns);

  // What the answer to the newest question tells, read at `now_ns`.
  Wait Answer(const sl_control_t& said, uint64_t now_ns);
  // The wait of the newest answer was reported, and with it all that had begun when it was asked for.
  void SetReported();
  // The newest question was not answered: nobody has waited for long.
  void Miss() { named_.clear(); }
  // No launch runs: what was asked so far concerns no later wait.
  void Clear();

 private:
  struct Question {
    uint32_t number;
    uint64_t after_ns;
  };
  // A wait that does not say when it began, of a module of an older revision: known by what it waits for. Counters only
  // grow, so the same words twice are one wait, unless another thread counts for itself.
  struct Named {
    int32_t peer;
    uint32_t step;
    uint64_t seen;
    uint64_t wanted;
    uint64_t since_ns;
    bool is_reported;
  };

  void ForgetOne();
  uint64_t BeginOf(uint32_t since) const;
  Named* Find(const sl_control_t& said, uint64_t now_ns);

  uint32_t asked_ = 0;
  uint64_t asked_ns_ = 0;            // the newest one was not asked before
  std::vector<Question> questions_;  // oldest first; old ones are thinned out
  uint32_t reported_ = 0;            // waits that had looked before this question was asked are reported
  std::vector<Named> named_;         // that go on
};

}  // namespace sl::kernel
