// SPDX-License-Identifier: Apache-2.0
//
// The host that modules under test receive: keeps what they log, report and record, notes what no module may do to its
// host, and can be longer than the header knows.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sl_host.h"
#include "tests/conformance/kit/edge.h"

namespace sl::conform {

class Host {
 public:
  struct Manner {
    uint32_t extra_bytes = 0;                // of a table newer than the header; filled with what is no pointer
    sl_log_level_t log_level = SL_LOG_INFO;  // up to which lines are wanted
    uint64_t event_mask = 0;
    uint32_t edge_bytes = 0;  // not 0: the table has so many bytes and ends where memory ends
  };
  Host() : Host(Manner()) {}
  explicit Host(const Manner& manner);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const sl_host_t* table() const { return edge_ != nullptr ? edge_->get() : table_.get(); }

  // From now on the module is closed: whatever it still calls is noted.
  void Close() { is_closed_.store(true); }
  void SetEventMask(uint64_t mask) { std::atomic_ref<uint64_t>(event_mask_).store(mask); }

  std::vector<std::string> lines() const;  // logged so far
  uint64_t records() const { return records_.load(); }
  // What the module did wrong with its host, one line each.
  std::vector<std::string> offences() const;

 private:
  struct FreeBytes {
    void operator()(sl_host_t* table) const { ::operator delete(table); }
  };
  static Host* Of(void* ctx, const char* function);
  static int32_t LogEnabled(void* ctx, sl_log_level_t level) noexcept;
  static void Log(void* ctx, sl_log_level_t level, const char* text) noexcept;
  static sl_status_t SetError(void* ctx, sl_status_t status, const char* text) noexcept;
  static uint64_t NowNs(void* ctx) noexcept;
  static void Emit(void* ctx, const sl_record_t* record) noexcept;
  static const void* FindService(void* ctx, const char* id) noexcept;
  void Note(const std::string& offence);

  const sl_log_level_t log_level_;
  alignas(uint64_t) uint64_t event_mask_;
  std::unique_ptr<sl_host_t, FreeBytes> table_;
  std::unique_ptr<AtTheEdge<sl_host_t>> edge_;  // NULL unless asked for
  std::atomic<bool> is_closed_{false};
  std::atomic<uint64_t> records_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::vector<std::string> offences_;
};

// The calling thread's error text, as modules set it, "" when none was set since ClearError().
const std::string& ErrorText();
sl_status_t ErrorStatus();
void ClearError();

}  // namespace sl::conform
