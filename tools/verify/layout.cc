// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/layout.h"

#include <fmt/format.h>

#include <charconv>
#include <numeric>

namespace sl::verify {
namespace {

// The number at the front of `words`, which moves behind it; 0 when there is none.
uint32_t TakeNumber(std::string_view* words) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(words->data(), words->data() + words->size(), number);
  if (error != std::errc()) return 0;
  words->remove_prefix(static_cast<size_t>(end - words->data()));
  return number;
}

}  // namespace

Result<std::vector<uint32_t>> HostsOf(const std::string& words, uint32_t ranks) {
  std::string_view rest = words;
  std::vector<uint32_t> sizes;
  do {
    if (!sizes.empty()) rest.remove_prefix(1);
    sizes.push_back(TakeNumber(&rest));
    if (sizes.back() == 0) return Status(SL_ERR_INVALID, "hosts are given as 2, 2:cyclic or 3+1+4, not " + words);
  } while (!rest.empty() && rest[0] == '+');
  const bool cyclic = rest == ":cyclic" && sizes.size() == 1;
  if (!rest.empty() && !cyclic) return Status(SL_ERR_INVALID, "hosts are given as 2, 2:cyclic or 3+1+4, not " + words);
  std::vector<uint32_t> host_of;
  if (sizes.size() == 1) {
    const uint32_t hosts = sizes[0];
    if (hosts > ranks) return Status(SL_ERR_INVALID, fmt::format("{} hosts for {} ranks", hosts, ranks));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      host_of.push_back(cyclic ? rank % hosts : static_cast<uint32_t>(uint64_t{rank} * hosts / ranks));
    }
    return host_of;
  }
  const uint64_t held = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (held != ranks) return Status(SL_ERR_INVALID, fmt::format("hosts {} hold {} ranks, not {}", words, held, ranks));
  for (uint32_t host = 0; host < sizes.size(); ++host) host_of.insert(host_of.end(), sizes[host], host);
  return host_of;
}

}  // namespace sl::verify
