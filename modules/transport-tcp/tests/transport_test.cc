// SPDX-License-Identifier: Apache-2.0
//
// Ranks of this process over loopback. What every transport must do is the conformance suite's; here is what only this
// one does.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "modules/transport-tcp/frame_reader.h"
#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/tests/fixture.h"
#include "modules/transport-tcp/tests/guests.h"
#include "sdk/fd.h"

namespace sl::transport_tcp {
namespace {

TEST(Copies, AreAtMostOneOfABytePerSideAndCounted) {
  constexpr uint64_t kChunk = 1 << 20;
  Pair pair(kLoopback, 4 * kChunk);
  std::vector<uint8_t> source(kChunk, 5);
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(pair.Put(MakePut(source.data(), kChunk, i % 4 * kChunk, 0, i + 1)), SL_OK);
    ASSERT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == i + 1; }));
  }
  const Counters& sent = CountersOf(pair.a);
  const Counters& received = CountersOf(pair.b);
  EXPECT_EQ(sent.copied_out_bytes, 0u);
  EXPECT_LE(received.copied_in_bytes, 16 * FrameReader::kAhead);
  EXPECT_EQ(sent.sent_bytes, 16 * (kChunk + sizeof(Frame)));
  EXPECT_EQ(received.received_bytes, sent.sent_bytes);
  EXPECT_LE(sent.sends, 16 * 40u) << "system calls for 16 MiB";
}

TEST(Puts, OfABurstLeaveInOneCall) {
  Pair pair;
  const uint64_t before = CountersOf(pair.a).sends;
  const uint64_t news = 77;
  for (uint64_t i = 1; i <= 10; ++i) {
    const sl_put_t put = MakePut(&news, sizeof news, 8 * i, 0, i);
    ASSERT_EQ(pair.ops->put(pair.from, &put), SL_OK);
  }
  EXPECT_EQ(CountersOf(pair.a).sends, before);
  pair.ops->notify(pair.from);
  EXPECT_EQ(CountersOf(pair.a).sends, before + 1);
  EXPECT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == 10; }));
}

TEST(Puts, ThatNobodyNotifiesOfLeaveWithProgress) {
  Pair pair;
  const sl_put_t put = MakePut(nullptr, 0, 0, 0, 3);
  ASSERT_EQ(pair.ops->put(pair.from, &put), SL_OK);
  EXPECT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == 3; }));
}

TEST(Puts, CompleteWithAnErrorWhenThePeerGoes) {
  Pair pair(kLoopback, 64 << 20);
  std::vector<uint8_t> source(64 << 20);
  const sl_put_t put = MakePut(source.data(), source.size(), 0, 0, 1, 5);
  ASSERT_EQ(pair.ops->put(pair.from, &put), SL_OK);  // far more than sockets hold, and nobody reads
  pair.Retire(&pair.to);
  std::vector<sl_completion_t> found;
  ASSERT_TRUE(pair.Until([&] {
    for (const sl_completion_t& completion : pair.Poll(pair.a)) found.push_back(completion);
    return !found.empty();
  }));
  EXPECT_EQ(found[0].cookie, 5u);
  EXPECT_EQ(found[0].status, SL_ERR_LINK_DOWN);
  EXPECT_GE(pair.ops->connection_state(pair.from), SL_CONNECTION_DOWN);
}

TEST(Retire, LetsNothingLandAfterwards) {
  Pair pair;
  const uint64_t news = 1;
  ASSERT_EQ(pair.Put(MakePut(&news, sizeof news, 0, 0, 1)), SL_OK);
  const size_t fds = OpenFds();
  pair.Retire(&pair.to);  // with the put on its way, unread
  EXPECT_EQ(OpenFds(), fds - 1);
  for (int i = 0; i < 100; ++i) pair.Progress();
  EXPECT_NE(pair.ops->connection_state(pair.from), SL_CONNECTION_UP);
}

