// SPDX-License-Identifier: Apache-2.0
//
// What peers offer: mapped, answered, and unmapped when it is withdrawn.
#include <algorithm>
#include <cstring>
#include <string>

#include "kernel/comm/reach.h"
#include "kernel/control/stream.h"
#include "kernel/events/log.h"

namespace sl::kernel {

// Offers first: callers wait for them, while an unmapping may wait for the device. Meanwhile launches may begin.
bool Reach::Keep(const std::function<bool()>& may_unmap) {
  std::lock_guard keep(keep_mutex_);
  if (is_closed_) return false;
  LookAtPeers([this](uint32_t owner, uint32_t index) {
    MapOffered(owner, index);
    return true;
  });
  const bool is_wanted = KeepOwn();
  const bool are_unmapped =
      LookAtPeers([&](uint32_t owner, uint32_t index) { return UnmapWithdrawn(owner, index, may_unmap); });
  return is_kept_.load() && (is_wanted || !are_unmapped);
}

// At every offer of every peer, until one says that it is enough. False: one has.
template <typename Look>
bool Reach::LookAtPeers(Look look) {
  for (uint32_t owner = 0; owner < setting_.board.ranks(); ++owner) {
    for (uint32_t index = 0; index < OfferBoard::kOffers && owner != setting_.rank && is_kept_.load(); ++index) {
      if (!look(owner, index)) return false;
    }
  }
  return true;
}

// And answers; also what was withdrawn before it was mapped.
void Reach::MapOffered(uint32_t owner, uint32_t index) {
  OfferBoard::Offer* offer = setting_.board.OfferOf(owner, index);
  Taken& taken = TakenOf(owner, index);
  const uint64_t turn = OfferBoard::Turn(offer);
  if (turn == taken.turn || taken.memory != nullptr) return;
  const uint64_t begin_ns = NowNs();
  OfferBoard::Answer* answer = setting_.board.AnswerTo(owner, index, setting_.rank);
  answer->address = 0;
  if (OfferBoard::Stands(turn)) {
    Result<std::unique_ptr<ForeignMemory>> mapped = Map(owner, index, turn);
    if (mapped.ok()) {
      taken.memory = mapped.Take();
      answer->address = taken.memory->address();
      Logf(SL_LOG_DEBUG, "rank {}: mapped {} allocations, {} bytes, of rank {} in {} us", setting_.rank,
           std::max(offer->pieces, 1u), offer->bytes, owner, (NowNs() - begin_ns) / 1000);
    } else {
      Logf(SL_LOG_INFO, "rank {}: a buffer of {} bytes of rank {} cannot be mapped: {}", setting_.rank, offer->bytes,
           owner, mapped.status().message());
    }
  }
  taken.turn = turn;
  OfferBoard::SetTurn(answer, turn);
}

// False: not now, nor others.
bool Reach::UnmapWithdrawn(uint32_t owner, uint32_t index, const std::function<bool()>& may_unmap) {
  Taken& taken = TakenOf(owner, index);
  if (taken.memory == nullptr || OfferBoard::Turn(setting_.board.OfferOf(owner, index)) == taken.turn) return true;
  if (!may_unmap()) return false;
  const uint64_t begin_ns = NowNs();
  taken.memory.reset();
  Logf(SL_LOG_DEBUG, "rank {}: unmapped a buffer of rank {} in {} us", setting_.rank, owner,
       (NowNs() - begin_ns) / 1000);
  MapOffered(owner, index);
  return true;
}

Result<std::unique_ptr<ForeignMemory>> Reach::Map(uint32_t owner, uint32_t index, uint64_t turn) const {
  const OfferBoard::Offer& offer = *setting_.board.OfferOf(owner, index);
  const bool is_local = setting_.shares_process[owner];
  HandleList list;
  if (offer.pieces > (is_local ? 1 : 0)) {
    SL_ASSIGN(list, setting_.fetch(owner, {index, turn}));
    uint64_t bytes = 0;
    for (const sl_memory_handle_t& handle : list.handles) bytes += handle.bytes;
    if (list.handles.size() != offer.pieces || bytes != offer.bytes) {
      return Status(SL_ERR_MISMATCH, "its handles are of " + std::to_string(bytes) + " bytes");
    }
  } else {
    sl_memory_handle_t& handle = list.handles.emplace_back();
    handle.struct_size = sizeof(handle);
    handle.type = is_local ? SL_HANDLE_LOCAL : offer.type;
    handle.fd = -1;
    handle.bytes = offer.bytes;
    std::memcpy(handle.fabric, is_local ? offer.local : offer.handle, sizeof(handle.fabric));
  }
  return ForeignMemory::Map(setting_.device_ops, setting_.device, list.handles);
}

}  // namespace sl::kernel
