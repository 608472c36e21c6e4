// SPDX-License-Identifier: Apache-2.0
//
// The wire format of the control plane: a 24-byte header, then `bytes` of payload; little-endian. Lengths are checked
// before anything is read or allocated. The header, and the payload of a kRefuse frame, are the same in every version,
// so that different ones can tell each other. Payload fields are written and read in order with Writer and Reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/control/page_allocator.h"
#include "sdk/status.h"

namespace sl::kernel {

using Bytes = std::vector<uint8_t, PageAllocator<uint8_t>>;

enum class FrameType : uint16_t {
  kJoin = 1,      // rank -> rendezvous
  kWelcome = 2,   // rendezvous -> rank: where its neighbours are
  kRefuse = 3,    // either way: status and text
  kChild = 4,     // child -> parent, first frame
  kGather = 5,    // child -> parent: contributions of a subtree
  kSpread = 6,    // parent -> child: all contributions
  kFault = 7,     // any neighbour: a rank is lost
  kDepart = 8,    // any neighbour: a rank has left in good order, or aborted
  kReport = 9,    // any neighbour: an operation of a rank has failed; status and text
  kHello = 10,    // caller -> called: which extension, a challenge
  kAnswer = 11,   // called -> caller: a challenge, a proof
  kHeap = 12,     // caller -> owner of a symmetric heap, who sends a descriptor
  kOpen = 13,     // rendezvous -> rank: the job spans hosts, be reachable from others
  kOpened = 14,   // rank -> rendezvous: where
  kBeat = 15,     // any neighbour on another host: still here
  kSlice = 16,    // caller -> owner of a slice of a symmetric heap, who sends a descriptor
  kCalled = 17,   // child -> parent: what ranks that wait have called
  kId = 18,       // rank -> rank 0, behind a given address: its number; back: an id
  kReach = 19,    // any neighbour: a rank's board of offered memory has changed
  kHandles = 20,  // caller -> owner of offered memory, who sends its handles (handle_desk.h)
};

struct FrameHeader {
  uint32_t magic;
  uint16_t version;
  FrameType type;
  uint64_t sequence;  // of the collective; 0 for others
  uint32_t bytes;
  uint32_t reserved;  // 0
};
static_assert(sizeof(FrameHeader) == 24);

constexpr uint32_t kFrameMagic = 0x52464c53;  // "SLFR"
constexpr uint16_t kFrameVersion = 5;
constexpr uint32_t kMaxFrameBytes = 64u << 20;
constexpr uint32_t kMaxHelloBytes = 4096;  // before a peer has proved who it is

// SL_OK, or SL_ERR_LINK_CORRUPT with what is wrong. `max_bytes` bounds the payload.
Status CheckHeader(const FrameHeader& header, uint32_t max_bytes);

Bytes EncodeFrame(FrameType type, uint64_t sequence, std::span<const uint8_t> payload);

class Writer {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    PutRaw(&value, sizeof(T));
  }
  void PutBytes(std::span<const uint8_t> bytes) {
    Put(static_cast<uint32_t>(bytes.size()));
    PutRaw(bytes.data(), bytes.size());
  }
  void PutText(std::string_view text) { PutBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}); }
  // Bytes without a length before them.
  void Append(std::span<const uint8_t> bytes) { PutRaw(bytes.data(), bytes.size()); }
  Bytes Take() { return std::move(bytes_); }
  const Bytes& bytes() const { return bytes_; }

 private:
  void PutRaw(const void* data, size_t bytes) {
    const auto* begin = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  Bytes bytes_;
};

// Reads what Writer wrote. After the first field that is not there, everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const uint8_t* at = Advance(sizeof(T))) std::memcpy(&value, at, sizeof(T));
    return value;
  }
  Bytes GetBytes() {
    const uint32_t size = Get<uint32_t>();
    const uint8_t* at = Advance(size);
    return at != nullptr ? Bytes(at, at + size) : Bytes();
  }
  std::string GetText() {
    const Bytes bytes = GetBytes();
    return {bytes.begin(), bytes.end()};
  }
  // Passes over bytes; false when they are not there.
  bool Skip(size_t bytes) { return Advance(bytes) != nullptr; }
  // All that has not been read.
  std::span<const uint8_t> rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }

 private:
  const uint8_t* Advance(size_t bytes) {
    if (!ok_ || bytes > rest_.size()) {
      ok_ = false;
      return nullptr;
    }
    const uint8_t* at = rest_.data();
    rest_ = rest_.subspan(bytes);
    return at;
  }

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace sl::kernel
