// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/transfer_cost.h"

#include <algorithm>

#include "modules/algo-symmetric/transfer.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {

using kernels::kChannelsOfBlock;
using kernels::LaneLayout;

namespace {

// Longer messages than these crowd the bus to host memory by packets.
constexpr uint64_t kHostMailedBytes = 128 << 10;

// Fitted to what 2 H200 took; on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md).
constexpr Cost kMail = {3050, 205};
constexpr Cost kLanded = {4600, 340};
constexpr Cost kHostMail = {5600, 17};
constexpr Cost kHostLanded = {22000, 34};

}  // namespace

kernels::P2pWays WaysOf(const GpuSettings& settings, uint32_t size) {
  const uint32_t most = LaneLayout::Of(size, 1).channels;
  const uint32_t queues = 2 * std::max(size - 1, 1u);
  const uint32_t shared = kChannelsOfBlock * std::max(settings.budget.most / queues, 1u);
  const uint32_t channels = settings.budget.most != 0 ? std::min(most, shared) : most;
  const uint64_t room = settings.on_host ? kHostMailedBytes : kernels::MailedBytes(channels);
  const uint64_t mailed = std::min(room, settings.mailed_bytes);
  const uint64_t shorts = std::min<uint64_t>(channels / kChannelsOfBlock, mailed / kernels::kShortBytesOfChannel);
  const auto short_channels = static_cast<uint32_t>(std::min<uint64_t>(kernels::ShortChannelsOf(size), shorts));
  return {mailed, channels, settings.reaches, short_channels};
}

P2pCost CostOf(const sl_op_t& op, const kernels::P2pWays& ways, uint32_t size, const GpuSettings& settings) {
  const uint64_t bytes = BytesOf(op);
  kernels::P2pWays unbound = ways;
  unbound.channels = LaneLayout::Of(size, 1).channels;
  const auto blocks_of = [&](const kernels::P2pWays& its) {
    const uint32_t used = kernels::ChannelsOf(bytes, its, its.channels);
    return static_cast<uint32_t>(DivideUp(used, its.IsShort(bytes) ? 1 : kChannelsOfBlock));
  };
  const Cost& mail = settings.on_host ? kHostMail : kMail;
  const Cost& landed = settings.on_host ? kHostLanded : kLanded;
  const GridWork work{bytes <= ways.mailed_bytes ? mail : landed, static_cast<double>(bytes), blocks_of(unbound),
                      kStoringBlocks};
  const uint32_t blocks = blocks_of(ways);
  return {blocks, work.NanosecondsOn(blocks)};
}

}  // namespace sl::algo_symmetric
