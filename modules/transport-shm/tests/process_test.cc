// SPDX-License-Identifier: Apache-2.0
//
// Two processes.
#include "modules/transport-shm/tests/fixture.h"

namespace sl::transport_shm {
namespace {

using Processes = transport_test::TwoProcesses<Module>;

TEST_F(Processes, CountTogether) {
  Fork(transport_test::CountTogether);
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(transport_test::CountTogether(ops_, transport_, connection));
  EXPECT_EQ(Join(), 0);
  EXPECT_TRUE(UntilState(connection, SL_CONNECTION_CLOSED));
}

TEST_F(Processes, FindAKilledPeerDown) {
  Fork([this](const sl_transport_ops_t* ops, sl_transport_t*, sl_connection_t* connection) {
    // A grandchild that keeps copies of the sockets, as a forked worker would, until the test ends.
    if (fork() == 0) {
      close(pipe_[1]);
      char byte;
      _exit(read(pipe_[0], &byte, 1) >= 0 ? 0 : 1);
    }
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
    if (ops->put(connection, &put) != SL_OK) return false;
    pause();
    return true;
  });
  sl_connection_t* connection = Accept();
  ASSERT_NE(connection, nullptr);
  ASSERT_EQ(ops_->connection_state(connection), SL_CONNECTION_UP);
  ASSERT_TRUE(Eventually([&] { return Signal(WindowOf(ops_, connection), 0) == 1; }));
  ASSERT_EQ(kill(pid_, SIGKILL), 0);
  ASSERT_TRUE(UntilState(connection, SL_CONNECTION_DOWN));
  EXPECT_EQ(Signal(WindowOf(ops_, connection), 0), 1u) << "what was put before the death stays readable";
}

}  // namespace
}  // namespace sl::transport_shm
