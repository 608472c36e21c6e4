// SPDX-License-Identifier: Apache-2.0
//
// Brings records from the rings to observers (sl_observer.h), on a thread of its own that exists only while an observer
// wants anything. An observer cannot fail what it observes: its failures are counted, and after kFailuresInARow of them
// it is switched off.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/events/ring.h"
#include "sdk/status.h"
#include "sdk/thread.h"
#include "sl_observer.h"

namespace sl::kernel {

class ObserverPump {
 public:
  static constexpr uint32_t kFailuresInARow = 16;

  // One configured observer module; table overlaid on stubs, both outlive the pump.
  struct Source {
    std::string name;
    const sl_observer_ops_t* ops;
    sl_instance_t* instance;
  };

  // `period_ns`: how long records wait at most before they are looked for.
  explicit ObserverPump(uint64_t period_ns) : period_ns_(period_ns) {}
  ~ObserverPump();
  ObserverPump(const ObserverPump&) = delete;
  ObserverPump& operator=(const ObserverPump&) = delete;

  // Makes the observers, sets the event mask to what they want together and starts the thread if that is anything.
  // An observer that cannot be made is logged and left out.   thread: [init]
  Status Start(const std::vector<Source>& sources);

  // Clears the mask, delivers what the rings still hold, ends the thread and destroys the observers. Idempotent.
  // False when an observer did not return from consume() within `patience_ns`, or calls this itself: then the thread is
  // left to it, no observer is destroyed, and the pump must outlive the process.
  bool Stop(uint64_t patience_ns = UINT64_MAX);

  bool running() const { return thread_.joinable(); }

 private:
  struct Observer {
    std::string name;
    const sl_observer_ops_t* ops = nullptr;
    sl_observer_t* handle = nullptr;
    uint64_t mask = 0;  // 0: switched off
    uint32_t failures = 0;
  };

  void Run();
  void Drain();
  void Deliver(const EventBatch& batch);
  void DeliverTo(Observer& observer, const EventBatch& batch);
  void UpdateMask();
  void SetConsuming(const Observer* observer);

  const uint64_t period_ns_;
  std::vector<Observer> observers_;    // the pump thread's while it runs
  std::vector<sl_record_t> filtered_;  // the pump thread's
  Thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  bool stopping_ = false;                // guarded by mutex_
  bool has_ended_ = false;               // guarded by mutex_
  const Observer* consuming_ = nullptr;  // guarded by mutex_; whose turn it is
};

}  // namespace sl::kernel
