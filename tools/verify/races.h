// SPDX-License-Identifier: Apache-2.0
//
// Races between the lanes of one rank: two accesses to the same elements, one of them a write, that nothing orders.
// What orders is the order of steps within a lane, and a chunk: everything before its PUT happens before everything
// after its WAIT (Lamport 1978; as vectors of clocks, Mattern 1989 and Fidge 1988). Credits order nothing here, because
// there may be more of them than any plan uses.
//
// The steps a plan takes, and which PUT meets which WAIT, do not depend on the interleaving. So a pair of accesses that
// one execution finds unordered is unordered in all, and one execution looks at every pair: it is enough to compare
// with the last write of each element and with each lane's last read since, as those before are ordered with them or
// were reported.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/verify/interval_map.h"
#include "tools/verify/verify.h"

namespace sl::verify {

// What a lane knows: of every lane of every rank, the last send that happened before.
using Clock = std::vector<uint32_t>;

// The accesses of one rank's lanes to its memory.
class Races {
 public:
  struct Access {
    uint32_t process = 0;  // the lane, counted over all ranks
    bool writes = false;
    Place place;
  };
  struct Conflict {
    uint64_t offset;  // first position in the space
    Place earlier;
    bool earlier_writes;
  };

  explicit Races(uint32_t spaces) : spaces_(spaces) {}

  // Remembers an access to [begin, end) of a space by a lane that knows `clock`; the conflict, if there is one.
  std::optional<Conflict> Touch(uint32_t space, uint64_t begin, uint64_t end, const Access& access, const Clock& clock);

 private:
  struct Stamp {
    uint32_t process;
    uint32_t time;
    Place place;
  };
  struct History {
    std::optional<Stamp> write;
    std::vector<Stamp> reads;  // since that write, the last one of each lane
  };

  std::vector<IntervalMap<History>> spaces_;
};

}  // namespace sl::verify
