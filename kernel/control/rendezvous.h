// SPDX-License-Identifier: Apache-2.0
//
// Where ranks meet. The process that makes a unique id serves it, under an extension of its switchboard: every rank
// reports once, and when all have come each is told where its neighbours in the control tree are. Ranks that know each
// other already, because they shrink a communicator, meet at one of them without an id. With several ids each is where
// a group of ranks meets, and the first one also where the first ranks of all groups do (meet.h).
//
// A job within one host opens no port but that of the id, which cannot know where ranks will come from. Only when all
// have come and some are on other hosts, those that cannot be reached from there are asked to open one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/control/channel.h"
#include "kernel/control/join.h"

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

  // A meeting without an id.
  struct Gathering {
    std::vector<uint32_t> names;                    // what each rank is called in messages, by its new number
    std::string terms;                              // everybody has to come with these
    uint64_t timeout_ms = 0;                        // from now to the last rank
    const char* remedy = "";                        // what to do about absent ranks, for the message; a literal
    std::function<void(const Status&)> on_refused;  // nobody meets; calls nothing here
  };
  // Returns the nonce of the communicator to be. Those who come are handed to Admit; the first one in error, or lost,
  // ends it for all.   thread: [any]
  Result<uint64_t> Host(Gathering gathering);
  // Its host has given up: all who have come hear why. Nothing if they have met, or were refused before.   thread:
  // [any]
  void CallOff(uint64_t nonce, const Status& why);
  // One who has called for the meeting of that nonce.   thread: the control thread's
  void Admit(uint64_t nonce, Switchboard::Caller caller);
  // Ranks that have come so far, to all meetings; for tests of scale.
  uint64_t admitted() const { return admitted_; }

 private:
  struct Guest {
    std::unique_ptr<Channel> channel;
    uint64_t nonce;
    uint32_t rank;
    bool own_process;
    Endpoint tree;
  };
  struct Session {
    uint32_t size = 0;  // stated by the first rank, or by the gathering
    uint64_t timeout_ms = 0;
    const char* remedy = "";
    std::unique_ptr<Gathering> gathering;  // NULL: met by an id
    std::string terms;                     // stated likewise
    uint32_t total = 0;                    // ranks of the communicator, stated likewise
    uint32_t first = 0;                    // of several ids: the number of rank 0 in the communicator
    uint64_t leaders = 0;                  // the meeting of leaders that belongs to this one; 0: none
    bool of_leaders = false;
    std::map<uint32_t, Guest*> ranks;  // those who have come
    uint32_t opening = 0;              // of them, those who were asked to be reachable and have not answered
    bool full = false;                 // all have come
    uint64_t timer = 0;
    Status refused;  // an error: why nobody meets here; it is kept, for those who have still to come

    std::string Name(uint32_t rank) const;  // "rank 3"
  };

  Result<Endpoint> Serve(const RendezvousId& id, bool of_leaders);
  void Begin(uint64_t nonce, Session* session, const JoinRequest& request);
  static Status WhyOtherTerms(const JoinRequest& request, const Session& session);
  static Status Check(const Session& session, const JoinRequest& request);
  Status Join(uint64_t nonce, Switchboard::Caller* caller);
  void OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) override;
  void OnClosed(Channel* channel, const Status& why) override;
  void OpenThenWelcome(uint64_t nonce, Session* session);
  void Welcome(uint64_t nonce, Session* session);
  void Expire(uint64_t nonce);
  void TellRefusal(Session* session, const Status& why);
  void DropAll(Session* session);
  void RefuseAll(uint64_t nonce, Session* session, const Status& why);
  void RefuseAllToCome(uint64_t nonce, Session* session, const Status& why);
  void End(uint64_t nonce, Session* session);
  void Drop(Guest* guest);

  ControlThread* control_;
  Switchboard* switchboard_;
  const uint64_t timeout_ms_;
  std::atomic<uint64_t> admitted_{0};
  std::mutex mutex_;
  std::map<uint64_t, Session> sessions_;               // by nonce; guarded by mutex_
  std::map<Channel*, std::unique_ptr<Guest>> guests_;  // control thread only
  std::vector<std::unique_ptr<Guest>> leaving_;        // control thread only; destroyed by the sweep
  uint64_t sweep_ = 0;                                 // control thread only
};

}  // namespace sl::kernel
