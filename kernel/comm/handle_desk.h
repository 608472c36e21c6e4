// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a host fetch handles of memory that a board cannot hold: those of several allocations, and
// descriptors, which travel over local sockets only. Who comes has proved to be of the communicator, and the operating
// system vouches for the user at the other end.
//
// On the wire, little-endian. The caller's frame: the offer's place and turn, both uint64. The answer: type and number
// of handles, both uint32, the number 0 when there is no such offer any more; per handle its bytes, uint64, and unless
// they are descriptors 64 opaque bytes; then all descriptors in one message.
#pragma once

#include <map>
#include <mutex>

#include "kernel/control/switchboard.h"
#include "kernel/memory/foreign_memory.h"

namespace sl::kernel {

class HandleDesk {
 public:
  // An offer of this rank: a place on its board, and the turn at which it stands.
  struct Ticket {
    uint64_t place;
    uint64_t turn;
  };

  HandleDesk() = default;
  HandleDesk(const HandleDesk&) = delete;
  HandleDesk& operator=(const HandleDesk&) = delete;

  // Keeps the handles, all of one type, until they are taken back or others take their place.   thread: [any]
  void Lay(const Ticket& ticket, HandleList handles);
  void TakeBack(uint64_t place);
  void TakeAllBack();
  // Whoever calls with FrameType::kHandles. Never waits.   thread: the control thread's
  void Serve(Switchboard::Caller* caller);

  // What the frame of a caller says.
  static Bytes Ask(const Ticket& ticket);
  // The answer to it.   returns: SL_ERR_STATE the offer is gone | SL_ERR_LINK_CORRUPT | SL_ERR_PEER_LOST | SL_ERR_LIMIT
  static Result<HandleList> Receive(const Stream& stream, const Patience& patience);

 private:
  struct Laid {
    uint64_t turn;
    HandleList list;
  };

  std::mutex mutex_;
  std::map<uint64_t, Laid> laid_;  // by place; guarded by mutex_
};

}  // namespace sl::kernel
