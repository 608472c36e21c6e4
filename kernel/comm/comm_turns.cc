// SPDX-License-Identifier: Apache-2.0
//
// What all ranks of a communicator do together once it is made, each in its turn: split it, register windows, grow,
// pause, finalize.
#include <algorithm>

#include "kernel/comm/comm.h"
#include "kernel/control/tree_shape.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {

namespace {

// Stands where others say what they call.
constexpr const char* kDeclined = "declined";

// What ranks call comes before all else that they say.
bool Called(Reader* in, const char* call) { return in->GetText() == call && in->ok(); }
Status CalledAnother(const std::string& name, const char* call) {
  return {SL_ERR_MISMATCH, name + " called something else than " + call};
}

}  // namespace

void Communicator::Decline(uint64_t turn, const char* call, const Status& why) const {
  Writer said;
  said.PutText(kDeclined);
  said.PutText(call);
  said.PutText(why.message());
  tree_->Contribute(turn, said.bytes());
}

Result<std::optional<Contributions>> Communicator::GatherTurn(uint64_t turn, const char* call,
                                                              std::span<const uint8_t> mine, const Patience& patience) {
  SL_ASSIGN(Contributions all, tree_->AllGather(turn, mine, patience));
  bool is_anothers = false;
  bool is_splits = false;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    if (!Called(&in, kDeclined)) continue;
    const std::string declined = in.GetText();
    const std::string why = in.GetText();
    if (declined == call) {
      return Status(SL_ERR_MISMATCH, RankName(rank) + " cannot take part in the " + call + ": " +
                                         (why.empty() ? "it does not say why" : why));
    }
    is_anothers = true;
    is_splits |= declined == kSplitCall;
  }
  if (!is_anothers) return std::optional(std::move(all));
  if (is_splits) ++splits_;  // as who declined it has
  return std::optional<Contributions>();
}

Result<Communicator::Seat> Communicator::Split(const SplitTurn& turn, int32_t color, int32_t key,
                                               const Communicator* child) {
  // All members derive the same names; no other split of this communicator has them.
  const uint64_t nonce =
      HashText(std::to_string(nonce_) + "/" + std::to_string(turn.split) + "/" + std::to_string(color));
  Seat seat;
  seat.identity.nonce = nonce;
  seat.identity.secret = DeriveSecret(tree_->identity().secret, "split", nonce, turn.split);
  // Before anybody can know its number, so that no child calls in vain.
  if (color >= 0) {
    SL_ASSIGN(seat.extension, Extension::Open(process_->switchboard(), seat.identity.secret));
  }
  const Patience patience{NowNs() + config_.timeout_ns, &cancelled_ns_,
                          child != nullptr ? &child->cancelled_ns_ : nullptr};
  Writer mine;
  mine.PutText(kSplitCall);
  mine.Put(turn.split);
  mine.Put(color);
  mine.Put(key);
  mine.Put(seat.extension != nullptr ? seat.extension->endpoint() : Endpoint{});
  SL_ASSIGN(const std::optional<Contributions> gathered, GatherTurn(turn.number, kSplitCall, mine.bytes(), patience));
  if (!gathered) return Split({TakeTurn(), turn.split}, color, key, child);
  const Contributions& all = *gathered;
  struct Member {
    int32_t key;
    uint32_t rank;
    Endpoint endpoint;
  };
  std::vector<Member> members;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    const bool same = Called(&in, kSplitCall) && in.Get<uint64_t>() == turn.split;
    const int32_t their_color = in.Get<int32_t>();
    const int32_t their_key = in.Get<int32_t>();
    const auto their_endpoint = in.Get<Endpoint>();
    if (!same || !in.ok() || !IsWellFormed(their_endpoint)) return CalledAnother(RankName(rank), "this split");
    if (their_color == color) members.push_back({their_key, rank, their_endpoint});
  }
  if (color < 0) return seat;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
  const auto me = std::find_if(members.begin(), members.end(),
                               [this](const Member& member) { return member.rank == config_.rank; });
  const auto rank = static_cast<uint32_t>(me - members.begin());
  seat.identity.rank = rank;
  seat.identity.size = static_cast<uint32_t>(members.size());
  seat.neighbours =
      TreeNeighbours::Of(rank, seat.identity.size, [&members](uint32_t member) { return members[member].endpoint; });
  seat.origin = tree_;
  return seat;
}

