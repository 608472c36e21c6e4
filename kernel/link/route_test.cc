// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/route.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

using Ports = std::vector<std::pair<uint32_t, uint32_t>>;

// A transport whose local ports, and those of rank 1, lie on these fabrics; 0: the port does not listen.
LinkTransport TransportOf(const std::vector<uint8_t>& locals, const std::vector<uint8_t>& remotes) {
  LinkTransport transport;
  for (const uint8_t fabric : locals) transport.fabrics.push_back({fabric});
  LinkPeers peers(2);
  for (const uint8_t fabric : remotes) {
    LinkAddress& port = peers[1].emplace_back();
    port.fabric = {fabric};
    port.address.bytes = fabric == 0 ? 0 : 1;
  }
  transport.peers = std::make_shared<const LinkPeers>(std::move(peers));
  return transport;
}

TEST(Route, UsesEveryPortBeforeAnyTwice) {
  EXPECT_EQ(FindRoute({TransportOf({1, 1}, {1, 1})}, 1).ports, (Ports{{0, 0}, {1, 1}}));
  EXPECT_EQ(FindRoute({TransportOf({1, 1, 1}, {1, 1})}, 1).ports, (Ports{{0, 0}, {1, 1}, {2, 0}}));
  EXPECT_EQ(FindRoute({TransportOf({1}, {1, 1})}, 1).ports, (Ports{{0, 0}, {0, 1}}));
}

TEST(Route, StaysWithinAFabric) {
  EXPECT_EQ(FindRoute({TransportOf({1, 2}, {1, 2})}, 1).ports, (Ports{{0, 0}, {1, 1}}));
  EXPECT_EQ(FindRoute({TransportOf({1, 2}, {1, 3})}, 1).ports, (Ports{{0, 0}}));
  EXPECT_EQ(FindRoute({TransportOf({1, 2}, {2, 1})}, 1).ports, (Ports{{0, 1}})) << "though no numbers agree";
}

TEST(Route, TakesTheFirstTransportThatReachesThePeer) {
  const LinkTransport elsewhere = TransportOf({1}, {2});
  const LinkTransport deaf = TransportOf({0}, {0});
  const Route route = FindRoute({elsewhere, deaf, TransportOf({3}, {3}), TransportOf({4}, {4})}, 1);
  EXPECT_EQ(route.transport, 2u);
  EXPECT_EQ(route.ports, (Ports{{0, 0}}));
}

TEST(Route, HasNoPortsWhereNothingReachesThePeer) {
  EXPECT_TRUE(FindRoute({}, 1).ports.empty());
  EXPECT_TRUE(FindRoute({TransportOf({}, {1}), TransportOf({1}, {}), TransportOf({1}, {2})}, 1).ports.empty());
  EXPECT_TRUE(FindRoute({TransportOf({1}, {1})}, 2).ports.empty()) << "a rank that nobody has told of";
}

}  // namespace
}  // namespace sl::kernel
