// SPDX-License-Identifier: Apache-2.0
//
// Where ranks meet. The process that makes a unique id serves it, under an extension of its switchboard: every rank
// reports once, and when all have come each is told where its parent in the control tree is.
//
// A job within one host opens no port but that of the id, which cannot know where ranks will come from. Only when all
// have come and some are on other hosts, those that cannot be reached from there are asked to open one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernel/comm/channel.h"
#include "kernel/comm/extension.h"
#include "kernel/comm/switchboard.h"
#include "kernel/comm/unique_id.h"

namespace sl::kernel {

class Rendezvous : public Channel::Owner {
 public:
  // `timeout_ms`: from the first rank of an id to its last.
  Rendezvous(ControlThread* control, Switchboard* switchboard, uint64_t timeout_ms)
      : control_(control), switchboard_(switchboard), timeout_ms_(timeout_ms) {}
  ~Rendezvous() override;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // A new id, served from now on.   thread: [any]
  Result<RendezvousId> NewId();

 private:
  struct Guest {
    std::unique_ptr<Channel> channel;
    uint64_t nonce;
    uint32_t rank;
    bool own_process;
    Endpoint tree;
  };
  struct Session {
    uint32_t size = 0;                 // stated by the first rank
    std::map<uint32_t, Guest*> ranks;  // those who have come
    uint32_t opening = 0;              // of them, those who were asked to be reachable and have not answered
    bool full = false;                 // all have come
    uint64_t timer = 0;
  };

  void OnCaller(uint64_t nonce, Switchboard::Caller caller);
  Status Join(uint64_t nonce, Switchboard::Caller* caller);
  void OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) override;
  void OnClosed(Channel* channel, const Status& why) override;
  void OpenThenWelcome(uint64_t nonce, Session* session);
  void Welcome(uint64_t nonce, Session* session);
  void Expire(uint64_t nonce);
  void RefuseAll(uint64_t nonce, Session* session, const Status& why);
  void End(uint64_t nonce, Session* session);
  void Drop(Guest* guest);

  ControlThread* control_;
  Switchboard* switchboard_;
  const uint64_t timeout_ms_;
  std::mutex mutex_;
  std::map<uint64_t, Session> sessions_;               // by nonce; guarded by mutex_
  std::map<Channel*, std::unique_ptr<Guest>> guests_;  // control thread only
  std::vector<std::unique_ptr<Guest>> leaving_;        // control thread only; destroyed by the sweep
  uint64_t sweep_ = 0;                                 // control thread only
};

// A rank's side. Reports to the rendezvous of `id` and returns where its parent in the control tree is; for rank 0 the
// answer means only that all have come. `mine` is where the rank's own children will call.
Result<Endpoint> JoinRendezvous(const RendezvousId& id, uint32_t rank, uint32_t size, const Extension& mine,
                                const Patience& patience);

}  // namespace sl::kernel
