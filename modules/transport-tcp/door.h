// SPDX-License-Identifier: Apache-2.0
//
// Where peers, and strangers, knock: a listener for each port, and those who have connected and not yet proved who they
// are. How many may wait, how many bytes they may send (those of two messages) and how long they have is bounded. When
// all places are taken, who has not shown a good hello goes first; when all have, the rest waits in the backlog.
//
// thread: the transport's.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/interface.h"
#include "modules/transport-tcp/shared.h"
#include "sdk/fd.h"

namespace sl::transport_tcp {

class Door {
 public:
  // Somebody who has proved that it belongs to the job.
  struct Guest {
    Fd stream;  // watched, as nobody's
    Hello hello;
    uint32_t port;
  };

  explicit Door(Shared* shared) : shared_(shared) {}
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door();

  // Listens on a port, if it does not yet. LIMIT: nothing is left to listen with.
  Status Open(uint32_t port, const Interface& interface, Address* out_address);
  // Lets in who knocks and hears who is in; never blocks. Appends those who are through.
  void Look(std::vector<Guest>* guests);
  // Drops who has been silent for too long, and looks again where the door was closed.
  void Expire(uint64_t now_ns);
  bool empty() const { return visitors_.empty(); }

 private:
  struct Listener {
    uint32_t port;
    Fd socket;
    Address address;
  };
  struct Visitor {
    Fd stream;
    uint32_t port;
    uint64_t deadline_ns;
    Host host;
  };

  void Admit(const Listener& listener, std::vector<Guest>* guests);
  bool MakeRoom(std::vector<Guest>* guests);
  bool Settle(Visitor* visitor, std::vector<Guest>* guests);
  Step Hear(Visitor* visitor);
  void Hear(std::vector<Guest>* guests);
  void Drop(Visitor* visitor, const std::string& why);
  bool Watch(int fd) const;

  Shared* const shared_;
  std::vector<Listener> listeners_;
  std::list<Visitor> visitors_;   // oldest first
  uint64_t closed_until_ns_ = 0;  // nobody is let in while descriptors are short
};

}  // namespace sl::transport_tcp
