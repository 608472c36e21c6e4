// SPDX-License-Identifier: Apache-2.0
//
// The layer where memory is short: whichever allocation fails, a put is taken or it is not, and a cookie comes back
// once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "modules/fault-inject/control.h"
#include "modules/fault-inject/tests/short_memory.h"
#include "modules/fault-inject/transport.h"
#include "sdk/guard.h"

namespace sl::fault_inject {
namespace {

constexpr size_t kBytes = 64;
constexpr uint8_t kGone = 0xee;

// The transport below: it borrows what is put, and reads it when it is asked for completions.
struct Inner {
  std::vector<sl_put_t> puts;
  std::vector<uint64_t> signals = std::vector<uint64_t>(64 * 8);
  uint32_t foreign = 0;  // bytes read that nobody has put
};
Inner* g_inner = nullptr;
uint64_t g_now_ns = 0;

// One bit may be wrong, as was asked for.
uint32_t ForeignBytes(const sl_put_t& put) {
  const auto* bytes = static_cast<const uint8_t*>(put.source);
  return static_cast<uint32_t>(std::count_if(bytes, bytes + put.bytes, [](uint8_t byte) { return byte == kGone; }));
}

sl_transport_ops_t InnerOps() {
  sl_transport_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.close = [](sl_transport_t*) {};
  ops.port_count = [](sl_transport_t*, uint32_t* out) {
    *out = 1;
    return SL_OK;
  };
  ops.port_info = [](sl_transport_t*, uint32_t, sl_port_t* out) {
    out->state = SL_PORT_UP;
    return SL_OK;
  };
  ops.connect = [](sl_transport_t*, const sl_address_t*, const sl_connect_args_t*, sl_connection_t** out) {
    *out = reinterpret_cast<sl_connection_t*>(g_inner);
    return SL_OK;
  };
  ops.connection_state = [](sl_connection_t*) -> uint32_t { return SL_CONNECTION_UP; };
  ops.window = [](sl_connection_t*, sl_window_t* out) {
    *out = {sizeof *out, 5, nullptr, g_inner->signals.data(), nullptr, 0};
    return SL_OK;
  };
  ops.retire = [](sl_connection_t*) {};
  ops.put = [](sl_connection_t*, const sl_put_t* put) {
    const Plenty plenty;
    g_inner->puts.push_back(*put);
    return SL_OK;
  };
  ops.progress = [](sl_transport_t*) { return SL_OK; };
  ops.poll = [](sl_transport_t*, sl_completion_t* out, uint32_t capacity, uint32_t* count) {
    const Plenty plenty;
    *count = 0;
    for (; *count < capacity && !g_inner->puts.empty(); g_inner->puts.erase(g_inner->puts.begin())) {
      const sl_put_t& put = g_inner->puts.front();
      if (put.source != nullptr) g_inner->foreign += ForeignBytes(put);
      if (put.cookie != 0) {
        out[(*count)++] = {put.cookie, reinterpret_cast<sl_connection_t*>(g_inner), SL_OK, SL_COMPLETION_PUT};
      }
    }
    return SL_OK;
  };
  ops.notify = [](sl_connection_t*) {};
  return ops;
}

const sl_host_t kHost = [] {
  sl_host_t host = {};
  host.struct_size = sizeof host;
  host.log_enabled = [](void*, sl_log_level_t) { return 1; };
  host.log = [](void*, sl_log_level_t, const char*) {};
  host.set_error = [](void*, sl_status_t status, const char*) { return status; };
  host.now_ns = [](void*) { return g_now_ns; };
  return host;
}();

class ShortMemory : public ::testing::Test {
 protected:
  void SetUp() override { g_inner = &inner_; }

  template <typename Body>
  static sl_status_t Guarded(Body&& body) {
    return Guard(&kHost, [&] { return Status(body()); });
  }

  // A put whose source is another's as soon as the call has returned.
  sl_status_t Put(uint64_t cookie) {
    source_.fill(static_cast<uint8_t>(cookie % 100 + 1));
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = cookie % 3 == 0 ? 0 : SL_NO_SIGNAL;
    put.signal_value = cookie;
    put.source = source_.data();
    put.bytes = source_.size();
    put.cookie = cookie;
    const sl_status_t status = Guarded([&] { return connection_->Put(put); });
    source_.fill(kGone);
    return status;
  }

