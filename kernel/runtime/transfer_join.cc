// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/transfer_join.h"

#include <cstddef>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/transfer_steps.h"

namespace sl::kernel {
namespace {

// How many bytes of arguments a launch takes; 4,096 at least.
uint32_t ArgumentBytes(const Member& member) { return member.handle->comm.device().info.max_argument_bytes; }

// So many are tried next when a launch did not take `count`.
uint32_t Fewer(uint32_t count) { return count - (count + 7) / 8; }

class Joining {
 public:
  Joining(Member* member, const Choice& choice, Items* items) : member_(member), choice_(choice), items_(items) {}

  // One launch for all. Room for many arguments is taken when it is needed.
  Status FillOne(const sl_op_t* ops, uint32_t count) {
    Pending* pending = Append(ops[0]);
    Status filled = FillGroupLaunch(choice_, ops, count, pending->args, sizeof(pending->args), &items_->back().launch);
    if (filled.code() != SL_ERR_LIMIT || ArgumentBytes(*member_) <= sizeof(pending->args)) return filled;
    return Fill(ops, count, TakeArguments());
  }

  // More than one launch takes; the first one was appended. How much fits the algorithm alone knows: it is asked with
  // an eighth less each time.
  Status FillSeveral(const TransferSteps& steps) {
    uint32_t most = Fewer(steps.count());
    for (uint32_t begin = 0; begin != steps.count();) {
      if (begin != 0) Append(steps.ops()[begin]);
      items_->back().may_fill_queue = true;
      void* arguments = TakeArguments();
      uint32_t end = steps.Cut(begin, most);
      for (;;) {
        Status filled = Fill(steps.ops() + begin, end - begin, arguments);
        if (filled.ok()) break;
        const uint32_t nearer = steps.Cut(begin, Fewer(end - begin));
        if (filled.code() != SL_ERR_LIMIT || nearer == end) return filled;
        end = nearer;
      }
      most = end - begin + (end - begin) / 7 + 1;
      begin = end;
    }
    return {};
  }

 private:
  Pending* Append(const sl_op_t& first) {
    Item& item = items_->emplace_back(member_, TakePending(member_->handle));
    EnterAgain(first, item.pending);
    item.choice = &choice_;
    item.route = &kLaunchRoute;
    return item.pending;
  }

  void* TakeArguments() {
    return items_->get_allocator().resource()->allocate(ArgumentBytes(*member_), alignof(std::max_align_t));
  }

  Status Fill(const sl_op_t* ops, uint32_t count, void* arguments) {
    return FillGroupLaunch(choice_, ops, count, arguments, ArgumentBytes(*member_), &items_->back().launch);
  }

  Member* const member_;
  const Choice& choice_;
  Items* const items_;
};

}  // namespace

Status JoinTransfers(Member* member, const Choice& choice, const std::pmr::vector<sl_op_t>& ops, Items* items) {
  Joining joining(member, choice, items);
  Status whole = joining.FillOne(ops.data(), static_cast<uint32_t>(ops.size()));
  if (whole.code() != SL_ERR_LIMIT) return whole;
  const Communicator& comm = member->handle->comm;
  return joining.FillSeveral(TransferSteps(ops, comm.rank(), comm.size()));
}

}  // namespace sl::kernel
