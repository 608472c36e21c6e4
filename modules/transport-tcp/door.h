// SPDX-License-Identifier: Apache-2.0
//
// Where peers, and strangers, knock: a listener for each port, and those who have connected and not yet proved who they
// are. How many may wait, how many bytes they may send (those of two messages) and how long they have is bounded. When
// all places are taken, who has not shown a good hello goes first; when all have, the rest waits in the backlog.
//
// A hello is good until a visitor that showed it has confirmed it; whoever shows it after that is dropped. Until then
// nobody can tell its maker from those who have recorded it, and each of them is challenged. But only the first one
// counts as having shown a good hello, so that a recorded one keeps no more than one place from others. The number in a
// hello is compared with those of the visitors that are here and of the newest kRememberedHellos that have left.
//
// Nobody is let in while all places are taken for good or descriptors are short. The listeners are not watched then:
// who waits in the backlog would make the descriptor that a rank sleeps on readable for nothing. They are again when a
// visitor has left, or when a look after a while has found no shortage.
//
// thread: the transport's.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/interface.h"
#include "modules/transport-tcp/shared.h"
#include "sdk/fd.h"
#include "sdk/status.h"

namespace sl::transport_tcp {

// A stream that epoll watches as nobody's. It ends for everybody: forked children may hold copies, so that closing
// alone would neither take it from epoll nor end the stream.
class WatchedStream {
 public:
  WatchedStream(const Shared* shared, Fd stream) : shared_(shared), stream_(std::move(stream)) {}
  WatchedStream(WatchedStream&&) = default;
  ~WatchedStream();

  int get() const { return stream_.get(); }
  Fd* fd() { return &stream_; }  // to take it over, watched as it is

 private:
  const Shared* shared_;
  Fd stream_;
};

class Door {
 public:
  static constexpr size_t kRememberedHellos = 4096;

  // Somebody who has proved that it belongs to the job.
  struct Guest {
    WatchedStream stream;
    Hello hello;
    uint32_t port;
  };

  explicit Door(Shared* shared) : shared_(shared) {}
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door();

  // Listens on a port, if it does not yet. LIMIT: nothing is left to listen with.
  Status Open(uint32_t port, const Interface& interface, Address* out_address);
  // Lets in who knocks and hears who is in; never blocks. Appends those who are through. True: somebody came or left.
  bool Look(std::vector<Guest>* guests);
  // Drops who has been silent for too long. True: it was closed, and it is time to look again.
  bool Expire(uint64_t now_ns);
  // Why who knocks cannot be let in, with the remedy; OK: nothing is short.
  const Status& shortage() const { return shortage_; }

 private:
  struct Listener {
    uint32_t port;
    Fd socket;
    Address address;
  };
  // How often a hello was shown before.
  enum class Shown { kNever, kUnconfirmed, kConfirmed };
  struct Past {
    Nonce nonce;
    Shown shown;
  };
  struct Visitor {
    WatchedStream stream;
    uint32_t port;
    uint64_t deadline_ns;
    Host host;
    Shown before = Shown::kNever;  // by others
  };

  bool Admit(const Listener& listener, std::vector<Guest>* guests);
  bool MakeRoom(std::vector<Guest>* guests);
  bool Settle(Visitor* visitor, std::vector<Guest>* guests);
  Step Hear(Visitor* visitor);
  static bool IsFirstWithGoodHello(const Visitor& visitor);
  Shown ShownBefore(const Visitor& visitor) const;
  void Remember(const Visitor& visitor, Shown shown);
  void Hear(std::vector<Guest>* guests);
  void CountDropped(const std::string& why);
  void RunShort(Status why);
  bool Watch(int fd, bool wanted, int how) const;
  bool IsOpen(uint64_t now_ns) const;
  void WatchListeners(bool wanted);

  Shared* const shared_;
  std::vector<Listener> listeners_;
  std::list<Visitor> visitors_;   // oldest first
  std::vector<Past> heard_;       // good hellos whose visitors have left; a ring once it is full
  size_t next_heard_ = 0;         // where the next one goes
  uint64_t moves_ = 0;            // how often somebody came or left
  bool is_full_ = false;          // all places were taken for good, and somebody waited
  Status shortage_;               // until everybody is in
  uint64_t closed_until_ns_ = 0;  // nobody is let in while something is short
  bool is_watched_ = true;        // the listeners are
};

}  // namespace sl::transport_tcp
