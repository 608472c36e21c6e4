// SPDX-License-Identifier: Apache-2.0
//
// Buffers of callers that peers load from and store to where they lie: sl_reach_ops_t of one communicator.
//
// The first operation on a buffer offers what lies under it (extent.h), an allocation or a row of them, to the other
// ranks of the host (offer_board.h) and waits until all have mapped it and said where they see it; later ones find that
// here. The device keeps what a peer maps, even when its owner has freed it. So an offer is withdrawn when its
// allocations are gone, or when others need its place; and no more is offered than is free besides, so that a program
// may free everything and allocate as much at once. The driver makes unmapping wait for running kernels, and launches
// wait for an unmapping, so peers unmap when they run nothing.
//
// When some allocations of a row are gone and others are not, the offer is stale (offered_memory.h). Launches, graphs
// and windows may rely on what is left of it, so it stays mapped until none of them does, and answers no new request:
// what is asked for from then on is offered anew.
//
// An operation that was given up may have told a peer, which has still to launch it, where memory is to be found. So
// then nothing is withdrawn any more: it stays mapped until the peers' communicators end, which launch nothing after.
//
// What is mapped by hand has descriptors for handles, which peers fetch (handle_desk.h); the others stand on the board.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/comm/handle_desk.h"
#include "kernel/comm/offered_memory.h"
#include "kernel/memory/foreign_memory.h"
#include "kernel/memory/offer_board.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

// Opaque in the ABI.
struct sl_reach_t {};

namespace sl::kernel {

extern const sl_reach_ops_t kReachOps;

class Reach : public sl_reach_t {
 public:
  struct Setting {
    const sl_device_ops_t* device_ops;
    sl_device_t* device;
    OfferBoard board;
    uint32_t rank;
    std::vector<bool> shares_process;  // of each rank: it is of this process
    uint64_t most_bytes;               // that may be offered at a time
    uint64_t spared_bytes;             // of the device, that stay free besides
    uint64_t patience_ns;              // of a call, for peers to map what it asks for
    uint64_t rest_ns;                  // unused for so long, an allocation may make room for others
    std::function<void()> ring;        // lets all peers look at their boards soon; never waits
    std::function<bool()> is_over;     // nobody will answer any more
    std::function<bool()> gives_up;    // launches may have ended without having met their peers'
    HandleDesk* desk;                  // of this rank; outlives this
    // What lies on the desk of `owner`; bounded.   thread: the keeper's
    std::function<Result<HandleList>(uint32_t owner, const HandleDesk::Ticket& ticket)> fetch;
  };

  explicit Reach(Setting setting);
  ~Reach();  // Close() has been called
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

  // As sl_reach_ops_t.   [data]
  sl_status_t Addresses(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses);

  // The same for memory that stays offered until it is unpinned, or freed as a whole.   [control]
  struct Pin {
    uint32_t place = UINT32_MAX;  // none: nothing is pinned
    uint64_t turn = 0;
  };
  Pin PinAddresses(const void* memory, uint64_t bytes, uint64_t* out_addresses);
  void Unpin(const Pin& pin);
  // What is pinned stays offered for a graph too, which has captured addresses of [memory, memory + bytes) in it.
  // False: it is not what was pinned any more.   [data]
  bool HoldPinned(const Pin& pin, const void* memory, uint64_t bytes);

  // Looks at all boards: maps what is offered, withdraws what is gone or too much, and unmaps what is withdrawn, if
  // `may_unmap` says so right before. True: it wants to be called again soon, although nobody rings. By one thread at a
  // time; returns at once after Close().
  bool Keep(const std::function<bool()>& may_unmap);
  // Keep() returns when what it maps or unmaps is done, and does nothing from now on.   thread: [any]
  void StopKeeping() { is_kept_.store(false); }
  // No launch of the communicator runs, as far as is known: replays of graphs are not.   thread: [any]
  bool IsIdle() const;

  // How the communicator stands: whether its launches have ended; whether a call is under way, which may have asked for
  // addresses and not launched yet; and the newest call's number, from 1 on. Till it is set, they have and none
  // is.   [init]
  void WatchUse(std::function<bool()> have_ended, std::function<bool()> is_called,
                std::function<uint64_t()> call = nullptr);
  // Withdraws everything, unless operations were given up, and unmaps everything; no launch runs. Waits for a running
  // Keep().   [control]
  void Close();

