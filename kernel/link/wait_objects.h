// SPDX-License-Identifier: Apache-2.0
//
// What a rank sleeps on while it waits for its links. News come in two ways: peers that share memory ring, networks
// make a descriptor readable.
//
// A run that waits for networks alone, and shares the links with no other run, sleeps on the descriptors and fetches
// what came itself: Offer(). Who begins to use the links beside it may fetch its news, so its descriptors, of which one
// is ours for this, are made readable first: Retract(). Both happen while driving, hence one after the other.
//
// Any other run names one doorbell. So while somebody sleeps there, the keeper (keeper.h) waits for the descriptors,
// fetches what came, and rings.
//
// A run that is polled with the bell armed, the last look before a sleep, asks the keeper to watch; who spins pays
// nothing for it. The keeper stops by itself when it finds nobody asleep. No news is lost: a sleeper arms the bell
// (W1), then looks whether it is watched (W2); the keeper clears `watched_` (W3), then looks for sleepers once more
// (W4). All four are sequentially consistent, so either the sleeper asks, or the keeper goes on watching. What anybody
// else fetches, in the course of driving the links, is rung for, too.
//
// thread: whoever drives the links, watched() [any].
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sdk/fd.h"
#include "sl_transport.h"

namespace sl::kernel {

class WaitObjects {
 public:
  // Takes a transport into use. returns: its news come by a descriptor
  bool Use(const sl_transport_ops_t* ops, sl_transport_t* transport);
  const std::vector<int32_t>& descriptors() const { return descriptors_; }

  // What a run may sleep on that waits for networks alone; empty: on the bell only.
  std::span<const int32_t> Offer();
  // Wakes who sleeps on what was offered, and may not any more.
  void Retract();

  // The bell that hears everything; NULL: there is none, as of several bells only one is heard. It needs the keeper
  // where there are descriptors.
  sl_doorbell_t* bell() {
    if (deaf_) return nullptr;
    return bell_ != nullptr || descriptors_.empty() ? bell_ : &own_bell_;
  }
  // Somebody is about to sleep on the bell, and the keeper must be asked to watch. Says so once.
  bool NeedsWatch();

  // Somebody sleeps on the bell, or is about to; not where there is none.
  bool HasSleepers();

  // Something was fetched, for whomever.
  void CountNews();
  uint64_t news() const { return news_; }

  // The keeper's.
  bool watched() const { return watched_.load(std::memory_order_relaxed); }
  // Stops watching, unless somebody sleeps. True: it goes on.
  bool KeepWatching();

 private:
  bool Take(const sl_transport_ops_t* ops, sl_transport_t* transport);

  sl_doorbell_t* bell_ = nullptr;  // of the transport that has one
  sl_doorbell_t own_bell_{};       // where none has
  std::vector<int32_t> descriptors_;
  // The first is retract_. Never moves: a sleeper may be reading it when a transport is added.
  std::array<int32_t, 16> offer_ = {};
  size_t offer_count_ = 0;
  sl::Fd retract_;  // an eventfd, readable from Retract() to the next Offer()
  bool offered_ = false;
  bool retracted_ = false;
  bool deaf_ = false;
  uint64_t news_ = 0;
  std::atomic<bool> watched_{false};
};

}  // namespace sl::kernel
