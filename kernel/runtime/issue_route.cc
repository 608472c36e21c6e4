// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue_route.h"

#include <cstdlib>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

constexpr const IssueRoute* kRoutes[] = {
    &kLaunchRoute,
    &kStreamRoute,
    &kCopyRoute,
    &kRelayRoute,
};

}  // namespace

void Item::Abandon() {
  if (owned != nullptr) LeaveAndGive(owned.release(), SL_ERR_ABORTED);
}

const IssueRoute& RouteOf(const Item& item) {
  for (const IssueRoute* route : kRoutes) {
    if (route->takes(item)) return *route;
  }
  std::abort();  // selection chooses no other kind of run
}

Status PrepareItem(Item* item) {
  item->route = &RouteOf(*item);
  Status prepared = item->route->prepare(item);
  item->is_prepared = prepared.ok();
  return prepared;
}

Status IssueNext(Item* item) {
  item->is_prepared = false;
  item->has_more = false;
  Status issued = item->route->issue(item);
  if (issued.ok()) [[likely]]
    return issued;
  item->has_more = false;
  item->member->has_failed = true;
  if (item->continues) item->member->handle->comm.FailLaunches(issued);
  return issued;
}

Status IssueItem(Item* item) {
  SL_TRY(PrepareItem(item));
  Status issued = IssueNext(item);
  while (item->has_more) issued = IssueNext(item);
  return issued;
}

}  // namespace sl::kernel
