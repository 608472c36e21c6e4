// SPDX-License-Identifier: Apache-2.0
// The one place where the benchmark learns which algorithm and module served the operation it just measured.
#pragma once

#include <string>

#include "tools/starling/nccl_api.h"

namespace sl::tools {

struct Served {
  std::string algorithm;
  std::string module;
  std::string reason;  // why it was chosen over the others
};

// What served the last operation of this thread on `comm`; empty fields when the library does not say.
Served ServedBy(const NcclApi& api, NcclComm comm);

}  // namespace sl::tools