TEST(Ports, HaveFactsOfTheirInterface) {
  Module module;
  sl_transport_t* transport = module.Open(0, 1);
  uint32_t count = 0;
  ASSERT_EQ(module.ops->port_count(transport, &count), SL_OK);
  EXPECT_EQ(count, 1u);
  sl_port_t port = {};
  port.struct_size = sizeof port;
  ASSERT_EQ(module.ops->port_info(transport, 0, &port), SL_OK);
  EXPECT_STREQ(port.name, "lo");
  EXPECT_EQ(port.state, SL_PORT_UP);
  EXPECT_EQ(port.numa_node, -1);
  const LoopbackId here = ReadLoopbackId();
  EXPECT_TRUE(std::equal(here.begin(), here.end(), port.fabric)) << "loopback ends at its network namespace";
  EXPECT_EQ(port.max_inline_bytes, 200u);
  module.ops->close(transport);
}

TEST(Ports, ListenOnTheirOwnAddressOnly) {
  Pair pair;
  const Address address = Decoded(pair.address);
  EXPECT_EQ(address.family, 4);
  EXPECT_EQ(address.ip[0], 127);
  EXPECT_EQ(address.ip[3], 1);
  sl_address_t again;
  ASSERT_EQ(pair.ops->listen(pair.b, 0, &again), SL_OK);
  EXPECT_EQ(0, std::memcmp(&again, &pair.address, sizeof again)) << "one listener a port";
}

TEST(Ports, ThatCannotReachAnAddressSayWhy) {
  Pair pair;
  const sl_connect_args_t args = Args(1);
  sl_connection_t* connection = nullptr;
  Address address = Decoded(pair.address);
  address.family = 6;
  sl_address_t bytes;
  EncodeAddress(address, &bytes);
  EXPECT_EQ(pair.ops->connect(pair.a, &bytes, &args, &connection), SL_ERR_INVALID);
  EXPECT_NE(Module::LastError().find("it listens on IPv6, port lo is IPv4"), std::string::npos);
  address = Decoded(pair.address);
  address.loopback[0] ^= 1;
  EncodeAddress(address, &bytes);
  EXPECT_EQ(pair.ops->connect(pair.a, &bytes, &args, &connection), SL_ERR_INVALID);
  EXPECT_NE(Module::LastError().find("loopback does not reach another host"), std::string::npos);
  EXPECT_EQ(connection, nullptr);
}

TEST(Ports, RefuseToConnectWhereNobodyListens) {
  Pair pair;
  pair.ops->close(pair.b);
  pair.b = pair.module.Open(1, 2);
  const sl_connect_args_t args = Args(1);
  sl_connection_t* connection = nullptr;
  const sl_status_t status = pair.ops->connect(pair.a, &pair.address, &args, &connection);
  if (status == SL_OK) {
    EXPECT_TRUE(pair.Until([&] { return pair.ops->connection_state(connection) == SL_CONNECTION_DOWN; }));
    sl_window_t window = {};
    window.struct_size = sizeof window;
    EXPECT_EQ(pair.ops->window(connection, &window), SL_ERR_PEER_LOST);
  } else {
    EXPECT_EQ(status, SL_ERR_PEER_LOST);
  }
  EXPECT_NE(Module::LastError().find("nobody listens"), std::string::npos) << Module::LastError();
}

TEST(Settings, FollowTheJobUnlessAnOptionSays) {
  std::string error;
  Module open_to_all(Options{});
  EXPECT_EQ(open_to_all.TryOpen(&error, "=lo", 4), SL_OK) << error;
  EXPECT_EQ(open_to_all.first_port(), "lo");
  EXPECT_EQ(open_to_all.TryOpen(&error, "=absent", 6), SL_ERR_NOT_FOUND);
  EXPECT_NE(error.find("no network interface passes interfaces \"=absent\", subnets \"\", family ipv6"),
            std::string::npos)
      << error;
  Module with_options(Options{{"interfaces", "=lo"}, {"family", "ipv4"}});
  EXPECT_EQ(with_options.TryOpen(&error, "=absent", 6), SL_OK) << error;
  EXPECT_EQ(with_options.first_port(), "lo");
}

