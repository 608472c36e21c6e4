// SPDX-License-Identifier: Apache-2.0
//
// Opens the module through its entry symbol with a small host of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "sl_transport.h"

namespace sl::transport_shm {

inline uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// True as soon as `condition` is; false when `seconds` have passed.
template <typename Condition>
bool Eventually(Condition condition, uint64_t seconds = 20) {
  for (const uint64_t end = NowNs() + seconds * 1'000'000'000; NowNs() < end; sched_yield()) {
    if (condition()) return true;
  }
  return condition();
}

inline std::string& LastText() {
  thread_local std::string text;
  return text;
}

class Module {
 public:
  explicit Module(int64_t handshake_timeout_ms = 2000) {
    const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                              SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
    const sl_module_t* module = nullptr;
    EXPECT_EQ(sl_module_query(&hello, &module), SL_OK);
    module_ = module;
    ops = static_cast<const sl_transport_ops_t*>(module->provides[0]->ops);
    host_.struct_size = sizeof host_;
    host_.log_enabled = [](void*, sl_log_level_t) { return 1; };
    host_.log = [](void*, sl_log_level_t, const char*) {};
    host_.set_error = [](void*, sl_status_t status, const char* text) {
      LastText() = text;
      return status;
    };
    host_.now_ns = [](void*) { return NowNs(); };
    const int64_t values[3] = {0, handshake_timeout_ms, 20};
    sl_option_value_t options[3];
    const sl_option_value_t* pointers[3];
    for (int i = 0; i < 3; ++i) {
      options[i] = {sizeof(sl_option_value_t), module->options[i]->type, values[i], 0, nullptr};
      pointers[i] = &options[i];
    }
    const sl_open_args_t args = {sizeof args, 3, pointers, 0, 0, nullptr};
    EXPECT_EQ(module->open(&host_, &args, &instance_), SL_OK);
  }
  ~Module() { module_->close(instance_); }

  sl_transport_t* Open(uint32_t rank, uint32_t size, uint8_t secret = 7, uint8_t host = 3) {
    sl_transport_env_t env = {};
    env.struct_size = sizeof env;
    env.rank = rank;
    env.size = size;
    std::memset(env.job_secret, secret, sizeof env.job_secret);
    std::memset(env.host_id, host, sizeof env.host_id);
    sl_transport_t* transport = nullptr;
    EXPECT_EQ(ops->open(instance_, &env, &transport), SL_OK);
    return transport;
  }

  const sl_transport_ops_t* ops = nullptr;

 private:
  const sl_module_t* module_ = nullptr;
  sl_host_t host_ = {};
  sl_instance_t* instance_ = nullptr;
};

inline sl_connect_args_t Args(uint32_t peer, uint64_t window_bytes = 1 << 16, uint32_t signals = 4) {
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  args.peer = peer;
  args.lane = 1;
  args.tag = 42;
  args.window_bytes = window_bytes;
  args.signal_count = signals;
  return args;
}

inline sl_window_t WindowOf(const sl_transport_ops_t* ops, sl_connection_t* connection) {
  sl_window_t window = {};
  window.struct_size = sizeof window;
  EXPECT_EQ(ops->window(connection, &window), SL_OK);
  return window;
}

inline uint64_t Signal(const sl_window_t& window, uint32_t index) {
  return std::atomic_ref<uint64_t>(window.local_signals[index * 8]).load(std::memory_order_acquire);
}

inline sl_put_t MakePut(const void* source, uint64_t bytes, uint64_t offset, uint32_t signal, uint64_t value) {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = signal;
  put.signal_value = value;
  put.source = source;
  put.bytes = bytes;
  put.offset = offset;
  return put;
}

inline size_t OpenFds() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

inline size_t SharedMaps() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:starling") != std::string::npos;
  return count;
}

}  // namespace sl::transport_shm
