// SPDX-License-Identifier: Apache-2.0
//
// What one thread has: the depth of its groups, which every operation reads, and the rest, made when first needed, also
// in a thread that ends, where it may be needed again after it was freed. An open group has it.
#pragma once

#include <string>
#include <vector>

#include "modules/frontend-nccl/group.h"

namespace sl::frontend_nccl {

struct ThreadState {
  char error_text[2048] = "";
  Group group;
  // What ncclParam… functions hand out; lives until the thread's next such call.
  std::string param_text;
  std::string param_value;
  std::vector<const char*> param_keys;
};

// Four bytes in the initial-exec model: one instruction to read, and small enough for a library that is loaded late.
extern constinit thread_local int t_group_depth __attribute__((tls_model("initial-exec")));

// The calling thread's state; NULL when there is no memory for it.
ThreadState* MyState() noexcept;

}  // namespace sl::frontend_nccl
