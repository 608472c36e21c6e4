// SPDX-License-Identifier: Apache-2.0
//
// Calls for which memory is short: whichever of their allocations fails, they say so, and the communicator ends as
// if they had not been made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/integration/counters.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kMostAllocations = 1000;  // of one call

sl_comm_t* MakeComm(Team& team) {
  const ncclUniqueId made = team.MakeId();
  sl_unique_id_t id;
  static_assert(sizeof(id) == sizeof(made));
  std::memcpy(&id, &made, sizeof(id));
  sl_comm_config_t config{};
  config.struct_size = sizeof(config);
  config.ids = &id;
  config.id_count = 1;
  config.rank = static_cast<uint32_t>(team.rank());
  config.size = static_cast<uint32_t>(team.size());
  config.device_kind = config.device_ordinal = -1;
  sl_comm_t* comm = nullptr;
  EXPECT_EQ(Runtime()->comm_create(&config, &comm), SL_OK) << Runtime()->last_error();
  return comm;
}

std::vector<sl_op_t> SumsOf(std::vector<int>* values) {
  std::vector<sl_op_t> ops;
  for (int& value : *values) {
    sl_op_t& op = ops.emplace_back();
    op.struct_size = sizeof(op);
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_INT32;
    op.reduction = SL_SUM;
    op.root = op.peer = -1;
    op.count = 1;
    op.send = op.recv = &value;
  }
  return ops;
}

// One call of these operations, an allocation of which fails. `out_failed`: it had so many.
sl_status_t CallShort(sl_comm_t* comm, const std::vector<sl_op_t>& ops, sl_stream_t* stream, int fails,
                      bool* out_failed) {
  std::vector<sl_group_entry_t> entries;
  for (const sl_op_t& op : ops) entries.push_back({comm, &op, stream, 0, nullptr});
  FailAllocation(fails);
  const sl_status_t status = ops.size() == 1 ? Runtime()->enqueue(comm, &ops[0], stream)
                                             : Runtime()->enqueue_group(entries.data(), entries.size());
  *out_failed = EndShortage();
  return status;
}

TEST(ShortMemory, CallsOnStreamsOfTheHostLeaveNothingBehind) {
  TeamOptions options;
  options.seconds = 60;
  for (const size_t count : {1, 3}) {
    RunProcesses(
        1,
        [count](Team& team) {
          const HostStream stream;
          bool has_failed = true;
          for (int fails = 1; has_failed && fails < kMostAllocations; ++fails) {
            sl_comm_t* comm = MakeComm(team);
            std::vector<int> values(count, 1);
            const sl_status_t status =
                CallShort(comm, SumsOf(&values), reinterpret_cast<sl_stream_t*>(stream.get()), fails, &has_failed);
            EXPECT_TRUE(has_failed || status == SL_OK) << Runtime()->last_error();
            ASSERT_EQ(Runtime()->comm_destroy(comm), SL_OK) << "allocation " << fails;
          }
        },
        options);
  }
}

}  // namespace
}  // namespace sl::integration
