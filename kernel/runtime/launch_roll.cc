// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launch_roll.h"

#include <algorithm>
#include <ctime>
#include <shared_mutex>
#include <utility>

#include "sdk/clock.h"

namespace sl::kernel {

namespace {

// Ranks are made within seconds of each other.
constexpr size_t kMostGivenUp = 64;

}  // namespace

struct LaunchRoll::Place {
  explicit Place(Member the_member) : comm_id(the_member.comm_id), member(std::move(the_member)) {}

  const uint64_t comm_id;
  std::shared_mutex mutex;  // shared while something is asked: who is told to give up does not wait for a slow answer
  bool is_left = false;     // guarded by mutex
  const Member member;

  template <typename Question>
  bool Ask(const Question& question) {
    const std::shared_lock lock(mutex);
    return !is_left && question(member);
  }
};

std::shared_ptr<LaunchRoll::Place> LaunchRoll::Enter(Member member) {
  auto place = std::make_shared<Place>(std::move(member));
  Status why;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [comm_id, reason] : given_up_) {
      if (comm_id == place->comm_id) why = reason;
    }
    places_.push_back(place);
  }
  if (why.ok()) return place;
  try {
    place->member.give_up(why);
  } catch (...) {
    Leave(place);  // the caller has none to leave by
    throw;
  }
  return place;
}

void LaunchRoll::Leave(const std::shared_ptr<Place>& place) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(places_, place);
  }
  const std::unique_lock lock(place->mutex);
  place->is_left = true;
}

// Asked one by one, without the lock of the list: a driver that keeps one waiting keeps nobody from the list.
std::vector<std::shared_ptr<LaunchRoll::Place>> LaunchRoll::Places() const {
  const std::lock_guard lock(mutex_);
  return places_;
}

std::vector<std::shared_ptr<LaunchRoll::Place>> LaunchRoll::Others(const Place& own) const {
  std::vector<std::shared_ptr<Place>> others = Places();
  std::erase_if(others, [&own](const auto& one) { return one.get() == &own || one->comm_id != own.comm_id; });
  return others;
}

bool LaunchRoll::IsQuiet() const {
  const auto places = Places();
  return std::none_of(places.begin(), places.end(), [](const auto& place) {
    return place->Ask([](const Member& member) { return member.may_run(); });
  });
}

void LaunchRoll::GiveUpOthers(const Place& own, const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    given_up_.emplace_back(own.comm_id, why);  // for ranks that are still being made: before the others are looked up
    if (given_up_.size() > kMostGivenUp) given_up_.pop_front();
  }
  for (const auto& place : Others(own)) {
    place->Ask([&why](const Member& member) {
      member.give_up(why);
      return true;
    });
  }
}

bool LaunchRoll::AwaitOthers(const Place& own, uint64_t deadline_ns) const {
  const auto others = Others(own);
  const auto runs = [](const auto& place) {
    return place->Ask([](const Member& member) { return member.may_run() || member.may_replay(); });
  };
  while (std::any_of(others.begin(), others.end(), runs)) {
    if (NowNs() >= deadline_ns) return false;
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

LaunchRoll* ProcessLaunchRoll() {
  static auto* const roll = new LaunchRoll;
  return roll;
}

}  // namespace sl::kernel
