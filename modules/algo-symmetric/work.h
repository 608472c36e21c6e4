// SPDX-License-Identifier: Apache-2.0
//
// What the kernels share: a rank's view of everybody's slices, and the arguments of one operation.
#pragma once

#include <cstring>

#include "modules/algo-symmetric/layout.h"
#include "modules/algo-symmetric/pattern.h"
#include "sdk/doorbell.h"
#include "sl_device.h"

namespace sl::algo_symmetric {

// A rank's view. Constant after creation, but for the marks at the end, which only the running kernel touches:
// operations of one communicator run one after the other.
struct View {
  uint8_t* base = nullptr;
  uint64_t stride = 0;
  Layout layout{};
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t arrived = 0;  // every peer is known to have published this one-shot epoch, or a later one

  uint8_t* At(uint32_t r, uint64_t offset) const { return base + r * stride + offset; }
  Packet* PacketOf(uint32_t r, uint32_t epoch) const {
    return reinterpret_cast<Packet*>(At(r, layout.packets)) + epoch % kPacketSlots;
  }
  uint8_t* SmallOf(uint32_t r, uint32_t epoch) const {
    return At(r, layout.small + epoch % kPacketSlots * layout.small_stride);
  }
  Counters* CountersOf(uint32_t r) const { return reinterpret_cast<Counters*>(At(r, layout.counters)); }
  uint8_t* StageOf(uint32_t r, uint64_t round) const {
    return At(r, layout.stage + round % kRoundSlots * layout.stage_stride);
  }
  uint8_t* ResultOf(uint32_t r, uint64_t round) const {
    return At(r, layout.result + round % kRoundSlots * layout.result_stride);
  }
  sl_doorbell_t* DoorbellOf(uint32_t r) const { return reinterpret_cast<sl_doorbell_t*>(At(r, layout.doorbell)); }

  // Tells all peers that something was published; a system call only for those that sleep.
  void RingPeers() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (uint32_t r = 0; r < size; ++r) {
      if (r != rank) RingAfterFence(DoorbellOf(r));
    }
  }
};

// Arguments of one operation, filled by launch.
struct Work {
  View* view;
  Pattern pattern;
  const uint8_t* send;
  uint8_t* recv;
  sl_reduce_fn reduce;  // NULL when the pattern only moves
  sl_reduce_scale_t scale;
  const void* scalar;  // SL_PREMUL_SUM: where it lies, read while the operation runs; NULL: in `scale`
  uint64_t signature;
  uint64_t first_round;     // pipelined: of this operation, counted since the communicator began
  uint64_t rounds;          // pipelined
  uint64_t piece_elements;  // pipelined: of one block in one round
  uint32_t element_bytes;
  uint32_t root;
  uint32_t epoch;     // one-shot
  bool scales_sends;  // SL_PREMUL_SUM: publications are multiplied before others see them
};

// Copies a contribution to where others will read it, multiplied if the operation asks for it.
inline void Publish(const Work& work, void* dst, const void* src, uint64_t elements) {
  if (elements == 0) return;
  if (!work.scales_sends) {
    std::memcpy(dst, src, elements * work.element_bytes);
    return;
  }
  sl_reduce_scale_t scale = work.scale;
  if (work.scalar != nullptr) {
    scale.scalar_bits = 0;
    std::memcpy(&scale.scalar_bits, work.scalar, work.element_bytes);
  }
  scale.flags = 0;
  scale.premul_mask = 1;
  work.reduce(dst, nullptr, &src, 1, elements, &scale);
}

// Moves bytes that may already be where they belong.
inline void MoveTo(void* dst, const void* src, uint64_t bytes) {
  if (dst != src && bytes != 0) std::memmove(dst, src, bytes);
}

// Fills `wait` and returns SL_ERR_AGAIN.
inline sl_status_t WaitFor(const View& view, uint32_t peer, const char* what, uint64_t seen, uint64_t wanted,
                           sl_wait_t* wait) {
  wait->peer = static_cast<int32_t>(peer);
  wait->doorbell = view.DoorbellOf(view.rank);
  wait->what = what;
  wait->seen = seen;
  wait->wanted = wanted;
  return SL_ERR_AGAIN;
}

// The kernels, in the order of the image.
constexpr uint32_t kOneShotKernel = 0;
constexpr uint32_t kPipelinedKernel = 1;
sl_status_t RunOneShot(const void* args, void* frame, sl_wait_t* wait);
sl_status_t RunPipelined(const void* args, void* frame, sl_wait_t* wait);
constexpr uint32_t kFrameBytes = 64;

}  // namespace sl::algo_symmetric
