// SPDX-License-Identifier: Apache-2.0
//
// The copies of one rank: what it gives to whom, at what cost. All but a gather push, into the receive buffers of their
// peers; a gather is pulled by its root, since nobody else has its receive buffer. Peers begin behind the own rank, so
// that no two ranks copy to the same one at once.
//
// A long broadcast to several ranks goes in two phases, by which every rank sends about as much as the buffer holds:
// the root gives each peer a part, where it belongs, and then each peer gives its part to the others.
#pragma once

#include <cstdint>
#include <span>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_copy {
class CopyWriter;
}  // namespace sl::algo_copy

struct sl_algorithm_t {
  // `is_asked_for`: by CTA policy ZERO. `settings_ops`, `settings`: what is told of calls; NULL: nothing.
  sl_algorithm_t(const sl_host_t* its_host, uint32_t rank, uint32_t size, bool is_asked_for,
                 const sl_settings_ops_t* settings_ops = nullptr, sl_settings_t* settings = nullptr)
      : host(its_host),
        rank_(rank),
        size_(size),
        is_asked_for_(is_asked_for),
        settings_ops_(settings_ops),
        settings_(settings) {}

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  sl::Status Copies(const sl_op_t& op, std::span<sl_copy_t> out_copies, uint32_t* out_count) const;

  const sl_host_t* const host;

 private:
  // NULL: it is served.
  const char* Refuses(const sl_op_t& op) const;
  // By the call itself, or by its communicator.
  bool IsAskedFor(const sl_op_t& op) const;
  uint64_t PhaseNs(uint64_t sent_bytes) const;
  // A broadcast of so many bytes, in one phase or in two.
  uint64_t WholeBroadcastNs(uint64_t bytes) const;
  uint64_t PartedBroadcastNs(uint64_t bytes) const;
  bool PartsBroadcast(uint64_t bytes) const { return PartedBroadcastNs(bytes) < WholeBroadcastNs(bytes); }

  void Broadcast(uint32_t root, uint64_t bytes, sl::algo_copy::CopyWriter* writer) const;
  void BroadcastParts(uint32_t root, uint64_t bytes, sl::algo_copy::CopyWriter* writer) const;
  uint32_t Behind(uint32_t rank, uint32_t steps) const { return (rank + steps) % size_; }

  const uint32_t rank_;
  const uint32_t size_;
  const bool is_asked_for_;
  const sl_settings_ops_t* const settings_ops_;
  sl_settings_t* const settings_;
};
