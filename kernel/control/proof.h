// SPDX-License-Identifier: Apache-2.0
//
// Secrets, and how knowledge of one is shown without sending it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace sl::kernel {

using Secret = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of `message` under `secret`.
Proof MakeProof(const Secret& secret, std::span<const uint8_t> message);
// In constant time.
bool IsSame(const Proof& a, const Proof& b);

// A secret for one purpose, which says nothing about the one it is made from.
Secret DeriveSecret(const Secret& secret, const std::string& purpose, uint64_t nonce, uint64_t number);

}  // namespace sl::kernel
