// SPDX-License-Identifier: Apache-2.0
//
// Opens the module through its entry symbol with a small host of the test's own.
#pragma once

#include <sys/resource.h>

#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sdk/fd.h"
#include "sdk/few_descriptors_test_util.h"
#include "tests/transport/ranks_test_util.h"

namespace sl::transport_shm {

using transport_test::Args;
using transport_test::Eventually;
using transport_test::MakePut;
using transport_test::OpenFds;
using transport_test::Signal;

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
    host_.ctx = this;
    host_.log = [](void* ctx, sl_log_level_t level, const char* text) {
      auto* self = static_cast<Module*>(ctx);
      const std::lock_guard lock(self->mutex_);
      self->lines_.emplace_back(level, text);
    };
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
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Lines of at least this level so far that contain `part`.
  size_t CountLines(sl_log_level_t level, const std::string& part) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [of, text] : lines_) count += of <= level && text.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

  sl_transport_t* Open(uint32_t rank, uint32_t size, uint8_t secret = 7, uint8_t host = 3) {
    const sl_transport_env_t env = transport_test::Env(rank, size, secret, host);
    sl_transport_t* transport = nullptr;
    EXPECT_EQ(ops->open(instance_, &env, &transport), SL_OK);
    return transport;
  }

  const sl_transport_ops_t* ops = nullptr;

 private:
  const sl_module_t* module_ = nullptr;
  sl_host_t host_ = {};
  sl_instance_t* instance_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<std::pair<sl_log_level_t, std::string>> lines_;  // guarded by mutex_
};

;

inline sl_window_t WindowOf(const sl_transport_ops_t* ops, sl_connection_t* connection) {
  sl_window_t window = {};
  window.struct_size = sizeof window;
  EXPECT_EQ(ops->window(connection, &window), SL_OK);
  return window;
}

inline size_t SharedMaps() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:starling") != std::string::npos;
  return count;
}

}  // namespace sl::transport_shm
