// SPDX-License-Identifier: Apache-2.0
//
// What one module instance receives as its host: log lines and error texts carry the module's name.
#pragma once

#include <string>

#include "sl_host.h"

namespace sl::kernel {

class HostTable {
 public:
  explicit HostTable(std::string module_name);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  const sl_host_t* table() const { return &table_; }

 private:
  const std::string module_name_;
  sl_host_t table_{};

  static int32_t LogEnabled(void* ctx, sl_log_level_t level) noexcept;
  static void Log(void* ctx, sl_log_level_t level, const char* text) noexcept;
  static sl_status_t SetError(void* ctx, sl_status_t status, const char* text) noexcept;
  static uint64_t NowNs(void* ctx) noexcept;
  static void Emit(void* ctx, const sl_record_t* record) noexcept;
  static const void* FindService(void* ctx, const char* id) noexcept;
};

}  // namespace sl::kernel
