// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/call_ledger.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

TEST(CallLedger, TakesEachCallOnce) {
  CallLedger ledger;
  EXPECT_TRUE(ledger.Enter({1, 100, 0, 0}));
  EXPECT_FALSE(ledger.Enter({1, 100, 1, 0})) << "another rank that called the same is no news";
  EXPECT_TRUE(ledger.Enter({2, 100, 1, 0}));
  EXPECT_FALSE(ledger.mismatch().has_value());
}

TEST(CallLedger, KeepsTheFirstTwoCallsThatDiffer) {
  CallLedger ledger;
  ledger.Enter({7, 100, 3, 0});
  EXPECT_TRUE(ledger.Enter({7, 200, 5, 0})) << "others are to hear of it";
  EXPECT_FALSE(ledger.Enter({7, 300, 6, 0}));
  ASSERT_TRUE(ledger.mismatch().has_value());
  EXPECT_EQ(ledger.mismatch()->first.rank, 3u);
  EXPECT_EQ(ledger.mismatch()->second.rank, 5u);
  EXPECT_EQ(ledger.mismatch()->second.signature, 200u);
}

TEST(CallLedger, ComparesWhatWasChosenOnceThatIsKnown) {
  CallLedger ledger;
  EXPECT_TRUE(ledger.Enter({7, 100, 3, 0}));
  EXPECT_TRUE(ledger.Enter({7, 100, 4, 55})) << "others are to hear what was chosen";
  EXPECT_FALSE(ledger.Enter({7, 100, 5, 55}));
  EXPECT_FALSE(ledger.Enter({7, 100, 6, 0})) << "one that has not chosen yet is no news";
  EXPECT_FALSE(ledger.mismatch().has_value());
  EXPECT_TRUE(ledger.Enter({7, 100, 3, 66}));
  ASSERT_TRUE(ledger.mismatch().has_value());
  EXPECT_EQ(ledger.mismatch()->first.rank, 4u);
  EXPECT_EQ(ledger.mismatch()->second.rank, 3u);
  EXPECT_EQ(ledger.mismatch()->second.algorithm, 66u);
}

TEST(CallLedger, ForgetsTheOldest) {
  CallLedger ledger;
  for (uint64_t sequence = 1; sequence <= CallLedger::kMaxCalls + 10; ++sequence) ledger.Enter({sequence, 100, 0, 0});
  EXPECT_FALSE(ledger.Enter({1, 200, 1, 0})) << "too old to be kept, hence to be passed on";
  EXPECT_FALSE(ledger.mismatch().has_value());
  ledger.Enter({CallLedger::kMaxCalls + 10, 200, 1, 0});
  EXPECT_TRUE(ledger.mismatch().has_value());
}

}  // namespace
}  // namespace sl::kernel
