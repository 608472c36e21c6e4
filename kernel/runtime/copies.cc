// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/copies.h"

#include <algorithm>

#include "kernel/events/log.h"
#include "kernel/runtime/stream_calls.h"

namespace sl::kernel {
namespace {

using Copies = std::span<const sl_copy_t>;

// One operation on its way to the device.
class CopyIssue {
 public:
  CopyIssue(const Pending& pending, const IssueOrder& order, sl_stream_t* stream)
      : handle_(*pending.handle),
        pending_(pending),
        own_(handle_.comm.rank()),
        space_(SignalBoard::SpaceOf(order.capture)),
        stream_(stream),
        calls_(handle_.comm.device(), stream),
        side_(handle_.side_streams[order.capture == 0 ? 0 : 1 + order.capture % std::size(handle_.captured)]) {}

  Status Run(const CopyList& list) const {
    static_assert(SL_COPY_PHASES == 2, "there is one gate between phases");
    const auto second =
        std::find_if(list.copies.begin(), list.copies.end(), [](const sl_copy_t& copy) { return copy.phase != 0; });
    const Copies first(list.copies.begin(), second);
    const bool beside = side_ != nullptr && std::any_of(first.begin(), first.end(), Leaves) &&
                        std::any_of(first.begin(), first.end(), [this](auto& copy) { return StaysHere(copy); });
    if (beside) SL_TRY(MoveBeside(first));
    SL_TRY(Meet(SignalBoard::kBegin));
    SL_TRY(Move(first, !beside));
    if (list.phases > 1) {
      SL_TRY(Meet(SignalBoard::kMiddle));
      SL_TRY(Move({second, list.copies.end()}, true));
    }
    SL_TRY(Meet(SignalBoard::kEnd));
    return beside ? calls_.Await(side_, handle_.join_event) : Status();
  }

  // Peers keep what they see of the buffers mapped as long as there may be replays.
  Status HoldWindows() const {
    for (const sl_comm_window_t* window : {pending_.send_window, pending_.recv_window}) {
      if (window == nullptr) continue;
      if (handle_.comm.reach()->HoldPinned(window->pin, window->memory, window->bytes)) continue;
      return {SL_ERR_INVALID, "the memory of a window that is in use is gone"};
    }
    return {};
  }

 private:
  // R2: the wait is told of before it begins and taken back before the flags are taken; pairs with A2 in SignalWaits.
  Status Meet(SignalBoard::Gate gate) const {
    const SignalBoard& board = handle_.comm.signals();
    const auto gate_of = [&](uint32_t at, uint32_t from) { return &board.At(at, from)->gates[space_][gate]; };
    uint64_t* awaited = &board.At(own_, own_)->gate_awaited[space_];
    StreamValues values;
    ForPeers([&](uint32_t peer) { values.Write(gate_of(peer, own_), 1); });
    values.Write(awaited, 1 + uint64_t{gate});
    ForPeers([&](uint32_t peer) { values.AwaitAtLeast(gate_of(own_, peer), 1); });
    values.Write(awaited, 0);
    ForPeers([&](uint32_t peer) { values.Write(gate_of(own_, peer), 0); });
    return calls_.Issue(values);
  }

  // Beginning behind the own rank, so that no two ranks turn to the same one at once.
  template <typename Call>
  void ForPeers(Call call) const {
    const uint32_t ranks = handle_.comm.size();
    for (uint32_t step = 1; step < ranks; ++step) call((own_ + step) % ranks);
  }

  // The copies between two gates.
  Status Move(Copies copies, bool those_at_home) const {
    for (const sl_copy_t& copy : copies) {
      if (Leaves(copy) || (those_at_home && StaysHere(copy))) SL_TRY(Copy(copy, calls_));
    }
    return {};
  }

  // Of the first phase, what stays at home.
  Status MoveBeside(Copies copies) const {
    const StreamCalls beside(handle_.comm.device(), side_);
    SL_TRY(beside.Await(stream_, handle_.join_event));
    for (const sl_copy_t& copy : copies) {
      if (StaysHere(copy)) SL_TRY(Copy(copy, beside));
    }
    return {};
  }

  // What is to be copied at all.
  bool StaysHere(const sl_copy_t& copy) const {
    return copy.bytes != 0 && copy.from_rank == copy.to_rank && From(copy) != To(copy);
  }
  static bool Leaves(const sl_copy_t& copy) { return copy.bytes != 0 && copy.from_rank != copy.to_rank; }

  Status Copy(const sl_copy_t& copy, const StreamCalls& calls) const {
    return calls.Copy(reinterpret_cast<void*>(To(copy)), reinterpret_cast<const void*>(From(copy)), copy.bytes);
  }

  uint64_t From(const sl_copy_t& copy) const { return BufferAt(copy.from_rank, copy.from_buffer) + copy.from; }
  uint64_t To(const sl_copy_t& copy) const { return BufferAt(copy.to_rank, copy.to_buffer) + copy.to; }
  // Where this rank's device sees it. Symmetric buffers lie at the same place of the window on all ranks.
  uint64_t BufferAt(uint32_t rank, uint32_t buffer) const {
    const bool is_send = buffer == SL_BUFFER_SEND;
    const auto here = reinterpret_cast<uintptr_t>(is_send ? pending_.op.send : pending_.op.recv);
    if (rank == own_) return here;
    const sl_comm_window_t& window = *(is_send ? pending_.send_window : pending_.recv_window);
    return window.seen[rank] + (here - reinterpret_cast<uintptr_t>(window.memory));
  }

  sl_comm_t& handle_;
  const Pending& pending_;
  const uint32_t own_;
  const SignalBoard::Space space_;
  sl_stream_t* const stream_;
  const StreamCalls calls_;
  sl_stream_t* const side_;  // NULL: none
};

}  // namespace

Status IssueCopies(const Pending& pending, const Choice& choice, const IssueOrder& order, sl_stream_t* stream) {
  const CopyIssue issue(pending, order, stream);
  if (order.capture != 0) SL_TRY(issue.HoldWindows());
  Status issued = issue.Run(choice.copies);
  if (!issued.ok()) pending.handle->comm.FailLaunches(issued);
  return issued;
}

void MakeSideStreams(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  for (sl_stream_t*& stream : handle->side_streams) {
    if (stream != nullptr || device.ops->stream_create(device.handle, &stream) == SL_OK) continue;
    stream = nullptr;
    Logf(SL_LOG_INFO, "rank {}: no stream for what stays at home: {}", handle->comm.rank(), LastError());
  }
}

void DestroySideStreams(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  for (sl_stream_t* stream : handle->side_streams) {
    if (stream != nullptr) device.ops->stream_destroy(device.handle, stream);
  }
}

}  // namespace sl::kernel
