// SPDX-License-Identifier: Apache-2.0
#include "sdk/net_interface.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sl {
namespace {

TEST(InterfaceNames, AdmitWhatTheTextSays) {
  struct Case {
    const char* text;
    const char* name;
    bool admitted;
    bool asked_for;
  };
  for (const Case& test :
       {Case{"", "eth0", true, false}, Case{"eth,ib", "eth0", true, true}, Case{"eth,ib", "lo", false, false},
        Case{"=eth0", "eth0", true, true}, Case{"=eth0", "eth01", false, false}, Case{"^docker", "eth0", true, false},
        Case{"^docker", "docker0", false, false}, Case{"^=eth0", "eth01", true, false},
        Case{"^=eth0", "eth0", false, false}, Case{",,eth", "eth0", true, true}}) {
    const InterfaceNames names(test.text);
    EXPECT_EQ(names.Admit(test.name), test.admitted) << '"' << test.text << "\" " << test.name;
    EXPECT_EQ(names.AskFor(test.name), test.asked_for) << '"' << test.text << "\" " << test.name;
  }
}

TEST(InterfaceAddresses, HaveLoopback) {
  const Result<std::vector<InterfaceAddress>> all = ListInterfaceAddresses();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_TRUE(std::any_of(all.value().begin(), all.value().end(), [](const InterfaceAddress& address) {
    return address.loopback && address.name == "lo" && address.index != 0;
  }));
}

}  // namespace
}  // namespace sl
