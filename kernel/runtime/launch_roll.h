// SPDX-License-Identifier: Apache-2.0
//
// The communicators of a process that issue launches which nobody watches. Who frees memory asks here whether any
// launch runs, since the driver makes freeing wait for all of them; a rank that gives up asks here for the other ranks
// of its communicator in this process, whose launches reach its callers' buffers where they lie.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sdk/status.h"

namespace sl::kernel {

// All calls from any thread; none waits but AwaitOthers.
class LaunchRoll {
 public:
  // What is asked of a communicator; nothing of it may wait.
  struct Member {
    uint64_t comm_id = 0;                        // equal for all ranks of a communicator
    std::function<bool()> may_run;               // a launch, or a call that may launch
    std::function<bool()> may_replay;            // graphs, of which nobody knows whether they run
    std::function<void(const Status&)> give_up;  // ends launches, those that come later, too
  };
  struct Place;

  LaunchRoll() = default;
  LaunchRoll(const LaunchRoll&) = delete;
  LaunchRoll& operator=(const LaunchRoll&) = delete;

  // A member of a communicator that a rank has given up already is ended at once.
  std::shared_ptr<Place> Enter(Member member);
  // Nothing is asked of it once this returns.
  void Leave(const std::shared_ptr<Place>& place);

  // No launch of any member runs, as far as is known: replays of graphs are not.
  bool IsQuiet() const;
  // Ends the launches of the other ranks of that communicator.
  void GiveUpOthers(const Place& own, const Status& why);
  // Until none of them runs, or the deadline; true when none does. Replays may run until the deadline.
  bool AwaitOthers(const Place& own, uint64_t deadline_ns) const;

 private:
  std::vector<std::shared_ptr<Place>> Places() const;
  std::vector<std::shared_ptr<Place>> Others(const Place& own) const;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Place>> places_;        // guarded by mutex_
  std::deque<std::pair<uint64_t, Status>> given_up_;  // communicators, the latest; guarded by mutex_
};

// One for each process; never destroyed.
LaunchRoll* ProcessLaunchRoll();

}  // namespace sl::kernel
