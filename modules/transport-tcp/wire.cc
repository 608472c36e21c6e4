// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/wire.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace sl::transport_tcp {
namespace {

// Over the role, so that a proof of one message is none of another, what stands before the proof, and what it answers.
template <typename Message>
Proof Prove(const uint8_t secret[32], const char (&role)[8], const Message& message, const uint8_t* answered,
            size_t answered_bytes) {
  constexpr size_t kHead = sizeof role + offsetof(Message, proof);
  uint8_t text[kHead + kNonceBytes];
  static_assert(sizeof(Proof) == kNonceBytes);
  std::memcpy(text, role, sizeof role);
  std::memcpy(text + sizeof role, &message, offsetof(Message, proof));
  std::memcpy(text + kHead, answered, answered_bytes);
  return MakeProof(secret, text, kHead + answered_bytes);
}

bool IsZero(const uint8_t* bytes, size_t count) {
  return std::all_of(bytes, bytes + count, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

Proof ProveHello(const uint8_t secret[32], const Hello& hello, const uint8_t listener[kNonceBytes]) {
  return Prove(secret, "hello  ", hello, listener, kNonceBytes);
}

Proof ProveChallenge(const uint8_t secret[32], const Challenge& challenge, const Proof& hello) {
  return Prove(secret, "challen", challenge, hello.data(), hello.size());
}

Proof ProveConfirm(const uint8_t secret[32], const Confirm& confirm, const Proof& challenge) {
  return Prove(secret, "confirm", confirm, challenge.data(), challenge.size());
}

bool DecodeAddress(const sl_address_t& bytes, Address* out_address) {
  if (bytes.bytes != sizeof(Address)) return false;
  Address address;
  std::memcpy(&address, bytes.data, sizeof address);
  if (address.magic != kWireMagic || address.version != kWireVersion || address.reserved != 0 || address.port == 0 ||
      address.reach > Reach::kHost) {
    return false;
  }
  if (address.family != 6 && (address.family != 4 || !IsZero(address.ip + 4, 12))) return false;
  *out_address = address;
  return true;
}

void EncodeAddress(const Address& address, sl_address_t* out_bytes) {
  *out_bytes = {};
  out_bytes->bytes = sizeof address;
  std::memcpy(out_bytes->data, &address, sizeof address);
}

const char* WhyIllegal(const Frame& frame, uint64_t window_bytes, uint32_t signal_count) {
  if (frame.kind < kFramePut || frame.kind > kFrameGoodbye) return "a frame of unknown kind";
  if (frame.reserved != 0) return "a frame whose reserved field is not zero";
  if (frame.kind != kFramePut) {
    return frame.bytes == 0 && frame.signal == kFrameNoSignal ? nullptr : "a frame with a payload it cannot have";
  }
  if (frame.signal != kFrameNoSignal && frame.signal >= signal_count) return "a put to a signal word that is not there";
  if (frame.bytes != 0 && (frame.offset > window_bytes || frame.bytes > window_bytes - frame.offset)) {
    return "a put to outside the window";
  }
  return nullptr;
}

}  // namespace sl::transport_tcp
