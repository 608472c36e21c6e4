// SPDX-License-Identifier: Apache-2.0
//
// The waits of launches that no thread watches: while some may run, the control thread asks them now and then what they
// wait for (sl_control_t), and has the answer judged (judge.h). Streams that wait for signals need not be asked
// (signal_waits.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "kernel/runtime/judge.h"
#include "kernel/runtime/launch_waits.h"
#include "kernel/runtime/signal_waits.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

struct sl_comm_t;

namespace sl::kernel {

class LaunchWatch {
 public:
  explicit LaunchWatch(sl_comm_t* handle) : handle_(handle) {}
  ~LaunchWatch() { Stop(); }
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  // Something was launched, or captured. One load while the watch is on; else it is switched on, which takes a lock.
  // Inside a call that marks the communicator as in use (InCall).   [data]
  void Expect() {
    if (!is_on_.load(std::memory_order_seq_cst)) [[unlikely]]
      SwitchOn();
  }
  // No look begins or runs after it.   [control]
  void Stop();

 private:
  void SwitchOn();
  // This and what follows on the control thread. Returns when to look again; 0: no more.
  uint64_t Look();
  void LookOnce();
  bool MayRun() const;
  void Ask();
  void JudgeLaunches(uint64_t now_ns);
  void JudgeSignals(uint64_t now_ns);
  bool IsJudged() const;
  bool JudgeWait(const WaitFacts& facts);
  std::string Describe(const LaunchWaits::Wait& wait) const;
  std::string Describe(const SignalWaits::Wait& wait);
  std::string WhoIsBehind() const;

  sl_comm_t* const handle_;
  std::atomic<bool> is_on_{false};
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> task_{0};
  uint32_t judged_ = 0;  // the newest question whose answer was looked at
  LaunchWaits waits_;
  SignalWaits signals_;
};

}  // namespace sl::kernel
