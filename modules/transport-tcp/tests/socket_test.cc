// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace sl::transport_tcp {
namespace {

Interface Ethernet(uint64_t megabits) {
  Interface interface;
  interface.name = "eth0";
  interface.megabits_per_second = megabits;
  return interface;
}

int Number(const Fd& socket, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(getsockopt(socket.get(), level, name, &value, &bytes), 0);
  return value;
}

class Streams : public ::testing::Test {
 protected:
  std::string Tune(const Settings& settings, const Interface& interface = Ethernet(10'000)) {
    stream_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::string refused;
    TuneStream(stream_.get(), interface, settings, &refused);
    return refused;
  }
  Fd stream_;
};

TEST_F(Streams, HaveNoDelayAndAskIdlePeers) {
  EXPECT_EQ(Tune({}), "");
  EXPECT_NE(Number(stream_, IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_NE(Number(stream_, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(Number(stream_, IPPROTO_TCP, TCP_KEEPIDLE), 1);
  EXPECT_EQ(Number(stream_, IPPROTO_TCP, TCP_KEEPCNT), 1);
  Settings patient;
  patient.peer_timeout_ns = 10'000'000'000;
  Tune(patient);
  EXPECT_EQ(Number(stream_, IPPROTO_TCP, TCP_KEEPCNT), 9);
}

TEST_F(Streams, TakeWhatOptionsSay) {
  Settings settings;
  settings.traffic_class = 0x28;
  settings.congestion_control = "reno";  // always there
  settings.socket_buffer_bytes = 100'000;
  EXPECT_EQ(Tune(settings), "");
  EXPECT_EQ(Number(stream_, IPPROTO_IP, IP_TOS), 0x28);
  EXPECT_GE(Number(stream_, SOL_SOCKET, SO_RCVBUF), 200'000) << "the system counts its records, too";
  char control[16] = {};
  socklen_t bytes = sizeof control;
  ASSERT_EQ(getsockopt(stream_.get(), IPPROTO_TCP, TCP_CONGESTION, control, &bytes), 0);
  EXPECT_STREQ(control, "reno");
}

TEST_F(Streams, SayWhatTheSystemRefusesAndTheRemedy) {
  Settings settings;
  settings.congestion_control = "no-such";
  settings.socket_buffer_bytes = 1 << 30;
  const std::string refused = Tune(settings);
  EXPECT_NE(refused.find("; congestion control no-such: load its kernel module"), std::string::npos) << refused;
  EXPECT_NE(refused.find("raise net.core.rmem_max"), std::string::npos) << refused;
}

TEST(Buffers, HoldWhatIsUnderWayBothWays) {
  Settings settings;
  settings.latency_ns = 10'000'000;
  EXPECT_EQ(WantedBufferBytes(Ethernet(10'000), settings), 25'000'000u);
  settings.latency_ns = 25'000;
  EXPECT_EQ(WantedBufferBytes(Ethernet(10'000), settings), 262'144u) << "not less than a few chunks";
  EXPECT_EQ(BytesPerSecond(Ethernet(0)), 1'250'000'000u);
}

TEST(Errors, NameTheRemedyOfWhatIsExhausted) {
  EXPECT_EQ(SocketError("x", EMFILE).code(), SL_ERR_LIMIT);
  EXPECT_EQ(SocketError("x", EADDRNOTAVAIL).code(), SL_ERR_LIMIT);
  EXPECT_NE(SocketError("x", EADDRNOTAVAIL).message().find("ip_local_port_range"), std::string::npos);
  EXPECT_EQ(SocketError("x", ENOBUFS).code(), SL_ERR_LIMIT);
  EXPECT_NE(SocketError("x", ENOBUFS).message().find("net.ipv4.tcp_mem"), std::string::npos);
  EXPECT_EQ(SocketError("x", ECONNREFUSED).code(), SL_ERR_PEER_LOST);
  for (const int passing : {ENETUNREACH, EHOSTUNREACH, ENETDOWN, ETIMEDOUT, ECONNRESET}) {
    EXPECT_EQ(SocketError("x", passing).code(), SL_ERR_LINK_DOWN) << passing;
  }
  EXPECT_EQ(SocketError("x", EIO).code(), SL_ERR_SYSTEM);
}

}  // namespace
}  // namespace sl::transport_tcp