TEST(Settings, BoundWhereToListen) {
  Module module(With("listen_ports", "47900-47901"));
  sl_transport_t* ranks[3];
  sl_address_t addresses[3];
  sl_status_t statuses[3];
  for (uint32_t i = 0; i < 3; ++i) {
    ranks[i] = module.Open(i, 3);
    statuses[i] = module.ops->listen(ranks[i], 0, &addresses[i]);
  }
  // Somebody else on this machine may have one of the two.
  for (uint32_t i = 0; i < 2; ++i) {
    if (statuses[i] == SL_OK) {
      EXPECT_EQ(Decoded(addresses[i]).port / 2, 47900 / 2);
    }
  }
  EXPECT_EQ(statuses[2], SL_ERR_LIMIT);
  EXPECT_NE(Module::LastError().find("widen"), std::string::npos) << Module::LastError();
  for (sl_transport_t* rank : ranks) module.ops->close(rank);
  EXPECT_EQ(Module(With("listen_ports", "12-")).status, SL_ERR_CONFIG);
  EXPECT_EQ(Module(With("listen_ports", "99999")).status, SL_ERR_CONFIG);
}

TEST(Settings, ThatCannotBeReadCloseTheModule) {
  for (const char* subnets : {"10.0.0.0/33", "192.0.2.0/24,eth0", "300.1.1.0/24"}) {
    EXPECT_EQ(Module(With("subnets", subnets)).status, SL_ERR_CONFIG) << subnets;
    EXPECT_NE(Module::LastError().find(" is no subnet; write 192.0.2.0/24 or fd00::/8"), std::string::npos);
  }
  EXPECT_EQ(Module(With("subnets", "198.51.100.0/24")).status, SL_OK);
}

TEST(Limits, OfDescriptorsAreErrorsWithARemedy) {
  Pair pair;
  const sl_connect_args_t args = Args(1);
  sl_connection_t* connection = nullptr;
  {
    const FewDescriptors shortage;
    EXPECT_EQ(pair.ops->connect(pair.a, &pair.address, &args, &connection), SL_ERR_LIMIT);
  }
  EXPECT_NE(Module::LastError().find("ulimit -n"), std::string::npos) << Module::LastError();
  const uint64_t news = 4;
  EXPECT_EQ(pair.Put(MakePut(&news, sizeof news, 0, 0, 1)), SL_OK) << "what is there goes on";
  EXPECT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == 1; }));
}

TEST(Limits, OfDescriptorsAtTheDoorPass) {
  Pair pair;
  const Fd guest = Knock(pair.address);  // in the backlog
  {
    const FewDescriptors shortage;
    EXPECT_TRUE(pair.Until([&] { return pair.module.CountLines(SL_LOG_WARN, "accept: Too many open files") == 1; }));
  }
  const std::string request = "GET / HTTP/1.1\r\n" + std::string(sizeof(Hello), 'x');
  ASSERT_GT(send(guest.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(pair.Until([&] { return HungUp(guest); })) << "let in when there was room again";
}

// Strangers of many kinds, while a job goes on.
TEST(Strangers, AreDroppedAndTheJobDoesNotNotice) {
  Options options = With("handshake_timeout_ms", "50");
  options["handshake_slots"] = "32";
  Pair pair(options);
  std::vector<Fd> guests;
  const std::string garbage(4096, 'x');
  for (int i = 0; i < 1000; ++i) {
    Fd guest = Knock(pair.address);
    const size_t bytes = i % 4 == 0 ? 0 : i % 4 == 1 ? 8 : garbage.size();  // a scan, half a header, garbage
    if (bytes != 0) {
      ASSERT_GT(send(guest.get(), garbage.data(), bytes, MSG_NOSIGNAL), 0);
    }
    if (i % 4 != 3) guests.push_back(std::move(guest));  // the others hang up at once
    const uint64_t value = static_cast<uint64_t>(i) + 1;
    ASSERT_EQ(pair.Put(MakePut(&value, sizeof value, 0, 0, value)), SL_OK);
    ASSERT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == value; }));
  }
  EXPECT_TRUE(pair.Until([&] {
    return std::all_of(guests.begin(), guests.end(), [](const Fd& guest) { return HungUp(guest); });
  })) << "the silent ones, after their time";
  EXPECT_GE(CountersOf(pair.b).strangers, 1000u);
  EXPECT_EQ(pair.module.CountLines(SL_LOG_WARN, "dropped a connection"), 1u) << "said once";
  sl_connection_t* connection = nullptr;
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  EXPECT_EQ(pair.ops->accept(pair.b, &connection, &said), SL_ERR_AGAIN);
}

