// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace sl::kernel {

size_t BytesOfCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long a form, half of a pair, beyond the last one.
  const bool is_bad = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_bad ? 0 : bytes;
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const size_t bytes = BytesOfCharacter(text);
    const bool is_control =
        (bytes == 1 && (byte(0) < 0x20 || byte(0) == 0x7f)) || (bytes == 2 && byte(0) == 0xc2 && byte(1) < 0xa0);
    const size_t taken = std::max<size_t>(bytes, 1);
    if (bytes != 0 && !is_control) out += text.substr(0, taken);
    for (size_t i = 0; (bytes == 0 || is_control) && i < taken; ++i) out += fmt::format("\\x{:02x}", byte(i));
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace sl::kernel
