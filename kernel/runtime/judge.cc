// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/judge.h"

#include <time.h>

#include <optional>

#include "kernel/comm/grace.h"
#include "kernel/events/log.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/wait_length.h"

namespace sl::kernel {
namespace {

// Ranks are seldom so late by nature; who tells too early costs a few small frames.
constexpr uint64_t kTellNs = 200'000'000;

// Why the communicator has failed on this rank, as another of its threads or operations has found; peers that leave
// because of it are no news.
Status FailedBefore(const Communicator& comm, const std::string& here) {
  const Status own = comm.OwnFailure();
  return own.ok() ? own : Status(own.code(), own.message() + "; here " + here);
}

// Why nothing can come from a rank any more; empty: it may. A rank's graphs go on without its communicator where the
// device keeps them, and only the log of calls says when these are over, too.
std::string GoneText(sl_comm_t* handle, int32_t peer) {
  Communicator& comm = handle->comm;
  if (peer < 0) return {};
  const auto rank = static_cast<uint32_t>(peer);
  if (comm.device().is_watched() || comm.shape().domain_size != comm.size()) {
    Fate fate;
    if (!comm.FateOf(rank, &fate)) return {};
    return comm.RankName(rank) + (fate == Fate::kAborted ? " aborted" : " destroyed") + " the communicator";
  }
  const auto held = comm.HoldLog();
  return comm.op_log()->HasEnded(rank) ? comm.RankName(rank) + " has ended the communicator and its graphs" : "";
}

// A wait that does not move after a rank was lost, or has ended, will never end.
Status PeerIsGone(sl_comm_t* handle, const WaitFacts& facts) {
  Communicator& comm = handle->comm;
  if (facts.length_ns < kGraceNs) return {};
  if (comm.lost_rank() >= 0) return {SL_ERR_PEER_LOST, comm.LostText() + ": " + facts.what()};
  if (Status remote = comm.RemoteFailure(); !remote.ok()) {
    return {remote.code(), remote.message() + "; here " + facts.what()};
  }
  const std::string gone = GoneText(handle, facts.peer);
  return gone.empty() ? Status() : Status(SL_ERR_PEER_LOST, gone + ": " + facts.what());
}

std::string Text(const WaitFacts& facts) { return facts.who ? facts.what() + "; " + facts.who() : facts.what(); }

Verdict TakesTooLong(const Communicator& comm, const Settings::Comm& limits, const WaitFacts& facts) {
  const Due due = DueOf(limits, facts.length_ns, facts.is_reported);
  if (due == Due::kNothing) return {};
  if (due == Due::kTimeout) {
    return {{SL_ERR_TIMEOUT, "timeout after " + std::to_string(limits.operation_timeout_ms) + " ms: " + Text(facts)},
            false};
  }
  Logf(SL_LOG_WARN, "communicator {:016x} rank {}: waiting for {} s: {}", comm.id(), comm.rank(),
       facts.length_ns / 1'000'000'000, Text(facts));
  return {{}, true};
}

Status WhyItEnds(sl_comm_t* handle, const WaitFacts& facts) {
  Communicator& comm = handle->comm;
  if (comm.cancelled()) return {SL_ERR_ABORTED, "aborted: " + facts.what()};
  if (const char* why = comm.revoked()) return {SL_ERR_ABORTED, std::string(why) + ": " + facts.what()};
  SL_TRY(FindMismatch(handle));
  if (!comm.healthy()) SL_TRY(FailedBefore(comm, facts.what()));
  if (comm.shape().domain_size != comm.size() && facts.length_ns >= kTellNs) comm.TellCalls();
  return PeerIsGone(handle, facts);
}

}  // namespace

Verdict Judge(sl_comm_t* handle, const Settings::Comm& limits, const WaitFacts& facts) {
  Status end = WhyItEnds(handle, facts);
  return end.ok() ? TakesTooLong(handle->comm, limits, facts) : Verdict{std::move(end), false};
}

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

Status NameTheLost(const Communicator& comm, const Status& found) {
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

}  // namespace sl::kernel
