// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/printable.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const char* text : {"", "ring: 2 hops of 700 ns", "caf\u00e9 \u2192 \U0001f600", "back\\slash"}) {
    EXPECT_EQ(text, Printable(text));
  }
}

TEST(Printable, EscapesWhatATerminalWouldFollow) {
  EXPECT_EQ("a\\x1b[2Jb", Printable("a\x1b[2Jb"));
  EXPECT_EQ("two\\x0alines\\x0d\\x09\\x7f", Printable("two\nlines\r\t\x7f"));
  EXPECT_EQ("\\xc2\\x9b[J", Printable("\xc2\x9b[J"));
  EXPECT_EQ("a\\x00", Printable(std::string("a\0", 2)));
}

TEST(Printable, EscapesWhatIsNotUtf8) { EXPECT_EQ("\\x9b[J \\xff\\xc3", Printable("\x9b[J \xff\xc3")); }

}  // namespace
}  // namespace sl::kernel
