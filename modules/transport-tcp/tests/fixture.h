// SPDX-License-Identifier: Apache-2.0
//
// The module with a host of the test's own, and pairs of ranks in this process.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "modules/transport-tcp/shared.h"
#include "tests/transport/ranks_test_util.h"

namespace sl::transport_tcp {

using transport_test::Args;
using transport_test::Eventually;
using transport_test::MakePut;
using transport_test::OpenFds;
using transport_test::Signal;

// Option values that differ from the defaults: text as it stands, numbers in decimal.
using Options = std::map<std::string, std::string>;

// The module, opened through its entry symbol.
class Module {
 public:
  explicit Module(const Options& options = {{"interfaces", "=lo"}});
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  sl_transport_t* Open(uint32_t rank, uint32_t size, uint8_t secret = 7, uint8_t host = 3);
  // Of open() with these options, in a job that may use these interfaces; the transport, if there is one, is closed.
  sl_status_t TryOpen(std::string* out_error, const char* interfaces = nullptr, uint32_t family = 0);
  const std::string& first_port() const { return first_port_; }  // of the last one that opened
  // Lines of at least this level so far that contain `part`.
  size_t CountLines(sl_log_level_t level, const std::string& part) const;
  static const std::string& LastError();

  const sl_transport_ops_t* ops = nullptr;
  sl_status_t status = SL_OK;  // of the module's open()

 private:
  struct Line {
    sl_log_level_t level;
    std::string text;
  };
  const sl_module_t* module_ = nullptr;
  sl_host_t host_ = {};
  sl_instance_t* instance_ = nullptr;
  std::string first_port_;
  mutable std::mutex mutex_;
  std::vector<Line> lines_;  // guarded by mutex_
};

const Counters& CountersOf(sl_transport_t* transport);

// Two ranks of one job and a connection between them.
class Pair {
 public:
  explicit Pair(const Options& options = {{"interfaces", "=lo"}}, uint64_t window_bytes = 1 << 16);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void Progress();
  // Drives both until `condition`; false when it did not come.
  template <typename Condition>
  bool Until(Condition condition) {
    return Eventually([&] {
      Progress();
      return condition();
    });
  }
  sl_status_t Put(const sl_put_t& put);  // from a to b, again while the queue is full, and notified
  std::vector<sl_completion_t> Poll(sl_transport_t* transport);
  void Retire(sl_connection_t** connection);

  Module module;
  const sl_transport_ops_t* const ops;
  sl_transport_t* a = nullptr;  // rank 0 connects
  sl_transport_t* b = nullptr;
  sl_address_t address = {};  // of b
  sl_connection_t* from = nullptr;
  sl_connection_t* to = nullptr;
  sl_window_t window_a = {};
  sl_window_t window_b = {};
};

}  // namespace sl::transport_tcp
