// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/frame.h"

namespace sl::kernel {

Status CheckHeader(const FrameHeader& header, uint32_t max_bytes) {
  if (header.magic != kFrameMagic) return {SL_ERR_LINK_CORRUPT, "not a starling frame"};
  if (header.version != kFrameVersion) {
    return {SL_ERR_MISMATCH, "the peer speaks control protocol " + std::to_string(header.version) + ", this one " +
                                 std::to_string(kFrameVersion) + "; use one version of starling on all ranks"};
  }
  if (header.bytes > max_bytes) {
    return {SL_ERR_LINK_CORRUPT, "a frame of " + std::to_string(header.bytes) + " bytes, at most " +
                                     std::to_string(max_bytes) + " are allowed here"};
  }
  return {};
}

Bytes EncodeFrame(FrameType type, uint64_t sequence, std::span<const uint8_t> payload) {
  const FrameHeader header{kFrameMagic, kFrameVersion, type, sequence, static_cast<uint32_t>(payload.size()), 0};
  Bytes frame(sizeof(header) + payload.size());
  std::memcpy(frame.data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(frame.data() + sizeof(header), payload.data(), payload.size());
  return frame;
}

}  // namespace sl::kernel
