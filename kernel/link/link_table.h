// SPDX-License-Identifier: Apache-2.0
//
// The links of one rank of a communicator: makes them at first use, connects and accepts, replaces lost paths.
//
// Of two ranks the lower one connects, over the first transport that reaches the other, and the higher one accepts.
// Every attempt has an epoch, which only grows; the accepting end takes a connection with a newer epoch in place of
// what it has. A path that went down is replaced within `link_timeout_ns`, or the link has failed. A first connection
// has no such limit: the peer may be late, and how long that may last is the caller's business.
//
// thread: everything here, and every call on the links, is serialised by the user of the rank; a Progress() that meets
// another one returns at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/link/chunk_link.h"
#include "sl_transport.h"

namespace sl::kernel {

// One open transport, and where it reaches each rank. Borrowed: closed by its owner after the table is gone.
struct LinkTransport {
  const sl_transport_ops_t* ops = nullptr;
  sl_transport_t* transport = nullptr;
  std::string name;
  uint32_t port = 0;
  std::vector<sl_address_t> peers;  // by rank; `bytes` 0: not reached
};

struct LinkTableConfig {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t comm_id = 0;  // connections of other communicators are dropped
  uint32_t chunk_bytes = 131072;
  uint32_t slots = 8;
  uint32_t lanes = 2;
  uint64_t resend_ns = 1'000'000'000;
  uint64_t link_timeout_ns = 1'000'000'000;  // from the loss of a path to the failure of its link
  uint64_t (*now_ns)() = nullptr;            // NULL: CLOCK_MONOTONIC
  std::vector<LinkTransport> transports;
};

class LinkTable final : public LinkProvider {
 public:
  static constexpr uint32_t kMaxLanes = 64;

  explicit LinkTable(LinkTableConfig config);
  ~LinkTable() override;
  LinkTable(const LinkTable&) = delete;
  LinkTable& operator=(const LinkTable&) = delete;

  Link* Get(uint32_t peer, uint32_t lane) override;
  // Failures belong to links, which report them to their users; the result is a transport's own error.
  sl_status_t Progress() override;
  // NULL while a link is being made or repaired: a peer that connects cannot ring yet, so waits must be short.
  sl_doorbell_t* doorbell() override { return unsettled_ == 0 ? context_.doorbell : nullptr; }

  // Everything that was sent has been acknowledged; before that a rank must not leave for good.
  bool Idle();
  // Connections dropped because they named a link that cannot be, or another communicator.
  uint64_t strangers() const { return strangers_; }
  uint32_t link_count() const { return static_cast<uint32_t>(entries_.size()); }
  uint64_t resends() const;  // chunks sent more than once, over all links

 private:
  struct Entry {
    std::unique_ptr<ChunkLink> link;
    uint32_t transport = 0;
    // A connection on its way up, and its epoch.
    const sl_transport_ops_t* starting_ops = nullptr;
    sl_connection_t* starting = nullptr;
    uint32_t epoch = 0;
    bool was_up = false;
    bool settled = false;   // up, or failed
    uint32_t refusals = 0;  // in a row
    uint64_t backoff_ns = 0;
    uint64_t next_try_ns = 0;
    uint64_t broken_since_ns = 0;
  };

  Entry* Find(uint32_t peer, uint32_t lane);
  Entry* Make(uint32_t peer, uint32_t lane);
  bool Connects(uint32_t peer) const { return config_.rank < peer; }
  void AcceptAll();
  void Admit(const LinkTransport& transport, sl_connection_t* connection, const sl_connect_args_t& args);
  bool IsOurs(const sl_connect_args_t& args) const;
  void Tick(uint64_t now_ns);
  void Settle(Entry* entry, uint64_t now_ns);
  void StartConnect(Entry* entry, uint64_t now_ns);
  void FinishStart(Entry* entry, uint64_t now_ns);
  void DropStarting(Entry* entry);
  void OnRefused(Entry* entry, sl_status_t status, uint64_t now_ns);
  uint64_t Tag(uint32_t epoch) const { return config_.comm_id << 32 | epoch; }

  const LinkTableConfig config_;
  LinkContext context_;
  std::vector<std::vector<Entry*>> by_lane_;  // [lane][peer]; NULL: not used yet
  std::vector<std::unique_ptr<Entry>> entries_;
  uint32_t unsettled_ = 0;
  uint32_t calls_ = 0;
  uint64_t tick_ns_ = 0;
  uint64_t next_tick_ns_ = 0;
  uint64_t strangers_ = 0;
  std::atomic_flag busy_;
};

}  // namespace sl::kernel
