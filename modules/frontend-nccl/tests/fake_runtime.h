// SPDX-License-Identifier: Apache-2.0
//
// A kernel for unit tests of the front end: its table writes down every call and answers as the test says. Connects
// communicators by counting how many ranks have come, so that a wait that comes too early is found: it fails instead of
// hanging.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sl_runtime.h"

namespace sl::frontend_nccl {

struct FakeComm {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t comm_id = 0;
  std::string name;
  uint32_t processors_min = 0;
  uint32_t processors_max = 0;
  uint32_t processor_weight = 0;
  uint32_t processor_free = 0;
  bool finalizing = false;
  bool suspended = false;
};

struct FakeRuntime {
  std::mutex mutex;
  std::vector<std::string> calls;     // "comm_create 0/2", "enqueue all_reduce", … in order
  std::vector<sl_op_t> ops;           // of every enqueue and group, in order
  std::vector<std::string> settings;  // of calls, in words; number 2 is the first one's
  std::vector<uint64_t> tags;         // of entries of groups that have one
  std::vector<sl_event_t*> events;    // the same
  std::vector<std::string> logs;
  std::map<uint64_t, uint32_t> arrived;  // communicator -> ranks that have come
  std::map<uint64_t, uint32_t> finalizing;
  std::vector<FakeComm*> live;
  std::string error_text;
  uint64_t estimate_ns = 0;  // 0: nobody serves the operation
  int unique_ids = 0;
  std::function<void()> in_comm_state;              // called by comm_state; empty: nothing
  std::function<void()> in_window_deregister;       // called by window_deregister; empty: nothing
  std::function<void(const std::string&)> on_call;  // called by each call with what it writes down; empty: nothing

  // What to answer; SL_OK: as it should be.
  sl_status_t create_status = SL_OK;
  sl_status_t wait_status = SL_OK;
  sl_status_t state_status = SL_OK;
  sl_status_t enqueue_status = SL_OK;
  sl_status_t window_status = SL_OK;
  sl_status_t settings_status = SL_OK;  // of settings that name algorithms

  // How often a call with this beginning was made.
  int Count(const std::string& beginning);
  void Reset();
};

FakeRuntime& Fake();

}  // namespace sl::frontend_nccl
