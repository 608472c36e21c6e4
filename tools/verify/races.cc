// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/races.h"

#include <algorithm>

namespace sl::verify {

std::optional<Races::Conflict> Races::Touch(uint32_t space, uint64_t begin, uint64_t end, const Access& access,
                                            const Clock& clock) {
  std::optional<Conflict> conflict;
  const auto is_ordered = [&](const Stamp& stamp) {
    return stamp.process == access.process || clock[stamp.process] >= stamp.time;
  };
  spaces_[space].ForEach(begin, end, [&](uint64_t from, uint64_t, const History* history) {
    if (history == nullptr || conflict) return;
    if (history->write && !is_ordered(*history->write)) conflict = Conflict{from, history->write->place, true};
    if (!access.writes || conflict) return;
    for (const Stamp& read : history->reads) {
      if (!is_ordered(read)) conflict = Conflict{from, read.place, false};
    }
  });
  if (conflict) return conflict;
  const Stamp stamp = {access.process, clock[access.process], access.place};
  if (access.writes) {
    spaces_[space].Assign(begin, end, {stamp, {}});
    return conflict;
  }
  spaces_[space].Update(begin, end, [&](History* history) {
    const auto same = [&](const Stamp& read) { return read.process == access.process; };
    const auto found = std::find_if(history->reads.begin(), history->reads.end(), same);
    if (found != history->reads.end()) {
      *found = stamp;
    } else {
      history->reads.push_back(stamp);
    }
  });
  return conflict;
}

}  // namespace sl::verify
