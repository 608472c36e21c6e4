// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/calls.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/kit/culprit.h"

namespace sl::conform {
namespace {

// Where one thread is, for signal handlers of any thread. Constant memory: a handler allocates nothing.
struct Lane {
  std::atomic<bool> is_taken{false};
  std::atomic<const SlotInfo*> slot{nullptr};
  std::atomic<uint64_t> calls{0};
};
constexpr size_t kLanes = 128;
constinit Lane g_lanes[kLanes];
constinit Lane g_spare;  // of threads beyond that many: whose call it is, is not known then

class LaneOfThread {
 public:
  LaneOfThread() noexcept {
    for (Lane& lane : g_lanes) {
      if (lane.is_taken.exchange(true)) continue;
      lane_ = &lane;
      lane.calls.store(0);
      return;
    }
  }
  ~LaneOfThread() { lane_->is_taken.store(false); }
  LaneOfThread(const LaneOfThread&) = delete;
  LaneOfThread& operator=(const LaneOfThread&) = delete;
  Lane& lane() const { return *lane_; }

 private:
  Lane* lane_ = &g_spare;
};
thread_local LaneOfThread t_lane;

std::mutex g_thrown_mutex;
std::vector<std::string> g_thrown;  // guarded by g_thrown_mutex

int g_where_fd = -1;

void Write(std::string_view text) {
  if (write(g_where_fd, text.data(), text.size()) < 0) return;  // then it is not known
}

void Say(const Lane& lane, std::string_view before) {
  const SlotInfo* slot = lane.slot.load();
  if (slot == nullptr) return;
  char number[24];
  const auto end = std::to_chars(number, number + sizeof number, lane.calls.load());
  Write(before);
  Write(slot->name);
  Write("(), call ");
  Write({number, static_cast<size_t>(end.ptr - number)});
  Write(" of its thread");
}

[[maybe_unused]] void OnCrash(int) {
  Culprit culprit;
  if (t_lane.lane().slot.load() != nullptr) {
    Say(t_lane.lane(), kSlotMark);
  } else if (FindCulprit(&culprit)) {  // called by the runtime of a job
    Write(kSlotMark);
    Write(culprit.slot);
    Write(culprit.slot[0] != 0 ? ", module " : "module ");
    Write(culprit.module);
  }
  // The handler was for one signal; the same again has its usual effect.
}

void OnTerm(int) {
  std::string_view before = kSlotMark;
  for (const Lane& lane : g_lanes) {
    if (!lane.is_taken.load() || lane.slot.load() == nullptr) continue;
    Say(lane, before);
    before = "; ";
  }
  _exit(1);
}

}  // namespace

Call::Call(const SlotInfo& slot) noexcept : slot_(slot), outer_(t_lane.lane().slot.load(std::memory_order_relaxed)) {
  Lane& lane = t_lane.lane();
  lane.calls.store(lane.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  lane.slot.store(&slot, std::memory_order_relaxed);
}

Call::~Call() { t_lane.lane().slot.store(outer_, std::memory_order_relaxed); }

void Call::Threw() const noexcept {
  const std::lock_guard lock(g_thrown_mutex);
  try {
    throw;
  } catch (const std::exception& error) {
    g_thrown.push_back(fmt::format("an exception left {}(): {}", slot_.name, error.what()));
  } catch (...) {
    g_thrown.push_back(fmt::format("an exception left {}()", slot_.name));
  }
}

const SlotInfo* CurrentSlot() { return t_lane.lane().slot.load(std::memory_order_relaxed); }

void ExpectNothingThrown(Trial& trial) {
  const std::lock_guard lock(g_thrown_mutex);
  for (const std::string& text : g_thrown) trial.Expect(false, "{}", text);
  g_thrown.clear();
}

void SayWhereItEnds(int fd) {
  g_where_fd = fd;
  // A stack of its own, for what overflows the usual one.
  alignas(16) static char stack[64 * 1024];
  const stack_t other = {stack, 0, sizeof stack};
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = OnTerm;
  sigaction(SIGTERM, &action, nullptr);
#if !defined(SL_SANITIZED)  // there a crash is the sanitizer's to explain
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
#endif
}

}  // namespace sl::conform
