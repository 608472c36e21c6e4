// SPDX-License-Identifier: Apache-2.0
//
// What a rank sleeps on while it waits for its links. A run names one doorbell, but news come in two ways: peers that
// share memory ring, networks make a descriptor readable. So while somebody sleeps, the keeper (keeper.h) waits for the
// descriptors, fetches what came, and rings.
//
// A run that is polled with the bell armed, the last look before a sleep, asks the keeper to watch; who spins pays
// nothing for it. The keeper stops by itself when it finds nobody asleep. No news is lost: a sleeper arms the bell
// (W1), then looks whether it is watched (W2); the keeper clears `watched_` (W3), then looks for sleepers once more
// (W4). All four are sequentially consistent, so either the sleeper asks, or the keeper goes on watching. What anybody
// else fetches, in the course of driving the links, is rung for, too.
//
// thread: whoever drives the links, watched() [any].
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "sl_transport.h"

namespace sl::kernel {

class WaitObjects {
 public:
  // Takes a transport into use. returns: its news come by a descriptor
  bool Use(const sl_transport_ops_t* ops, sl_transport_t* transport);
  const std::vector<int32_t>& descriptors() const { return descriptors_; }

  // The bell that hears everything; NULL: there is none, as of several bells only one is heard. It needs the keeper
  // where there are descriptors.
  sl_doorbell_t* bell() {
    if (deaf_) return nullptr;
    return bell_ != nullptr || descriptors_.empty() ? bell_ : &own_bell_;
  }
  // Somebody is about to sleep on the bell, and the keeper must be asked to watch. Says so once.
  bool NeedsWatch();

  // Somebody sleeps on the bell, or is about to. There must be one.
  bool HasSleepers();

  // Something was fetched, for whomever.
  void CountNews();
  uint64_t news() const { return news_; }

  // The keeper's.
  bool watched() const { return watched_.load(std::memory_order_relaxed); }
  // Stops watching, unless somebody sleeps. True: it goes on.
  bool KeepWatching();

 private:
  sl_doorbell_t* bell_ = nullptr;  // of the transport that has one
  sl_doorbell_t own_bell_{};       // where none has
  std::vector<int32_t> descriptors_;
  bool deaf_ = false;
  uint64_t news_ = 0;
  std::atomic<bool> watched_{false};
};

}  // namespace sl::kernel
