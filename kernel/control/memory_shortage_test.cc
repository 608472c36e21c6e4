// SPDX-License-Identifier: Apache-2.0
//
// What the control thread's handlers do when there is no memory for a moment.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "kernel/control/control_tree.h"
#include "kernel/control/extension.h"
#include "kernel/control/meet.h"
#include "kernel/control/rendezvous.h"

namespace {
thread_local uint32_t t_failing = 0;                    // allocations of this thread that are still to fail
thread_local std::atomic<uint32_t>* t_asked = nullptr;  // counts them, and those that do not fail
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (t_asked != nullptr) t_asked->fetch_add(1);
  const bool fails = t_failing != 0;
  if (fails) --t_failing;
  void* memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {
namespace {

Patience Brief() { return {NowNs() + 10'000'000'000}; }

// From now on so many allocations of the control thread fail, one after another; `asked` counts all from here on.
void Fail(ControlThread* control, uint32_t count, std::atomic<uint32_t>* asked = nullptr) {
  std::atomic<bool> begun{false};
  control->At(0, [&begun, count, asked] {
    t_failing = count;
    t_asked = asked;
    begun = true;
  });
  while (!begun) sched_yield();
  control->Settle();
}

bool Eventually(const std::function<bool()>& condition) {
  for (const uint64_t end = NowNs() + 5'000'000'000; NowNs() < end; sched_yield()) {
    if (condition()) return true;
  }
  return false;
}

class MemoryShortage : public testing::Test {
 protected:
  MemoryShortage() : control_(ControlThread::Start().Take()), switchboard_(control_.get(), NetChoice{"lo"}) {}

  // Until the control thread has run all tasks that are due by then.
  void Wait(uint64_t ns) {
    std::atomic<bool> is_later{false};
    control_->At(NowNs() + ns, [&] { is_later = true; });
    EXPECT_TRUE(Eventually([&] { return is_later.load(); }));
    control_->Settle();
  }

  std::unique_ptr<ControlThread> control_;
  Switchboard switchboard_;
};

TEST_F(MemoryShortage, ClosesNoDoorForGood) {
  const Secret secret{1};
  const auto extension = Extension::Open(&switchboard_, secret).Take();
  Fail(control_.get(), 1);
  const Stream unlucky(ConnectLocal(extension->endpoint().local, Brief()).Take());
  uint8_t byte;
  EXPECT_EQ(ReceiveAll(unlucky, {&byte, 1}, Brief()).code(), SL_ERR_PEER_LOST) << "it hears that it is not let in";
  EXPECT_TRUE(switchboard_.Call(extension->endpoint(), secret, FrameType::kChild, {}, Brief()).ok());
  EXPECT_TRUE(extension->Take(FrameType::kChild, Brief()).ok());
}

TEST_F(MemoryShortage, RunsATaskAgainThatFoundNoMemory) {
  std::atomic<int> begun{0}, ended{0};
  Fail(control_.get(), 6);
  control_->At(0, [&] {
    ++begun;
    const auto memory = std::make_unique<int>(7);
    ended += *memory;
  });
  EXPECT_TRUE(Eventually([&] { return ended == 7; }));
  EXPECT_GE(begun, 2);
  Wait(50'000'000);
  EXPECT_EQ(ended, 7) << "it has run to its end, once";
}

TEST_F(MemoryShortage, RunsNoTaskAgainThatIsCancelled) {
  std::atomic<uint64_t> task{0};
  std::atomic<int> begun{0};
  {
    const auto hold = control_->Hold();
    task = control_->At(0, [&] {
      ++begun;
      control_->Cancel(task);
      throw std::bad_alloc();
    });
  }
  ASSERT_TRUE(Eventually([&] { return begun == 1; }));
  Wait(50'000'000);
  EXPECT_EQ(begun, 1);
}

TEST_F(MemoryShortage, KeepsATaskThatRepeats) {
  std::atomic<int> begun{0}, ended{0};
  Fail(control_.get(), 3);
  const uint64_t task = control_->Repeat(0, [&]() -> uint64_t {
    ++begun;
    const auto memory = std::make_unique<int>(1);
    return ++ended == 3 ? 0 : NowNs() + 1'000'000 * static_cast<uint64_t>(*memory);
  });
  EXPECT_TRUE(Eventually([&] { return ended == 3; }));
  EXPECT_GT(begun, 3);
  Wait(30'000'000);
  EXPECT_EQ(ended, 3) << "it has said that this is all";
  control_->Cancel(task);
}

// Rank `rank` of two, each in a process of its own on a host of its own.
std::shared_ptr<ControlTree> JoinAs(const RendezvousId& id, uint32_t rank, ControlThread* control, Switchboard* board) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto extension = Extension::Open(board, id.secret).Take();
  const auto where = Meet({{&id, 1}, rank, 2, extension.get(), 10 * kSecond, kSecond, nullptr});
  if (!where.ok()) return nullptr;
  auto tree = ControlTree::Build(control, {rank, 2, id.nonce(), id.secret}, extension.get(), where.value(), kSecond / 2,
                                 nullptr, nullptr, Brief());
  return tree.ok() ? tree.Take() : nullptr;
}

TEST(MemoryShortageOfARank, EndsNoBeat) {
  struct Process {
    explicit Process(uint8_t host) : control(ControlThread::Start().Take()) {
      HostId space{};
      space[0] = host;
      board = std::make_unique<Switchboard>(control.get(), NetChoice{"lo"}, space);
    }
    std::unique_ptr<ControlThread> control;
    std::unique_ptr<Switchboard> board;
  };
  std::atomic<uint32_t> asked{0};
  Process a(1), b(2);
  Rendezvous rendezvous(a.control.get(), a.board.get(), 10'000);
  const RendezvousId id = rendezvous.NewId().Take();
  std::shared_ptr<ControlTree> trees[2];
  std::thread other([&] { trees[1] = JoinAs(id, 1, b.control.get(), b.board.get()); });
  trees[0] = JoinAs(id, 0, a.control.get(), a.board.get());
  other.join();
  ASSERT_TRUE(trees[0] != nullptr && trees[1] != nullptr);
  {
    const auto silent = a.control->Hold();  // so that only its own beats keep rank 1 busy
    Fail(b.control.get(), UINT32_MAX, &asked);
    EXPECT_TRUE(Eventually([&] { return asked != 0; })) << "a beat is due";
    Fail(b.control.get(), 0, &asked);
    const uint32_t before = asked;
    EXPECT_TRUE(Eventually([&] { return asked >= before + 2; })) << "the next ones come";
    Fail(b.control.get(), 0);
  }
  std::weak_ptr<ControlTree> left[2] = {trees[0], trees[1]};
  for (auto& tree : trees) {
    tree->Depart(Fate::kDeparted);
    tree.reset();
  }
  EXPECT_TRUE(Eventually([&] { return left[0].expired() && left[1].expired(); }));
}

// However long memory stays short: what is watched is watched on without any.
TEST_F(MemoryShortage, ClosesNoDoorForGoodHoweverLongItIs) {
  const Secret secret{1};
  const auto extension = Extension::Open(&switchboard_, secret).Take();
  for (uint32_t count = 2; count <= 24; ++count) {
    Fail(control_.get(), count);
    const Stream unlucky(ConnectLocal(extension->endpoint().local, Brief()).Take());
    uint8_t byte;
    EXPECT_EQ(ReceiveAll(unlucky, {&byte, 1}, Brief()).code(), SL_ERR_PEER_LOST);
    Fail(control_.get(), 0);
    ASSERT_TRUE(switchboard_.Call(extension->endpoint(), secret, FrameType::kChild, {}, {NowNs() + 1'000'000'000}).ok())
        << "after " << count << " allocations have failed";
    EXPECT_TRUE(extension->Take(FrameType::kChild, Brief()).ok());
  }
}

}  // namespace
}  // namespace sl::kernel
