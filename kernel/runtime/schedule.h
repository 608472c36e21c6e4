// SPDX-License-Identifier: Apache-2.0
//
// What a call issues, in its order: one item for each operation, several for a sequence, one for sends and receives
// that a launch serves together, and one for all that a communicator relays. Everything is prepared before the first
// item is issued.
#pragma once

#include <span>
#include <vector>

#include "kernel/runtime/issue_route.h"

namespace sl::kernel {

// thread: one call.
class Schedule {
 public:
  // `arena` outlives the schedule. About so many operations are added, of so many members.
  Schedule(std::pmr::memory_resource* arena, size_t operations, size_t members)
      : operations_(operations), members_(members), items_(arena), transfers_(arena), relayed_(arena) {}
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // An operation of a member, which has its stream. Members stay where they are, in one array, those of a communicator
  // together.
  Status Add(Member* member, const sl_op_t& op);
  // The parts of `whole`, which was entered and is served by a sequence.
  Status AddParts(Member* member, const Pending& whole, const Choice& sequence);
  // Makes items of what is served together, once all is added.
  Status Complete();
  bool empty() const { return items_.empty(); }
  // Gives all of it to the devices. An error of a communicator leaves the others; the first is returned.
  Status Issue();

 private:
  // Operations of a member that become one item or few.
  struct Transfers {
    Member* member;
    std::pmr::vector<sl_op_t> ops;
  };
  struct Relayed {
    Member* member;
    std::pmr::vector<PooledPending> ops;
  };

  void AddTransfer(Member* member, const sl_op_t& op);
  Status AddItem(Member* member, PooledPending pending, const Choice& choice);
  Status AddTransfers(const Transfers& transfers);
  std::pmr::vector<uint32_t> Queues() const;
  std::pmr::vector<Item*> InOrder();

  const size_t operations_;
  const size_t members_;
  Items items_;
  std::pmr::vector<Transfers> transfers_;
  std::pmr::vector<Relayed> relayed_;
};

}  // namespace sl::kernel
