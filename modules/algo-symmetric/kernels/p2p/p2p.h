// SPDX-License-Identifier: Apache-2.0
//
// Point to point: all sends and receives of a group in one launch. Messages between two ranks in one direction form a
// queue; a queue has channels, and long messages are cut over them. Every channel of every queue has warps of its own,
// a quarter of a block, so that all progress together, and the hops and waits of one hide behind the copying of the
// others; those of one queue lie in different blocks. All blocks of the launch must be resident at once. What a rank
// sends itself is copied by blocks of its own.
//
// Messages of up to some length go as packets (mail.h, short ones short_mail.h), others in chunks through the inbox
// (channel.h).
//
// Long messages skip the inbox where the sender can reach the receiver's buffer: each channel of the receiver tells it
// where, or 0, which sends the message through the inbox after all.
//   offer    R8 pairs with A8: the receiver's operation has begun, so its buffer may be overwritten. Two words, told
//            without a fence and distinguished as those of a meeting (meeting.h); the next offer of a channel follows
//            this one's message
//   landed   R9 pairs with A9: the sender's part of the message stands in the receiver's buffer
#pragma once

#include "modules/algo-symmetric/kernels/direct/meeting.h"
#include "modules/algo-symmetric/kernels/move_pieces.h"
#include "modules/algo-symmetric/kernels/p2p/channel.h"
#include "modules/algo-symmetric/kernels/p2p/mail.h"
#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"
#include "modules/algo-symmetric/kernels/p2p/short_mail.h"
#include "sdk/device/draw.h"
#include "sdk/device/grid.h"

namespace sl::algo_symmetric::kernels {

// One channel in a launch: those messages of its queue that use it.
template <typename GroupArgs>
class P2pChannel {
 public:
  // `part`: of the block, below kChannelsOfBlock; `block` are its threads; `told` is shared by them. Made while the
  // grid may still wait for those before it: then arguments that are needed first, one to find the other, have come.
  SL_HD P2pChannel(const GroupArgs& args, const dev::Block& block, uint32_t part, uint32_t* told)
      : args_(args),
        team_(args.team),
        task_(args.task[args.TaskOf(block.index, part)]),
        channel_(task_.group * kChannelsOfBlock + part),
        block_(block),
        own_(args.team, block, task_.peer, channel_),
        told_(told),
        kept_(CountOf(args.team, task_.peer, channel_, task_.kind)) {
    const Message& first = args_.message[task_.first];
    dev::Fetch(kept_, first.user, first.bytes, args_.ways.mailed_bytes, task_.count);
  }

  SL_HD void Run() {
    if (task_.kind == TaskKind::kCopy) {
      EachMessage([&](const Message& message, uint64_t begin, uint64_t end) {
        MoveBytes(block_, message.user + begin, reinterpret_cast<uint8_t*>(message.other) + begin, end - begin);
        return true;
      });
      return;
    }
    const bool receives = task_.kind == TaskKind::kReceive;
    uint64_t chunks = kept_->chunks;
    uint64_t offers = kept_->offers;
    Mail mail(team_, block_, task_.peer, channel_, &kept_->mail);
    ShortMail short_mail(team_, block_, task_.peer, channel_, task_.kind);
    const bool done = EachMessage([&](const Message& message, uint64_t begin, uint64_t end) {
      uint8_t* user = message.user + begin;
      if (args_.ways.IsShort(message.bytes)) {
        const auto bytes = static_cast<uint32_t>(end - begin);
        return receives ? short_mail.Receive(user, bytes) : short_mail.Send(user, bytes);
      }
      if (message.bytes <= args_.ways.mailed_bytes) {
        return receives ? mail.Receive(user, end - begin) : mail.Send(user, end - begin);
      }
      if (chunks == kEnded) return false;
      if (args_.ways.offers) {
        ++offers;
        const Outcome outcome = receives ? Answer(message, offers) : Land(message, begin, end, offers);
        if (outcome != Outcome::kOutOfReach) return outcome == Outcome::kInReach;
      }
      return own_.Relay(receives, user, end - begin, &chunks);
    });
    // All have read it: each message ended with a Sync, and without one nothing changes.
    if (block_.thread() != 0) return;
    kept_->chunks = done ? chunks : kEnded;
    kept_->offers = done ? offers : kEnded;
    if (!done) kept_->mail = {kEnded, kEnded};
  }

