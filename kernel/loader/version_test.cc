// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/version.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

bool Allows(const char* constraint, const char* version) {
  Result<VersionConstraint> parsed = VersionConstraint::Parse(constraint);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.value().Allows(Version::Parse(version).value());
}

TEST(Version, OrdersByNumbersAndPutsPrereleasesFirst) {
  const char* const order[] = {"0.9", "1.0.0-alpha", "1.0.0-rc1", "1.0.0", "1.2.0", "1.10.0", "2.0.0"};
  for (size_t i = 1; i < std::size(order); ++i) {
    EXPECT_TRUE(Version::Parse(order[i - 1]).value() < Version::Parse(order[i]).value()) << order[i];
  }
}

TEST(Version, RejectsWhatIsNone) {
  for (const char* text : {"", "latest", "1.", "1.2.3.4", "1.2-", "-1", "1.x", " 1"}) {
    EXPECT_FALSE(Version::Parse(text).ok()) << text;
  }
}

TEST(VersionConstraint, OperatorsAndRanges) {
  EXPECT_TRUE(Allows("", "0.0.1"));
  EXPECT_TRUE(Allows(">=1.2", "1.2.0"));
  EXPECT_FALSE(Allows(">1.2", "1.2.0"));
  EXPECT_TRUE(Allows("<=2", "2.0.0"));
  EXPECT_FALSE(Allows("<2", "2.0.0"));
  EXPECT_TRUE(Allows("=1.2.3", "1.2.3"));
  EXPECT_FALSE(Allows("=1.2.3", "1.2.4"));
  EXPECT_TRUE(Allows("=1.2", "1.2.9"));
  EXPECT_TRUE(Allows("1.2", "1.2.9"));
  EXPECT_TRUE(Allows(">= 1.2, < 2", "1.9.9"));
  EXPECT_FALSE(Allows(">=1.2,<2", "2.0.0"));
}

TEST(VersionConstraint, CaretKeepsTheFirstPartThatIsNotZero) {
  EXPECT_TRUE(Allows("^1.2", "1.9.0"));
  EXPECT_FALSE(Allows("^1.2", "2.0.0"));
  EXPECT_FALSE(Allows("^1.2", "1.1.9"));
  EXPECT_TRUE(Allows("^0.3.1", "0.3.7"));
  EXPECT_FALSE(Allows("^0.3.1", "0.4.0"));
}

TEST(VersionConstraint, RejectsWhatIsNone) {
  for (const char* text : {"~1", ">=", "new", ">=1.2 <2"}) EXPECT_FALSE(VersionConstraint::Parse(text).ok()) << text;
}

}  // namespace
}  // namespace sl::kernel
