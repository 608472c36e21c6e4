// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of this module: anonymous files (memfd) that cannot shrink, their mappings, and what lies where.
#pragma once

#include <cstdint>
#include <memory>

#include "sdk/fd.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::transport_shm {

// A shared segment in this process's memory, gone in forked children.
class Mapping {
 public:
  // Maps `bytes` of a segment somebody else made, after checking that it is a sealed file of that length.
  static Result<std::unique_ptr<Mapping>> Map(int fd, uint64_t bytes, bool huge_pages);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  uint64_t bytes() const { return bytes_; }

 private:
  Mapping(void* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  void* const data_;
  const uint64_t bytes_;
};

// A new zeroed segment of fixed length. `name` shows in /proc/<pid>/maps.
Result<Fd> MakeSegment(const char* name, uint64_t bytes);

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 64;
constexpr uint32_t kMaxSignals = 64;
constexpr uint64_t kMaxWindowBytes = uint64_t{1} << 36;

// A rank's own small segment, mapped by its peers: where they wake it.
struct Port {
  alignas(kLine) sl_doorbell_t bell;
  // Incremented by peers when progress() has something to look at: a probe, a closed connection.
  alignas(kLine) uint32_t attention;
};
static_assert(sizeof(Port) <= kPage);
constexpr uint64_t kPortBytes = kPage;

// What one end of a connection tells the other, besides windows and signals. Written by that end only.
struct EndState {
  alignas(kLine) uint32_t closed;  // 1: retired in good order
  uint64_t probe_asked;            // counts this end's probes
  uint64_t probe_answered;         // the newest probe of the other end that this end has seen
};
static_assert(sizeof(EndState) == kLine);

// Offsets in a connection's segment; end 0 connected, end 1 accepted. Valid() bounds what a peer claims.
struct Layout {
  uint64_t window_bytes;
  uint32_t signal_count;

  bool Valid() const { return window_bytes <= kMaxWindowBytes && signal_count <= kMaxSignals; }
  uint64_t State(uint32_t end) const { return end * sizeof(EndState); }
  uint64_t Signals(uint32_t end) const { return kPage + end * RoundUp(signal_count * kLine); }
  uint64_t Window(uint32_t end) const { return Signals(2) + end * RoundUp(window_bytes); }
  uint64_t Total() const { return Window(2); }

  static uint64_t RoundUp(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
};
static_assert(2 * sizeof(EndState) <= kPage);

}  // namespace sl::transport_shm
