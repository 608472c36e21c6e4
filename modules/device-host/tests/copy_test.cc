// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/copy.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace sl::device_host {
namespace {

// Copies `bytes` between misaligned places inside larger buffers and checks every byte, those around included.
void CheckCopy(size_t bytes, size_t dst_offset, size_t src_offset) {
  constexpr uint8_t kGuard = 0xA5;
  std::vector<uint8_t> src(bytes + src_offset);
  uint32_t state = 12345;
  for (uint8_t& byte : src) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  std::vector<uint8_t> dst(bytes + dst_offset + 64, kGuard);
  Copy(dst.data() + dst_offset, src.data() + src_offset, bytes);
  ASSERT_EQ(std::memcmp(dst.data() + dst_offset, src.data() + src_offset, bytes), 0) << bytes << " bytes";
  for (size_t i = 0; i < dst_offset; ++i) ASSERT_EQ(dst[i], kGuard) << "before, bytes " << bytes;
  for (size_t i = dst_offset + bytes; i < dst.size(); ++i) ASSERT_EQ(dst[i], kGuard) << "after, bytes " << bytes;
}

TEST(Copy, MovesSmallBlocksAtAnyAlignment) {
  for (size_t bytes : {0, 1, 7, 63, 64, 65, 4097}) {
    for (size_t offset : {0, 1, 8, 63}) CheckCopy(bytes, offset, 64 - offset);
  }
}

TEST(Copy, MovesStreamedBlocksAtAnyAlignment) {
  CheckCopy(kStreamCopyBytes - 1, 0, 3);
  CheckCopy(kStreamCopyBytes, 0, 0);
  CheckCopy(kStreamCopyBytes + 1, 1, 0);
  CheckCopy(kStreamCopyBytes + 77, 63, 17);
}

TEST(Copy, LeavesABlockCopiedOntoItselfAlone) {
  std::vector<uint8_t> block(100, 7);
  Copy(block.data(), block.data(), block.size());
  EXPECT_EQ(block, std::vector<uint8_t>(100, 7));
}

}  // namespace
}  // namespace sl::device_host