TEST(Strangers, WhoSpeakSlowlyAreDroppedWhenTheirTimeIsUp) {
  Pair pair(With("handshake_timeout_ms", "60"));
  const Fd guest = Knock(pair.address);
  // One byte of what could be a hello at a time.
  const Hello hello = {kWireMagic, kWireVersion, sizeof(Hello), 0, 1, 0, 0, 0, 0, {}, {}};
  size_t said = 0;
  EXPECT_TRUE(pair.Until([&] {
    if (said < sizeof hello / 2) {
      said += send(guest.get(), reinterpret_cast<const char*>(&hello) + said, 1, MSG_NOSIGNAL) == 1 ? 1 : 0;
    }
    return HungUp(guest);
  }));
  EXPECT_EQ(pair.module.CountLines(SL_LOG_WARN, "that stayed silent"), 1u);
}

TEST(Strangers, ThatAreDroppedAreGoneThoughAChildHoldsTheirStream) {
  Module module(With("handshake_timeout_ms", "50"));
  sl_transport_t* b = module.Open(1, 2);
  sl_address_t bytes;
  ASSERT_EQ(module.ops->listen(b, 0, &bytes), SL_OK);
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  ASSERT_EQ(module.ops->wait_object(b, &object), SL_OK);
  const Fd guest = Knock(bytes);
  pollfd news = {object.fd, POLLIN, 0};
  ASSERT_TRUE(Eventually([&] {
    module.ops->progress(b);
    return poll(&news, 1, 0) == 0;  // let in, and silent
  }));
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_TRUE(Eventually([&] {
    module.ops->progress(b);
    return HungUp(guest);
  }));
  EXPECT_TRUE(Eventually([&] {
    module.ops->progress(b);
    return poll(&news, 1, 0) == 0;
  })) << "nothing is left to look at";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  module.ops->close(b);
}

TEST(Strangers, WithARecordedHelloGetNoFurther) {
  Module module;
  sl_transport_t* b = module.Open(1, 2);
  sl_address_t bytes;
  ASSERT_EQ(module.ops->listen(b, 0, &bytes), SL_OK);
  // What an honest rank 0 says, as somebody between the two would have seen it.
  uint8_t secret[32];
  std::memset(secret, 7, sizeof secret);
  Nonce listener;
  const Address address = Decoded(bytes);
  std::copy(std::begin(address.listener), std::end(address.listener), listener.begin());
  Hello hello = {};
  hello.to = 1;
  hello.window_bytes = 4096;
  const Caller caller(secret, hello, listener, Nonce{});
  const Fd guest = Knock(bytes);
  ASSERT_EQ(send(guest.get(), &caller.hello(), sizeof(Hello), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(Hello)));
  Challenge challenge;
  ASSERT_TRUE(Eventually([&] {
    module.ops->progress(b);
    return recv(guest.get(), &challenge, sizeof challenge, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof challenge);
  }));
  EXPECT_TRUE(HasHead(challenge));
  const Confirm confirm = {kWireMagic, kWireVersion, sizeof(Confirm), {}};
  ASSERT_GT(send(guest.get(), &confirm, sizeof confirm, MSG_NOSIGNAL), 0);
  EXPECT_TRUE(Eventually([&] {
    module.ops->progress(b);
    return HungUp(guest);
  }));
  EXPECT_EQ(module.CountLines(SL_LOG_WARN, "with a repeated hello"), 1u);
  module.ops->close(b);
}

