// SPDX-License-Identifier: Apache-2.0
//
// The symmetric algorithm of one rank, on whatever device the communicator has.
#pragma once

#include "sdk/status.h"
#include "sl_algorithm.h"
#include "sl_device.h"

// Opaque in the ABI; defined here.
struct sl_algorithm_t {
 public:
  explicit sl_algorithm_t(const sl_host_t* host_of) : host(host_of) {}
  virtual ~sl_algorithm_t() = default;
  sl_algorithm_t(const sl_algorithm_t&) = delete;
  sl_algorithm_t& operator=(const sl_algorithm_t&) = delete;

  virtual sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const = 0;
  // [data]; operations are launched in issue order, alike on all ranks.
  virtual sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out) = 0;
  // [data]; sends and receives of a group in one launch, where the device wants that.
  virtual sl_status_t LaunchGroup(const sl_op_t* /*ops*/, uint32_t /*count*/, void* /*args*/, uint32_t /*capacity*/,
                                  sl_launch_t* /*out*/) {
    return SL_ERR_UNSUPPORTED;
  }
  // [control]; as retract() of the ABI.
  virtual sl::Status Retract(uint64_t /*deadline_ns*/) { return sl::Status(SL_ERR_UNSUPPORTED); }

  const sl_host_t* const host;
};
