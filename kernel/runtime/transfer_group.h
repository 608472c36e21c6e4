// SPDX-License-Identifier: Apache-2.0
//
// The commonest group: sends and receives of one communicator on one stream, at most one pair of them with itself, on a
// device whose launches nobody watches. One launch, without what groups of other kinds need on the way.
#pragma once

#include <optional>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// As sl_runtime_ops_t::enqueue_group. Nothing: it is another group, or more than one launch takes, or something is
// wrong with it that a look at whole groups tells better; nothing of it has begun.
std::optional<Status> IssueTransfers(const sl_group_entry_t* entries, uint32_t count);

}  // namespace sl::kernel
