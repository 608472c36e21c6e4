// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/device.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sl::device_host {
namespace {

// CPUs this process may run on, counted on machines of any size.
uint32_t UsableProcessors() {
  for (size_t cpus = 1024; cpus <= (1u << 20); cpus *= 4) {
    std::vector<unsigned long> words(cpus / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(words.data());
    const size_t bytes = words.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) == 0) return static_cast<uint32_t>(CPU_COUNT_S(bytes, set));
  }
  return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string ReadText(const char* path) {
  char text[64];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t bytes = read(fd, text, sizeof(text));
  close(fd);
  return bytes > 0 ? std::string(text, static_cast<size_t>(bytes)) : std::string();
}

std::string LinkText(const char* path) {
  char text[64];
  const ssize_t bytes = readlink(path, text, sizeof(text));
  return bytes > 0 ? std::string(text, static_cast<size_t>(bytes)) : std::string();
}

// FNV-1a; no secret is kept by it, it only has to differ between hosts.
uint64_t Hash(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

sl_device_info_t HostInfo(uint64_t page_bytes) {
  sl_device_info_t info{};
  info.struct_size = sizeof(info);
  info.kind = SL_DEVICE_HOST;
  info.capabilities = SL_DEVICE_CAN_EXPORT | SL_DEVICE_CAN_SHARE_SEGMENT | SL_DEVICE_CAN_WRITE_VALUE |
                      SL_DEVICE_RUNS_HOST_KERNELS | SL_DEVICE_MEMORY_IS_HOST;
  strcpy(info.name, "host");
  // One boot of one kernel, and one network namespace: descriptors travel by sockets, which do not leave it.
  const std::string where = ReadText("/proc/sys/kernel/random/boot_id") + LinkText("/proc/self/ns/net");
  const uint64_t halves[2] = {Hash(where, 0), Hash(where, 0x9e3779b97f4a7c15u)};
  static_assert(sizeof(halves) == sizeof(info.domain));
  memcpy(info.domain, halves, sizeof(halves));
  info.numa_node = -1;
  info.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  info.export_granularity = std::max<uint64_t>(page_bytes, 4096);
  info.max_argument_bytes = kMaxArgumentBytes;
  info.processors = UsableProcessors();
  return info;
}

}  // namespace sl::device_host

using sl::Status;

sl_instance_t::sl_instance_t(const sl_host_t* the_host, const sl::device_host::Tuning& the_tuning)
    : host(the_host), tuning(the_tuning), owner_pid(getpid()) {}

void sl_instance_t::Close(sl_instance_t* instance) {
  if (instance == nullptr || instance->owner_pid != getpid()) return;
  for (sl_device_t* device : instance->devices_) delete device;
  delete instance;
}

Status sl_instance_t::Quiesce(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  quiescing_ = true;
  const auto ns = std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX)));
  const auto none_open = [this] { return devices_.empty(); };
  if (!changed_.wait_until(lock, std::chrono::steady_clock::time_point(ns), none_open)) {
    return {SL_ERR_TIMEOUT,
            "device-host: " + std::to_string(devices_.size()) + " openings of the host device are not closed yet"};
  }
  if (const size_t holdings = memory.Holdings(); holdings != 0) {
    return {SL_ERR_TIMEOUT,
            "device-host: " + std::to_string(holdings) + " allocations, reservations or mappings are not released yet"};
  }
  return {};
}

sl_device_t* sl_instance_t::OpenDevice() {
  auto device = std::make_unique<sl_device_t>(this);
  std::lock_guard lock(mutex_);
  if (quiescing_) return nullptr;
  devices_.insert(device.get());
  return device.release();
}

void sl_instance_t::CloseDevice(sl_device_t* device) {
  if (device == nullptr || owner_pid != getpid()) return;
  {
    std::lock_guard lock(mutex_);
    if (devices_.erase(device) == 0) return;
  }
  delete device;
  // Notified after the threads have ended, under the lock: the instance may be closed as soon as Quiesce returns.
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

sl_device_t::~sl_device_t() {
  // All first, so that streams that wait for each other's events end together.
  for (sl_stream_t* stream : streams_) stream->Cancel();
  for (sl_stream_t* stream : streams_) delete stream;
}

sl_stream_t* sl_device_t::CreateStream() {
  auto stream = std::make_unique<sl_stream_t>(&instance->tuning, &counters);
  std::lock_guard lock(mutex_);
  streams_.insert(stream.get());
  return stream.release();
}

bool sl_device_t::HasStream(sl_stream_t* stream) {
  std::lock_guard lock(mutex_);
  return streams_.contains(stream);
}

Status sl_device_t::DestroyStream(sl_stream_t* stream) {
  if (instance->owner_pid != getpid()) {
    return {SL_ERR_STATE, "device-host: a child of fork cannot destroy its parent's stream"};
  }
  {
    std::lock_guard lock(mutex_);
    if (streams_.erase(stream) == 0) return {SL_ERR_INVALID, "device-host: no such stream, or it was destroyed"};
  }
  const bool drained = stream->WaitIdle(sl::NowNs() + instance->tuning.drain_timeout_ns) == SL_OK;
  delete stream;
  if (!drained) {
    instance->host->log(instance->host->ctx, SL_LOG_WARN,
                        "a stream was destroyed with work that did not end in time; the work was cancelled");
  }
  return {};
}
