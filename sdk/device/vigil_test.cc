// SPDX-License-Identifier: Apache-2.0
#include "sdk/device/vigil.h"

#include <gtest/gtest.h>

namespace sl::dev {
namespace {

class Waits : public testing::Test {
 protected:
  sl_control_t control_{};
  uint32_t claim_ = 0;
  const Warden warden_{&control_, &claim_};
  const Wanted wanted_{3, 4, 7};
};

// Though the words are the same, a wait that began later says so.
TEST_F(Waits, SayWhichQuestionWasTheNewestWhenTheyBegan) {
  Vigil first(warden_);
  control_.asked = 5;
  EXPECT_FALSE(first.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.answered, 5u);
  EXPECT_EQ(control_.since, 5u);
  control_.asked = 6;
  EXPECT_FALSE(first.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.answered, 6u);
  EXPECT_EQ(control_.since, 5u);
  Vigil second(warden_);
  EXPECT_FALSE(second.GivesUp(wanted_, 6)) << "the question is answered already";
  EXPECT_EQ(control_.since, 5u);
  control_.asked = 7;
  EXPECT_FALSE(second.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.answered, 7u);
  EXPECT_EQ(control_.since, 6u);
  EXPECT_EQ(control_.peer, 3);
  EXPECT_EQ(control_.step, 4u);
  EXPECT_EQ(control_.seen, 6u);
  EXPECT_EQ(control_.wanted, 7u);
}

// Where nobody has asked yet, the first question counts.
TEST_F(Waits, ThatBeganBeforeTheFirstQuestionSayTheFirst) {
  Vigil vigil(warden_);
  EXPECT_FALSE(vigil.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.answered, 0u);
  control_.asked = 1;
  EXPECT_FALSE(vigil.GivesUp(wanted_, 6));
  control_.asked = 2;
  EXPECT_FALSE(vigil.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.answered, 2u);
  EXPECT_EQ(control_.since, 1u);
}

TEST_F(Waits, EndByTheAbortWordWithARecord) {
  Vigil vigil(warden_);
  control_.abort = SL_ERR_ABORTED;
  EXPECT_TRUE(vigil.GivesUp(wanted_, 6));
  EXPECT_EQ(control_.fault, 1u);
  EXPECT_EQ(control_.wanted, 7u);
}

}  // namespace
}  // namespace sl::dev
