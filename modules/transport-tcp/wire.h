// SPDX-License-Identifier: Apache-2.0
//
// What two ranks say to each other over TCP: the address that travels through the bootstrap, three messages of a
// handshake, then frames. Little-endian; docs/network.md has the tables. Nothing here does input or output.
//
//   connecting end   Hello ──────────►            proof over the hello and the listener's number
//                          ◄────────── Challenge  proof over the hello's proof and fresh random bytes
//                    Confirm ────────►            proof over the challenge's proof
//                    frames ◄────────► frames
//
// A stranger who cannot prove a hello hears nothing. Who replays a recorded hello is asked for a proof over bytes that
// were never used before.
#pragma once

#include <bit>
#include <cstdint>

#include "sdk/proof.h"
#include "sl_transport.h"

namespace sl::transport_tcp {

static_assert(std::endian::native == std::endian::little, "wire structures are used as they stand");

constexpr uint32_t kWireMagic = 0x50435453;  // "STCP"
constexpr uint16_t kWireVersion = 1;
constexpr uint32_t kMaxSignals = 64;
constexpr uint64_t kMaxWindowBytes = uint64_t{1} << 36;
constexpr uint32_t kNonceBytes = 16;

// How far an address reaches.
enum class Reach : uint8_t { kRouted = 0, kLink = 1, kHost = 2 };

// sl_address_t.data of this transport.
struct Address {
  uint32_t magic;
  uint16_t version;
  uint8_t family;  // 4 or 6
  Reach reach;
  uint16_t port;
  uint16_t reserved;
  uint8_t ip[16];  // network order; IPv4 in the first four, zeros behind
  uint8_t listener[kNonceBytes];
  uint8_t loopback[16];  // LoopbackId, compared where the reach is the host
};
static_assert(sizeof(Address) == 60 && sizeof(Address) <= sizeof(sl_address_t::data));

struct Hello {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;
  uint32_t from;  // ranks
  uint32_t to;
  uint32_t lane;
  uint32_t signal_count;
  uint64_t tag;
  uint64_t window_bytes;
  uint8_t nonce[kNonceBytes];
  Proof proof;
};
static_assert(sizeof(Hello) == 72);

struct Challenge {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;
  uint8_t nonce[kNonceBytes];
  Proof proof;
};
static_assert(sizeof(Challenge) == 40);

struct Confirm {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;
  Proof proof;
};
static_assert(sizeof(Confirm) == 24);

enum FrameKind : uint16_t {
  kFramePut = 1,      // `bytes` of payload follow
  kFrameProbe = 2,    // value: its number
  kFrameAnswer = 3,   // value: the number of the probe that is answered
  kFrameGoodbye = 4,  // the sender has retired; nothing follows
};
constexpr uint16_t kFrameNoSignal = UINT16_MAX;

struct Frame {
  uint16_t kind;
  uint16_t signal;  // word, or kFrameNoSignal
  uint32_t reserved;
  uint64_t bytes;
  uint64_t offset;  // in the receiver's window
  uint64_t value;
};
static_assert(sizeof(Frame) == 32);

Proof ProveHello(const uint8_t secret[32], const Hello& hello, const uint8_t listener[kNonceBytes]);
Proof ProveChallenge(const uint8_t secret[32], const Challenge& challenge, const Proof& hello);
Proof ProveConfirm(const uint8_t secret[32], const Confirm& confirm, const Proof& challenge);

// True when magic, version and length are this version's. Message is Hello, Challenge or Confirm.
template <typename Message>
bool HasHead(const Message& message) {
  return message.magic == kWireMagic && message.version == kWireVersion && message.bytes == sizeof message;
}

// True when the address is of this version and its fields are legal.
bool DecodeAddress(const sl_address_t& bytes, Address* out_address);
void EncodeAddress(const Address& address, sl_address_t* out_bytes);

// NULL when a frame is legal for a window and signal words of this size, else what is wrong with it.
const char* WhyIllegal(const Frame& frame, uint64_t window_bytes, uint32_t signal_count);

}  // namespace sl::transport_tcp