  void Poll() {
    std::array<sl_completion_t, 16> all;
    uint32_t count = 0;
    Guarded([&] { return transport_->Poll(all.data(), all.size(), &count); });
    const Plenty plenty;
    for (uint32_t i = 0; i < count; ++i) {
      if (all[i].kind == SL_COMPLETION_PUT) ++told_[all[i].cookie];
    }
  }

  void Turn() {
    g_now_ns += 50'000;
    Guarded([&] { return transport_->Progress(); });
    Poll();
  }

  void Connect() {
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    args.peer = 1;
    args.signal_count = 4;
    const sl_address_t address = {};
    connection_ = transport_->Connect(address, args).Take();
  }

  // Once it is time to look at the control file again.
  void Look() {
    g_now_ns += ControlFile::kPeriodNs;
    Guarded([&] { return transport_->Progress(); });
  }

  uint32_t PortsTold() {
    std::array<sl_completion_t, 16> all;
    uint32_t count = 0;
    EXPECT_EQ(transport_->Poll(all.data(), all.size(), &count), SL_OK);
    return static_cast<uint32_t>(std::count_if(all.begin(), all.begin() + count,
                                               [](const auto& one) { return one.kind == SL_COMPLETION_PORT; }));
  }

  void BeginWithAPut(const sl_transport_ops_t* ops, const Settings& settings) {
    inner_ = Inner();
    g_now_ns = 0;
    transport_ = std::make_unique<Transport>(&kHost, ops, nullptr, settings, "", 0);
    Connect();
    ASSERT_EQ(Put(1), SL_OK);
  }
  // Once a microsecond.
  void FailToPut(uint64_t cookie, int tries) {
    for (int i = 0; i < tries; ++i) {
      g_now_ns += 1'000;
      FailAllocation(1);
      EXPECT_EQ(Put(cookie), SL_ERR_MEMORY);
      EXPECT_TRUE(EndShortage());
    }
  }
  void TurnAt(uint64_t now_ns) {
    g_now_ns = now_ns;
    Guarded([&] { return transport_->Progress(); });
    Poll();
  }

  // Puts until `puts` were taken, where allocation `fails` does; false when there were not so many.
  bool Run(const Settings& settings, uint64_t fails, uint64_t puts) {
    const sl_transport_ops_t ops = InnerOps();
    inner_ = Inner();
    told_.clear();
    g_now_ns = 0;
    transport_ = std::make_unique<Transport>(&kHost, &ops, nullptr, settings, "", 0);
    Connect();
    std::map<uint64_t, int> taken;
    FailAllocation(fails);
    for (uint64_t cookie = 1, left = puts; left != 0; ++cookie) {
      const sl_status_t status = Put(cookie);
      if (status == SL_OK || status == SL_ERR_LINK_DOWN) --left;
      const Plenty plenty;
      taken[cookie] = status == SL_OK ? 1 : 0;
      if (cookie % 16 == 0) Turn();
    }
    for (int i = 0; i < 40; ++i) Turn();
    const bool failed = EndShortage();
    for (int i = 0; i < 40; ++i) Turn();
    for (const auto& [cookie, times] : taken) {
      EXPECT_EQ(told_[cookie], times) << "cookie " << cookie << ", allocation " << fails << " has failed";
    }
    EXPECT_EQ(inner_.foreign, 0u) << "allocation " << fails << " has failed";
    transport_.reset();
    return failed;
  }

  void RunAll(const Settings& settings) {
    uint64_t fails = 1;
    while (Run(settings, fails, 40) && !HasFailure()) ++fails;
    EXPECT_GT(fails, 5u) << "so many allocations at least";
  }

