// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/meet.h"

#include <cstring>

#include "kernel/control/id_groups.h"
#include "kernel/control/tree_shape.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kRendezvousGivesUpFirstNs = 5'000'000'000;  // it knows who is missing

// One meeting of several ids: of a group, or of the leaders.
class Circle {
 public:
  // `names`: what its ranks are called in messages, by their numbers in it.
  Circle(const Meeting& meeting, const RendezvousId& id, uint32_t rank, std::vector<uint32_t> names, std::string terms)
      : meeting_(meeting),
        id_(id),
        terms_(std::move(terms)),
        identity_{rank, static_cast<uint32_t>(names.size()), id.nonce(), meeting.ids[0].secret, std::move(names)} {}
  ~Circle() {
    if (tree_ != nullptr) tree_->Depart(Fate::kDeparted);
  }
  Circle(const Circle&) = delete;
  Circle& operator=(const Circle&) = delete;

  Status Come() {
    Switchboard* switchboard = meeting_.mine->switchboard();
    const Patience patience = {NowNs() + meeting_.timeout_ns + kRendezvousGivesUpFirstNs, meeting_.cancel_ns};
    const JoinRequest request{identity_.rank, identity_.size, meeting_.mine->endpoint(),
                              meeting_.rank,  meeting_.size,  terms_};
    SL_ASSIGN(const TreeNeighbours where, JoinRendezvous(id_, request, switchboard, patience));
    SL_ASSIGN(tree_, ControlTree::Build(switchboard->control(), identity_, meeting_.mine, where, meeting_.silence_ns,
                                        nullptr, nullptr, patience));
    return {};
  }
  // There will be no communicator: those who wait for this rank hear why.
  void Fail(const Status& why) {
    if (tree_ != nullptr) tree_->Report(why);
  }
  // What all have to say, in the order of the ranks.
  Result<Bytes> Gather(std::span<const uint8_t> mine) {
    // The leader may have to wait for other groups.
    const uint64_t deadline_ns = NowNs() + 2 * (meeting_.timeout_ns + kRendezvousGivesUpFirstNs);
    SL_ASSIGN(const Contributions all, tree_->AllGather(tree_->TakeNumber(), mine, {deadline_ns, meeting_.cancel_ns}));
    Writer out;
    for (size_t rank = 0; rank < all.size(); ++rank) out.Append(all[rank]);
    return out.Take();
  }

 private:
  const Meeting& meeting_;
  const RendezvousId id_;
  const std::string terms_;
  const TreeIdentity identity_;
  std::shared_ptr<ControlTree> tree_;
};

std::string TermsOf(const Meeting& meeting) {
  return "with " + std::to_string(meeting.size) + " ranks and " + std::to_string(meeting.ids.size()) + " ids";
}

Result<TreeNeighbours> MeetByOne(const Meeting& meeting) {
  const RendezvousId& id = meeting.ids[0];
  Switchboard* switchboard = meeting.mine->switchboard();
  // Its children are on other hosts, or may be.
  if (!switchboard->IsHere(id.rendezvous.space)) SL_TRY(switchboard->OpenNet().status());
  const JoinRequest request{meeting.rank, meeting.size, meeting.mine->endpoint(), meeting.rank, meeting.size, ""};
  return JoinRendezvous(id, request, switchboard,
                        {NowNs() + meeting.timeout_ns + kRendezvousGivesUpFirstNs, meeting.cancel_ns}, meeting.look);
}

// Where all ranks are, as their leaders tell each other. A leader whose own group failed comes, too: to say so.
Result<Bytes> MeetLeaders(const Meeting& meeting, const IdGroups& groups, const Result<Bytes>& own) {
  std::vector<uint32_t> names;
  for (uint32_t group = 0; group < groups.ids; ++group) names.push_back(groups.First(group));
  Circle leaders(meeting, LeadersId(meeting.ids[0]), groups.Of(meeting.rank), std::move(names), TermsOf(meeting));
  const Status came = leaders.Come();
  if (!own.ok()) leaders.Fail(own.status());
  SL_TRY(own.status());
  SL_TRY(came);
  return leaders.Gather(own.value());
}

Result<TreeNeighbours> MeetBySeveral(const Meeting& meeting) {
  Switchboard* switchboard = meeting.mine->switchboard();
  const IdGroups groups{meeting.size, static_cast<uint32_t>(meeting.ids.size())};
  const uint32_t group = groups.Of(meeting.rank);
  // No group knows where the others are.
  if (switchboard->HasNet()) SL_TRY(switchboard->OpenNet().status());
  std::vector<uint32_t> names;
  for (uint32_t rank = groups.First(group); rank < groups.First(group + 1); ++rank) names.push_back(rank);
  Circle circle(meeting, meeting.ids[group], meeting.rank - names[0], names,
                TermsOf(meeting) + ", at id " + std::to_string(group));
  const Endpoint mine = meeting.mine->endpoint();
  const Status came = circle.Come();
  Result<Bytes> all = came;
  if (came.ok()) all = circle.Gather({reinterpret_cast<const uint8_t*>(&mine), sizeof(mine)});
  if (groups.First(group) == meeting.rank) {
    all = MeetLeaders(meeting, groups, all);
    if (!all.ok()) circle.Fail(all.status());
  } else if (all.ok()) {
    all = Bytes();  // the leader says it all
  }
  if (all.ok()) all = circle.Gather(all.value());
  SL_TRY(all.status());
  if (all.value().size() != meeting.size * sizeof(Endpoint)) {
    return Status(SL_ERR_LINK_CORRUPT, "ranks that met said something else than where they are");
  }
  bool is_good = true;
  const auto endpoint_of = [&](uint32_t rank) {
    Endpoint endpoint;
    std::memcpy(static_cast<void*>(&endpoint), all.value().data() + rank * sizeof(endpoint), sizeof(endpoint));
    is_good = is_good && IsWellFormed(endpoint);
    return endpoint;
  };
  TreeNeighbours neighbours = TreeNeighbours::Of(meeting.rank, meeting.size, endpoint_of);
  if (!is_good) return Status(SL_ERR_LINK_CORRUPT, "the place of a rank is damaged");
  return neighbours;
}

}  // namespace

Result<TreeNeighbours> Meet(const Meeting& meeting) {
  return meeting.ids.size() == 1 ? MeetByOne(meeting) : MeetBySeveral(meeting);
}

}  // namespace sl::kernel
