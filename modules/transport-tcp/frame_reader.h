// SPDX-License-Identifier: Apache-2.0
//
// The receiving end of a stream of frames. Payload goes from the socket into the window; only what comes in together
// with a header, at most kAhead bytes, is copied there. Works on bytes alone, so that a fuzzer drives the same code.
//
// thread: one at a time. Signal words are stored with release (R1): whoever acquires a value sees the bytes of its put.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "modules/transport-tcp/wire.h"

namespace sl::transport_tcp {

class FrameReader {
 public:
  // What is read beyond a payload in one call: dozens of small frames, or little of a large one.
  static constexpr size_t kAhead = 2048;
  // The same behind a long payload, which another one is likely to follow: a signal, a frame, and little of that
  // payload.
  static constexpr size_t kAheadOfLong = 3 * sizeof(Frame);
  static constexpr uint64_t kLong = 16384;

  // Where frames may write; the memory outlives the reader.
  struct Target {
    uint8_t* window = nullptr;
    uint64_t window_bytes = 0;
    uint64_t* signals = nullptr;  // a cache line apart
    uint32_t signal_count = 0;
  };

  explicit FrameReader(const Target& target) : target_(target) {}

  // Where the next bytes of the stream go; returns how many parts, 1 or 2, never empty.
  int Room(iovec parts[2]);
  // Takes `bytes` that were stored there, in order. False when the stream is broken, for good; why() says how.
  bool Take(size_t bytes);

  const char* why() const { return why_; }
  bool goodbye() const { return goodbye_; }    // the peer has retired; what follows is ignored
  uint64_t probe() const { return probe_; }    // the newest probe to be answered
  uint64_t answer() const { return answer_; }  // the newest probe of ours that was answered
  uint64_t copied() const { return copied_; }  // bytes of payload that did not go straight into the window

 private:
  bool TakeFrames();
  bool Begin(const Frame& frame);
  void End();

  const Target target_;
  std::array<uint8_t, kAhead> ahead_;
  size_t have_ = 0;  // bytes of headers and payload in ahead_
  Frame frame_ = {};
  uint8_t* next_ = nullptr;  // in the window
  uint64_t left_ = 0;        // of the payload; 0: between frames
  std::array<uint64_t, kMaxSignals> newest_ = {};
  uint64_t probe_ = 0;
  uint64_t answer_ = 0;
  uint64_t copied_ = 0;
  bool goodbye_ = false;
  const char* why_ = nullptr;
};

}  // namespace sl::transport_tcp
