// SPDX-License-Identifier: Apache-2.0
//
// Two processes. The child is forked before the test makes a thread and reports by its exit code.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "modules/transport-shm/tests/fixture.h"

namespace sl::transport_shm {
namespace {

constexpr uint64_t kRounds = 2000;

// One rank: connects or accepts, then counts up with its peer, each waiting for the other's number.
bool CountTogether(const sl_transport_ops_t* ops, sl_connection_t* connection) {
  const sl_window_t window = WindowOf(ops, connection);
  for (uint64_t i = 1; i <= kRounds; ++i) {
    const sl_put_t put = MakePut(&i, sizeof i, i * 8 % 4096, 0, i);
    if (ops->put(connection, &put) != SL_OK) return false;
    if (!Eventually([&] { return Signal(window, 0) >= i; })) return false;
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

sl_connection_t* ConnectFrom(Module* module, sl_transport_t* transport, const sl_address_t& address) {
  sl_connection_t* connection = nullptr;
  const sl_connect_args_t args = Args(1);
  return module->ops->connect(transport, &address, &args, &connection) == SL_OK ? connection : nullptr;
}

TEST_F(Processes, CountTogether) {
  Fork([](const sl_address_t& address) {
    Module module;
    sl_transport_t* transport = module.Open(0, 2);
    sl_connection_t* connection = ConnectFrom(&module, transport, address);
    const bool good = connection != nullptr && CountTogether(module.ops, connection);
    module.ops->close(transport);
    return good;
  });
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(CountTogether(ops_, connection));
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
  Fork([this](const sl_address_t& address) {
    Module module;
    sl_transport_t* transport = module.Open(0, 2);
    sl_connection_t* connection = ConnectFrom(&module, transport, address);
    // A grandchild that keeps copies of the sockets, as a forked worker would, until the test ends.
    if (fork() == 0) {
      close(pipe_[1]);
      char byte;
      _exit(read(pipe_[0], &byte, 1) >= 0 ? 0 : 1);
    }
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
    if (connection == nullptr || module.ops->put(connection, &put) != SL_OK) return false;
    pause();
    return true;
  });
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  ASSERT_EQ(ops_->connection_state(connection), SL_CONNECTION_UP);
  ASSERT_TRUE(Eventually([&] { return Signal(WindowOf(ops_, connection), 0) == 1; }));
  ASSERT_EQ(kill(pid_, SIGKILL), 0);
  ASSERT_TRUE(Eventually(
      [&] {
        ops_->progress(transport_);
        return ops_->connection_state(connection) == SL_CONNECTION_DOWN;
      },
      2));
  EXPECT_EQ(Signal(WindowOf(ops_, connection), 0), 1u) << "what was put before the death stays readable";
}

}  // namespace
}  // namespace sl::transport_shm
