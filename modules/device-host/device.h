// SPDX-License-Identifier: Apache-2.0
//
// The opened module and its device objects. The host is one device; every opening of it is an object of its own, with
// streams and counters of its own, over the process's one Memory.
#ifndef STARLING_MODULES_DEVICE_HOST_DEVICE_H_
#define STARLING_MODULES_DEVICE_HOST_DEVICE_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

#include "modules/device-host/launch.h"
#include "modules/device-host/memory.h"
#include "modules/device-host/stream.h"
#include "sdk/status.h"
#include "sl_device.h"

struct sl_instance_t {
  sl_instance_t(const sl_host_t* the_host, const sl::device_host::Tuning& the_tuning);
  // Closes what is still open; in a child of fork, where no thread of ours runs, leaves everything as it is.
  static void Close(sl_instance_t* instance);
  // Returns when no device is open and nothing is allocated; SL_ERR_TIMEOUT names what is.
  sl::Status Quiesce(uint64_t deadline_ns);

  sl_device_t* OpenDevice();
  void CloseDevice(sl_device_t* device);

  const sl_host_t* const host;
  const sl::device_host::Tuning tuning;
  const pid_t owner_pid;
  sl::device_host::Memory memory;

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::set<sl_device_t*> devices_;
  bool quiescing_ = false;
};

struct sl_device_t {
  explicit sl_device_t(sl_instance_t* the_instance) : instance(the_instance) {}
  // Cancels and ends the streams that are left.
  ~sl_device_t();
  sl_device_t(const sl_device_t&) = delete;
  sl_device_t& operator=(const sl_device_t&) = delete;

  sl_stream_t* CreateStream();
  // Finishes the stream's work, or cancels it after the option's time; then ends its thread.
  sl::Status DestroyStream(sl_stream_t* stream);
  // Made here and not destroyed; other pointers are only compared.
  bool HasStream(sl_stream_t* stream);

  sl_instance_t* const instance;
  sl::device_host::Counters counters;
  std::mutex queueing;  // held while a batch that crosses streams is queued

 private:
  std::mutex mutex_;
  std::set<sl_stream_t*> streams_;  // guarded by mutex_
};

namespace sl::device_host {

// Facts of this machine and process.
sl_device_info_t HostInfo(uint64_t page_bytes);

extern const sl_device_ops_t kDeviceOps;

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_DEVICE_H_