Result<Communicator::WindowSight> Communicator::AgreeOnWindow(uint64_t bytes, uint32_t flags, bool exportable,
                                                              const std::vector<uint64_t>& seen_at) {
  const Patience patience{NowNs() + config_.timeout_ns, &cancelled_ns_};
  Writer mine;
  mine.PutText(kWindowCall);
  mine.Put(bytes);
  mine.Put(flags);
  mine.Put(static_cast<uint32_t>(exportable));
  // Of other hosts nothing is seen, so that many ranks have little to tell.
  mine.Put(static_cast<uint32_t>(seen_at.size()));
  for (const uint64_t address : seen_at) mine.Put(address);
  SL_ASSIGN(const std::optional<Contributions> gathered, GatherTurn(TakeTurn(), kWindowCall, mine.bytes(), patience));
  if (!gathered) return AgreeOnWindow(bytes, flags, exportable, seen_at);
  const Contributions& all = *gathered;
  WindowSight sight;
  sight.seen.resize(config_.size);
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    if (!Called(&in, kWindowCall)) return CalledAnother(RankName(rank), kWindowCall);
    const uint64_t their_bytes = in.Get<uint64_t>();
    const uint32_t their_flags = in.Get<uint32_t>();
    const bool their_exportable = in.Get<uint32_t>() != 0;
    const bool is_seen = in.Get<uint32_t>() == config_.size;
    sight.by_all &= is_seen;
    for (uint32_t by = 0; is_seen && by < config_.size; ++by) {
      const auto address = in.Get<uint64_t>();
      sight.by_all &= address != 0;
      if (by == config_.rank) sight.seen[rank] = address;
    }
    if (!in.ok()) {
      return Status(SL_ERR_LINK_CORRUPT, RankName(rank) + " told too little of its window");
    }
    if (their_bytes != bytes || their_flags != flags) {
      return Status(SL_ERR_MISMATCH, RankName(rank) + " registers a window of " + std::to_string(their_bytes) +
                                         " bytes, flags " + std::to_string(their_flags) + ", rank " +
                                         std::to_string(config_.rank) + " one of " + std::to_string(bytes) +
                                         ", flags " + std::to_string(flags));
    }
    if ((flags & SL_WINDOW_SYMMETRIC) != 0 && !their_exportable) {
      return Status(SL_ERR_UNSUPPORTED, "the window buffer of " + RankName(rank) +
                                            " cannot be shared; allocate it with ncclMemAlloc (memory_allocate)");
    }
  }
  return sight;
}

// The id's secret crosses the tree under a mask that only ranks of this communicator can derive, and that no other turn
// has.
Result<RendezvousId> Communicator::AgreeOnId(uint64_t turn, const std::optional<RendezvousId>& mine,
                                             const Communicator& child) {
  const uint32_t size = child.size();
  const Secret mask = DeriveSecret(tree_->identity().secret, "grow", nonce_, turn);
  const auto masked = [&mask](RendezvousId id) {
    for (size_t i = 0; i < mask.size(); ++i) id.secret[i] ^= mask[i];
    return id;
  };
  Writer said;
  said.PutText(kGrowCall);
  said.Put(size);
  said.Put(mine ? EncodeId(masked(*mine)) : sl_unique_id_t{});
  SL_ASSIGN(
      const std::optional<Contributions> gathered,
      GatherTurn(turn, kGrowCall, said.bytes(), {NowNs() + config_.timeout_ns, &cancelled_ns_, &child.cancelled_ns_}));
  if (!gathered) return AgreeOnId(TakeTurn(), mine, child);
  const Contributions& all = *gathered;
  std::optional<RendezvousId> found;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    if (!Called(&in, kGrowCall)) return CalledAnother(RankName(rank), kGrowCall);
    const uint32_t their_size = in.Get<uint32_t>();
    const auto theirs = in.Get<sl_unique_id_t>();
    if (!in.ok()) return Status(SL_ERR_LINK_CORRUPT, RankName(rank) + " told too little of the id");
    if (their_size != size) {
      return Status(SL_ERR_MISMATCH, RankName(rank) + " grows to " + std::to_string(their_size) + " ranks, rank " +
                                         std::to_string(config_.rank) + " to " + std::to_string(size));
    }
    const Result<RendezvousId> id = DecodeId(theirs);
    if (!id.ok()) continue;
    if (found && found->nonce() != id.value().nonce()) {
      return Status(SL_ERR_MISMATCH, RankName(rank) + " grows by another unique id than a rank before it");
    }
    if (!found) found = masked(id.value());
  }
  if (found) return *found;
  return Status(SL_ERR_INVALID,
                "no rank of the communicator that grows has passed the unique id by which the new "
                "ranks come; one has to");
}

Result<bool> Communicator::AgreeToPause(const char* call, uint64_t turn, const std::string& objection) {
  Writer mine;
  mine.PutText(call);
  mine.PutText(objection);
  SL_ASSIGN(const std::optional<Contributions> gathered,
            GatherTurn(turn, call, mine.bytes(), {NowNs() + config_.timeout_ns, &cancelled_ns_}));
  if (!gathered) return false;
  const Contributions& all = *gathered;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    const bool same = Called(&in, call);
    const std::string theirs = in.GetText();
    if (!same || !in.ok()) return CalledAnother(RankName(rank), call);
    if (!theirs.empty()) return Status(SL_ERR_STATE, std::string("no ") + call + ": " + RankName(rank) + " " + theirs);
  }
  return true;
}

Status Communicator::Finalize() {
  const uint64_t timeout_ms = process_->profile().settings().comm.operation_timeout_ms;
  const Patience patience{timeout_ms == 0 ? SL_NO_DEADLINE : NowNs() + timeout_ms * 1000000, &cancelled_ns_};
  for (;;) {
    const Result<std::optional<Contributions>> met = GatherTurn(TakeTurn(), "finalize", {}, patience);
    if (met.status().code() == SL_ERR_PEER_LOST || met.status().code() == SL_ERR_PEER_FAILED) return {};
    SL_TRY(met.status());
    const std::optional<Contributions>& gathered = met.value();
    if (!gathered) continue;
    for (uint32_t rank = 0; rank < config_.size; ++rank) {
      if (!(*gathered)[rank].empty()) return CalledAnother(RankName(rank), "finalize");
    }
    return {};
  }
}

}  // namespace sl::kernel