  // Offers that stand, and those mapped from peers.   thread: [any]
  uint32_t offered() const;
  uint32_t mapped() const;
  // How often the answer was no.   thread: [any]
  uint64_t refused() const;

 private:
  enum class State { kFree, kOffered, kReady, kRefused, kWithdrawn };
  struct Own {  // an offer of this rank
    State state = State::kFree;
    bool is_captured = false;  // by a graph, which may be launched at any time
    bool is_laid = false;      // on the desk
    uint32_t pins = 0;
    uint64_t turn = 0;
    OfferedMemory memory;
    uint64_t last_call = 0;  // that has asked for it; 0: not known
    uint64_t last_use_ns = 0;
    uint64_t patience_end_ns = 0;
    std::vector<uint64_t> addresses;  // of each rank; own: where the memory begins

    bool is_standing() const { return state != State::kFree && state != State::kWithdrawn; }
    // A graph or a pin relies on it.
    bool IsHeld() const { return (is_captured || pins != 0) && memory.IsHeld(); }
  };
  struct Taken {  // an offer of a peer
    uint64_t turn = 0;
    std::unique_ptr<ForeignMemory> memory;
  };

  // Offered and mapped by all; NULL: not to be had, why was said. `call`: that asks; 0: it is asked for in no call.
  Own* Reached(std::unique_lock<std::mutex>* lock, const void* memory, uint64_t bytes, uint64_t call,
               uint64_t* out_addresses);
  // Of what has been asked for. NULL: not to be had, with the reason.
  Own* Find();
  Own* Offer(std::string* out_reason);
  Status Export(OfferBoard::Offer* offer, HandleList* out_list) const;
  Result<HandleList> ExportAll(uint32_t type) const;
  void TakeBack(Own* own);
  Own* FindRoom(uint64_t bytes);
  Own* Oldest(uint64_t unused_since_ns);
  uint64_t HeldBytes() const;
  bool LeavesEnough(uint64_t bytes) const;
  bool IsScarce(uint64_t bytes);
  bool IsAnswered(const Own& own, uint64_t turn) const;
  uint64_t Call() const { return call_ ? call_() : 0; }
  uint64_t WaitEndOf(uint64_t call);
  bool AwaitAnswers(Own* own, uint64_t call, std::unique_lock<std::mutex>* lock);
  void CollectAnswers(Own* own);
  void Withdraw(Own* own);
  bool IsOver(const Own& own) const;
  Own* Refuse(std::string_view reason);

  Taken& TakenOf(uint32_t owner, uint32_t index) { return taken_[uint64_t{owner} * OfferBoard::kOffers + index]; }
  template <typename Look>
  bool LookAtPeers(Look look);
  void MapOffered(uint32_t owner, uint32_t index);
  bool UnmapWithdrawn(uint32_t owner, uint32_t index, const std::function<bool()>& may_unmap);
  bool KeepOwn();
  bool IsIdleLocked() const;
  Result<std::unique_ptr<ForeignMemory>> Map(uint32_t owner, uint32_t index, uint64_t turn) const;

  uint32_t IndexOf(const Own& own) const { return static_cast<uint32_t>(&own - own_.data()); }

  const Setting setting_;
  mutable std::mutex mutex_;
  std::array<Own, OfferBoard::kOffers> own_;  // guarded by mutex_
  Extent asked_;                              // by the latest call; guarded by mutex_
  uint64_t asked_times_ = 0;                  // guarded by mutex_, as the next four
  uint64_t refused_times_ = 0;
  uint64_t offered_times_ = 0;
  uint64_t exporting_ns_ = 0;
  uint64_t waited_ns_ = 0;
  uint64_t offered_bytes_ = 0;        // guarded by mutex_
  uint64_t scarce_bytes_ = 0;         // so many were too many, at least until then; guarded by mutex_
  uint64_t scarce_until_ns_ = 0;      // guarded by mutex_
  std::function<bool()> have_ended_;  // guarded by mutex_
  std::function<bool()> is_called_;   // guarded by mutex_
  std::function<uint64_t()> call_;    // guarded by mutex_
  uint64_t waiting_call_ = 0;         // the newest one that has waited; guarded by mutex_
  uint64_t wait_end_ns_ = 0;          // of that call; guarded by mutex_

  std::atomic<bool> is_kept_{true};
  mutable std::mutex keep_mutex_;  // taken before mutex_
  std::vector<Taken> taken_;       // [owner][index]; guarded by keep_mutex_
  bool is_closed_ = false;         // guarded by keep_mutex_
};

}  // namespace sl::kernel
