// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/choice.h"

#include <algorithm>

namespace sl::algo_symmetric {
namespace {

// So many SMs fill the bus to host memory, of which slices should not take more than they need.
constexpr uint32_t kHostStagedBlocks = 16;

}  // namespace

GpuSettings GpuSettings::On(const sl_comm_shape_t& shape) const {
  GpuSettings settings = *this;
  settings.on_host = shape.heap_on_host != 0;
  if (settings.on_host) {
    settings.staged_blocks = std::min(staged_blocks, kHostStagedBlocks);
    // What a kernel makes blank, and the packet that comes there next, reach host memory over different links: the end
    // of the whole kernel has to lie between them.
    settings.depends = false;
  }
  settings.budget = SmBudget::Of(shape);
  return settings;
}

}  // namespace sl::algo_symmetric
