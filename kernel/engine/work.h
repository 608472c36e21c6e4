// SPDX-License-Identifier: Apache-2.0
//
// What a progress thread drives: a run, or several that make one operation.
#pragma once

#include "sl_device.h"

namespace sl::kernel {

class Work {
 public:
  // Goes on as far as it can without waiting, for a bounded time. One thread at a time; another may go on where the
  // first stopped, after synchronising with it.
  // thread: [data]   returns: SL_OK it is complete | SL_ERR_AGAIN, with `wait` filled: on whom, on what | an error
  virtual sl_status_t Poll(sl_wait_t* wait) = 0;
  // The last Poll did something; a driver that spins before it sleeps starts to count anew.
  virtual bool moved() const = 0;
  // What it waits for may be a store of a device, which rings no bell.
  virtual bool awaits_device() const { return false; }
  // How long it may be left alone while it waits without a doorbell, in ns; 0: as long as the driver thinks.
  virtual uint64_t rest_ns() const { return 0; }

 protected:
  Work() = default;
  ~Work() = default;
};

}  // namespace sl::kernel
