// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/host.h"

#include <fmt/format.h>
#include <time.h>

#include <cstring>
#include <new>

#include "sdk/status.h"
#include "tests/conformance/kit/data_watch.h"

namespace sl::conform {
namespace {

struct LastError {
  sl_status_t status = SL_OK;
  std::string text;
};
thread_local LastError t_error;

constexpr size_t kMaxOffences = 20;
constexpr unsigned char kNoPointer = 0xa5;  // repeated, an address that faults

}  // namespace

const std::string& ErrorText() { return t_error.text; }
sl_status_t ErrorStatus() { return t_error.status; }
void ClearError() { t_error = {}; }

Host::Host(const Manner& manner) : log_level_(manner.log_level), event_mask_(manner.event_mask) {
  const size_t bytes = sizeof(sl_host_t) + manner.extra_bytes;
  void* memory = ::operator new(bytes);
  std::memset(memory, kNoPointer, bytes);
  table_.reset(new (memory) sl_host_t{static_cast<uint32_t>(bytes), 0, this, &LogEnabled, &Log, &SetError, &NowNs,
                                      &event_mask_, &Emit, &FindService});
  if (manner.edge_bytes > 0) edge_ = std::make_unique<AtTheEdge<sl_host_t>>(*table_, manner.edge_bytes);
}

std::vector<std::string> Host::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

std::vector<std::string> Host::offences() const {
  const std::lock_guard lock(mutex_);
  return offences_;
}

void Host::Note(const std::string& offence) {
  const std::lock_guard lock(mutex_);
  if (offences_.size() < kMaxOffences) offences_.push_back(offence);
}

// The table is passed by every call, so a wrong context cannot be told from memory that is none: it ends the test.
Host* Host::Of(void* ctx, const char* function) {
  auto* host = static_cast<Host*>(ctx);
  if (host->table_ == nullptr || host->table_->ctx != ctx) std::abort();
  if (host->is_closed_.load()) host->Note(fmt::format("called {} after its close()", function));
  return host;
}

int32_t Host::LogEnabled(void* ctx, sl_log_level_t level) noexcept {
  Host* host = Of(ctx, "log_enabled");
  if (level > SL_LOG_TRACE) host->Note(fmt::format("asked for log level {}, there are 0 to {}", level, SL_LOG_TRACE));
  return level <= host->log_level_ ? 1 : 0;
}

void Host::Log(void* ctx, sl_log_level_t level, const char* text) noexcept {
  Host* host = Of(ctx, "log");
  DataWatch::Logged();
  if (level > SL_LOG_TRACE) host->Note(fmt::format("logged at level {}, there are 0 to {}", level, SL_LOG_TRACE));
  if (text == nullptr) return host->Note("logged a text that is NULL");
  if (std::strchr(text, '\n') != nullptr) host->Note(fmt::format("logged several lines at once: \"{}\"", text));
  const std::lock_guard lock(host->mutex_);
  host->lines_.emplace_back(text);
}

sl_status_t Host::SetError(void* ctx, sl_status_t status, const char* text) noexcept {
  Host* host = Of(ctx, "set_error");
  if (status >= SL_OK) host->Note(fmt::format("set_error with status {}, which is no error", status));
  if (status == SL_ERR_AGAIN) host->Note("set_error with SL_ERR_AGAIN, which is flow control");
  if (text == nullptr || *text == '\0') host->Note(fmt::format("set_error({}) without a text", StatusName(status)));
  t_error.status = status;
  t_error.text = text == nullptr ? "" : text;
  return status;
}

uint64_t Host::NowNs(void* ctx) noexcept {
  Of(ctx, "now_ns");
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void Host::Emit(void* ctx, const sl_record_t* record) noexcept {
  Host* host = Of(ctx, "emit");
  host->records_.fetch_add(1);
  if (record == nullptr) return host->Note("emitted a record that is NULL");
  if (record->kind >= SL_EVENT_KIND_COUNT) host->Note(fmt::format("emitted a record of kind {}", record->kind));
}

const void* Host::FindService(void* ctx, const char* id) noexcept {
  Host* host = Of(ctx, "find_service");
  if (id == nullptr) host->Note("asked for a service without an id");
  return nullptr;
}

}  // namespace sl::conform
