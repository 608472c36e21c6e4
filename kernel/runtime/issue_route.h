// SPDX-License-Identifier: Apache-2.0
//
// How what was scheduled gets to a device. A route is one way there: a launch that ends in the call or that the
// device's queue takes (route_launch.cc), a stream of the host (route_stream.cc), copy engines (route_copies.cc), host
// memory (route_relay.cc). A new route is a file, route_<name>.cc, and a line in issue_route.cc.
#pragma once

#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "kernel/runtime/pending.h"
#include "kernel/runtime/stream_order.h"
#include "sl_device.h"

namespace sl::kernel {

struct Choice;
struct IssueRoute;

// A communicator's share of a call.
struct Member {
  sl_comm_t* handle = nullptr;
  sl_stream_t* lead = nullptr;        // all its operations go to it
  IssueOrder* order = nullptr;        // NULL: it has no stream yet
  const sl_op_t* transfer = nullptr;  // of a group: one to or from another rank, not empty; NULL: none
  bool has_begun = false;             // the device has some of it
  bool has_failed = false;            // nothing more of it is issued
};

// What gets to a device as one: an operation, a part of a sequence, or several that one launch or job serves.
struct Item {
  // An operation that lives in the call.
  Item(Member* the_member, Pending* local) : member(the_member), pending(local) {}
  // One of the pool.
  Item(Member* the_member, PooledPending pooled)
      : member(the_member), pending(pooled.get()), owned(std::move(pooled)), launch{} {}
  // Several, which the route serves together.
  Item(Member* the_member, std::span<PooledPending> several)
      : member(the_member), pending(several.front().get()), together(several), launch{} {}
  Item(Item&&) = default;
  // An operation that was prepared and never issued has ended.
  ~Item() {
    if (is_prepared) [[unlikely]]
      Abandon();
  }

  void Abandon();

  Member* member;
  Pending* pending;
  PooledPending owned;                // `pending`, if it is of the pool
  std::span<PooledPending> together;  // empty: `pending` alone
  const Choice* choice = nullptr;     // NULL: the route chooses
  const IssueRoute* route = nullptr;
  void* progress = nullptr;     // the route's, from one Issue() to the next
  bool is_prepared = false;     // and not issued
  bool has_more = false;        // set by Issue()
  bool continues = false;       // peers wait for it once they have what came before
  bool may_fill_queue = false;  // of the device, whose caller waits then until the device gets on
  sl_launch_t launch;  // filled by routes that launch; costs too much to initialise where the call has one item
};
using Items = std::pmr::vector<Item>;

// thread: whoever issues, one at a time.
struct IssueRoute {
  // Whether the item goes this way; of each, exactly one route says so.
  bool (*takes)(const Item& item);
  // What can fail while nothing of the call has begun.
  Status (*prepare)(Item* item);
  // Gives the device what comes next of the item, and sets has_more if that is not all. Sets has_begun of the member
  // once the device has some of it.
  Status (*issue)(Item* item);
  // NULL, or issues all items of a group that go this way, which then progress together.
  Status (*issue_batch)(std::span<Item* const> items, std::pmr::memory_resource* arena) = nullptr;
};

extern const IssueRoute kLaunchRoute;
extern const IssueRoute kStreamRoute;
extern const IssueRoute kCopyRoute;
extern const IssueRoute kRelayRoute;

const IssueRoute& RouteOf(const Item& item);
// Finds the route of an item, and prepares it.
Status PrepareItem(Item* item);
// What comes next of an item that is prepared. An error ends what is issued of its communicator in this call, and
// leaves what was issued before; peers wait for the rest of a sequence that was begun, so then the communicator has
// failed.
Status IssueNext(Item* item);
// Prepares an item, and issues all of it.
Status IssueItem(Item* item);
// The end of a member's share: `issued`, and what the device has got of it can be waited for.
inline Status Close(const Member& member, Status issued) {
  return member.has_begun ? MarkEndOf(issued, member.handle, *member.order, member.lead) : issued;
}

}  // namespace sl::kernel
