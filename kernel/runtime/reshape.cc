// SPDX-License-Identifier: Apache-2.0
//
// Communicators that come out of others: splits, shrinks, grows.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "kernel/plan/signature.h"
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/launches.h"
#include "kernel/runtime/lifecycle.h"

namespace sl::kernel {
namespace {

// Whether `what` can be made of it: it is ready and in order, or was revoked, which leaves it good for nothing else.
// One that is suspended will do where no `remedy` for that is given.
Status CheckParent(const sl_comm_t& parent, const char* what, const char* remedy = "resume it first") {
  const auto state = parent.comm.state.load();
  if (state == Communicator::State::kSuspended && remedy != nullptr) {
    return {SL_ERR_STATE, std::string(what) + " of a suspended communicator; " + remedy};
  }
  if (state != Communicator::State::kReady && state != Communicator::State::kSuspended) {
    return {SL_ERR_STATE, std::string(what) + " of a communicator that is not ready, or was finalized"};
  }
  return parent.revoked.load() ? Status() : parent.comm.Failure();
}

// A communicator that comes out of `parent`, not yet joined; `size` where that is known already.
std::unique_ptr<sl_comm_t> NewChild(const sl_comm_t& parent, const sl_comm_config_t* config,
                                    const ProcessorBounds& bounds, uint32_t size = 0) {
  CommConfig child = parent.comm.config();
  child.bounds = bounds;
  if (size != 0) child.size = size;
  if (config != nullptr && config->timeout_ns != 0) child.timeout_ns = config->timeout_ns;
  if (config != nullptr && config->name != nullptr) child.name = config->name;
  auto handle = std::make_unique<sl_comm_t>(parent.comm.process(), child, CallMarkOf(config));
  handle->nonblocking = config != nullptr ? config->nonblocking != 0 : parent.nonblocking;
  return handle;
}

Status CheckGrowth(const Communicator& parent, uint32_t size, const sl_unique_id_t* id,
                   std::optional<RendezvousId>* out_id) {
  if (size <= parent.size() || size > kSignatureMaxRanks) {
    return {SL_ERR_INVALID, "a communicator of " + std::to_string(parent.size()) + " ranks grows to " +
                                std::to_string(size) + "; it grows to more, and to " +
                                std::to_string(kSignatureMaxRanks) + " at most"};
  }
  if (id == nullptr) return {};
  SL_ASSIGN(*out_id, DecodeId(*id));
  return {};
}

// `excluded` is sorted.
Status CheckExcluded(const Communicator& parent, const std::vector<uint32_t>& excluded) {
  if (excluded.empty()) return {SL_ERR_INVALID, "no rank is excluded; a copy of all is made by a split"};
  if (excluded.back() >= parent.size()) {
    return {SL_ERR_INVALID, "rank " + std::to_string(excluded.back()) + " is excluded; ranks are 0 to " +
                                std::to_string(parent.size() - 1)};
  }
  if (const auto twice = std::adjacent_find(excluded.begin(), excluded.end()); twice != excluded.end()) {
    return {SL_ERR_INVALID, "rank " + std::to_string(*twice) + " is excluded twice"};
  }
  if (std::binary_search(excluded.begin(), excluded.end(), parent.rank())) {
    return {SL_ERR_INVALID, "rank " + std::to_string(parent.rank()) + " excludes itself; excluded ranks do not call"};
  }
  return {};
}

}  // namespace

Status SplitComm(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config, sl_comm_t** out_comm) {
  SL_TRY(CheckParent(*parent, "split"));
  const Result<ProcessorBounds> bounds = BoundsOf(config, parent->comm.config().bounds);
  if (!bounds.ok()) {  // the others wait for this rank
    parent->comm.Decline(parent->comm.BeginSplit().number, kSplitCall, bounds.status());
    return bounds.status();
  }
  const bool nonblocking = config != nullptr ? config->nonblocking != 0 : parent->nonblocking;
  const Communicator::SplitTurn turn = parent->comm.BeginSplit();
  const auto decline = [parent, turn](const Status& why) { parent->comm.Decline(turn.number, kSplitCall, why); };
  if (color < 0) {
    *out_comm = nullptr;
    return RunCall(
        parent, nonblocking,
        [parent, turn, color, key] { return parent->comm.Split(turn, color, key, nullptr).status(); }, decline);
  }
  std::unique_ptr<sl_comm_t> handle = NewChild(*parent, config, bounds.value());
  sl_comm_t* raw = handle.get();
  auto visit = std::make_shared<Visit>(parent);
  auto call = [raw, parent, visit = std::move(visit), turn, color, key]() mutable {
    Result<Communicator::Seat> seat = parent->comm.Split(turn, color, key, &raw->comm);
    visit.reset();  // the parent may go
    if (!seat.ok()) return BecomeReady(raw, seat.status());
    return BecomeReady(raw, raw->comm.JoinAsChild(seat.Take()));
  };
  Status status = RunCall(raw, nonblocking, std::move(call), decline);
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status ShrinkComm(sl_comm_t* parent, std::span<const uint32_t> excluded, uint32_t flags, const sl_comm_config_t* config,
                  sl_comm_t** out_comm) {
  const bool abort = (flags & SL_SHRINK_ABORT) != 0;
  // Nothing of its memory is needed, and one that has lost a rank cannot be resumed.
  Status usable = CheckParent(*parent, "shrink", abort ? nullptr : "resume it first, or shrink it with the abort flag");
  if (usable.code() == SL_ERR_STATE) return usable;
  if ((flags & ~SL_SHRINK_ABORT) != 0) {
    return {SL_ERR_INVALID, "shrink knows no flags " + std::to_string(flags & ~SL_SHRINK_ABORT)};
  }
  std::vector<uint32_t> sorted(excluded.begin(), excluded.end());
  std::sort(sorted.begin(), sorted.end());
  SL_TRY(CheckExcluded(parent->comm, sorted));
  SL_ASSIGN(const ProcessorBounds bounds, BoundsOf(config, parent->comm.config().bounds));
  if (abort) {
    usable = Status();
    parent->comm.RevokeForShrink();
  } else if (!usable.ok()) {
    usable = Status(usable.code(), usable.message() + "; a broken communicator is shrunk with the abort flag");
  }
  std::unique_ptr<sl_comm_t> handle = NewChild(*parent, config, bounds);
  sl_comm_t* raw = handle.get();
  auto visit = std::make_shared<Visit>(parent);
  Status status =
      RunCall(raw, raw->nonblocking, [raw, parent, visit = std::move(visit), abort, sorted, usable]() mutable {
        if (abort && !DrainWithin(parent, NowNs() + kStopNs)) {
          usable = Status(SL_ERR_TIMEOUT, "operations of the communicator that is shrunk did not stop within 1 s");
        }
        Result<Communicator::Seat> seat = raw->comm.MeetShrunk(&parent->comm, sorted, usable);
        visit.reset();
        if (!seat.ok()) return BecomeReady(raw, seat.status());
        return BecomeReady(raw, raw->comm.JoinAsChild(seat.Take()));
      });
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status GrowComm(sl_comm_t* parent, uint32_t size, const sl_unique_id_t* id, const sl_comm_config_t* config,
                sl_comm_t** out_comm) {
  SL_TRY(CheckParent(*parent, "grow"));
  const Result<ProcessorBounds> bounds = BoundsOf(config, parent->comm.config().bounds);
  std::optional<RendezvousId> mine;
  Status able = bounds.ok() ? CheckGrowth(parent->comm, size, id, &mine) : bounds.status();
  const uint64_t turn = parent->comm.TakeTurn();
  const auto decline = [parent, turn](const Status& why) { parent->comm.Decline(turn, kGrowCall, why); };
  if (!able.ok()) {
    decline(able);
    return able;
  }
  std::unique_ptr<sl_comm_t> handle = NewChild(*parent, config, bounds.value(), size);
  sl_comm_t* raw = handle.get();
  auto visit = std::make_shared<Visit>(parent);
  auto call = [raw, parent, visit = std::move(visit), turn, mine]() mutable {
    const Result<RendezvousId> known = parent->comm.AgreeOnId(turn, mine, raw->comm);
    const std::shared_ptr<const ControlTree> origin = parent->comm.tree();
    visit.reset();
    if (!known.ok()) return BecomeReady(raw, known.status());
    return BecomeReady(raw, raw->comm.Join({known.value()}, origin.get()));
  };
  Status status = RunCall(raw, raw->nonblocking, std::move(call), decline);
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status DeclineCall(sl_comm_t* handle, sl_call_t call) {
  constexpr const char* kNames[] = {kSplitCall, kGrowCall, kWindowCall, kSuspendCall, kResumeCall};
  static_assert(SL_CALL_SPLIT == 0 && SL_CALL_GROW == 1 && SL_CALL_WINDOW == 2 && SL_CALL_SUSPEND == 3 &&
                SL_CALL_RESUME == 4);
  if (call >= std::size(kNames)) return {SL_ERR_INVALID, "there is no call " + std::to_string(call) + " to decline"};
  Communicator& comm = handle->comm;
  const auto needed = call == SL_CALL_RESUME ? Communicator::State::kSuspended : Communicator::State::kReady;
  if (comm.state.load() != needed) return {SL_ERR_STATE, "no " + std::string(kNames[call]) + " could be under way"};
  const uint64_t turn = call == SL_CALL_SPLIT ? comm.BeginSplit().number : comm.TakeTurn();
  comm.Decline(turn, kNames[call], {SL_ERR_INVALID, "its call was refused there, as its own error says"});
  return {};
}

}  // namespace sl::kernel
