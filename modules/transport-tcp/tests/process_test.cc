// SPDX-License-Identifier: Apache-2.0
//
// Two processes.
#include "modules/transport-tcp/tests/fixture.h"

namespace sl::transport_tcp {
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
  Fork([](const sl_transport_ops_t* ops, sl_transport_t* transport, sl_connection_t* connection) {
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
    while (ops->put(connection, &put) != SL_OK) ops->progress(transport);
    for (;;) ops->progress(transport);
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
  ASSERT_TRUE(UntilState(connection, SL_CONNECTION_DOWN));
  EXPECT_EQ(Signal(window, 0), 1u) << "what was put before the death stays readable";
}

}  // namespace
}  // namespace sl::transport_tcp
