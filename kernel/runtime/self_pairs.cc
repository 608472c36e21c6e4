// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/self_pairs.h"

#include <algorithm>
#include <string>

#include "kernel/events/last_error.h"
#include "kernel/runtime/members.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

uint64_t BytesOf(const sl_op_t& op) { return op.count * DatatypeBytes(op.datatype); }

}  // namespace

bool IsToSelf(const sl_group_entry_t& entry) {
  return IsTransfer(entry.op->kind) && entry.op->peer == static_cast<int32_t>(entry.comm->comm.rank());
}

void SelfPairs::Add(const sl_group_entry_t& entry) {
  (entry.op->kind == SL_OP_SEND ? sends_ : receives_).push_back(&entry);
}

Status SelfPairs::Pair() {
  const auto by_place = [](const sl_group_entry_t* a, const sl_group_entry_t* b) {
    return a->comm == b->comm ? a < b : Members::PlaceOf(a->comm) < Members::PlaceOf(b->comm);
  };
  for (Entries* entries : {&sends_, &receives_}) std::sort(entries->begin(), entries->end(), by_place);
  for (size_t i = 0; i < std::max(sends_.size(), receives_.size()); ++i) SL_TRY(CheckPair(i));
  return {};
}

Status SelfPairs::CheckPair(size_t pair) const {
  if (pair >= sends_.size()) return Unpaired(receives_[pair]->comm);
  if (pair >= receives_.size()) return Unpaired(sends_[pair]->comm);
  const sl_comm_t* sender = sends_[pair]->comm;
  const sl_comm_t* receiver = receives_[pair]->comm;
  if (sender != receiver) {
    return Unpaired(Members::PlaceOf(sender) < Members::PlaceOf(receiver) ? sender : receiver);
  }
  const sl_op_t& send = *sends_[pair]->op;
  const sl_op_t& receive = *receives_[pair]->op;
  if (BytesOf(send) == BytesOf(receive)) return {};
  return {SL_ERR_MISMATCH, "rank " + std::to_string(sender->comm.rank()) + " sends " + std::to_string(send.count) +
                               " " + DatatypeName(send.datatype) + " to itself but receives " +
                               std::to_string(receive.count) + " " + DatatypeName(receive.datatype)};
}

Status SelfPairs::Unpaired(const sl_comm_t* handle) const {
  const auto count = [handle](const Entries& entries) {
    return std::to_string(
        std::count_if(entries.begin(), entries.end(), [&](const auto* entry) { return entry->comm == handle; }));
  };
  return {SL_ERR_INVALID, "rank " + std::to_string(handle->comm.rank()) + " sends itself " + count(sends_) +
                              " messages and receives " + count(receives_) + " from itself in one group"};
}

Status CopyPair(const sl_group_entry_t& send, const sl_group_entry_t& receive) {
  const uint64_t bytes = BytesOf(*send.op);
  if (bytes == 0 || send.op->send == receive.op->recv) return {};
  const Device& device = send.comm->comm.device();
  return StatusOf(device.ops->copy(device.handle, send.stream, receive.op->recv, send.op->send, bytes));
}

}  // namespace sl::kernel
