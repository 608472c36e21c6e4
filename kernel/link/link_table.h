// SPDX-License-Identifier: Apache-2.0
//
// The links of one rank: made at first use, connected while they are polled, repaired when a path is lost.
//
// The lower rank of a pair connects, the higher one accepts; a peer's connection makes the link it belongs to. Each
// path of a link has a number, which the connecting end gives, and epochs: every attempt is a new one, and the
// accepting end takes the newest. A link uses one path where the peer's memory is mapped; else as many as configured,
// and at least one for every pair of ports. It is up with its first path; lost ones are made again for as long as it is
// up. A link without any path for `link_timeout_ns` has failed. A first connection has no such limit: the peer may be
// late, and how long that may last is the caller's business.
//
// thread: everything here, and every call on the links, is serialised by the user of the rank (Driving).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/link/chunk_link.h"
#include "kernel/link/route.h"
#include "kernel/link/wait_objects.h"
#include "sl_transport.h"

struct pollfd;

namespace sl::kernel {

class LinkKeeper;

struct LinkTableConfig {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t comm_id = 0;  // connections of other communicators are dropped
  uint32_t chunk_bytes = 131072;
  uint32_t slots = 8;                  // of a link; of one to another host for each connection, see kMostShares
  const char* const* hosts = nullptr;  // a text a host, by rank; NULL: all are on one. Borrowed
  uint32_t lanes = 2;
  uint32_t connections = 1;  // of a link that is not mapped
  uint64_t resend_ns = 1'000'000'000;
  uint64_t tell_after_ns = 200'000;          // how long a release may wait for a chunk the other way; 0: not at all
  uint64_t link_timeout_ns = 1'000'000'000;  // from the loss of the last path to the failure of its link
  uint64_t (*now_ns)() = nullptr;            // NULL: CLOCK_MONOTONIC
  LinkKeeper* keeper = nullptr;              // NULL: only its user drives the table
  std::vector<LinkTransport> transports;     // the best first: a peer is reached over the first that can
};

class LinkTable final : public LinkProvider {
 public:
  // Of plans, and with those of captures (kernel/engine/run.h).
  static constexpr uint32_t kPlanLanes = 64;
  static constexpr uint32_t kMaxLanes = 256;
  // For so many connections a link gets slots; further ones share them, since every window has a place for each chunk.
  static constexpr uint32_t kMostShares = 4;

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
  // A path on its way up.
  struct Making {
    uint32_t transport = 0;
    sl_connection_t* connection = nullptr;
    uint32_t port = 0;
    uint32_t epoch = 0;
    uint32_t refusals = 0;  // by the peer's host, in a row
    std::string why;        // of the newest failure, in the transport's words
    uint64_t failing_since_ns = 0;
    bool failure_is_said = false;
    uint64_t short_since_ns = 0;  // descriptors, ports or memory are missing on this side; 0: they are not
    uint64_t backoff_ns = 0;
    uint64_t next_try_ns = 0;
  };
  struct Entry {
    std::unique_ptr<ChunkLink> link;
    Route route;
    std::vector<Making> paths;
    uint32_t wanted = 0;        // paths that this end makes
    uint64_t window_bytes = 0;  // of every path; the connecting end says it. 0: it has not yet
    bool was_up = false;
    bool settled = false;  // up, or failed
    uint64_t broken_since_ns = 0;
  };

  Entry* Find(uint32_t peer, uint32_t lane);
  Entry* Make(uint32_t peer, uint32_t lane);
  uint64_t WindowBytesTo(uint32_t peer, size_t ports) const;
  bool IsWindow(uint64_t bytes) const;
  bool Connects(uint32_t peer) const { return config_.rank < peer; }
  void Advance(uint64_t now_ns);
  void OnShared() override { wait_objects_.Retract(); }
  void AcceptAll();
  void Admit(uint32_t transport, sl_connection_t* connection, const sl_connect_args_t& args);
  bool IsOurs(const sl_connect_args_t& args) const;
  void Tick(uint64_t now_ns);
  void TellReleased();
  void Settle(Entry* entry, uint64_t now_ns);
  void NoteSettled(Entry* entry, uint64_t now_ns);
  void StartConnect(Entry* entry, uint32_t index, uint64_t now_ns);
  void FinishStart(Entry* entry, uint32_t index, uint64_t now_ns);
  void Adopt(Entry* entry, uint32_t index, const LinkConnection& connection);
  void DropStarting(Making* making);
  static void ForgetFailures(Making* making);
  void OnRefused(Entry* entry, uint32_t index, sl_status_t status, uint64_t now_ns);
  void OnShortage(ChunkLink* link, Making* making, sl_status_t status, uint64_t now_ns) const;
  bool IsComplete(const Entry& entry) const;
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
