// SPDX-License-Identifier: Apache-2.0
//
// Makes the paths of one link: connects to the peer, or takes what the peer connects, until they stand. The lower rank
// of a pair connects, the higher one accepts.
//
// Each path of a link has a number, which the connecting end gives, and epochs: every attempt is a new one, and the
// accepting end takes the newest. A link uses one path where the peer's memory is mapped; else as many as configured,
// and at least one for every pair of ports. What fails is tried again, later each time; what cannot pass ends a link
// that is not up.
//
// thread: as chunk_link.h says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/link/chunk_link.h"
#include "kernel/link/route.h"
#include "sl_transport.h"

namespace sl::kernel {

// What the paths of one rank share.
struct PathConfig {
  uint32_t rank = 0;
  uint64_t comm_id = 0;  // connections of other communicators are dropped
  uint32_t chunk_bytes = 131072;
  uint32_t slots = 8;                     // of a link; of one to another host for each connection, see kMostShares
  const char* const* hosts = nullptr;     // a text a host, by rank; NULL: all are on one. Borrowed
  uint32_t connections = 1;               // of a link that is not mapped
  std::vector<LinkTransport> transports;  // the best first: a peer is reached over the first that can

  LinkGeometry GeometryOf(uint32_t shares) const { return {slots * shares, chunk_bytes}; }
};

class PathMaker {
 public:
  // For so many connections a link gets slots; further ones share them, since every window has a place for each chunk.
  static constexpr uint32_t kMostShares = 4;

  // A path that stands, to be attached to the link.
  struct Made {
    uint32_t transport;
    uint32_t epoch;
    LinkConnection connection;
  };

  PathMaker(const PathConfig& config, ChunkLink* link);  // both are borrowed
  ~PathMaker() { Drop(); }
  PathMaker(const PathMaker&) = delete;
  PathMaker& operator=(const PathMaker&) = delete;

  bool has_route() const { return !route_.ports.empty(); }
  uint32_t transport() const { return route_.transport; }  // this end's choice
  uint32_t count() const { return static_cast<uint32_t>(paths_.size()); }
  uint32_t wanted() const { return wanted_; }  // paths that this end makes
  bool AllUp() const;                          // of these
  // Why the newest attempt at the first path failed, in the transport's words.
  std::string why() const { return paths_.empty() ? "" : paths_[0].why; }

  // What the connecting end says with an attempt. IsOurs: it is for a path to this rank.
  static bool IsOurs(const PathConfig& config, const sl_connect_args_t& args);
  static uint32_t IndexOf(const sl_connect_args_t& args);
  // Its windows are cut like ours; by `maker`, NULL if there is none yet, like those of the paths before.
  static bool Fits(const PathConfig& config, const PathMaker* maker, const sl_connect_args_t& args);
  // Takes a connection that fits, or retires it: false, there is a newer one, or the link has failed.
  bool Accept(uint32_t transport, sl_connection_t* connection, const sl_connect_args_t& args);

  // Connects for a path that is not up, if none is on its way and it is time to. False: there is nothing to finish.
  bool Start(uint32_t index, uint64_t now_ns);
  // Hands a path out if it stands now.
  std::optional<Made> Finish(uint32_t index, uint64_t now_ns);
  // The link went down: what failed before does not count.
  void Restart(uint64_t now_ns);
  // Retires what is on its way.
  void Drop();

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

  bool Connects() const { return config_.rank < link_->peer(); }
  uint64_t WindowBytes() const;
  void DropStarting(Making* making) const;
  static void ForgetFailures(Making* making);
  void OnRefused(Making* making, sl_status_t status, uint64_t now_ns);
  void OnShortage(Making* making, sl_status_t status, uint64_t now_ns) const;

  const PathConfig& config_;
  ChunkLink* const link_;
  const Route route_;
  uint32_t wanted_ = 0;
  uint64_t window_bytes_ = 0;  // of every path; the connecting end says it. 0: it has not yet
  std::vector<Making> paths_;
};

}  // namespace sl::kernel
