// SPDX-License-Identifier: Apache-2.0
//
// The links of one rank: made at first use, connected while they are polled, repaired when a path is lost.
//
// A peer's connection makes the link it belongs to. A link is up with its first path (path_maker.h); lost ones are made
// again for as long as it is up. A link without any path for `link_timeout_ns` has failed. A first connection has no
// such limit: the peer may be late, and how long that may last is the caller's business.
//
// thread: everything here, and every call on the links, is serialised by the user of the rank (Driving).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/link/chunk_link.h"
#include "kernel/link/path_maker.h"
#include "kernel/link/route.h"
#include "kernel/link/wait_objects.h"
#include "sl_transport.h"

struct pollfd;

namespace sl::kernel {

class LinkKeeper;

struct LinkTableConfig : PathConfig {
  uint32_t size = 1;
  uint32_t lanes = 2;
  uint64_t resend_ns = 1'000'000'000;
  uint64_t tell_after_ns = 200'000;          // how long a release may wait for a chunk the other way; 0: not at all
  uint64_t link_timeout_ns = 1'000'000'000;  // from the loss of the last path to the failure of its link
  uint64_t (*now_ns)() = nullptr;            // NULL: CLOCK_MONOTONIC
  uint64_t begin = 0;                        // LinkContext's, equal on all ranks
  LinkKeeper* keeper = nullptr;              // NULL: only its user drives the table
};

class LinkTable final : public LinkProvider {
 public:
  // Of plans, and with those of captures (kernel/engine/run.h).
  static constexpr uint32_t kPlanLanes = 64;
  static constexpr uint32_t kMaxLanes = 256;

  explicit LinkTable(LinkTableConfig config);
  ~LinkTable() override;
  LinkTable(const LinkTable&) = delete;
  LinkTable& operator=(const LinkTable&) = delete;

  Link* Get(uint32_t peer, uint32_t lane) override;
  // Failures belong to links, which report them to their users; the result is a transport's own error.
  sl_status_t Progress() override;
  // NULL while a link is being made or repaired whose peer has to ring: until it is up, it cannot.
  sl_doorbell_t* doorbell() override;
  // None while a peer that has to ring cannot, several runs are in use, or a peer waits for word of a release.
  std::span<const int32_t> descriptors() override;

  // The keeper's: drives the table once if nobody waits on it and its user has not driven since the last time, or if
  // who waits sleeps on a doorbell; then appends the descriptors to be watched.
  // thread: the keeper's
  struct Care {
    bool busy = false;   // something is under way
    bool moved = false;  // something was fetched
  };
  Care Keep(std::vector<pollfd>* watched);

  // Some transport has a port on a fabric of the peer's.   [any]
  bool Reaches(uint32_t peer) const;
  // Everything that was sent has been acknowledged; before that a rank must not leave for good.
  bool Idle();
  // Connections dropped because they named a link that cannot be, or another communicator.
  uint64_t strangers() const { return strangers_; }
  uint32_t link_count() const { return static_cast<uint32_t>(entries_.size()); }
  uint64_t resends() const;  // chunks sent more than once, over all links
  // A link over a network was made: what it sends may need a push between operations.   [any]
  bool needs_care() const { return needs_care_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    Entry(LinkContext* context, const PathConfig& config, uint32_t peer, uint32_t lane)
        : link(context, config.GeometryOf(1), peer, lane), maker(config, &link) {}

    ChunkLink link;
    PathMaker maker;
    bool was_up = false;
    bool settled = false;  // up, or failed
    uint64_t broken_since_ns = 0;
  };

  Entry* Find(uint32_t peer, uint32_t lane);
  Entry* Make(uint32_t peer, uint32_t lane);
  void Advance(uint64_t now_ns);
  void OnShared() override { wait_objects_.Retract(); }
  void AcceptAll();
  void Admit(uint32_t transport, sl_connection_t* connection, const sl_connect_args_t& args);
  void Tick(uint64_t now_ns);
  void TellReleased();
  void Settle(Entry* entry, uint64_t now_ns);
  void NoteSettled(Entry* entry, uint64_t now_ns);
  void AttachIfMade(Entry* entry, uint32_t index, uint64_t now_ns);
  void UseTransport(uint32_t index);
  bool SomePeerCannotRing() const;
  void WantCare();

  const LinkTableConfig config_;
  LinkContext context_;
  std::vector<std::vector<Entry*>> by_lane_;  // [lane][peer]; NULL: not used yet
  std::vector<std::unique_ptr<Entry>> entries_;
  uint32_t unsettled_ = 0;
  WaitObjects wait_objects_;
  enum class Use : uint8_t { kNone, kRings, kHasDescriptor };
  std::vector<Use> uses_;  // of the transports, by their index
  uint32_t calls_ = 0;
  uint64_t tick_ns_ = 0;
  uint64_t next_tick_ns_ = 0;
  uint64_t strangers_ = 0;
  uint64_t kept_at_ = UINT64_MAX;  // drives() when the keeper last looked
  std::atomic<bool> needs_care_{false};
};

}  // namespace sl::kernel
