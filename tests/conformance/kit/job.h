// SPDX-License-Identifier: Apache-2.0
//
// Communicators over libstarling.so, which lies beside the command: what shows that a module works where it will be
// used. The ranks are threads of the test's process; the profile names the module under test, what it wraps when it is
// a layer, and companions for devices and transports that it does not provide itself.
#pragma once

#include <functional>
#include <string>

#include "sl_runtime.h"
#include "tests/conformance/kit/trial.h"

namespace sl::conform {

class Job {
 public:
  // Loads the runtime with a profile made of what every job needs and of `profile` (TOML, after the top-level keys);
  // `wrapped` is the file of a module for a layer to wrap, or "". The first Job of a process decides; skips the test
  // when the runtime or a companion is not here.
  Job(Trial& trial, const std::string& profile, const std::string& wrapped = "");
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const sl_runtime_ops_t& ops() const { return *ops_; }

  // Makes a communicator of `ranks`, runs `body` on a thread for each rank, and ends it. A body that returns false has
  // failed and said so: its rank aborts, so that the others do not wait for it.
  using Body = std::function<bool(uint32_t rank, sl_comm_t* comm)>;
  void Run(uint32_t ranks, const Body& body);

 private:
  void RunRank(const sl_unique_id_t& id, uint32_t rank, uint32_t ranks, const Body& body);

  Trial& trial_;
  int profile_fd_ = -1;
  const sl_runtime_ops_t* ops_ = nullptr;
};

}  // namespace sl::conform
