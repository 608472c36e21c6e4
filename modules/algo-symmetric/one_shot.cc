// SPDX-License-Identifier: Apache-2.0
//
// One-shot: every rank publishes into its own slice, in one packet when it fits, and reads the publications it needs.
//
// Slots alternate, so epoch e overwrites what epoch e - 2 published. That is safe once every peer has published
// epoch e - 1, because a rank publishes e - 1 only after it has read all it wanted of e - 2:
//   A1 LoadAcquire of a peer's flag pairs with R1 StoreRelease of that flag; before R1 the peer wrote its publication
//   of this epoch and had read everything of the epochs before.
// Operations that wait for all ranks (all-reduce, …) learn this on the way; after the others the next one looks.
#include <alloca.h>

#include "modules/algo-symmetric/work.h"

namespace sl::algo_symmetric {
namespace {

struct Frame {
  uint32_t published;
  uint32_t next_peer;
};
static_assert(sizeof(Frame) <= kFrameBytes);

// Every peer has published the epoch before this one: both of its slots but the newest are free.
sl_status_t AwaitSlot(const Work& work, Frame* frame, sl_wait_t* wait) {
  View& view = *work.view;
  const uint32_t before = work.epoch - 1;
  if (view.arrived == before) return SL_OK;
  for (uint32_t& r = frame->next_peer; r < view.size; ++r) {
    if (r == view.rank) continue;
    const uint64_t flag = dev::LoadAcquire(&view.PacketOf(r, before)->flag);  // A1
    if (!dev::HasReached(flag, before)) return WaitFor(view, r, "packet slot", dev::FlagEpoch(flag), before, wait);
  }
  view.arrived = before;
  return SL_OK;
}

void PublishEpoch(const Work& work) {
  View& view = *work.view;
  Packet* packet = view.PacketOf(view.rank, work.epoch);
  if (work.pattern.publishes) {
    const uint64_t bytes = work.pattern.total_elements * work.element_bytes;
    void* place = bytes <= dev::kPacketPayloadBytes ? packet->payload : view.SmallOf(view.rank, work.epoch);
    Publish(work, place, work.send, work.pattern.total_elements);
  }
  dev::StoreRelease(&packet->flag, dev::MakeFlag(work.epoch, work.signature));  // R1
  view.RingPeers();
}

// SL_OK when rank r's publication of this epoch is there and belongs to the same operation.
sl_status_t AwaitPublication(const Work& work, uint32_t r, sl_wait_t* wait) {
  const View& view = *work.view;
  if (r == view.rank) return SL_OK;
  const uint64_t wanted = dev::MakeFlag(work.epoch, work.signature);
  const uint64_t flag = dev::LoadAcquire(&view.PacketOf(r, work.epoch)->flag);  // A1
  if (flag == wanted) [[likely]]
    return SL_OK;
  WaitFor(view, r, "packet", dev::FlagEpoch(flag), work.epoch, wait);
  return dev::FlagEpoch(flag) == work.epoch ? SL_ERR_MISMATCH : SL_ERR_AGAIN;
}

const uint8_t* TakenFrom(const Work& work, uint32_t r) {
  const View& view = *work.view;
  const Pattern& pattern = work.pattern;
  const uint64_t offset = pattern.source_block * pattern.block_elements * work.element_bytes;
  if (r == view.rank && !work.scales_sends) return work.send + offset;
  const uint64_t bytes = pattern.total_elements * work.element_bytes;
  const uint8_t* place =
      bytes <= dev::kPacketPayloadBytes ? view.PacketOf(r, work.epoch)->payload : view.SmallOf(r, work.epoch);
  return place + offset;
}

void ReduceAll(const Work& work) {
  constexpr uint32_t kFew = 64;
  const View& view = *work.view;
  const void* few[kFew];
  const uint64_t elements = work.pattern.block_elements;
  if (view.size <= kFew) {
    for (uint32_t r = 0; r < view.size; ++r) few[r] = TakenFrom(work, r);
    work.reduce(work.recv, nullptr, few, view.size, elements, &work.scale);
    return;
  }
  const void** many = static_cast<const void**>(alloca(view.size * sizeof(void*)));
  for (uint32_t r = 0; r < view.size; ++r) many[r] = TakenFrom(work, r);
  work.reduce(work.recv, nullptr, many, view.size, elements, &work.scale);
}

}  // namespace

sl_status_t RunOneShot(const void* args, void* frame_memory, sl_wait_t* wait) {
  const Work& work = *static_cast<const Work*>(args);
  auto* frame = static_cast<Frame*>(frame_memory);
  View& view = *work.view;
  const Pattern& pattern = work.pattern;
  if (!frame->published) {
    if (sl_status_t status = AwaitSlot(work, frame, wait); status != SL_OK) return status;
    PublishEpoch(work);
    frame->published = 1;
    frame->next_peer = 0;
  }
  const uint64_t bytes = pattern.block_elements * work.element_bytes;
  if (pattern.sources == Sources::kRoot) {
    if (sl_status_t status = AwaitPublication(work, work.root, wait); status != SL_OK) return status;
    MoveTo(work.recv, TakenFrom(work, work.root), bytes);
  } else if (pattern.sources == Sources::kAll) {
    for (uint32_t& r = frame->next_peer; r < view.size; ++r) {
      if (sl_status_t status = AwaitPublication(work, r, wait); status != SL_OK) return status;
      if (!pattern.reduces) MoveTo(work.recv + r * bytes, TakenFrom(work, r), bytes);
    }
    if (pattern.reduces && pattern.block_elements != 0) ReduceAll(work);
    view.arrived = work.epoch;
  }
  return SL_OK;
}

}  // namespace sl::algo_symmetric
