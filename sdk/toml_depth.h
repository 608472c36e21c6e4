// SPDX-License-Identifier: Apache-2.0
//
// A bound for TOML before it is parsed. toml++ bounds how deep values nest, but not how many parts a key has, and it
// frees what it has read one call inside the other: a key of 200,000 parts overflows the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace sl {

// The line, from 1, of the first key that lies more than `most` levels deep, counting the parts of its table's header,
// of the keys around it and its own, and each bracket that is open; 0: there is none. Strings and comments count for
// nothing. Of text that is no TOML the answer is of no use, but for one promise: what toml++ has read when it stops at
// the error is not much deeper than `most`.
size_t LineOfDeepKey(std::string_view text, size_t most);

}  // namespace sl