TEST(Strangers, CrowdOutNobodyWhoHasProvedItself) {
  Module module(With("handshake_slots", "4"));
  sl_transport_t* b = module.Open(1, 2);
  sl_address_t bytes;
  ASSERT_EQ(module.ops->listen(b, 0, &bytes), SL_OK);
  std::deque<Greeter> peers;
  std::vector<Fd> strangers;
  for (uint8_t i = 0; i < 4; ++i) {
    peers.emplace_back(bytes, i);
    peers.back().SayHello();
    ASSERT_TRUE(Eventually([&] {
      module.ops->progress(b);
      return peers.back().IsChallenged();
    })) << i;
    for (int k = 0; k < 8; ++k) strangers.push_back(Knock(bytes));
    for (int k = 0; k < 100; ++k) module.ops->progress(b);
  }
  for (Greeter& peer : peers) peer.Confirm();
  uint32_t through = 0;
  EXPECT_TRUE(Eventually([&] {
    module.ops->progress(b);
    sl_connection_t* connection = nullptr;
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    through += module.ops->accept(b, &connection, &said) == SL_OK ? 1 : 0;
    return through == peers.size();
  })) << through;
  module.ops->close(b);
}

// More peers than there are places speak at once: those for whom there is none wait in the backlog.
TEST(Door, LetsEveryPeerInWhenAllPlacesAreTaken) {
  Module module(With("handshake_slots", "4"));
  sl_transport_t* b = module.Open(1, 2);
  sl_address_t bytes;
  ASSERT_EQ(module.ops->listen(b, 0, &bytes), SL_OK);
  std::deque<Greeter> peers;
  for (uint8_t i = 0; i < 32; ++i) {
    peers.emplace_back(bytes, i);
    peers.back().SayHello();
  }
  std::vector<Greeter*> waiting;
  for (Greeter& peer : peers) waiting.push_back(&peer);
  uint32_t through = 0;
  EXPECT_TRUE(Eventually([&] {
    module.ops->progress(b);
    std::erase_if(waiting, [](Greeter* peer) {
      const bool challenged = peer->IsChallenged();
      if (challenged) peer->Confirm();
      return challenged;
    });
    sl_connection_t* connection = nullptr;
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    through += module.ops->accept(b, &connection, &said) == SL_OK ? 1 : 0;
    return through == peers.size();
  })) << through;
  EXPECT_EQ(CountersOf(b).strangers, 0u);
  module.ops->close(b);
}

TEST(Strangers, BehindAnAddressAreNotTrusted) {
  Pair pair;
  // Somebody else's listener, which answers with bytes of its own.
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t name_bytes = sizeof name;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &name_bytes), 0);
  Address address = Decoded(pair.address);
  address.port = ntohs(name.sin_port);
  sl_address_t bytes;
  EncodeAddress(address, &bytes);
  const sl_connect_args_t args = Args(1);
  sl_connection_t* connection = nullptr;
  ASSERT_EQ(pair.ops->connect(pair.a, &bytes, &args, &connection), SL_OK);
  const Fd stream(accept(listener.get(), nullptr, nullptr));
  Challenge challenge = {kWireMagic, kWireVersion, sizeof(Challenge), {}, {}};
  ASSERT_GT(send(stream.get(), &challenge, sizeof challenge, MSG_NOSIGNAL), 0);
  EXPECT_TRUE(pair.Until([&] { return pair.ops->connection_state(connection) == SL_CONNECTION_DOWN; }));
  EXPECT_EQ(pair.module.CountLines(SL_LOG_WARN, "answered by somebody with a wrong secret"), 1u);
}

TEST(Sleep, NeedsNoFurtherLookAtAFullStream) {
  Pair pair(kLoopback, 64 << 20);
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  ASSERT_EQ(pair.ops->wait_object(pair.a, &object), SL_OK);
  ASSERT_EQ(object.type, SL_WAIT_FD);
  std::vector<uint8_t> source(64 << 20, 1);
  const sl_put_t put = MakePut(source.data(), source.size(), 0, 0, 1);
  ASSERT_EQ(pair.ops->put(pair.from, &put), SL_OK);
  // Rank 0 sleeps; rank 1 alone moves, and wakes it when there is room.
  pollfd descriptor = {object.fd, POLLIN, 0};
  ASSERT_TRUE(Eventually([&] {
    pair.ops->progress(pair.b);
    if (poll(&descriptor, 1, 0) == 1) pair.ops->progress(pair.a);
    return Signal(pair.window_b, 0) == 1;
  }));
}

