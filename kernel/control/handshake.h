// SPDX-License-Identifier: Apache-2.0
//
// How two processes that share a secret find out that they do, before either keeps anything of the other. Nothing that
// crosses the wire can be used again, and the secret does not cross it.
//
//   caller                                                   called
//   kHello  {extension, options, challenge}             ->
//                                                       <-   kAnswer {challenge, proof that the called end knows}
//   any     {proof that the caller knows, then a body}  ->
//                                                       or   kRefuse {status, text}
//
// The proofs cover what both ends have said, the caller's the type of its frame and the body, too.
#pragma once

#include "kernel/control/frame.h"
#include "kernel/control/proof.h"
#include "kernel/control/stream.h"

namespace sl::kernel {

using Challenge = std::array<uint8_t, 16>;

// What both ends have said before proofs are due.
struct Greeting {
  uint64_t extension;
  uint32_t options;  // kEncrypts
  Challenge callers;
  Challenge calleds;
};

constexpr uint32_t kEncrypts = 1;  // what follows the answer goes through TLS; both ends want it, or neither

constexpr uint32_t kHelloBytes = sizeof(uint64_t) + sizeof(uint32_t) + sizeof(Challenge);
constexpr uint32_t kAnswerBytes = sizeof(Challenge) + sizeof(Proof);

Proof CalledProof(const Secret& secret, const Greeting& greeting);
Proof CallerProof(const Secret& secret, const Greeting& greeting, FrameType type, std::span<const uint8_t> body);

struct Frame {
  FrameHeader header;
  Bytes payload;
};

// One frame of a blocking conversation. A kRefuse frame becomes the status it holds.
// returns: SL_ERR_MISMATCH another version | SL_ERR_LINK_CORRUPT no frame, or a longer one | SL_ERR_PEER_LOST | …
Result<Frame> ReceiveFrame(const Stream& stream, uint32_t max_bytes, const Patience& patience);

Bytes EncodeRefusal(const Status& why);

// From here on; both ends want it, and the called end's answer is through.
Status Encrypt(Stream* stream, Tls::Role role, const Secret& secret, uint64_t extension);

// The caller's side, over a connected socket. Returns when its proof is under way; with `encrypts`, it and all that
// follows is encrypted.
// returns: SL_ERR_DENIED the other end does not know the secret | what the other end refused it with | …
Status Introduce(Stream* stream, uint64_t extension, bool encrypts, const Secret& secret, FrameType type,
                 std::span<const uint8_t> body, const Patience& patience);

}  // namespace sl::kernel
