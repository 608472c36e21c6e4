// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4), for pinning module files and for proofs of secrets. Small on purpose: that needs no crypto
// library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sl::kernel {

class Sha256 {
 public:
  void Update(const void* data, size_t bytes);
  // Ends the message, one of the two: 64 lower-case hexadecimal digits, or the 32 bytes. The object is spent.
  std::string Finish();
  std::array<uint8_t, 32> FinishBytes();

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_{};
  size_t buffered_ = 0;
  uint64_t total_ = 0;
};

}  // namespace sl::kernel
