// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/layout.h"

#include <gtest/gtest.h>

namespace sl::verify {
namespace {

using Hosts = std::vector<uint32_t>;

TEST(Layout, PlacesRanksOnHosts) {
  EXPECT_EQ(HostsOf("1", 3).value(), Hosts({0, 0, 0}));
  EXPECT_EQ(HostsOf("2", 5).value(), Hosts({0, 0, 0, 1, 1}));
  EXPECT_EQ(HostsOf("5", 5).value(), Hosts({0, 1, 2, 3, 4}));
  EXPECT_EQ(HostsOf("2:cyclic", 5).value(), Hosts({0, 1, 0, 1, 0}));
  EXPECT_EQ(HostsOf("3+1+2", 6).value(), Hosts({0, 0, 0, 1, 2, 2}));
}

TEST(Layout, SaysWhatIsWrong) {
  for (const char* words : {"", "0", "x", "2:", "2:blocks", "2+", "2++2", "2+2:cyclic", "-1", "2 "}) {
    EXPECT_EQ(HostsOf(words, 4).status().code(), SL_ERR_INVALID) << words;
  }
  EXPECT_NE(HostsOf("5", 4).status().message().find("5 hosts for 4 ranks"), std::string::npos);
  // Far more than memory holds.
  EXPECT_NE(HostsOf("4000000000+4000000000", 4).status().message().find("hold 8000000000 ranks"), std::string::npos);
  EXPECT_NE(HostsOf("3+3", 4).status().message().find("hold 6 ranks, not 4"), std::string::npos);
}

}  // namespace
}  // namespace sl::verify
