// SPDX-License-Identifier: Apache-2.0
//
// Proof that a message comes from somebody who knows the job's secret, without sending the secret. Proofs are the same
// bytes on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sl {

using Proof = std::array<uint8_t, 16>;

// SipHash-2-4 of `bytes` under a 128-bit key (Aumasson and Bernstein, 2012): a short-input keyed hash.
uint64_t SipHash(const uint8_t key[16], const void* data, size_t bytes);

// Two independent hashes, one under each half of the secret.
Proof MakeProof(const uint8_t secret[32], const void* data, size_t bytes);

// Compares in constant time.
bool SameProof(const Proof& a, const Proof& b);

}  // namespace sl
