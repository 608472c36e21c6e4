// SPDX-License-Identifier: Apache-2.0
//
// What tests of transports share: descriptions of calls, waiting, and two ranks in two processes.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "sdk/clock.h"
#include "sl_transport.h"

namespace sl::transport_test {

// True as soon as `condition` is; false when `seconds` have passed.
template <typename Condition>
bool Eventually(Condition condition, uint64_t seconds = 20) {
  for (const uint64_t end = NowNs() + seconds * 1'000'000'000; NowNs() < end; sched_yield()) {
    if (condition()) return true;
  }
  return condition();
}

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

inline sl_put_t MakePut(const void* source, uint64_t bytes, uint64_t offset, uint32_t signal, uint64_t value,
                        uint64_t cookie = 0) {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = signal;
  put.signal_value = value;
  put.source = source;
  put.bytes = bytes;
  put.offset = offset;
  put.cookie = cookie;
  return put;
}

inline sl_transport_env_t Env(uint32_t rank, uint32_t size, uint8_t secret, uint8_t host) {
  sl_transport_env_t env = {};
  env.struct_size = sizeof env;
  env.rank = rank;
  env.size = size;
  std::memset(env.job_secret, secret, sizeof env.job_secret);
  std::memset(env.host_id, host, sizeof env.host_id);
  return env;
}

inline uint64_t Signal(const sl_window_t& window, uint32_t index) {
  return std::atomic_ref<uint64_t>(window.local_signals[index * 8]).load(std::memory_order_acquire);
}

inline size_t OpenFds() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// One rank of two that count up together: each waits for the other's number before it puts its next. False when
// something is not as it must be.
inline bool CountTogether(const sl_transport_ops_t* ops, sl_transport_t* transport, sl_connection_t* connection) {
  constexpr uint64_t kRounds = 2000;
  const auto until = [&](auto condition) {
    return Eventually([&] {
      ops->progress(transport);
      return condition();
    });
  };
  sl_window_t window = {};
  window.struct_size = sizeof window;
  if (!until([&] { return ops->window(connection, &window) == SL_OK; })) return false;
  for (uint64_t i = 1; i <= kRounds; ++i) {
    const sl_put_t put = MakePut(&i, sizeof i, i * 8 % 4096, 0, i);
    if (ops->put(connection, &put) != SL_OK) return false;
    ops->notify(connection);
    if (!until([&] { return Signal(window, 0) >= i; })) return false;
    uint64_t got;
    std::memcpy(&got, static_cast<uint8_t*>(window.local) + i * 8 % 4096, sizeof got);
    // The peer is at most one round ahead, in another slot.
    if (got != i) return false;
  }
  return true;
}

// Rank 0 in a child, which is forked before the test makes a transport and reports by its exit code; rank 1 here.
// Module opens a transport's module with a host of the test's own: `ops`, Open(rank, size).
template <typename Module>
class TwoProcesses : public testing::Test {
 protected:
  // Runs `child` with the module, its transport and a connection to this process's listener; false: it failed.
  template <typename Child>
  void Fork(Child child) {
    ASSERT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ == 0) _exit(RunChild(child) ? 0 : 1);
    ASSERT_GT(pid_, 0);
    module_ = std::make_unique<Module>();
    ops_ = module_->ops;
    transport_ = module_->Open(1, 2);
    sl_address_t address;
    ASSERT_EQ(ops_->listen(transport_, 0, &address), SL_OK);
    ASSERT_EQ(write(pipe_[1], &address, sizeof address), static_cast<ssize_t>(sizeof address));
  }

  void TearDown() override {
    if (transport_ != nullptr) ops_->close(transport_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(pipe_[0]);
    close(pipe_[1]);
  }

  sl_connection_t* Accept() {
    sl_connection_t* connection = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    EXPECT_TRUE(Eventually([&] { return ops_->accept(transport_, &connection, &args) == SL_OK; }));
    return connection;
  }

  // Waits for the child to end; its exit status.
  int Join() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

  bool UntilState(sl_connection_t* connection, uint32_t state, uint64_t seconds = 20) {
    const auto reached = [&] {
      ops_->progress(transport_);
      return ops_->connection_state(connection) == state;
    };
    return Eventually(reached, seconds);
  }

  int pipe_[2] = {-1, -1};
  pid_t pid_ = -1;
  std::unique_ptr<Module> module_;
  const sl_transport_ops_t* ops_ = nullptr;
  sl_transport_t* transport_ = nullptr;

 private:
  template <typename Child>
  bool RunChild(Child child) {
    sl_address_t address;
    if (read(pipe_[0], &address, sizeof address) != static_cast<ssize_t>(sizeof address)) return false;
    Module module;
    sl_transport_t* transport = module.Open(0, 2);
    const sl_connect_args_t args = Args(1);
    sl_connection_t* connection = nullptr;
    if (module.ops->connect(transport, &address, &args, &connection) != SL_OK) return false;
    const bool good = child(module.ops, transport, connection);
    module.ops->close(transport);
    return good;
  }
};

}  // namespace sl::transport_test
