// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/roster.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

// `broken`: a rank whose card is cut off.
Contributions Cards(uint32_t ranks, uint32_t broken = UINT32_MAX) {
  Writer cards;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Card card;
    card.host[0] = static_cast<uint8_t>(rank / 2);
    card.process = rank;
    LinkAddress port;
    port.address.bytes = rank + 1;
    if (rank != 1) card.addresses.push_back({"tcp", {port}});
    Bytes bytes = card.Encode();
    if (rank == broken) bytes.resize(20);
    PutContribution(&cards, rank, bytes);
  }
  return Contributions::Read(cards.Take(), ranks).Take();
}

TEST(Roster, HoldsWhatEveryRankSaid) {
  const auto roster = Roster::Read(Cards(4)).Take();
  ASSERT_EQ(roster->cards().size(), 4u);
  EXPECT_EQ(roster->cards()[3].process, 3u);
  EXPECT_STREQ(roster->hosts()[0], roster->hosts()[1]);
  EXPECT_STRNE(roster->hosts()[1], roster->hosts()[2]);
  const auto peers = Roster::PeersOf(roster, "tcp");
  ASSERT_EQ(peers->size(), 4u);
  EXPECT_TRUE(peers->at(1).empty());
  EXPECT_EQ(peers->at(3).at(0).address.bytes, 4u);
  EXPECT_EQ(Roster::PeersOf(roster, "shm")->size(), 4u);
}

TEST(Roster, NeedsNetworksBetweenHostsAndWhereNoTransportServesAll) {
  const auto roster = [](const std::vector<std::pair<uint8_t, std::string>>& ranks) {
    Writer cards;
    uint32_t rank = 0;
    for (const auto& [host, transport] : ranks) {
      Card card;
      card.host[0] = host;
      LinkAddress port;
      port.address.bytes = 1;
      if (!transport.empty()) card.addresses.push_back({transport, {port}});
      PutContribution(&cards, rank++, card.Encode());
    }
    return Roster::Read(Contributions::Read(cards.Take(), rank).Take()).Take();
  };
  EXPECT_TRUE(roster({{1, "shm"}, {1, "shm"}, {1, "shm"}})->MeetsWithinHost());
  EXPECT_TRUE(roster({{1, ""}})->MeetsWithinHost()) << "there is nobody to meet";
  EXPECT_FALSE(roster({{1, "shm"}, {2, "shm"}})->MeetsWithinHost());
  EXPECT_FALSE(roster({{1, "shm"}, {1, ""}})->MeetsWithinHost());
  EXPECT_FALSE(roster({{1, "shm"}, {1, "tcp"}})->MeetsWithinHost());
}

TEST(Roster, CountsTheRanksOfAMachineWhateverKeepsThemApart) {
  Writer cards;
  for (uint32_t rank = 0; rank < 7; ++rank) {
    Card card;
    card.host[0] = static_cast<uint8_t>(rank);
    card.machine[0] = rank < 3 ? 1 : 2;
    card.cpus[0] = rank < 3 ? 3 : uint64_t{1} << rank;  // three share two processors, four have one each
    PutContribution(&cards, rank, card.Encode());
  }
  const auto roster = Roster::Read(Contributions::Read(cards.Take(), 7).Take()).Take();
  EXPECT_TRUE(roster->IsCrowded(0));
  EXPECT_FALSE(roster->IsCrowded(6));
}

// As many cards as `change` is told to make.
template <typename Change>
std::shared_ptr<const Roster> RosterOf(uint32_t ranks, Change change) {
  Writer cards;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Card card;
    card.version = "1.0";
    change(rank, &card);
    PutContribution(&cards, rank, card.Encode());
  }
  return Roster::Read(Contributions::Read(cards.Take(), ranks).Take()).Take();
}

TEST(Roster, NamesTheFirstRankThatDoesNotAgree) {
  EXPECT_TRUE(RosterOf(3, [](uint32_t, Card*) {})->CheckAgreement(1).ok());
  const auto text = [](auto change) {
    const Status checked = RosterOf(3, change)->CheckAgreement(2);
    EXPECT_EQ(checked.code(), SL_ERR_MISMATCH);
    return checked.message();
  };
  const std::string version = text([](uint32_t rank, Card* card) {
    if (rank < 2) card->version = "0.9";
  });
  EXPECT_EQ(version.rfind("rank 0 (process 0) runs starling 0.9, rank 2 runs 1.0; ", 0), 0u) << version;
  const std::string kind = text([](uint32_t rank, Card* card) { card->device_kind = rank == 1 ? 1 : 0; });
  EXPECT_EQ(kind.rfind("rank 1 (process 0) is on a device of kind cuda, rank 2 of kind host; ", 0), 0u) << kind;
  const std::string profile = text([](uint32_t rank, Card* card) {
    card->settings_hash = rank == 0 ? 5 : 6;
    card->profile = rank == 0 ? "this" : "that";
  });
  EXPECT_EQ(profile.rfind("rank 0 (process 0) has another effective profile (this) than rank 2 (that); ", 0), 0u)
      << profile;
}