TEST(Patience, IsNotForPeersThatOnlyReadSlowly) {
  Pair pair(With("peer_timeout_ms", "50"), 64 << 20);
  std::vector<uint8_t> source(64 << 20, 1);
  const sl_put_t put = MakePut(source.data(), source.size(), 0, 0, 1);
  ASSERT_EQ(pair.ops->put(pair.from, &put), SL_OK);
  // Ten times the patience long rank 1 computes: its window closes, its host goes on answering.
  const uint64_t end = NowNs() + 500'000'000;
  while (NowNs() < end) pair.ops->progress(pair.a);
  ASSERT_EQ(pair.ops->connection_state(pair.from), SL_CONNECTION_UP);
  EXPECT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == 1; }));
}

// Each holds more than sockets take, and nobody reads: an abort must not wait for them one after the other.
TEST(Patience, IsSharedByConnectionsThatEndTogether) {
  constexpr uint64_t kBytes = 16 << 20;
  constexpr uint32_t kMore = 7;
  Pair pair(kLoopback, kBytes);
  std::vector<sl_connection_t*> all = {pair.from};
  const sl_connect_args_t args = Args(1, kBytes);
  for (uint32_t i = 0; i < kMore; ++i) {
    ASSERT_EQ(pair.ops->connect(pair.a, &pair.address, &args, &all.emplace_back()), SL_OK) << Module::LastError();
    ASSERT_TRUE(pair.Until([&] { return pair.ops->connection_state(all.back()) == SL_CONNECTION_UP; }));
  }
  const std::vector<uint8_t> source(kBytes, 1);
  const sl_put_t put = MakePut(source.data(), source.size(), 0, 0, 1);
  for (sl_connection_t* connection : all) ASSERT_EQ(pair.ops->put(connection, &put), SL_OK);
  for (sl_connection_t* connection : all) pair.ops->retire(connection);
  pair.from = nullptr;
  // 20 ms, and a wait takes one at least.
  EXPECT_GT(CountersOf(pair.a).last_waits, 0u);
  EXPECT_LE(CountersOf(pair.a).last_waits, 21u + kMore);
}

TEST(ZeroCopy, SendsTheSameBytesAndReadsTheNotices) {
  Pair pair(With("zerocopy_minimum_bytes", "10000"), 1 << 20);
  std::vector<uint8_t> source(1 << 20);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7 + i / 256);
  for (uint64_t i = 1; i <= 8; ++i) {
    ASSERT_EQ(pair.Put(MakePut(source.data(), source.size() / i, 0, 0, i, i)), SL_OK);
    ASSERT_TRUE(pair.Until([&] { return Signal(pair.window_b, 0) == i; }));
    ASSERT_EQ(0, std::memcmp(pair.window_b.local, source.data(), source.size() / i));
    std::vector<sl_completion_t> found;
    ASSERT_TRUE(pair.Until([&] {
      for (const sl_completion_t& completion : pair.Poll(pair.a)) found.push_back(completion);
      return !found.empty();
    })) << "the source is free only when the system says so";
    EXPECT_EQ(found[0].cookie, i);
    EXPECT_EQ(found[0].status, SL_OK);
  }
  const Counters& counters = CountersOf(pair.a);
  EXPECT_GE(counters.zerocopy_sends, 8u);
  EXPECT_EQ(counters.zerocopy_copied, counters.zerocopy_sends) << "loopback always copies";
  EXPECT_EQ(pair.module.CountLines(SL_LOG_INFO, "the system copies what is sent with MSG_ZEROCOPY"), 1u);
}

