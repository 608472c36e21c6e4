// SPDX-License-Identifier: Apache-2.0
//
// Calls that run out of memory half-way: at each of their allocations in turn. Whatever fails, no handle stays with the
// program, no slot stays taken, and no other rank waits for a call that this one will not make. Over a kernel of its
// own that allocates nothing.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "modules/frontend-nccl/comm.h"
#include "nccl.h"
#include "sl_runtime.h"

struct sl_comm_t {
  bool live = false;
  uint32_t rank = 0;
  uint32_t size = 0;
  uint64_t id = 0;
};

namespace {

// The allocations of this thread that succeed before one fails; negative: all do.
thread_local int t_left = -1;

constexpr int kMostComms = 16;
sl_comm_t g_kernel_comms[kMostComms];
std::atomic<int> g_calls{0};  // splits and windows, made or declined
std::atomic<int> g_windows{0};
sl_status_t g_finalized = SL_OK;  // what comm_finalize says

}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (t_left >= 0 && t_left-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::frontend_nccl {
namespace {

sl_status_t Make(uint32_t rank, uint32_t size, uint64_t id, sl_comm_t** out_comm) {
  sl_comm_t* comm = std::find_if(g_kernel_comms, g_kernel_comms + kMostComms, [](auto& one) { return !one.live; });
  *comm = {true, rank, size, id};
  *out_comm = comm;
  return SL_OK;
}
sl_status_t UniqueId(sl_unique_id_t* out_id) {
  *out_id = {};
  return SL_OK;
}
sl_status_t CommCreate(const sl_comm_config_t* config, sl_comm_t** out_comm) {
  return Make(config->rank, config->size, 7, out_comm);
}
sl_status_t CommSplit(sl_comm_t* parent, int32_t, int32_t, const sl_comm_config_t*, sl_comm_t** out_comm) {
  ++g_calls;
  return Make(parent->rank, parent->size, 8, out_comm);
}
sl_status_t CommDecline(sl_comm_t*, sl_call_t) {
  ++g_calls;
  return SL_OK;
}
sl_status_t CommInfo(sl_comm_t* comm, sl_comm_info_t* out_info) {
  out_info->rank = comm->rank;
  out_info->size = comm->size;
  out_info->comm_id = comm->id;
  return SL_OK;
}
sl_status_t WindowRegister(sl_comm_t*, void* memory, uint64_t, uint32_t, sl_comm_window_t** out_window) {
  ++g_calls;
  ++g_windows;
  *out_window = static_cast<sl_comm_window_t*>(memory);
  return SL_OK;
}
sl_status_t WindowDeregister(sl_comm_t*, sl_comm_window_t*) {
  --g_windows;
  return SL_OK;
}
sl_status_t CurrentDevice(int32_t* out_kind, int32_t* out_ordinal) {
  *out_kind = *out_ordinal = 0;
  return SL_OK;
}
sl_status_t State(sl_comm_t*, char*, uint64_t, uint64_t*) { return SL_OK; }
sl_status_t Ok(sl_comm_t*) { return SL_OK; }
sl_status_t CommFinalize(sl_comm_t*) { return g_finalized; }
sl_status_t End(sl_comm_t* comm) {
  comm->live = false;
  return SL_OK;
}

int LiveInKernel() {
  return static_cast<int>(
      std::count_if(g_kernel_comms, g_kernel_comms + kMostComms, [](auto& one) { return one.live; }));
}
int TakenSlots() {
  return static_cast<int>(
      std::count_if(g_comms, g_comms + kMaxComms, [](const ncclComm& comm) { return comm.phase.load() != kFree; }));
}

class Shortage : public testing::Test {
 protected:
  // What a process and a thread have once is made, so that the same call takes the same allocations each time.
  void SetUp() override {
    ASSERT_EQ(ncclGetUniqueId(&id_), ncclSuccess);
    Destroy(MakeComms(1).data(), 1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  // Runs `body` with one allocation more each time until none fails; `look` then judges its result. How many it takes.
  static int AtEveryAllocation(const std::function<ncclResult_t()>& body,
                               const std::function<void(ncclResult_t)>& look) {
    bool failed = true;
    int left = 0;
    for (; failed && left < 1000 && !HasFailure(); ++left) {
      SCOPED_TRACE("the allocation that fails is number " + std::to_string(left));
      g_calls = 0;
      t_left = left;
      const ncclResult_t result = body();
      failed = t_left == -1;
      t_left = -1;
      look(result);
    }
    EXPECT_LT(left, 1000) << "the sweep does not end";
    return left - 1;
  }
  static std::vector<ncclComm_t> MakeComms(int size) {
    std::vector<ncclComm_t> comms(static_cast<size_t>(size));
    EXPECT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    return comms;
  }
  static void Destroy(ncclComm_t* comms, int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(ncclCommDestroy(comms[i]), ncclSuccess) << ncclGetLastError(nullptr);
  }
  // Of communicators that a call was to make beside `others` that were there before.
  static void ExpectAllOrNone(ncclResult_t result, ncclComm_t* comms, int count, int others) {
    if (result != ncclSuccess) {
      EXPECT_EQ(result, ncclSystemError) << ncclGetLastError(nullptr);
      for (int i = 0; i < count; ++i) EXPECT_EQ(comms[i], nullptr) << "rank " << i;
      EXPECT_EQ(LiveInKernel(), others);
      EXPECT_EQ(TakenSlots(), others) << "a handle is left queued";
      return;
    }
    EXPECT_EQ(TakenSlots(), others + count);
    Destroy(comms, count);
  }

  ncclUniqueId id_;
};

TEST_F(Shortage, OfInitAllLeavesNoHandle) {
  ncclComm_t comms[3];
  const int allocations = AtEveryAllocation([&] { return ncclCommInitAll(comms, 3, nullptr); },
                                            [&](ncclResult_t result) { ExpectAllOrNone(result, comms, 3, 0); });
  EXPECT_GE(allocations, 3 * 2) << "fewer than a job and a handle for each";
}

TEST_F(Shortage, OfAGroupThatMakesCommunicatorsLeavesNoHandle) {
  ncclComm_t comms[3] = {};
  AtEveryAllocation(
      [&] {
        ncclGroupStart();
        for (int rank = 0; rank < 3; ++rank) ncclCommInitRank(&comms[rank], 3, id_, rank);
        return ncclGroupEnd();
      },
      [&](ncclResult_t result) { ExpectAllOrNone(result, comms, 3, 0); });
}

TEST_F(Shortage, OfOneCommunicatorLeavesNoHandle) {
  ncclComm_t comm = nullptr;
  AtEveryAllocation([&] { return ncclCommInitRank(&comm, 1, id_, 0); },
                    [&](ncclResult_t result) { ExpectAllOrNone(result, &comm, 1, 0); });
}

TEST_F(Shortage, OfASplitLeavesNoHandleAndTellsTheOtherRanks) {
  std::vector<ncclComm_t> parents = MakeComms(3);
  ncclComm_t children[3] = {};
  AtEveryAllocation(
      [&] {
        ncclGroupStart();
        for (int rank = 0; rank < 3; ++rank) {
          ncclCommSplit(parents[static_cast<size_t>(rank)], 0, rank, &children[rank], nullptr);
        }
        return ncclGroupEnd();
      },
      [&](ncclResult_t result) {
        EXPECT_EQ(g_calls.load(), 3) << "a rank neither splits nor says that it will not";
        ExpectAllOrNone(result, children, 3, 3);
      });
  AtEveryAllocation([&] { return ncclCommSplit(parents[0], 0, 0, &children[0], nullptr); },
                    [&](ncclResult_t result) {
                      EXPECT_EQ(g_calls.load(), 1);
                      ExpectAllOrNone(result, children, 1, 3);
                    });
  Destroy(parents.data(), 3);
}

TEST_F(Shortage, OfWindowsTellsTheOtherRanks) {
  std::vector<ncclComm_t> comms = MakeComms(3);
  char buffers[3][64];
  ncclWindow_t windows[3] = {};
  AtEveryAllocation(
      [&] {
        std::fill(windows, windows + 3, nullptr);
        ncclGroupStart();
        for (size_t i = 0; i < 3; ++i) ncclCommWindowRegister(comms[i], buffers[i], 64, &windows[i], 0);
        return ncclGroupEnd();
      },
      [&](ncclResult_t result) {
        EXPECT_EQ(g_calls.load(), 3) << "a rank neither registers nor says that it will not";
        const auto made = 3 - std::count(windows, windows + 3, nullptr);
        EXPECT_EQ(made == 3, result == ncclSuccess);
        EXPECT_EQ(g_windows.load(), made) << "the kernel keeps a window that no handle stands for";
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ncclCommWindowDeregister(comms[i], windows[i]), ncclSuccess);
      });
  Destroy(comms.data(), 3);
}

// Ranks of one process: the first is left to the last. A call that failed can be made again.
TEST_F(Shortage, OfAnEndLeavesAHandleThatCanBeEnded) {
  g_finalized = SL_IN_PROGRESS;
  for (const auto end : {ncclCommDestroy, ncclCommAbort}) {
    std::vector<ncclComm_t> comms = MakeComms(3);
    ncclResult_t results[3];
    AtEveryAllocation(
        [&] {
          for (size_t i = 0; i < 3; ++i) results[i] = end(comms[i]);
          return results[0];
        },
        [&](ncclResult_t) {
          for (size_t i = 0; i < 3; ++i) {
            if (results[i] != ncclSuccess) {
              EXPECT_EQ(end(comms[i]), ncclSuccess) << ncclGetLastError(nullptr);
            }
          }
          EXPECT_EQ(TakenSlots(), 0);
          EXPECT_EQ(LiveInKernel(), 0);
          comms = MakeComms(3);
        });
    Destroy(comms.data(), 3);
  }
  g_finalized = SL_OK;
}

sl_runtime_ops_t MakeTable() {
  sl_runtime_ops_t table{};
  table.struct_size = sizeof(table);
  table.revision = SL_RUNTIME_REVISION;
  table.last_error = [] { return ""; };
  table.unique_id = UniqueId;
  table.comm_create = CommCreate;
  table.comm_split = CommSplit;
  table.comm_decline = CommDecline;
  table.comm_state = State;
  table.comm_wait = [](sl_comm_t*, uint64_t) -> sl_status_t { return SL_OK; };
  table.comm_info = CommInfo;
  table.comm_finalize = CommFinalize;
  table.comm_cancel = Ok;
  table.comm_destroy = End;
  table.comm_abort = End;
  table.window_register = WindowRegister;
  table.window_deregister = WindowDeregister;
  table.current_device = CurrentDevice;
  table.log = [](sl_log_level_t, const char*) {};
  return table;
}

}  // namespace
}  // namespace sl::frontend_nccl

sl_status_t sl_runtime_query(uint32_t, const sl_runtime_ops_t** out_ops) {
  static const sl_runtime_ops_t table = sl::frontend_nccl::MakeTable();
  *out_ops = &table;
  return SL_OK;
}
