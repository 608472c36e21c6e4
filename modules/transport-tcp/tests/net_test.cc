// SPDX-License-Identifier: Apache-2.0
//
// Two hosts: network namespaces joined by two cables (veth pairs), made here and deleted again. Needs root and
// iproute2; skipped without. A socket stays in the namespace in which it was made, so one thread is both hosts.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "modules/transport-tcp/tests/fixture.h"
#include "sdk/fd.h"

namespace sl::transport_tcp {
namespace {

int Shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

std::string NameOf(char host) { return "sl-tcp-" + std::to_string(getpid()) + "-" + host; }

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || Shell("ip netns add " + NameOf('a')) != 0 || Shell("ip netns add " + NameOf('b')) != 0) {
      GTEST_SKIP() << "network namespaces need root and iproute2";
    }
    home_ = Fd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    for (const char cable : {'0', '1'}) {
      const std::string eth = std::string("eth") + cable;
      ASSERT_EQ(Shell("ip link add " + eth + " netns " + NameOf('a') + " type veth peer name " + eth + " netns " +
                      NameOf('b')),
                0);
      for (const char host : {'a', 'b'}) {
        const std::string ip = std::string("198.18.") + cable + "." + (host == 'a' ? "1" : "2") + "/24";
        ASSERT_EQ(Shell("ip -n " + NameOf(host) + " address add " + ip + " dev " + eth), 0);
        Shell("ip -n " + NameOf(host) + " link set " + eth + " addrgenmode none");
        Plug(host, eth, true);
        // Usable at once: nobody else is there to have the same one.
        const std::string local = std::string("fe80::") + host + "/64";
        EXPECT_EQ(Shell("ip -n " + NameOf(host) + " address add " + local + " dev " + eth + " nodad"), 0);
      }
    }
  }

  void TearDown() override {
    Leave();
    for (sl_transport_t* transport : {a_, b_}) {
      if (transport != nullptr) module_->ops->close(transport);
    }
    module_.reset();
    for (const char host : {'a', 'b'}) Shell("ip netns del " + NameOf(host));
  }

  void Plug(char host, const std::string& eth, bool in) {
    EXPECT_EQ(Shell("ip -n " + NameOf(host) + " link set " + eth + (in ? " up" : " down")), 0);
  }
  void Enter(char host) {
    const Fd fd(open(("/run/netns/" + NameOf(host)).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(setns(fd.get(), CLONE_NEWNET), 0);
  }
  void Leave() {
    if (home_.valid()) setns(home_.get(), CLONE_NEWNET);
  }

  // Rank 0 on host a, rank 1 on host b.
  void Open(const Options& options) {
    module_ = std::make_unique<Module>(options);
    ops_ = module_->ops;
    Enter('a');
    a_ = module_->Open(0, 2, 7, 1);
    Enter('b');
    b_ = module_->Open(1, 2, 7, 2);
    ASSERT_TRUE(a_ != nullptr && b_ != nullptr);
  }
  void Connect(uint32_t port, sl_connection_t** from, sl_connection_t** to, uint64_t window = 1 << 16) {
    sl_address_t address;
    Enter('b');
    ASSERT_EQ(ops_->listen(b_, port, &address), SL_OK) << Module::LastError();
    Enter('a');
    sl_connect_args_t args = Args(1, window);
    args.port = port;
    ASSERT_EQ(ops_->connect(a_, &address, &args, from), SL_OK) << Module::LastError();
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    ASSERT_TRUE(Until([&] { return ops_->accept(b_, to, &said) == SL_OK; }));
    EXPECT_EQ(said.port, port);
    ASSERT_TRUE(Until([&] { return ops_->connection_state(*from) == SL_CONNECTION_UP; }));
  }
  template <typename Condition>
  bool Until(Condition condition) {
    return Eventually([&] {
      ops_->progress(a_);
      ops_->progress(b_);
      return condition();
    });
  }
  bool PortIs(sl_transport_t* transport, uint32_t port, bool up) {
    sl_port_t facts = {};
    facts.struct_size = sizeof facts;
    return ops_->port_info(transport, port, &facts) == SL_OK && ((facts.state & SL_PORT_UP) != 0) == up;
  }
  uint64_t Word(sl_connection_t* connection) {
    sl_window_t window = {};
    window.struct_size = sizeof window;
    EXPECT_EQ(ops_->window(connection, &window), SL_OK);
    return Signal(window, 0);
  }
  sl_status_t Put(sl_connection_t* connection, uint64_t value, const std::vector<uint8_t>& bytes = {}) {
    const sl_put_t put = MakePut(bytes.empty() ? nullptr : bytes.data(), bytes.size(), 0, 0, value);
    const sl_status_t status = ops_->put(connection, &put);
    ops_->notify(connection);
    return status;
  }

  Fd home_;
  std::unique_ptr<Module> module_;
  const sl_transport_ops_t* ops_ = nullptr;
  sl_transport_t* a_ = nullptr;
  sl_transport_t* b_ = nullptr;
};

TEST_F(Hosts, UseEveryInterfaceAsAPort) {
  Open({});
  uint32_t count = 0;
  ASSERT_EQ(ops_->port_count(a_, &count), SL_OK);
  ASSERT_EQ(count, 2u);
  sl_connection_t* from[2];
  sl_connection_t* to[2];
  for (uint32_t port = 0; port < 2; ++port) {
    ASSERT_NO_FATAL_FAILURE(Connect(port, &from[port], &to[port]));
    EXPECT_EQ(Put(from[port], 10 + port), SL_OK);
    EXPECT_TRUE(Until([&] { return Word(to[port]) == 10 + port; }));
  }
}

TEST_F(Hosts, MeetOverLinkLocalIpv6) {
  Open({{"family", "ipv6"}});
  sl_connection_t* from = nullptr;
  sl_connection_t* to = nullptr;
  ASSERT_NO_FATAL_FAILURE(Connect(1, &from, &to));
  EXPECT_EQ(Put(from, 5), SL_OK);
  EXPECT_TRUE(Until([&] { return Word(to) == 5; }));
}

// As ENOBUFS says that it has none.
TEST_F(Hosts, CopyWhereTheSystemHasNoRoomForNoticesOfZeroCopy) {
  Open({{"interfaces", "=eth0"}, {"zerocopy_minimum_bytes", "1"}});
  sl_connection_t* from = nullptr;
  sl_connection_t* to = nullptr;
  ASSERT_NO_FATAL_FAILURE(Connect(0, &from, &to));
  Enter('a');
  constexpr const char* kLimit = "/proc/sys/net/core/optmem_max";
  std::ofstream(kLimit) << 1;
  int room = 0;
  std::ifstream(kLimit) >> room;
  if (room != 1) GTEST_SKIP() << "this system has one limit for all network namespaces";
  const std::vector<uint8_t> bytes(60'000, 3);
  EXPECT_EQ(Put(from, 1, bytes), SL_OK);
  EXPECT_TRUE(Until([&] { return Word(to) == 1; }));
  EXPECT_EQ(CountersOf(a_).zerocopy_sends, 0u);
  EXPECT_EQ(CountersOf(a_).copied_out_bytes, 0u) << "the system copies, we do not";
}

TEST_F(Hosts, HearOfACableOutAndIn) {
  Open({{"interfaces", "=eth0"}});
  ASSERT_TRUE(Until([&] { return PortIs(a_, 0, true); }));
  sl_completion_t news[8];
  uint32_t count = 0;
  ops_->poll(a_, news, 8, &count);  // it may have come up after it was opened
  for (const bool in : {false, true}) {
    Plug('b', "eth0", in);  // the other end loses its carrier
    ASSERT_TRUE(Until([&] { return PortIs(a_, 0, in); }));
    ASSERT_EQ(ops_->poll(a_, news, 8, &count), SL_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(news[0].kind, SL_COMPLETION_PORT);
    EXPECT_EQ(news[0].cookie, 0u);
  }
}

TEST_F(Hosts, LoseNothingToACableOutWithinThePatience) {
  Open({{"interfaces", "=eth0"}, {"peer_timeout_ms", "20000"}});
  sl_connection_t* from = nullptr;
  sl_connection_t* to = nullptr;
  ASSERT_NO_FATAL_FAILURE(Connect(0, &from, &to));
  const std::vector<uint8_t> bytes(60'000, 3);
  uint64_t sent = 0;
  const auto send = [&] { sent += Put(from, sent + 1, bytes) == SL_OK ? 1 : 0; };
  ASSERT_TRUE(Until([&] { return send(), Word(to) >= 10; }));
  Plug('b', "eth0", false);
  for (int i = 0; i < 10; ++i) send();
  ASSERT_TRUE(Until([&] { return PortIs(a_, 0, false); }));
  Plug('b', "eth0", true);
  ASSERT_TRUE(Until([&] { return Word(to) == sent; })) << Word(to) << " of " << sent;
  EXPECT_EQ(ops_->connection_state(from), SL_CONNECTION_UP);
}

TEST_F(Hosts, FindAHostDownThatAnswersNoMore) {
  Open({{"interfaces", "=eth0"}, {"peer_timeout_ms", "300"}});
  sl_connection_t* from = nullptr;
  sl_connection_t* to = nullptr;
  ASSERT_NO_FATAL_FAILURE(Connect(0, &from, &to));
  EXPECT_EQ(Put(from, 1), SL_OK);
  ASSERT_TRUE(Until([&] { return Word(to) == 1; }));
  Plug('b', "eth0", false);
  EXPECT_EQ(Put(from, 2), SL_OK) << "nobody can know yet";
  ASSERT_TRUE(Until([&] { return ops_->connection_state(from) == SL_CONNECTION_DOWN; }));
  EXPECT_EQ(module_->CountLines(SL_LOG_WARN, "peer 1 lane 1: the peer's host has not answered for"), 1u);
  EXPECT_EQ(Put(from, 3), SL_ERR_LINK_DOWN);
}

TEST_F(Hosts, KeepTheStreamsOfTheOtherCable) {
  Open({{"peer_timeout_ms", "300"}});
  sl_connection_t* from[2];
  sl_connection_t* to[2];
  for (uint32_t port = 0; port < 2; ++port) ASSERT_NO_FATAL_FAILURE(Connect(port, &from[port], &to[port]));
  Plug('b', "eth0", false);
  uint64_t value = 0;
  uint32_t lost = 2;
  ASSERT_TRUE(Until([&] {
    ++value;
    for (uint32_t port = 0; port < 2; ++port) {
      Put(from[port], value);
      if (ops_->connection_state(from[port]) == SL_CONNECTION_DOWN) lost = port;
    }
    return lost != 2;
  }));
  const uint32_t kept = 1 - lost;
  EXPECT_TRUE(Until([&] {
    Put(from[kept], value + 1);
    return Word(to[kept]) == value + 1;
  }));
}

}  // namespace
}  // namespace sl::transport_tcp
