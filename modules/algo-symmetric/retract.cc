// SPDX-License-Identifier: Apache-2.0
//
// What a rank that has given up takes back. Its peers have been told where its callers' buffers lie: by the words of
// meetings (kernels/direct/meeting.h) and of offers (kernels/p2p/p2p.h), which this rank alone writes, into the peers'
// slices. A launch of a peer that comes late would find all that it waits for, and use buffers that the program may
// have freed. Where zeros are, it waits, until its own abort word ends it. Copies write them: they need no SM, which
// others may hold.
#include <algorithm>
#include <array>

#include "modules/algo-symmetric/cuda_rank.h"
#include "modules/algo-symmetric/kernels/direct/meeting.h"
#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"

namespace sl::algo_symmetric {
namespace {

constexpr std::array<uint64_t, 64> kZeros{};

// Copies on a stream of their own, up to the first one that fails.
class Clearing {
 public:
  Clearing(const sl_device_ops_t* ops, sl_device_t* device) : ops_(ops), device_(device) {
    status_ = ops_->stream_create(device_, &stream_);
  }
  Clearing(const Clearing&) = delete;
  Clearing& operator=(const Clearing&) = delete;
  ~Clearing() {
    if (stream_ != nullptr) ops_->stream_destroy(device_, stream_);
  }

  void Clear(uint64_t* words, uint64_t count) {
    for (uint64_t at = 0; at < count && status_ == SL_OK; at += kZeros.size()) {
      const uint64_t some = std::min<uint64_t>(count - at, kZeros.size());
      status_ = ops_->copy(device_, stream_, words + at, kZeros.data(), some * sizeof(uint64_t));
    }
  }
  Status Finish(uint64_t deadline_ns) {
    if (status_ == SL_OK) status_ = ops_->stream_wait_idle(device_, stream_, deadline_ns);
    return Status(status_);
  }

 private:
  const sl_device_ops_t* const ops_;
  sl_device_t* const device_;
  sl_stream_t* stream_ = nullptr;
  sl_status_t status_ = SL_OK;
};

}  // namespace

Status CudaRank::Retract(uint64_t deadline_ns) const {
  if (reach_ops_ == nullptr || !has_slices()) return {};
  Clearing clearing(device_ops_, device_);
  for (uint32_t lane = 0; lane <= settings_.graph_lanes; ++lane) {
    const kernels::Team team = TeamFor(lane);
    for (uint32_t i = 0; i + 1 < size_; ++i) {
      const uint32_t peer = team.Peer(i);
      clearing.Clear(kernels::OffersOf(team, peer, rank_), uint64_t{layout_.channels} * kernels::kOfferWords);
      for (uint32_t slot = 0; slot < kernels::kMeetingSlots; ++slot) {
        for (uint32_t block = 0; block < layout_.staged_blocks; ++block) {
          clearing.Clear(kernels::Meeting::Words(team, peer, rank_, slot, block), kernels::kMeetingWords);
        }
      }
    }
  }
  return clearing.Finish(deadline_ns);
}

}  // namespace sl::algo_symmetric
