// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/one_sided.h"

#include <utility>

#include "kernel/runtime/admission.h"
#include "kernel/runtime/stream_calls.h"

namespace sl::kernel {
namespace {

constexpr const char* kPut = "put_signal";
constexpr const char* kWait = "wait_signals";

Status CheckPeer(const Communicator& comm, const char* what, uint32_t peer) {
  if (peer < comm.size()) return {};
  return {SL_ERR_INVALID, std::string(what) + ": peer " + std::to_string(peer) + " is not a rank; ranks are 0 to " +
                              std::to_string(comm.size() - 1)};
}

Status CheckServed(const Communicator& comm, const char* what) {
  if (comm.signals().valid()) return {};
  return {SL_ERR_UNSUPPORTED,
          std::string(what) +
              " needs GPUs of one host that reach each other's memory, which the ranks of this communicator do not "
              "have, or comm.reach_mib is 0; send and receive in a group instead"};
}

// Where this rank's device stores what is put.
Result<void*> TargetOf(const sl_comm_t& handle, const Put& put, uint32_t peer) {
  if (put.window == nullptr) return Status(SL_ERR_INVALID, "put_signal: the window is null");
  if (put.memory == nullptr) return Status(SL_ERR_INVALID, "put_signal: the buffer is null");
  if (put.offset > put.window->bytes || put.bytes > put.window->bytes - put.offset) {
    return Status(SL_ERR_INVALID, "put_signal: " + std::to_string(put.bytes) + " bytes at offset " +
                                      std::to_string(put.offset) + " reach out of a window of " +
                                      std::to_string(put.window->bytes));
  }
  const bool is_own = peer == handle.comm.rank();
  const uint64_t base = is_own ? reinterpret_cast<uint64_t>(put.window->memory) : put.window->seen[peer];
  if (base != 0) return reinterpret_cast<void*>(base + put.offset);
  return Status(SL_ERR_UNSUPPORTED, "put_signal: the window of " + handle.comm.RankName(peer) +
                                        " is out of reach, its log says why (allocate it with ncclMemAlloc, raise "
                                        "comm.reach_mib, or leave more memory free); or send and receive in a group");
}

// A graph has four words for each signal that it takes. Asked before anything is done, so that a call that is refused
// is no part of the capture.
constexpr uint64_t kMostCapturedSignals = 65536;

Status CheckCount(const Device& device, sl_stream_t* stream, std::span<const sl_signal_count_t> counts) {
  uint64_t together = 0;
  for (const sl_signal_count_t& wanted : counts) together += wanted.count;
  if (together <= kMostCapturedSignals) [[likely]]
    return {};
  uint64_t id = 0;
  SL_ASSIGN(const bool is_captured, IsCaptured(device, stream, &id));
  if (!is_captured) return {};
  return {SL_ERR_INVALID, "wait_signals: " + std::to_string(together) +
                              " signals in a call that is captured, at most " + std::to_string(kMostCapturedSignals) +
                              " can be; launch a graph that waits for fewer more often"};
}

// Waits for what can be had, and has it. Meanwhile `awaited` tells of the wait, and afterwards it is `left`. R1:
// written before the word is taken; pairs with A1 in SignalWaits.
void Take(StreamValues* values, uint64_t* word, uint64_t* awaited, uint64_t left) {
  values->AwaitAtLeast(word, 1);
  values->Write(awaited, left);
  values->Write(word, 0);
}

// The stream writes all numbers that it waits for before it waits for the first. They become the communicator's once
// the device has taken the call: a wait that could not be issued takes no signals, so the next one waits for the same.
Status IssueCounted(sl_comm_t* handle, std::span<const sl_signal_count_t> counts, const StreamCalls& calls) {
  StreamValues values;
  const SignalBoard& board = handle->comm.signals();
  const uint32_t own = handle->comm.rank();
  std::vector<uint64_t> awaited = handle->signals_awaited;
  for (const auto& [peer, count] : counts) {
    awaited[peer] += count;
    values.Write(&board.At(own, peer)->raised_awaited, awaited[peer]);
  }
  for (const auto& [peer, count] : counts) values.AwaitAtLeast(&board.At(own, peer)->raised, awaited[peer]);
  SL_TRY(calls.Issue(values));
  handle->signals_awaited = std::move(awaited);
  return {};
}

StreamValues TakeFlags(const sl_comm_t& handle, std::span<const sl_signal_count_t> counts) {
  StreamValues values;
  const SignalBoard& board = handle.comm.signals();
  const uint32_t own = handle.comm.rank();
  for (const auto& [peer, count] : counts) {
    SignalBoard::Entry* here = board.At(own, peer);
    if (count != 0) values.Write(&here->flags_awaited, count);
    for (uint32_t left = count; left-- != 0;) {
      Take(&values, &here->flag, &here->flags_awaited, left);
      values.Write(&board.At(peer, own)->room, 1);
    }
  }
  return values;
}

StreamValues TakeRoom(SignalBoard::Entry* here) {
  StreamValues values;
  values.Write(&here->room_awaited, 1);
  Take(&values, &here->room, &here->room_awaited, 0);
  return values;
}

Status IssuePut(sl_comm_t* handle, const IssueOrder& order, const Put& put, void* target, uint32_t peer,
                const StreamCalls& calls) {
  const SignalBoard& board = handle->comm.signals();
  SignalBoard::Entry* there = board.At(peer, handle->comm.rank());
  if (order.capture != 0) SL_TRY(calls.Issue(TakeRoom(board.At(handle->comm.rank(), peer))));
  if (put.bytes != 0 && target != put.memory) SL_TRY(calls.Copy(target, put.memory, put.bytes));
  StreamValues signal;
  if (order.capture != 0) {
    signal.Write(&there->flag, 1);
  } else {
    signal.Write(&there->raised, handle->signals_raised[peer] + 1);
  }
  SL_TRY(calls.Issue(signal));
  if (order.capture == 0) ++handle->signals_raised[peer];
  return {};
}

// One call, from its mark to the end of what it gave the stream.
template <typename Check, typename Issue>
Status IssueOneSided(sl_comm_t* handle, const char* what, sl_stream_t* stream, const Check& check, const Issue& issue) {
  const InCall in_call(handle);
  if (!in_call.is_alone()) return TwoCallsAtOnce();
  SL_TRY(Admit(handle, what, stream, check));
  SL_ASSIGN(const IssueOrder* order, JoinOrder(handle, stream));
  const Status issued = issue(*order, StreamCalls(handle->comm.device(), stream));
  if (issued.ok()) handle->CountOperations(1);
  return MarkEndOf(issued, handle, *order, stream);
}

}  // namespace

Status PutSignal(sl_comm_t* handle, const Put& put, uint32_t peer, sl_stream_t* stream) {
  void* target = nullptr;
  const auto check = [&]() -> Status {
    SL_TRY(CheckServed(handle->comm, kPut));
    SL_TRY(CheckPeer(handle->comm, kPut, peer));
    if (put.bytes == 0) return {};
    SL_ASSIGN(target, TargetOf(*handle, put, peer));
    return {};
  };
  return IssueOneSided(handle, kPut, stream, check, [&](const IssueOrder& order, const StreamCalls& calls) {
    return IssuePut(handle, order, put, target, peer, calls);
  });
}

Status WaitSignals(sl_comm_t* handle, std::span<const sl_signal_count_t> counts, sl_stream_t* stream) {
  const auto check = [&]() -> Status {
    SL_TRY(CheckServed(handle->comm, kWait));
    for (const sl_signal_count_t& wanted : counts) SL_TRY(CheckPeer(handle->comm, kWait, wanted.peer));
    return CheckCount(handle->comm.device(), stream, counts);
  };
  return IssueOneSided(handle, kWait, stream, check, [&](const IssueOrder& order, const StreamCalls& calls) {
    return order.capture == 0 ? IssueCounted(handle, counts, calls) : calls.Issue(TakeFlags(*handle, counts));
  });
}

}  // namespace sl::kernel
