// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/meet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <iterator>
#include <thread>

#include "kernel/control/id_groups.h"
#include "kernel/control/rendezvous.h"
#include "kernel/control/tree_shape.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(IdGroups, AreNeighboursAndDifferByOneAtMost) {
  for (uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (uint32_t ids = 1; ids <= ranks; ++ids) {
      const IdGroups groups{ranks, ids};
      EXPECT_EQ(groups.First(0), 0u);
      EXPECT_EQ(groups.First(ids), ranks);
      for (uint32_t group = 0; group < ids; ++group) {
        EXPECT_GE(groups.Size(group), ranks / ids);
        EXPECT_LE(groups.Size(group), (ranks + ids - 1) / ids);
        for (uint32_t rank = groups.First(group); rank < groups.First(group + 1); ++rank) {
          EXPECT_EQ(groups.Of(rank), group) << rank << " of " << ranks << ", " << ids << " ids";
        }
      }
    }
  }
}

// Ranks are threads, their processes are made up; each serves one id.
class MeetTest : public testing::Test {
 protected:
  struct Process {
    explicit Process(uint64_t timeout_ms)
        : control(ControlThread::Start().Take()),
          switchboard(std::make_unique<Switchboard>(control.get(), NetChoice{})),
          rendezvous(std::make_unique<Rendezvous>(control.get(), switchboard.get(), timeout_ms)) {}
    std::unique_ptr<ControlThread> control;
    std::unique_ptr<Switchboard> switchboard;
    std::unique_ptr<Rendezvous> rendezvous;
  };

