// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/wait_check.h"

#include <time.h>

#include <optional>

#include "kernel/engine/run.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"
#include "kernel/profile/profile.h"
#include "kernel/runtime/handle.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// Ranks are seldom so late by nature; who tells too early costs a few small frames.
constexpr uint64_t kTellNs = 200'000'000;

std::string OpName(const Pending& pending) {
  std::string name = OpKindName(pending.op.kind);
  if (pending.op.seq != 0) name += " #" + std::to_string(pending.op.seq);
  return name + " (" + DescribeSignature(pending.op.signature) + ")";
}

std::string WaitText(const Communicator& comm, const Pending& pending) {
  if (pending.run != nullptr) return pending.run->Describe();
  const sl_wait_t& wait = pending.wait.wait();
  std::string text = OpName(pending) + " waits for a " + (wait.what != nullptr ? wait.what : "peer");
  if (wait.peer >= 0) text += " from " + comm.RankName(static_cast<uint32_t>(wait.peer));
  return text + ", step " + std::to_string(wait.step) + ", seen " + std::to_string(wait.seen) + ", wanted " +
         std::to_string(wait.wanted);
}

// Ranks that have not called this collective yet, as far as this rank can see.
std::string Absent(sl_comm_t* handle, const Pending& pending) {
  Communicator& comm = handle->comm;
  std::string names;
  for (uint32_t rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank() || comm.op_log()->Newest(rank) >= pending.op.seq) continue;
    names += (names.empty() ? "" : ", ") + comm.RankName(rank);
  }
  return names;
}

std::string WhoIsMissing(sl_comm_t* handle, const Pending& pending) {
  if (pending.op.capture != 0) return "it is part of a graph; a rank has not launched its graph, or is late";
  if (pending.op.seq == 0) {  // sends and receives are not counted
    const std::string peer = handle->comm.RankName(static_cast<uint32_t>(pending.op.peer));
    return "it is not known whether " + peer + " has called it";
  }
  const Communicator& comm = handle->comm;
  if (comm.shape().domain_size != comm.size()) return "who has called it is not known between hosts";
  const std::string absent = Absent(handle, pending);
  return absent.empty() ? "all ranks have called it" : "not called by " + absent;
}

// Why the communicator has failed on this rank, as another of its threads or operations has found; peers that leave
// because of it are no news.
Status FailedBefore(const Communicator& comm, const std::string& here) {
  const Status own = comm.OwnFailure();
  return own.ok() ? own : Status(own.code(), own.message() + "; here " + here);
}

// A wait that does not move after a rank was lost will never end.
Status PeerIsGone(sl_comm_t* handle, const Pending& pending, uint64_t length_ns) {
  Communicator& comm = handle->comm;
  if (comm.complete() || length_ns < kGraceNs) return {};
  if (comm.lost_rank() >= 0) return {SL_ERR_PEER_LOST, comm.LostText() + ": " + WaitText(comm, pending)};
  if (Status remote = comm.RemoteFailure(); !remote.ok()) {
    return {remote.code(), remote.message() + "; here " + WaitText(comm, pending)};
  }
  Fate fate;
  const int32_t peer = pending.wait.wait().peer;
  if (peer < 0 || !comm.FateOf(static_cast<uint32_t>(peer), &fate)) return {};
  return {SL_ERR_PEER_LOST, comm.RankName(static_cast<uint32_t>(peer)) +
                                (fate == Fate::kAborted ? " aborted" : " destroyed") +
                                " the communicator: " + WaitText(comm, pending)};
}

Status TakesTooLong(sl_comm_t* handle, Pending* pending, uint64_t length_ns) {
  Communicator& comm = handle->comm;
  const auto& settings = comm.process()->profile().settings().comm;
  const Due due = DueOf(settings, length_ns, pending->wait.is_reported());
  if (due == Due::kNothing) return {};
  const std::string who = WhoIsMissing(handle, *pending);
  const std::string text = WaitText(comm, *pending) + "; " + who;
  if (due == Due::kTimeout) {
    return {SL_ERR_TIMEOUT, "timeout after " + std::to_string(settings.operation_timeout_ms) + " ms: " + text};
  }
  pending->wait.SetReported();
  Logf(SL_LOG_WARN, "communicator {:016x} rank {}: waiting for {} s: {}", comm.id(), comm.rank(),
       length_ns / 1000000000, text);
  return {};
}

Status Judge(Pending* pending, const sl_wait_t& wait, uint64_t waited_ns) {
  sl_comm_t* handle = pending->handle;
  const uint64_t moves = pending->run != nullptr ? pending->run->MovesAhead() : 0;
  const uint64_t length_ns = pending->wait.See(wait, moves, waited_ns, NowNs());
  if (handle->comm.cancelled()) return {SL_ERR_ABORTED, "aborted: " + WaitText(handle->comm, *pending)};
  if (const char* why = handle->comm.revoked()) {
    return {SL_ERR_ABORTED, std::string(why) + ": " + WaitText(handle->comm, *pending)};
  }
  SL_TRY(FindMismatch(handle));
  if (!handle->comm.healthy()) SL_TRY(FailedBefore(handle->comm, WaitText(handle->comm, *pending)));
  if (handle->comm.shape().domain_size != handle->comm.size() && length_ns >= kTellNs) {
    handle->comm.TellCalls();
  }
  SL_TRY(PeerIsGone(handle, *pending, length_ns));
  return TakesTooLong(handle, pending, length_ns);
}

}  // namespace

Status FindMismatch(sl_comm_t* handle) {
  Communicator& comm = handle->comm;
  if (comm.shape().domain_size != comm.size()) return {};
  const auto held = comm.HoldLog();
  std::optional<OpLog::Difference> first;
  uint32_t with = 0;
  for (uint32_t rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    const auto found = comm.op_log()->FindDifference(rank);
    if (!found || (first && first->sequence <= found->sequence)) continue;
    first = found;
    with = rank;
  }
  if (!first) return {};
  return {SL_ERR_MISMATCH, comm.DescribeMismatch({first->sequence, first->mine, comm.rank(), first->my_choice},
                                                 {first->sequence, first->theirs, with, first->their_choice})};
}

Status NameTheLost(const Pending& pending, const Status& found) {
  Communicator& comm = pending.handle->comm;
  SL_TRY(FailedBefore(comm, found.message()));
  const uint64_t deadline_ns = NowNs() + kGraceNs;
  while (comm.lost_rank() < 0 && comm.RemoteFailure().ok() && !comm.cancelled() && NowNs() < deadline_ns) {
    const timespec nap{0, 200'000};
    nanosleep(&nap, nullptr);
  }
  if (comm.lost_rank() >= 0) return {SL_ERR_PEER_LOST, comm.LostText() + ": " + found.message()};
  const Status remote = comm.RemoteFailure();
  return remote.ok() ? found : Status(remote.code(), remote.message() + "; here " + found.message());
}

sl_status_t CheckWait(void* context, const sl_wait_t* wait, uint64_t waited_ns) {
  auto* pending = static_cast<Pending*>(context);
  const LogRankScope rank_scope(pending->handle->comm.rank());
  pending->outcome = Judge(pending, *wait, waited_ns);
  return pending->outcome.code();
}

}  // namespace sl::kernel
