// SPDX-License-Identifier: Apache-2.0
//
// Text of others, such as modules and plan files, for terminals and logs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sl::kernel {

// How many bytes the first character of `text` takes; 0 when it is not UTF-8.
size_t BytesOfCharacter(std::string_view text);

// `text` as a part of one line: each byte of a control character, and each that is not UTF-8, as "\x1b".
std::string Printable(std::string_view text);

}  // namespace sl::kernel
