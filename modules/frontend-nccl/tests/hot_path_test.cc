// SPDX-License-Identifier: Apache-2.0
//
// An operation costs no allocation and no lock between the program's call and the kernel's. Counted, over a kernel that
// does nothing, by standing before the C library's functions.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "gtest/gtest.h"
#include "nccl.h"
#include "sl_runtime.h"

namespace {

std::atomic<int> g_allocations{0};
std::atomic<int> g_locks{0};

sl_comm_t* const kComm = reinterpret_cast<sl_comm_t*>(&g_locks);
sl_op_t g_last_op;

sl_status_t CommCreate(const sl_comm_config_t*, sl_comm_t** out_comm) {
  *out_comm = kComm;
  return SL_OK;
}

sl_status_t CommInfo(sl_comm_t*, sl_comm_info_t* out_info) {
  out_info->size = 1;
  return SL_OK;
}

sl_status_t Enqueue(sl_comm_t*, const sl_op_t* op, sl_stream_t*) {
  g_last_op = *op;
  return SL_OK;
}

sl_status_t EnqueueGroup(const sl_group_entry_t* entries, uint32_t count) {
  g_last_op = *entries[count - 1].op;
  return SL_OK;
}

sl_status_t Ok(sl_comm_t*) { return SL_OK; }
sl_status_t State(sl_comm_t*, char*, uint64_t, uint64_t*) { return SL_OK; }
void Log(sl_log_level_t, const char*) {}
sl_status_t CurrentDevice(int32_t*, int32_t*) { return SL_OK; }

class HotPath : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SL_SANITIZED
    GTEST_SKIP() << "sanitizers stand before the same functions";
#endif
    const ncclUniqueId id{};
    ASSERT_EQ(ncclCommInitRank(&comm_, 1, id, 0), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void TearDown() override { ncclCommDestroy(comm_); }

  ncclResult_t Reduce(ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(&value_, &value_, 1, ncclFloat, op, comm_, nullptr);
  }
  void Start() {
    g_allocations = 0;
    g_locks = 0;
  }
  void ExpectNothing() {
    EXPECT_EQ(g_allocations.load(), 0);
    EXPECT_EQ(g_locks.load(), 0);
  }

  ncclComm_t comm_ = nullptr;
  float value_ = 1;
};

TEST_F(HotPath, CountersCount) {
  Start();
  std::free(std::malloc(16));
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  EXPECT_EQ(g_allocations.load(), 1);
  EXPECT_EQ(g_locks.load(), 1);
}

TEST_F(HotPath, OperationTakesNothing) {
  Start();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Reduce(), ncclSuccess);
  ExpectNothing();
  EXPECT_EQ(g_last_op.count, 1u);
}

TEST_F(HotPath, OperationWithACreatedOperatorTakesNothing) {
  ncclRedOp_t op{};
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &value_, ncclFloat, ncclScalarDevice, comm_), ncclSuccess);
  Start();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Reduce(op), ncclSuccess);
  ExpectNothing();
}

TEST_F(HotPath, GroupTakesNothingOnceItHasBeenAsLarge) {
  for (int round = 0; round < 2; ++round) {
    Start();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(Reduce(), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  ExpectNothing();
}

// Not judged, since the machine is shared: what the front end adds to a call.
TEST_F(HotPath, SaysWhatACallCosts) {
  constexpr int kCalls = 1000000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) ASSERT_EQ(Reduce(), ncclSuccess);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  RecordProperty("ns_per_call", std::to_string(took.count() / kCalls));
  std::printf("%.1f ns a call\n", took.count() / kCalls);
}

}  // namespace

sl_status_t sl_runtime_query(uint32_t, const sl_runtime_ops_t** out_ops) {
  static sl_runtime_ops_t table{};
  table.struct_size = sizeof(table);
  table.comm_create = CommCreate;
  table.comm_info = CommInfo;
  table.comm_state = State;
  table.comm_finalize = Ok;
  table.comm_destroy = Ok;
  table.enqueue = Enqueue;
  table.enqueue_group = EnqueueGroup;
  table.log = Log;
  table.current_device = CurrentDevice;
  *out_ops = &table;
  return SL_OK;
}

#ifndef SL_SANITIZED
extern "C" {
void* __libc_malloc(size_t size);

void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  g_locks.fetch_add(1, std::memory_order_relaxed);
  return real(mutex);
}
}
#endif
