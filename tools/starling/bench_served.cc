// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_served.h"

namespace sl::tools {

Served ServedBy(const NcclApi&, NcclComm) { return {}; }

}  // namespace sl::tools