  void MakeIds(uint32_t count, uint64_t timeout_ms = 10'000) {
    ids_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      processes_.push_back(std::make_unique<Process>(timeout_ms));
      ids_.push_back(processes_.back()->rendezvous->NewId().Take());
    }
  }
  Process* ProcessOf(size_t id) { return processes_[processes_.size() - ids_.size() + id].get(); }

  // What every rank meets with; a rank that `comes` leaves out stays away.
  std::vector<Status> MeetAll(uint32_t size, const std::function<bool(uint32_t)>& comes) {
    return MeetAll(ids_, size, comes);
  }
  std::vector<Status> MeetAll(const std::vector<RendezvousId>& ids, uint32_t size,
                              const std::function<bool(uint32_t)>& comes) {
    std::vector<Status> outcomes(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      if (comes(rank)) threads.emplace_back([&, rank] { outcomes[rank] = MeetAs(rank, size, ids); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }
  // Meets, makes the tree and looks whether everybody is in it.
  Status MeetAs(uint32_t rank, uint32_t size, const std::vector<RendezvousId>& ids) {
    Process* process = ProcessOf(rank % ids.size());
    const Secret& secret = ids[0].secret;
    SL_ASSIGN(const std::unique_ptr<Extension> extension, Extension::Open(process->switchboard.get(), secret));
    SL_ASSIGN(const TreeNeighbours where, Meet({ids, rank, size, extension.get(), patience_ns_, kSecond, &cancel_}));
    const Patience patience{NowNs() + patience_ns_};
    SL_ASSIGN(const std::shared_ptr<ControlTree> tree,
              ControlTree::Build(process->control.get(), {rank, size, ids[0].nonce(), secret}, extension.get(), where,
                                 kSecond, nullptr, nullptr, patience));
    const auto number = static_cast<uint8_t>(rank);
    const Result<Contributions> all = tree->AllGather(tree->TakeNumber(), {&number, 1}, patience);
    if (stay_.empty()) {
      tree->Depart(Fate::kDeparted);
    } else {
      stay_[rank] = tree;
    }
    SL_TRY(all.status());
    for (uint32_t r = 0; r < size; ++r) {
      EXPECT_EQ(all.value()[r].size(), 1u);
      EXPECT_EQ(all.value()[r][0], static_cast<uint8_t>(r));
    }
    return {};
  }
  void ExpectBothTold(uint32_t wrong, const std::vector<RendezvousId>& ids, const std::string& words);
  // Nodes that have left relay until their neighbours have left too, and need their control thread for that.
  void TearDown() override {
    static auto* kept = new std::vector<std::unique_ptr<Process>>;
    for (auto& process : processes_) kept->push_back(std::move(process));
  }

  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<RendezvousId> ids_;  // of the newest processes
  uint64_t patience_ns_ = 10 * kSecond;
  std::atomic<uint64_t> cancel_{SL_NO_DEADLINE};
  std::vector<std::shared_ptr<ControlTree>> stay_;  // by rank, where nobody is to leave yet
};

// What a start costs does not depend on the machine: messages of a rank, and how many must follow one another.
TEST_F(MeetTest, AThousandRanksSayAFewWordsEachAndWaitForTenInARow) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr uint32_t kMany = 128;  // threads are dear there
#else
  constexpr uint32_t kMany = 1024;
#endif
  patience_ns_ = 100 * kSecond;
  MakeIds(1, 100'000);
  stay_.resize(kMany);
  for (const Status& outcome : MeetAll(kMany, [](uint32_t) { return true; })) {
    ASSERT_TRUE(outcome.ok()) << outcome.message();
  }
  EXPECT_EQ(ProcessOf(0)->rendezvous->admitted(), kMany) << "each calls once";
  for (const auto& tree : stay_) EXPECT_LE(tree->frames_sent(), 3u) << "an all-gather: one up, at most two down";
  uint32_t depth = 0;
  for (uint32_t rank = kMany - 1; rank != 0; rank = ParentOf(rank)) ++depth;
  EXPECT_LE(depth, 10u);
  for (const auto& tree : stay_) tree->Depart(Fate::kDeparted);
}

TEST_F(MeetTest, SharesTheCallsOfAllRanksBetweenTheIds) {
  for (const uint32_t count : {1u, 2u, 3u, 7u}) {
    for (const uint32_t size : {7u, 8u, 40u}) {
      MakeIds(count);
      for (const Status& outcome : MeetAll(size, [](uint32_t) { return true; })) {
        EXPECT_TRUE(outcome.ok()) << size << " ranks, " << count << " ids: " << outcome.message();
      }
      for (uint32_t id = 0; id < count; ++id) {
        const uint32_t leaders = id == 0 && count > 1 ? count : 0;
        EXPECT_EQ(ProcessOf(id)->rendezvous->admitted(), (IdGroups{size, count}.Size(id)) + leaders);
      }
    }
  }
}

// Groups of 3, 3 and 2: a rank that leads a group, one that does not, and one at the first id.
TEST_F(MeetTest, EverybodyHearsWhichRankIsAbsentWhereverItBelongs) {
  constexpr uint32_t kAbsent[] = {1, 3, 7};
  constexpr size_t kMeetings = std::size(kAbsent);
  std::vector<RendezvousId> ids[kMeetings];
  for (auto& of_one : ids) {
    MakeIds(3, 2000);
    of_one = ids_;
  }
  std::vector<Status> outcomes[kMeetings];
  std::vector<std::thread> meetings;  // at once, since each lasts as long as its limit
  for (size_t i = 0; i < kMeetings; ++i) {
    meetings.emplace_back(
        [&, i] { outcomes[i] = MeetAll(ids[i], 8, [&](uint32_t rank) { return rank != kAbsent[i]; }); });
  }
  for (std::thread& meeting : meetings) meeting.join();
  for (size_t i = 0; i < kMeetings; ++i) {
    const std::string name = "rank " + std::to_string(kAbsent[i]) + " did not arrive";
    for (uint32_t rank = 0; rank < 8; ++rank) {
      if (rank == kAbsent[i]) continue;
      const std::string& words = outcomes[i][rank].message();
      EXPECT_NE(words.find(name), std::string::npos) << "rank " << rank << ", absent " << kAbsent[i] << ": " << words;
    }
  }
}

// Rank 0 comes first. `wrong` comes with other ids, and both hear `words`.
void MeetTest::ExpectBothTold(uint32_t wrong, const std::vector<RendezvousId>& ids, const std::string& words) {
  Status first;
  std::thread right([this, &first] { first = MeetAs(0, 4, ids_); });
  while (ProcessOf(0)->rendezvous->admitted() == 0) std::this_thread::yield();
  const Status second = MeetAs(wrong, 4, ids);
  right.join();
  for (const Status& told : {first, second}) {
    EXPECT_EQ(told.code(), SL_ERR_MISMATCH);
    EXPECT_NE(told.message().find(words), std::string::npos) << told.message();
  }
}

TEST_F(MeetTest, TellsRanksWhoseIdsAreInAnotherOrder) {
  MakeIds(2);
  ExpectBothTold(3, {ids_[1], ids_[0]},
                 "meets with 4 ranks and 2 ids, at id 1, others with 4 ranks and 2 ids, at id 0");
}

TEST_F(MeetTest, TellsRanksThatHaveDifferentNumbersOfIds) {
  MakeIds(2);
  ExpectBothTold(1, {ids_[0]}, "meets by a single id, others with 4 ranks and 2 ids, at id 0");
}

}  // namespace
}  // namespace sl::kernel
