// SPDX-License-Identifier: Apache-2.0
//
// Two processes. The child is forked before the test makes a transport and reports by its exit code.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "modules/transport-tcp/tests/fixture.h"

namespace sl::transport_tcp {
namespace {

constexpr uint64_t kRounds = 2000;

// One rank: counts up with its peer, each waiting for the other's number.
bool CountTogether(const sl_transport_ops_t* ops, sl_transport_t* transport, sl_connection_t* connection) {
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

class Processes : public ::testing::Test {
 protected:
  // Runs `child` with the address of the parent's listener in a forked process.
  template <typename Child>
  void Fork(Child child) {
    ASSERT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      sl_address_t address;
      const bool got = read(pipe_[0], &address, sizeof address) == static_cast<ssize_t>(sizeof address);
      _exit(got && child(address) ? 0 : 1);
    }
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
    sl_connect_args_t args;
    EXPECT_TRUE(Eventually([&] { return ops_->accept(transport_, &connection, &args) == SL_OK; }));
    return connection;
  }

  int pipe_[2] = {-1, -1};
  pid_t pid_ = -1;
  std::unique_ptr<Module> module_;
  const sl_transport_ops_t* ops_ = nullptr;
  sl_transport_t* transport_ = nullptr;
};

TEST_F(Processes, CountTogether) {
  Fork([](const sl_address_t& address) {
    Module module;
    sl_transport_t* transport = module.Open(0, 2);
    const sl_connect_args_t args = Args(1);
    sl_connection_t* connection = nullptr;
    const bool good = module.ops->connect(transport, &address, &args, &connection) == SL_OK &&
                      CountTogether(module.ops, transport, connection);
    module.ops->close(transport);
    return good;
  });
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(CountTogether(ops_, transport_, connection));
  int status = -1;
  ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Eventually([&] {
    ops_->progress(transport_);
    return ops_->connection_state(connection) == SL_CONNECTION_CLOSED;
  }));
}

TEST_F(Processes, FindAKilledPeerDown) {
  Fork([](const sl_address_t& address) {
    Module module;
    sl_transport_t* transport = module.Open(0, 2);
    const sl_connect_args_t args = Args(1);
    sl_connection_t* connection = nullptr;
    if (module.ops->connect(transport, &address, &args, &connection) != SL_OK) return false;
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
    while (module.ops->put(connection, &put) != SL_OK) module.ops->progress(transport);
    for (;;) module.ops->progress(transport);
    return true;
  });
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  sl_window_t window = {};
  window.struct_size = sizeof window;
  ASSERT_EQ(ops_->window(connection, &window), SL_OK);
  ASSERT_TRUE(Eventually([&] {
    ops_->progress(transport_);
    return Signal(window, 0) == 1;
  }));
  ASSERT_EQ(kill(pid_, SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    ops_->progress(transport_);
    return ops_->connection_state(connection) == SL_CONNECTION_DOWN;
  }));
  EXPECT_EQ(Signal(window, 0), 1u) << "what was put before the death stays readable";
}

}  // namespace
}  // namespace sl::transport_tcp
