// SPDX-License-Identifier: Apache-2.0
//
// Where ranks meet. The process that makes a unique id serves it: every rank reports once, and when all have come each
// is told where its parent in the control tree listens. One listener serves all ids of a process.
//
// Joining: kJoin {nonce, rank, size, proof, tree name} -> kWelcome {parent's tree name} | kRefuse {status, text}.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernel/comm/channel.h"
#include "kernel/comm/unique_id.h"

namespace sl::kernel {

class Rendezvous : public ControlThread::Watched, public Channel::Owner {
 public:
  // `timeout_ms`: from the first rank of an id to its last.
  Rendezvous(ControlThread* control, uint64_t timeout_ms) : control_(control), timeout_ms_(timeout_ms) {}
  ~Rendezvous() override;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // A new id, served from now on.   thread: [any]
  Result<RendezvousId> NewId();

 private:
  struct Guest {
    std::unique_ptr<Channel> channel;
    uint64_t timer = 0;  // drops a guest that does not introduce itself
    bool joined = false;
    bool own_process = false;
  };
  struct Joined {
    Channel* channel;
    SocketName tree;
  };
  struct Session {
    RendezvousId id;
    uint32_t size = 0;  // stated by the first rank
    std::map<uint32_t, Joined> ranks;
    uint64_t timer = 0;
  };

  Status Open();
  void RefuseForWantOfDescriptors();
  void OnReady(int fd, uint32_t events) override;
  void OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) override;
  void OnClosed(Channel* channel, const Status& why) override;
  Status Join(Channel* channel, const Bytes& payload);
  void Complete(Session* session);
  void Expire(uint64_t nonce);
  void RefuseAll(Session* session, const Status& why);
  void Drop(Channel* channel);

  ControlThread* control_;
  const uint64_t timeout_ms_;
  std::mutex mutex_;
  Listener listener_;                              // guarded by mutex_ until open_
  bool open_ = false;                              // guarded by mutex_
  Fd spare_;                                       // given up to tell a guest that there are no descriptors left
  std::map<uint64_t, Session> sessions_;           // guarded by mutex_
  std::map<Channel*, Guest> guests_;               // control thread only
  std::vector<std::unique_ptr<Channel>> leaving_;  // control thread only; destroyed by the sweep
  uint64_t sweep_ = 0;                             // control thread only
  uint64_t pause_ = 0;                             // the same; watches the listener again
};

// A rank's side. Reports to the rendezvous of `id` and returns the name of its parent's tree listener; for rank 0 the
// answer means only that all have come.
Result<SocketName> JoinRendezvous(const RendezvousId& id, uint32_t rank, uint32_t size, const SocketName& tree,
                                  const Patience& patience);

}  // namespace sl::kernel
