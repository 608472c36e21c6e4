// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/p2p_group.h"

#include <algorithm>

#include "sdk/datatype.h"

namespace sl::algo_symmetric {

using kernels::ChannelsOf;
using kernels::kChannelsOfBlock;
using kernels::kP2pBlocks;
using kernels::kVectorBytes;
using kernels::Message;
using kernels::P2pTask;

namespace {

bool SameQueue(const sl_op_t& a, const sl_op_t& b) { return a.kind == b.kind && a.peer == b.peer; }

}  // namespace

// Where `peer` sees the buffer of a long receive; 0: it does not, or another way is quicker.
uint64_t P2pGroup::ReachedBy(uint32_t peer, const sl_op_t& op, uint64_t bytes) {
  if (bytes < offered_bytes_) return 0;
  if (!dev::IsAligned(op.recv, kVectorBytes) ||
      reach_ops_->addresses(reach_, op.recv, bytes, op.capture, addresses_.data()) != SL_OK) {
    ++out_of_reach_;
    return 0;
  }
  return addresses_[peer];
}

sl_status_t P2pGroup::Fill(const sl_op_t* ops, uint32_t count, uint32_t channels, P2pTask* tasks, Message* messages,
                           uint32_t most_messages, uint32_t* out_blocks) {
  if (count > most_messages) return SL_ERR_LIMIT;
  std::fill(queued_.begin(), queued_.end(), false);
  uint32_t filled = 0;
  uint32_t blocks = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const sl_op_t& op = ops[i];
    const bool receives = op.kind == SL_OP_RECV;
    if (op.kind != SL_OP_SEND && !receives) return SL_ERR_UNSUPPORTED;
    const size_t queue = (receives ? queued_.size() / 2 : 0) + static_cast<size_t>(op.peer);
    if (queued_[queue]) continue;
    queued_[queue] = true;
    const uint32_t first = filled;
    uint32_t used = 0;
    for (uint32_t j = i; j < count; ++j) {
      const uint64_t bytes = ops[j].count * DatatypeBytes(ops[j].datatype);
      if (!SameQueue(ops[j], op) || bytes == 0) continue;
      // Sends are only read.
      void* user =
          receives ? ops[j].recv : const_cast<void*>(ops[j].send);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      const uint64_t reached = receives ? ReachedBy(static_cast<uint32_t>(op.peer), ops[j], bytes) : 0;
      messages[filled++] = {static_cast<uint8_t*>(user), bytes, reached};
      used = std::max(used, ChannelsOf(bytes, channels));
    }
    const uint32_t groups = (used + kChannelsOfBlock - 1) / kChannelsOfBlock;
    if (blocks + groups > kP2pBlocks) return SL_ERR_LIMIT;
    for (uint32_t group = 0; group < groups; ++group) {
      tasks[blocks++] = {static_cast<uint16_t>(op.peer), static_cast<uint8_t>(receives), static_cast<uint8_t>(group),
                         static_cast<uint16_t>(first), static_cast<uint16_t>(filled - first)};
    }
  }
  if (blocks == 0) tasks[blocks++] = {};  // nothing but empty messages
  *out_blocks = blocks;
  return SL_OK;
}

}  // namespace sl::algo_symmetric