// Threads put and probe on their own connections while another drives both transports and takes completions.
TEST(Threads, PutWhileAnotherDrives) {
  constexpr uint64_t kThreads = 3;
  constexpr uint64_t kPuts = 3000;
  Pair pair(With("zerocopy_minimum_bytes", "3000"));
  std::vector<sl_connection_t*> from(kThreads);
  std::vector<sl_window_t> windows(kThreads);
  for (uint64_t i = 0; i < kThreads; ++i) {
    const sl_connect_args_t args = Args(1);
    ASSERT_EQ(pair.ops->connect(pair.a, &pair.address, &args, &from[i]), SL_OK);
    sl_connection_t* to = nullptr;
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    ASSERT_TRUE(pair.Until([&] { return pair.ops->accept(pair.b, &to, &said) == SL_OK; }));
    windows[i].struct_size = sizeof(sl_window_t);
    ASSERT_EQ(pair.ops->window(to, &windows[i]), SL_OK);
    ASSERT_TRUE(pair.Until([&] { return pair.ops->connection_state(from[i]) == SL_CONNECTION_UP; }));
  }
  std::atomic<uint64_t> failed{0};
  // Lent until the last completion, which comes after the threads have ended.
  std::vector<std::vector<uint8_t>> sources;
  for (uint64_t i = 0; i < kThreads; ++i) sources.emplace_back(4096, static_cast<uint8_t>(i));
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<uint8_t>& source = sources[i];
      for (uint64_t value = 1; value <= kPuts; ++value) {
        const uint64_t bytes = value % 7 == 0 ? source.size() : value % 200;
        const sl_put_t put = MakePut(source.data(), bytes, value % 1000, 0, value, value);
        sl_status_t status = SL_ERR_AGAIN;
        Eventually([&] { return (status = pair.ops->put(from[i], &put)) != SL_ERR_AGAIN; });
        failed += status != SL_OK ? 1 : 0;
        if (value % 5 == 0) pair.ops->notify(from[i]);
        if (value % 100 == 0) pair.ops->probe(from[i], 1'000'000 + value);
      }
      pair.ops->notify(from[i]);
    });
  }
  std::vector<uint64_t> newest(kThreads);
  uint64_t puts = 0;
  const bool all = pair.Until([&] {
    for (const sl_completion_t& completion : pair.Poll(pair.a)) {
      if (completion.kind != SL_COMPLETION_PUT) continue;
      const auto thread =
          static_cast<size_t>(std::find(from.begin(), from.end(), completion.connection) - from.begin());
      failed += thread == kThreads || completion.cookie != newest[thread] + 1 || completion.status != SL_OK ? 1 : 0;
      if (thread < kThreads) newest[thread] = completion.cookie;
      ++puts;
    }
    return puts == kThreads * kPuts;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all) << puts << " completions";
  EXPECT_EQ(failed, 0u);
  for (const sl_window_t& window : windows) EXPECT_EQ(Signal(window, 0), kPuts);
}

TEST(Close, LeavesNoDescriptor) {
  const size_t before = OpenFds();
  { Pair pair; }
  EXPECT_EQ(OpenFds(), before);
}

// The peer reads nothing and leaves while a thread puts: every put that was taken comes back.
TEST(Threads, LoseNoCompletionWhenTheConnectionEnds) {
  const std::vector<uint8_t> source(4096, 1);
  for (int round = 0; round < 1000; ++round) {
    Pair pair;
    std::atomic<uint64_t> accepted{0};
    std::atomic<bool> is_down{false};
    std::thread putting([&] {
      for (uint64_t value = 1;;) {
        const sl_put_t put = MakePut(source.data(), value % 2 == 0 ? source.size() : 8, 0, 0, value, value);
        const sl_status_t status = pair.ops->put(pair.from, &put);
        if (status == SL_ERR_LINK_DOWN) break;
        if (status != SL_OK) continue;
        ++accepted;
        ++value;
      }
      is_down = true;
    });
    uint64_t completed = 0;
    const auto drive = [&] {
      pair.ops->progress(pair.a);
      completed += pair.Poll(pair.a).size();
    };
    EXPECT_TRUE(Eventually([&] {
      drive();
      return accepted > 100 || round % 3 == 0;
    }));
    pair.Retire(&pair.to);
    EXPECT_TRUE(Eventually([&] {
      drive();
      return is_down.load();
    }));
    putting.join();
    EXPECT_TRUE(Eventually([&] {
      drive();
      return completed == accepted;
    })) << completed
        << " of " << accepted << " in round " << round;
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace sl::transport_tcp
