// SPDX-License-Identifier: Apache-2.0
//
// The one place where a process is called from outside: by ranks that join, by children in control trees, by those who
// fetch a symmetric heap. It listens on an abstract socket and, once that is needed, on one TCP port; it checks callers
// on the control thread (handshake.h) and puts those who know the secret of an extension through to it.
//
// What strangers can cost: kMaxGuests places, kIntroductionNs each, one frame of kMaxHelloBytes each. When all places
// are taken, new guests wait in the system's queue until a guest has left or has had its time: kMuteNs to say hello,
// then kBriefNs to prove what it knows. The oldest of those without a hello goes first. Of each kind of stranger the
// first is logged, the others are counted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "kernel/control/control_thread.h"
#include "kernel/control/endpoint.h"
#include "kernel/control/handshake.h"
#include "kernel/control/net_socket.h"

namespace sl::kernel {

// How other hosts are reached.
struct NetChoice {
  std::string interfaces;  // comm.interface
  NetFamily family = NetFamily::kAny;
  bool tls = false;        // comm.tls
  NetAddress listen_at{};  // nowhere: any port of the interface that the others choose
};

class Switchboard : public ControlThread::Watched {
 public:
  // Somebody who has proved to know the secret, and what was said with the proof.
  struct Caller {
    Stream stream;
    FrameType type{};
    Bytes body;
  };
  // Runs on the control thread.
  using Handler = std::function<void(Caller)>;

  static constexpr size_t kMaxGuests = 256;
  static constexpr uint64_t kIntroductionNs = 10'000'000'000;
  static constexpr uint64_t kBriefNs = 500'000'000;
  static constexpr uint64_t kMuteNs = 100'000'000;

  // `space`: of this process; tests set several hosts up in one.
  Switchboard(ControlThread* control, NetChoice choice, const HostId& space = ReadSpaceId())
      : control_(control), choice_(std::move(choice)), space_(space) {}
  ~Switchboard() override;
  Switchboard(const Switchboard&) = delete;
  Switchboard& operator=(const Switchboard&) = delete;

  // Callers that know `secret` go to `handler` from now on, until Close. The first call opens the local listener.
  // returns: where to call | SL_ERR_LIMIT   thread: [any]
  Result<Endpoint> Open(uint64_t extension, const Secret& secret, Handler handler);
  // No handler of the extension runs any more, unless this is called by it.   thread: [any]
  void Close(uint64_t extension);
  // Makes this process reachable from other hosts; endpoints made before that are told to others again.
  // returns: SL_ERR_NOT_FOUND no interface | SL_ERR_LIMIT   thread: [any]
  Result<NetAddress> OpenNet();
  // Who called last could not be taken in: this process has no descriptors left.   thread: the control thread's
  bool is_short() const { return is_short_; }
  // Whether OpenNet has a chance.
  bool HasNet() const { return ChosenInterface().ok(); }
  // Whether an endpoint of that space is reached without a network.
  bool IsHere(const HostId& space) const { return space == space_; }
  // `endpoint` as it is reached now.
  Endpoint Current(Endpoint endpoint) const;

  // Calls an extension, of this process or another one. The called end has shown that it knows the secret; whether it
  // accepts the caller shows in what follows. Who is cut off before that, as one of too many, calls again.
  // thread: [any], blocks
  Result<Stream> Call(const Endpoint& to, const Secret& secret, FrameType type, std::span<const uint8_t> body,
                      const Patience& patience) const;

  ControlThread* control() const { return control_; }
  const NetChoice& choice() const { return choice_; }
  // Dropped so far, for tests.
  uint64_t strangers() const { return strangers_; }
  // Nobody is let in at the moment; how many places are taken. For tests.   thread: the control thread's, or it is held
  bool is_shut() const { return paused_; }
  size_t guests() const { return guests_.size(); }

 private:
  struct Extension {
    Secret secret;
    Handler handler;
  };
  struct Guest {
    Stream stream;
    bool net = false;
    uint64_t since_ns = 0;  // when it came, or has greeted
    bool greeted = false;
    bool excused = false;  // it had said something when its time was over, and was given more, once
    Greeting greeting{};
    std::shared_ptr<const Extension> wanted;
    FrameHeader header{};
    Bytes in;  // header and payload, so far

    // When it has to make room for others.
    uint64_t LimitNs() const { return since_ns + (greeted ? kBriefNs : kMuteNs); }
  };

  Status OpenLocked();
  Result<NetInterface> ChosenInterface() const;
  Result<NetListener> ListenToNet() const;
  Result<Fd> Connect(const Endpoint& to, const Patience& patience) const;
  void OnReady(int fd, uint32_t events) override;
  void OnFailed(int fd, const Status& why) override;
  // The listener of that number, or NULL.
  const Fd* ListenerOf(int fd) const;
  void AcceptFrom(const Fd& listener, bool net);
  bool MakeRoom();
  std::map<int, Guest>::iterator FirstToGo();
  void PauseUntil(uint64_t when_ns);
  void Resume();
  void WatchListeners(uint32_t events);
  void Erase(int fd);
  void RefuseForWantOfDescriptors(const Fd& listener, bool net);
  void Sweep();
  void DropSilent();
  // SL_ERR_AGAIN: not all there yet.
  Status ReadFrame(Guest* guest);
  Status Listen(Guest* guest);
  Status OnHello(Guest* guest);
  Status OnProof(Guest* guest);
  void Drop(int fd, const Status& why);

  ControlThread* control_;
  const NetChoice choice_;
  const HostId space_;
  mutable std::mutex mutex_;
  LocalListener local_;                                              // guarded by mutex_ until opened
  NetListener net_;                                                  // the same
  Fd spare_;                                                         // given up to tell a guest that none are left
  std::map<uint64_t, std::shared_ptr<const Extension>> extensions_;  // guarded by mutex_
  std::map<int, Guest> guests_;                                      // control thread only
  bool is_short_ = false;                                            // control thread only
  std::set<sl_status_t> logged_;                                     // kinds of strangers; control thread only
  bool sweeping_ = false;                                            // control thread only
  bool paused_ = false;                                              // control thread only
  uint64_t sweep_ = 0;                                               // control thread only
  uint64_t pause_ = 0;                                               // control thread only
  std::atomic<uint64_t> strangers_{0};
};

}  // namespace sl::kernel
