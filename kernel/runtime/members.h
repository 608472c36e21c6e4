// SPDX-License-Identifier: Apache-2.0
//
// The communicators of a group, each with the mark of the call and with its streams. All operations of a communicator
// go to the stream that it used first, the lead; that stream waits for the earlier work of the others, the followers,
// and they wait for the group.
#pragma once

#include <span>
#include <vector>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/issue_route.h"

namespace sl::kernel {

class Members {
 public:
  explicit Members(std::pmr::memory_resource* arena) : all_(arena), followers_(arena) {}
  ~Members();  // takes the marks back
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  // What every call passes, of one operation; marks its communicator, where none before did.
  Status Admit(const sl_group_entry_t& entry);
  // The entries in the order in which they are issued (gather.h): `entries`, or where that is another one, `gathered`.
  // Members change their places.
  std::span<const sl_group_entry_t> Gather(std::span<const sl_group_entry_t> entries,
                                           std::pmr::vector<sl_group_entry_t>* gathered);
  // The communicator goes on with this stream, too.
  Status Join(const sl_group_entry_t& entry);
  // The followers go on after all that was issued to their leads.
  Status LetFollowersGo() const;

  std::span<Member> all() { return all_; }
  // The member of a communicator that was admitted.
  Member& Of(const sl_comm_t* handle) { return all_[PlaceOf(handle)]; }
  static uint32_t PlaceOf(const sl_comm_t* handle) { return handle->group_member.load(std::memory_order_relaxed); }

 private:
  struct Follower {
    uint32_t member;
    sl_stream_t* stream;
    bool operator==(const Follower&) const = default;
  };

  bool Holds(const sl_comm_t* handle) const;

  std::pmr::vector<Member> all_;
  std::pmr::vector<Follower> followers_;
};

}  // namespace sl::kernel