  Inner inner_;
  std::array<uint8_t, kBytes> source_;
  std::map<uint64_t, int> told_;
  std::unique_ptr<Transport> transport_;
  Connection* connection_ = nullptr;
};

TEST_F(ShortMemory, TakesAPutOrDoesNot) { RunAll({}); }

TEST_F(ShortMemory, TakesAPutOrDoesNotOnALongLine) {
  Settings settings;
  settings.delay_us = 200;
  settings.corrupt_per_million = 300'000;
  RunAll(settings);
}

TEST_F(ShortMemory, TakesAPutOrDoesNotThatArrivesTwiceOrIsOvertaken) {
  Settings settings;
  settings.duplicate_per_million = 400'000;
  settings.reorder_per_million = 400'000;
  settings.drop_per_million = 100'000;
  RunAll(settings);
}

TEST_F(ShortMemory, TakesAPutOrDoesNotWithItsPort) {
  Settings settings;
  settings.delay_us = 200;
  settings.port_down_after_puts = 20;
  RunAll(settings);
}

TEST_F(ShortMemory, TakesAPutOrDoesNotWithItsConnection) {
  Settings settings;
  settings.delay_us = 200;
  settings.kill_after_puts = 20;
  RunAll(settings);
}

// A put that is not taken costs no time on the line.
TEST_F(ShortMemory, TakesNoTimeOnTheLineForAPutThatIsNotTaken) {
  const sl_transport_ops_t ops = InnerOps();
  Settings settings;
  settings.rate_bytes_per_second = 1'000'000;  // 64 us for a put
  BeginWithAPut(&ops, settings);
  FailToPut(2, 100);
  ASSERT_EQ(Put(2), SL_OK);
  TurnAt(163'000);
  EXPECT_EQ(told_[2], 0);
  TurnAt(164'000);
  EXPECT_EQ(told_[2], 1) << "64 us after it was taken";
  transport_.reset();
}

TEST_F(ShortMemory, StallsOnceForAPutThatIsTriedAgain) {
  const sl_transport_ops_t ops = InnerOps();
  Settings settings;
  settings.stall_after_puts = 2;
  settings.stall_ms = 1;
  BeginWithAPut(&ops, settings);
  FailToPut(2, 100);
  ASSERT_EQ(Put(2), SL_OK);
  TurnAt(1'000'000);
  EXPECT_EQ(told_[2], 0);
  TurnAt(1'001'000);
  EXPECT_EQ(told_[2], 1) << "1 ms after the first try";
  transport_.reset();
}

// What a file says is heard once there is memory for it, and no descriptor stays behind.
TEST_F(ShortMemory, ReadsTheControlFileLater) {
  const std::string path = ::testing::TempDir() + "fault-inject-short-" + std::to_string(getpid()) + ".control";
  std::ofstream(path) << "drop_per_million = 1000 rank 1 peer 2 lane 3 # a line that is long enough to be allocated\n";
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  bool failed = true;
  for (uint64_t fails = 1; failed; ++fails) {
    ControlFile file(path);
    FailAllocation(fails);
    const sl_status_t first = Guarded([&] { return file.Look(0).status(); });
    failed = EndShortage();
    EXPECT_EQ(first, failed ? SL_ERR_MEMORY : SL_OK) << fails;
    EXPECT_EQ(Guarded([&] { return file.Look(ControlFile::kPeriodNs).status(); }), SL_OK);
    EXPECT_EQ(file.overrides().size(), 1u) << "allocation " << fails << " has failed";
  }
  EXPECT_EQ(descriptors(), before);
  unlink(path.c_str());
}

// What it says is done once there is memory for it, whichever allocation has failed: the port is down, said to be, and
// its connections are reset.
TEST_F(ShortMemory, DoesLaterWhatTheControlFileSays) {
  const std::string path = ::testing::TempDir() + "fault-inject-news-" + std::to_string(getpid()) + ".control";
  const sl_transport_ops_t ops = InnerOps();
  bool failed = true;
  for (uint64_t fails = 1; failed && !HasFailure(); ++fails) {
    unlink(path.c_str());
    inner_ = Inner();
    g_now_ns = 0;
    transport_ = std::make_unique<Transport>(&kHost, &ops, nullptr, Settings(), path, 0);
    Connect();
    std::ofstream(path) << "port_down = 1\nstalled = 1\n";
    FailAllocation(fails);
    Look();
    failed = EndShortage();
    for (int i = 0; i < 3; ++i) Look();
    EXPECT_EQ(connection_->State(), SL_CONNECTION_DOWN) << "allocation " << fails << " has failed";
    EXPECT_EQ(transport_->counts().reset, 1u);
    EXPECT_EQ(PortsTold(), 1u) << "allocation " << fails << " has failed";
    std::ofstream(path) << "# nothing\n";
    FailAllocation(fails);
    Look();
    EndShortage();
    for (int i = 0; i < 3; ++i) Look();
    sl_port_t port = {};
    port.struct_size = sizeof port;
    EXPECT_EQ(transport_->PortInfo(0, &port), SL_OK);
    EXPECT_EQ(port.state & SL_PORT_UP, SL_PORT_UP) << "allocation " << fails << " has failed";
    EXPECT_EQ(PortsTold(), 1u) << "allocation " << fails << " has failed";
    transport_.reset();
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace sl::fault_inject