 private:
  // Calls with every message that uses this channel, and the part of it that does; false when a call was.
  template <typename Call>
  SL_HD bool EachMessage(const Call& call) const {
    const uint32_t most = task_.kind == TaskKind::kCopy ? args_.copy_channels : args_.ways.channels;
    for (uint32_t m = task_.first; m < uint32_t{task_.first} + task_.count; ++m) {
      const Message& message = args_.message[m];
      const uint32_t used = ChannelsOf(message.bytes, args_.ways, most);
      if (channel_ >= used) continue;
      const uint64_t part = PartOf(message.bytes, used);
      const uint64_t begin = channel_ * part;
      const uint64_t end = begin + part < message.bytes ? begin + part : message.bytes;
      if (begin < end && !call(message, begin, end)) return false;
    }
    return true;
  }

  // The word of an offer from `from` in rank r's slice.
  SL_HD uint64_t* OfferWord(uint32_t r, uint32_t from, uint32_t word) const {
    return OffersOf(team_, r, from) + channel_ * kOfferWords + word;
  }
  // The receiver's side of a long message.
  SL_HD Outcome Answer(const Message& message, uint64_t number) const {
    for (uint32_t word = block_.thread(); word < kOfferWords; word += block_.threads()) {  // R8
      const uint64_t half = word == 0 ? message.other & UINT32_MAX : message.other >> 32;
      dev::Dawdle(team_.warden.dawdle_ns);
      dev::StoreNote(OfferWord(task_.peer, team_.rank, word), number << 32 | half);
    }
    if (message.other == 0) return Outcome::kOutOfReach;
    return own_.Await(team_.layout.landed, number, kStepLanded) ? Outcome::kInReach : Outcome::kGivenUp;  // A9
  }
  // The sender's.
  SL_HD Outcome Land(const Message& message, uint64_t begin, uint64_t end, uint64_t number) const {
    const dev::Wanted wanted{static_cast<int32_t>(task_.peer), kStepOffer, number & UINT32_MAX};
    const bool has_told = AwaitMarked(  // A8
        block_, kOfferWords, team_.warden,
        [&](uint32_t word) {
          return Marked{OfferWord(team_.rank, task_.peer, word), wanted};
        },
        [&](uint32_t word, uint32_t half) { told_[word] = half; });
    if (!team_.HasCome(block_, !has_told)) return Outcome::kGivenUp;
    const uint64_t told = told_[0] | static_cast<uint64_t>(told_[1]) << 32;
    if (told == 0) return Outcome::kOutOfReach;
    auto* to = reinterpret_cast<uint8_t*>(told);
    // Long ones are drawn by all their channels' warps, none of which is without; of others each channel has its part.
    const bool drawn = message.bytes >= kDrawnMessageBytes;
    const dev::Block worker = drawn ? dev::Draws::WorkerOf(block_) : block_;
    const uint64_t at = drawn ? 0 : begin;
    const uint64_t bytes = drawn ? message.bytes : end - begin;
    const uint32_t workers =
        ChannelsOf(message.bytes, args_.ways, args_.ways.channels) * dev::Draws::WorkersOf(block_.count);
    const uint32_t piece_bytes = drawn ? DrawnBytes(bytes, workers) : 0;
    const dev::Draws draws = drawn ? Draws(message, piece_bytes, workers) : dev::Draws::Whole();
    MovePieces(draws, worker, message.user + at, to + at, bytes, piece_bytes);
    own_.Signal(team_.layout.landed, number);  // R9
    return Outcome::kInReach;
  }

  SL_HD dev::Draws Draws(const Message& message, uint32_t piece_bytes, uint32_t workers) const {
    auto* counters = reinterpret_cast<uint32_t*>(team_.At(team_.rank, team_.layout.parts));
    const auto pieces = static_cast<uint32_t>((message.bytes + piece_bytes - 1) / piece_bytes);
    return {counters + (&message - args_.message), pieces, workers};
  }

  const GroupArgs& args_;
  const Team& team_;
  const P2pTask task_;
  const uint32_t channel_;
  const dev::Block block_;
  const Channel own_;
  uint32_t* const told_;      // kOfferWords
  ChannelCount* const kept_;  // from launch to launch
};

}  // namespace sl::algo_symmetric::kernels
