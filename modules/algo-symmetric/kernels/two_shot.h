// SPDX-License-Identifier: Apache-2.0
//
// Two-shot: an all-reduce by packets. First shot: every rank pushes to each peer the block which that peer reduces.
// Second shot: every rank pushes its reduced block to all. Two hops, no barrier, no fence, and each element is reduced
// once.
//
// Epochs, slots and stamps are those of one_shot.h: in the first shot everybody hears from everybody, at least by an
// empty packet, so the second shot's slots are as safe to reuse. Result packets that hold nothing are not sent.
#pragma once

#include "modules/algo-symmetric/kernels/packets.h"

namespace sl::algo_symmetric::kernels {

template <typename F>
class TwoShotPackets {
 public:
  SL_HD TwoShotPackets(const Args& args, const dev::Block& block, dev::Vec8* shared)
      : args_(args), team_(args.team), box_(args.team, block), block_(block), shared_(shared) {
    begin_ = block.index * args.share_elements * kPayload;
    most_ = static_cast<uint32_t>(args.share_elements);
    if (args.Scales()) scalar_ = args.Scalar();
  }

  SL_HD void Run() {
    if (box_.IsEnded()) return;
    Push();
    const uint32_t fit = kSharedPackets / team_.size;
    const uint32_t own = AtLeastOne(Bytes(team_.rank));
    for (uint32_t first = 0; first < own; first += fit) {
      const uint32_t count = own - first < fit ? own - first : fit;
      if (!Gather(first, count)) return box_.End();
      ReduceAndPush(first, count);
      block_.Sync();
    }
    if (!TakeResults()) return box_.End();
    box_.Close();
  }

 private:
  static constexpr uint32_t kPayload = sizeof(dev::Vec8);

  // Of a pattern block, this CUDA block's bytes.
  SL_HD uint32_t Bytes(uint32_t block) const {
    const uint64_t bytes = args_.pattern.Length(block) * args_.element_bytes;
    if (begin_ >= bytes) return 0;
    const uint64_t share = uint64_t{most_} * kPayload;
    return static_cast<uint32_t>(bytes - begin_ < share ? bytes - begin_ : share);
  }
  SL_HD static uint32_t Packets(uint32_t bytes) { return (bytes + kPayload - 1) / kPayload; }
  SL_HD static uint32_t AtLeastOne(uint32_t bytes) { return bytes != 0 ? Packets(bytes) : 1; }

  // Packet i of this rank's contribution to a block.
  SL_HD dev::Vec8 Own(uint32_t block, uint32_t i) const {
    const uint32_t bytes = Bytes(block);
    if (i * kPayload >= bytes) return {};
    const uint8_t* from = args_.send + args_.BlockOffset(block, 0) + begin_ + i * kPayload;
    const dev::Vec8 data = dev::LoadAny<8>(from, bytes - i * kPayload);
    return args_.Scales() ? dev::Scaled<F>(data, scalar_) : data;
  }
  SL_HD void Keep(uint32_t block, uint32_t i, const dev::Vec8& data) const {
    uint8_t* to = args_.recv + args_.BlockOffset(block, 0) + begin_ + i * kPayload;
    dev::StoreAny(to, data, Bytes(block) - i * kPayload);
  }

  SL_HD void Push() const {
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * most_; at += block_.threads()) {
      const uint32_t peer = team_.Peer(at / most_);
      const uint32_t i = at % most_;
      if (i < AtLeastOne(Bytes(peer))) box_.Push(0, peer, i, Own(peer, i));
    }
  }

  SL_HD bool Gather(uint32_t first, uint32_t count) const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < team_.size * count && !given_up; at += block_.threads()) {
      const uint32_t from = at / count;
      const uint32_t i = first + at % count;
      if (from == team_.rank) {
        shared_[at] = Own(team_.rank, i);
      } else {
        given_up = !box_.Await(0, from, i, &shared_[at]);
      }
    }
    return team_.HasCome(block_, given_up);
  }

  SL_HD void ReduceAndPush(uint32_t first, uint32_t count) const {
    const uint32_t packets = Packets(Bytes(team_.rank));
    ReducePackets<F>(block_, shared_, team_.size, count, args_.reduction, args_.AverageOver(),
                     [&](uint32_t at, const dev::Vec8& sum) {
                       const uint32_t i = first + at;
                       if (i >= packets) return;
                       for (uint32_t p = 0; p + 1 < team_.size; ++p) box_.Push(1, team_.Peer(p), i, sum);
                       Keep(team_.rank, i, sum);
                     });
  }

  SL_HD bool TakeResults() const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * most_ && !given_up; at += block_.threads()) {
      const uint32_t peer = team_.Peer(at / most_);
      const uint32_t i = at % most_;
      if (i >= Packets(Bytes(peer))) continue;
      dev::Vec8 data{};
      given_up = !box_.Await(1, peer, i, &data);
      if (!given_up) Keep(peer, i, data);
    }
    return team_.HasCome(block_, given_up);
  }

  const Args& args_;
  const Team& team_;
  const PacketBox box_;
  const dev::Block block_;
  dev::Vec8* const shared_;
  uint64_t begin_;  // bytes; this block's share of every pattern block
  uint32_t most_;   // packets of it
  uint64_t scalar_ = 0;
};

}  // namespace sl::algo_symmetric::kernels
