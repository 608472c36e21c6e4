// SPDX-License-Identifier: Apache-2.0
//
// The system's notices about sends with MSG_ZEROCOPY: which calls it has finished reading.
#pragma once

#include <array>
#include <cstdint>

namespace sl::transport_tcp {

class ZeroCopies {
 public:
  // Numbers the next successful call, from 1.
  uint64_t Begin() { return ++begun_; }
  uint64_t begun() const { return begun_; }
  // All calls up to this one are finished.
  uint64_t finished() const { return finished_; }
  bool outstanding() const { return begun_ != finished_; }
  // Of a stream that was aborted and whose notices make no sense: the system sends nothing of it any more.
  void Forget() { finished_ = begun_; }
  // The system says that the calls first..last (counted from 0, 32 bits) are finished. They come in order but for rare
  // exceptions; false when there are more exceptions than can be kept.
  bool Finish(uint32_t first, uint32_t last);
  // Takes the notices from the socket's error queue; adds to the counts how many calls they cover and how many of these
  // the system copied after all. False when Finish() says so.
  bool Read(int socket, uint64_t* copied);

 private:
  struct Range {
    uint64_t first;
    uint64_t last;
  };
  uint64_t begun_ = 0;
  uint64_t finished_ = 0;
  std::array<Range, 16> early_ = {};  // finished before an earlier call was
  uint32_t early_count_ = 0;
};

}  // namespace sl::transport_tcp
