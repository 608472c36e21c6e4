// SPDX-License-Identifier: Apache-2.0
//
// Issuing operations: from a checked call to a launch. The warm path of a single operation on the host's default stream
// allocates nothing, takes no lock and makes no system call.
#pragma once

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// As sl_runtime_ops_t::enqueue and enqueue_group; errors with text.
Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream);
Status IssueGroup(const sl_group_entry_t* entries, uint32_t count);
// The same without what entries have besides their operations.
Status IssueEntries(const sl_group_entry_t* entries, uint32_t count);
// As Issue, of a call that its caller has not marked.
Status MarkAndIssue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream);

}  // namespace sl::kernel
