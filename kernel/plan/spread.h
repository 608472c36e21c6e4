// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a communicator lie on hosts: equal on all of them, so that selection may look at it.
#pragma once

#include <cstdint>

#include "sl_algorithm.h"

namespace sl::kernel {

struct Spread {
  uint32_t hosts = 1;
  uint32_t fewest = 0;  // ranks of the host with the fewest
  uint32_t most = 0;    // of the host with the most

  bool even() const { return fewest == most; }
};

// Counts host_of; without it all ranks lie on one host.
Spread SpreadOf(const sl_comm_shape_t& shape);

}  // namespace sl::kernel
