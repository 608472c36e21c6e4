// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/frame.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

TEST(Frame, ReaderGivesBackWhatWriterTook) {
  Writer out;
  out.Put(uint32_t{7});
  out.PutText("starling");
  out.PutBytes({});
  out.Put(uint64_t{9});
  Reader in(out.bytes());
  EXPECT_EQ(in.Get<uint32_t>(), 7u);
  EXPECT_EQ(in.GetText(), "starling");
  EXPECT_TRUE(in.GetBytes().empty());
  EXPECT_EQ(in.Get<uint64_t>(), 9u);
  EXPECT_TRUE(in.ok());
  EXPECT_TRUE(in.empty());
}

TEST(Frame, ReaderRefusesLengthsBeyondTheEnd) {
  Writer out;
  out.Put(uint32_t{0xffffffff});  // a length
  out.Put(uint16_t{1});
  Reader in(out.bytes());
  EXPECT_TRUE(in.GetBytes().empty());
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.Get<uint64_t>(), 0u) << "everything after the first error reads as zero";
}

TEST(Frame, HeadersAreCheckedBeforeAnythingIsAllocated) {
  FrameHeader header{kFrameMagic, kFrameVersion, FrameType::kJoin, 0, 16, 0};
  EXPECT_TRUE(CheckHeader(header, 16).ok());
  EXPECT_EQ(CheckHeader(header, 15).code(), SL_ERR_LINK_CORRUPT);
  header.version = 1;
  EXPECT_EQ(CheckHeader(header, 16).code(), SL_ERR_MISMATCH);
  header.magic = 0;
  EXPECT_EQ(CheckHeader(header, 16).code(), SL_ERR_LINK_CORRUPT);
}

}  // namespace
}  // namespace sl::kernel
