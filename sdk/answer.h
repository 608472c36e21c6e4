// SPDX-License-Identifier: Apache-2.0
//
// Answers in structs that the caller allocated, and that may be of an older or a newer revision than this module's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sl {

// Fills at most out->struct_size bytes of `out`, which keeps its size.
template <typename T>
void Answer(T* out, T answer) {
  const uint32_t bytes = out->struct_size;
  answer.struct_size = bytes;
  std::memcpy(out, &answer, std::min<size_t>(bytes, sizeof answer));
}

}  // namespace sl