TEST(Roster, KnowsTheRanksOfAHost) {
  const auto roster = RosterOf(13, [](uint32_t rank, Card* card) {
    card->host[0] = rank < 3 ? static_cast<uint8_t>(rank % 2) : 7;
    card->cpus[0] = uint64_t{1} << rank;
    card->endpoint.local[0] = static_cast<uint8_t>(rank / 3);
  });
  EXPECT_EQ(roster->RanksOfHost(2), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(roster->HostProcessors(2), 2u);
  EXPECT_EQ(roster->OthersOfHostText(1), "");
  EXPECT_EQ(roster->OthersOfHostText(2), "; rank 0 is on that host, too");
  EXPECT_EQ(roster->OthersOfHostText(3), "; ranks 4, 5, 6, 7, 8, 9, 10 and 2 more are on that host, too");
  const std::vector<bool> shares = roster->SharesProcess(4);
  EXPECT_EQ(shares[2], false);
  EXPECT_EQ(shares[5], true);
}

TEST(Roster, CountsThoseThatADeviceReaches) {
  const auto roster = RosterOf(8, [](uint32_t rank, Card* card) {
    card->host[0] = rank < 6 ? 1 : 2;
    card->clique = rank == 5 ? 1 : 0;
  });
  EXPECT_EQ(roster->DomainSize(0, 0), 5u) << "another host, or another clique";
  EXPECT_EQ(roster->DomainSize(5, 0), 1u);
  EXPECT_EQ(roster->DomainSize(6, 0), 2u);
  EXPECT_EQ(roster->DomainSize(0, 4), 4u) << "groups of four are kept apart";
  EXPECT_EQ(roster->DomainSize(4, 4), 1u);
}

TEST(Roster, AgreesOnTheLeastBoundsWhoeverAsksForThem) {
  const auto agreed = [](const std::vector<ProcessorBounds>& asked) {
    Writer cards;
    uint32_t rank = 0;
    for (const ProcessorBounds& bounds : asked) {
      Card card;
      card.bounds = bounds;
      PutContribution(&cards, rank++, card.Encode());
    }
    return Roster::Read(Contributions::Read(cards.Take(), rank).Take()).Take()->AgreedBounds();
  };
  EXPECT_EQ(agreed({{}, {}}), ProcessorBounds()) << "nobody asks for anything";
  EXPECT_EQ(agreed({{0, 16, 0}, {}, {0, 6, 0}}), (ProcessorBounds{0, 6, 0})) << "no bound is above every bound";
  EXPECT_EQ(agreed({{4, 0, 0}, {2, 0, 0}}), (ProcessorBounds{2, 0, 0}));
  EXPECT_EQ(agreed({{8, 8, 0}, {12, 4, 0}}), (ProcessorBounds{4, 4, 0})) << "the most wins over the least";
  EXPECT_EQ(agreed({{0, 0, 8}, {0, 0, 3}}), (ProcessorBounds{0, 0, 8}));
  EXPECT_EQ(agreed({{}, {0, 0, 0, 1}, {}}), (ProcessorBounds{0, 0, 0, 1})) << "one rank is enough";
}

TEST(Roster, IsRefusedWithABrokenCard) { EXPECT_EQ(Roster::Read(Cards(3, 1)).status().code(), SL_ERR_LINK_CORRUPT); }

TEST(RosterShelf, SharesWhatIsInUseAndKeepsNothingElse) {
  RosterShelf shelf;
  std::shared_ptr<const Roster> one = shelf.Take(1, Cards(2)).Take();
  EXPECT_EQ(shelf.Take(1, Cards(2)).Take(), one);
  EXPECT_NE(shelf.Take(2, Cards(2)).Take(), one);
  const std::weak_ptr<const Roster> watched = one;
  const std::shared_ptr<const LinkPeers> peers = Roster::PeersOf(one, "tcp");
  one.reset();
  EXPECT_FALSE(watched.expired()) << "its addresses are in use";
}

}  // namespace
}  // namespace sl::kernel
