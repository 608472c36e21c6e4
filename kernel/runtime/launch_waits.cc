// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launch_waits.h"

#include <algorithm>

namespace sl::kernel {
namespace {

constexpr size_t kMostQuestions = 256;
constexpr size_t kMostNamed = 64;  // of one launch: other threads of it wait alike

uint64_t Since(uint64_t begin_ns, uint64_t now_ns) { return now_ns > begin_ns ? now_ns - begin_ns : 0; }

}  // namespace

void LaunchWaits::Ask(uint64_t before_ns, uint64_t after_ns) {
  ++asked_;
  asked_ns_ = before_ns;
  if (questions_.size() == kMostQuestions) ForgetOne();
  questions_.push_back({asked_, after_ns});
}

// The one whose gap is the least part of its age: so the older, the fewer are kept, and of the length of any wait a few
// percent are not counted.
void LaunchWaits::ForgetOne() {
  size_t least = 1;
  double least_part = 2;
  for (size_t i = 1; i + 1 < questions_.size(); ++i) {
    const uint32_t before = questions_[i - 1].number;
    const double part = static_cast<double>(questions_[i + 1].number - before) / (asked_ - before);
    if (part < least_part) {
      least = i;
      least_part = part;
    }
  }
  questions_.erase(questions_.begin() + static_cast<std::ptrdiff_t>(least));
}

// Whoever looked first when `since` was the newest question had begun before the next one could be seen.
uint64_t LaunchWaits::BeginOf(uint32_t since) const {
  const auto next =
      std::find_if(questions_.begin(), questions_.end(), [since](const Question& one) { return one.number > since; });
  return next != questions_.end() ? next->after_ns : asked_ns_;
}

LaunchWaits::Named* LaunchWaits::Find(const sl_control_t& said, uint64_t now_ns) {
  const auto same = [&said](const Named& wait) {
    return wait.peer == said.peer && wait.step == said.step && wait.seen == said.seen && wait.wanted == said.wanted;
  };
  const auto found = std::find_if(named_.begin(), named_.end(), same);
  if (found != named_.end()) return &*found;
  if (named_.size() == kMostNamed) named_.erase(named_.begin());
  return &named_.emplace_back(Named{said.peer, said.step, said.seen, said.wanted, now_ns, false});
}

LaunchWaits::Wait LaunchWaits::Answer(const sl_control_t& said, uint64_t now_ns) {
  Wait wait{said.peer, said.step, said.seen, said.wanted, 0, false};
  if (said.since != 0) {
    wait.length_ns = Since(BeginOf(said.since), asked_ns_);
    wait.is_reported = said.since < reported_;
  } else {
    const Named* named = Find(said, now_ns);
    wait.length_ns = Since(named->since_ns, asked_ns_);
    wait.is_reported = named->is_reported;
  }
  return wait;
}

void LaunchWaits::SetReported() {
  reported_ = asked_;
  for (Named& wait : named_) wait.is_reported = true;
}

void LaunchWaits::Clear() {
  questions_.clear();
  named_.clear();
}

}  // namespace sl::kernel
