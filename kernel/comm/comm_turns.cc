// SPDX-License-Identifier: Apache-2.0
//
// What all ranks of a communicator do together once it is made, each in its turn: split it, register windows, grow,
// finalize.
#include <algorithm>

#include "kernel/comm/comm.h"
#include "kernel/comm/tree_shape.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {

namespace {

constexpr const char* kWindow = "window registration";
constexpr const char* kGrow = "grow";

// What a rank calls, and what keeps it from that, come before all else that it says: so the others hear it at once, and
// all stay in step.
void PutAble(Writer* said, const char* call, const Status& able) {
  said->PutText(call);
  said->PutText(able.ok() || !able.message().empty() ? able.message() : "it does not say why");
}
Status CheckAble(Reader* in, const char* call, const std::string& name) {
  const bool same = in->GetText() == call;
  const std::string objection = in->GetText();
  if (!same || !in->ok()) return {SL_ERR_MISMATCH, name + " called something else than " + call};
  if (!objection.empty()) return {SL_ERR_MISMATCH, name + " cannot take part in the " + call + ": " + objection};
  return {};
}

}  // namespace

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
  mine.Put(color);
  mine.Put(key);
  mine.Put(seat.extension != nullptr ? seat.extension->endpoint() : Endpoint{});
  SL_ASSIGN(const Contributions all, tree_->AllGather(turn.number, mine.bytes(), patience));
  struct Member {
    int32_t key;
    uint32_t rank;
    Endpoint endpoint;
  };
  std::vector<Member> members;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    const int32_t their_color = in.Get<int32_t>();
    const int32_t their_key = in.Get<int32_t>();
    const auto their_endpoint = in.Get<Endpoint>();
    if (!in.ok() || !IsWellFormed(their_endpoint))
      return Status(SL_ERR_MISMATCH, RankName(rank) + " called something else than split");
    if (their_color == color) members.push_back({their_key, rank, their_endpoint});
  }
  if (color < 0) return seat;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
  const auto me = std::find_if(members.begin(), members.end(),
                               [this](const Member& member) { return member.rank == config_.rank; });
  const auto rank = static_cast<uint32_t>(me - members.begin());
  seat.identity.rank = rank;
  seat.identity.size = static_cast<uint32_t>(members.size());
  if (rank != 0) seat.parent = members[ParentOf(rank)].endpoint;
  return seat;
}

Result<Communicator::WindowSight> Communicator::AgreeOnWindow(const Status& able, uint64_t bytes, uint32_t flags,
                                                              bool exportable, const std::vector<uint64_t>& seen_at) {
  const Patience patience{NowNs() + config_.timeout_ns, &cancelled_ns_};
  Writer mine;
  PutAble(&mine, kWindow, able);
  mine.Put(bytes);
  mine.Put(flags);
  mine.Put(static_cast<uint32_t>(exportable));
  // Of other hosts nothing is seen, so that many ranks have little to tell.
  mine.Put(static_cast<uint32_t>(seen_at.size()));
  for (const uint64_t address : seen_at) mine.Put(address);
  SL_ASSIGN(const Contributions all, tree_->AllGather(tree_->TakeNumber(), mine.bytes(), patience));
  SL_TRY(able);
  WindowSight sight;
  sight.seen.resize(config_.size);
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    SL_TRY(CheckAble(&in, kWindow, RankName(rank)));
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
Result<RendezvousId> Communicator::AgreeOnId(uint64_t turn, const Status& able, const std::optional<RendezvousId>& mine,
                                             const Communicator& child) const {
  const uint32_t size = child.size();
  const Secret mask = DeriveSecret(tree_->identity().secret, "grow", nonce_, turn);
  const auto masked = [&mask](RendezvousId id) {
    for (size_t i = 0; i < mask.size(); ++i) id.secret[i] ^= mask[i];
    return id;
  };
  Writer said;
  PutAble(&said, kGrow, able);
  said.Put(size);
  said.Put(mine ? EncodeId(masked(*mine)) : sl_unique_id_t{});
  SL_ASSIGN(const Contributions all,
            tree_->AllGather(turn, said.bytes(), {NowNs() + config_.timeout_ns, &cancelled_ns_, &child.cancelled_ns_}));
  SL_TRY(able);
  std::optional<RendezvousId> found;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    SL_TRY(CheckAble(&in, kGrow, RankName(rank)));
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

Status Communicator::Finalize() {
  const uint64_t timeout_ms = process_->profile().settings().comm.operation_timeout_ms;
  const Patience patience{timeout_ms == 0 ? SL_NO_DEADLINE : NowNs() + timeout_ms * 1000000, &cancelled_ns_};
  return tree_->AllGather(tree_->TakeNumber(), {}, patience).status();
}

}  // namespace sl::kernel
