// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sl::device_host {
namespace {

#if defined(__SSE2__)
constexpr size_t kLine = 64;

// Stores past the caches: a line of `dst` is not read before it is overwritten.
void CopyStreaming(uint8_t* dst, const uint8_t* src, size_t bytes) {
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(dst) % kLine) % kLine;
  std::memcpy(dst, src, head);
  dst += head;
  src += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, dst += kLine, src += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(src);
    auto* to = reinterpret_cast<__m128i*>(dst);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  // Streamed stores are not ordered with a later release store unless fenced.
  _mm_sfence();
  std::memcpy(dst, src, bytes);
}
#endif

}  // namespace

void Copy(void* dst, const void* src, size_t bytes) {
  if (dst == src || bytes == 0) return;
#if defined(__SSE2__)
  if (bytes >= kStreamCopyBytes) {
    return CopyStreaming(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
  }
#endif
  std::memcpy(dst, src, bytes);
}

}  // namespace sl::device_host
