// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/host_table.h"

#include <fmt/format.h>

#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/events/ring.h"
#include "sdk/clock.h"

namespace sl::kernel {

HostTable::HostTable(std::string module_name) : module_name_(std::move(module_name)) {
  table_.struct_size = sizeof(table_);
  table_.ctx = this;
  table_.log_enabled = &LogEnabled;
  table_.log = &Log;
  table_.set_error = &SetError;
  table_.now_ns = &NowNs;
  table_.event_mask = &g_event_mask;
  table_.emit = &Emit;
  table_.find_service = &FindService;
}

namespace {

// Modules name themselves in texts that reach a reader by other ways, too; here they are not named twice.
const char* WithoutName(const std::string& name, const char* text) noexcept {
  if (text == nullptr) return "";
  const bool is_named =
      std::strncmp(text, name.c_str(), name.size()) == 0 && std::strncmp(text + name.size(), ": ", 2) == 0;
  return is_named ? text + name.size() + 2 : text;
}

}  // namespace

int32_t HostTable::LogEnabled(void*, sl_log_level_t level) noexcept { return sl::kernel::LogEnabled(level) ? 1 : 0; }

void HostTable::Log(void* ctx, sl_log_level_t level, const char* text) noexcept {
  const std::string& name = static_cast<HostTable*>(ctx)->module_name_;
  Logf(level, "{}: {}", name, WithoutName(name, text));
}

// Into a buffer of its own: an error must be reportable when memory has run out.
sl_status_t HostTable::SetError(void* ctx, sl_status_t status, const char* text) noexcept {
  const std::string& name = static_cast<HostTable*>(ctx)->module_name_;
  char buffer[2048];
  const int length = snprintf(buffer, sizeof(buffer), "%s: %s", name.c_str(), WithoutName(name, text));
  const size_t kept = length < 0 ? 0 : static_cast<size_t>(length);
  return SetLastError(status, std::string_view(buffer, kept < sizeof(buffer) ? kept : sizeof(buffer) - 1));
}

uint64_t HostTable::NowNs(void*) noexcept { return sl::NowNs(); }

void HostTable::Emit(void*, const sl_record_t* record) noexcept {
  if (record != nullptr && record->kind < 64) sl::kernel::Emit(*record);
}

// The kernel offers no further services yet; modules that ask for one get along without.
const void* HostTable::FindService(void*, const char*) noexcept { return nullptr; }

}  // namespace sl::kernel
