// SPDX-License-Identifier: Apache-2.0
//
// Thousands of random calls, the same on all ranks, against the oracle: collectives, groups and messages, on two
// communicators, on the default stream and on streams, several of them under way at once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tests/integration/nccl_case.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 2000;

// What all ranks draw alike, and what is each rank's own choice.
class Soak {
 public:
  Soak(Team& team, uint32_t seed)
      : team_(team), common_(seed), own_(seed * 31 + static_cast<uint32_t>(team.rank())), comms_{} {
    for (ncclComm_t& comm : comms_) comm = team.MakeComm();
  }

  void Run() {
    for (int call = 0; call < kCalls && !testing::Test::HasFailure();) {
      const uint32_t what = common_() % 10;
      if (what == 0) {
        const int size = static_cast<int>(common_() % 4) + 1;
        Group(size);
        call += size;
      } else if (what == 1) {
        Messages();
        ++call;
      } else {
        Issue(NextCase(), common_() % 2, OwnStream());
        ++call;
      }
      if (own_() % 4 == 0 || pending_.size() > 12) Settle();
    }
    Settle();
    for (ncclComm_t comm : comms_) NCCL_OK(ncclCommDestroy(comm));
  }

 private:
  NcclCase NextCase() {
    NcclCase test;
    test.kind = static_cast<Kind>(common_() % static_cast<uint32_t>(Kind::kCount));
    test.type = static_cast<ncclDataType_t>(common_() % ncclNumTypes);
    const uint32_t reduction = common_() % 6;
    test.reduction = reduction == 5 ? kPremulSum : static_cast<int>(reduction);
    // Every magnitude is equally likely, up to some 30,000; seldom more.
    const uint32_t magnitude = common_() % 64 == 0 ? 18 : common_() % 15;
    test.count = common_() % (uint32_t{1} << magnitude);
    test.root = static_cast<int>(common_() % kRanks);
    test.in_place = common_() % 2 != 0;
    test.salt = common_();
    return test;
  }

  cudaStream_t OwnStream() {
    const uint32_t choice = own_() % 4;
    return choice < 2 ? nullptr : streams_[choice - 2].get();
  }

  void Issue(const NcclCase& test, uint32_t comm, cudaStream_t stream) {
    pending_.push_back(std::make_unique<NcclBuffers>(test, team_.rank(), kRanks));
    NCCL_OK(pending_.back()->Issue(comms_[comm], stream)) << test.ToString();
    // Half of what is complete is looked at while other work is under way.
    if (stream != nullptr || own_() % 2 == 0) return;
    EXPECT_EQ(pending_.back()->Check(), "");
    pending_.pop_back();
  }

  void Group(int size) {
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < size; ++i) {
      const NcclCase test = NextCase();
      pending_.push_back(std::make_unique<NcclBuffers>(test, team_.rank(), kRanks));
      NCCL_OK(pending_.back()->Issue(comms_[common_() % 2], OwnStream()));
    }
    NCCL_OK(ncclGroupEnd());
  }

  // Everybody sends to everybody, the own rank included, what the pair drew.
  void Messages() {
    const uint32_t comm = common_() % 2;
    const cudaStream_t stream = OwnStream();
    uint32_t counts[kRanks][kRanks];
    for (auto& row : counts) {
      for (uint32_t& count : row) count = common_() % 3 == 0 ? 0 : common_() % (uint32_t{1} << (common_() % 17));
    }
    std::vector<std::vector<uint32_t>> sent(kRanks), received(kRanks);
    const auto mine = static_cast<size_t>(team_.rank());
    NCCL_OK(ncclGroupStart());
    for (size_t peer = 0; peer < kRanks; ++peer) {
      for (uint32_t i = 0; i < counts[mine][peer]; ++i) sent[peer].push_back(Value(mine, peer, i));
      received[peer].assign(counts[peer][mine], 0);
      NCCL_OK(ncclSend(sent[peer].data(), sent[peer].size(), ncclUint32, static_cast<int>(peer), comms_[comm], stream));
      NCCL_OK(ncclRecv(received[peer].data(), received[peer].size(), ncclUint32, static_cast<int>(peer), comms_[comm],
                       stream));
    }
    NCCL_OK(ncclGroupEnd());
    Synchronize();
    for (size_t peer = 0; peer < kRanks; ++peer) {
      for (uint32_t i = 0; i < received[peer].size(); ++i) {
        ASSERT_EQ(received[peer][i], Value(peer, mine, i)) << "from rank " << peer << " of " << received[peer].size();
      }
    }
  }

  static uint32_t Value(size_t from, size_t to, uint32_t index) {
    return index * 2654435761u + static_cast<uint32_t>(from * 16 + to);
  }

  void Synchronize() {
    for (HostStream& stream : streams_) ASSERT_TRUE(stream.Synchronize());
  }

  void Settle() {
    Synchronize();
    for (const auto& one : pending_) EXPECT_EQ(one->Check(), "");
    pending_.clear();
  }

  Team& team_;
  std::mt19937 common_;
  std::mt19937 own_;
  ncclComm_t comms_[2];
  HostStream streams_[2];
  std::vector<std::unique_ptr<NcclBuffers>> pending_;
};

// Other calls each night: the environment shifts the seeds.
uint32_t Shift() {
  const char* text = std::getenv("SL_TEST_SEED");
  return text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
}

class SoakSeed : public testing::TestWithParam<uint32_t> {};

TEST_P(SoakSeed, EndsRightOnProcesses) {
  const uint32_t seed = GetParam() + Shift();
  RunProcesses(kRanks, [seed](Team& team) { Soak(team, seed).Run(); });
}

TEST_P(SoakSeed, EndsRightOnThreads) {
  const uint32_t seed = GetParam() + Shift() + 1000;
  RunThreads(kRanks, [seed](Team& team) { Soak(team, seed).Run(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, SoakSeed, testing::Values(1u, 2u, 3u, 4u));

}  // namespace
}  // namespace sl::integration
