// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/wait_check.h"

#include <string>
#include <utility>

#include "kernel/engine/run.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"
#include "kernel/profile/profile.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/judge.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

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

WaitFacts FactsOf(Pending* pending, const sl_wait_t& wait, uint64_t waited_ns) {
  sl_comm_t* handle = pending->handle;
  const uint64_t moves = pending->run != nullptr ? pending->run->MovesAhead() : 0;
  return {
      .length_ns = pending->wait.See(wait, moves, waited_ns, NowNs()),
      .is_reported = pending->wait.is_reported(),
      .peer = wait.peer,
      .what = [handle, pending] { return WaitText(handle->comm, *pending); },
      .who = [handle, pending] { return WhoIsMissing(handle, *pending); },
  };
}

}  // namespace

sl_status_t CheckWait(void* context, const sl_wait_t* wait, uint64_t waited_ns) {
  auto* pending = static_cast<Pending*>(context);
  const Communicator& comm = pending->handle->comm;
  const LogRankScope rank_scope(comm.rank());
  const WaitFacts facts = FactsOf(pending, *wait, waited_ns);
  Verdict verdict = Judge(pending->handle, comm.process()->profile().settings().comm, facts);
  if (verdict.is_reported) pending->wait.SetReported();
  pending->outcome = std::move(verdict.end);
  return pending->outcome.code();
}

}  // namespace sl::kernel
