// SPDX-License-Identifier: Apache-2.0
//
// The kernels against a plain oracle: ranks as threads (what ThreadSanitizer watches) and ranks interleaved by a seeded
// scheduler in one thread (what finds lost hand-overs).
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "modules/algo-symmetric/host_algorithm.h"

namespace sl::algo_symmetric {
namespace {

constexpr Sizes kTiny = {512, 1024, 512};

// Sums int32; as a device would, with an optional second destination and the pre-multiplication.
void SumInt32(void* dst, void* dst2, const void* const* srcs, uint32_t n, size_t count,
              const sl_reduce_scale_t* scale) {
  for (size_t i = 0; i < count; ++i) {
    int32_t sum = 0;
    for (uint32_t s = 0; s < n; ++s) {
      int32_t factor = (scale->premul_mask >> std::min(s, 63u)) & 1 ? static_cast<int32_t>(scale->scalar_bits) : 1;
      sum += static_cast<const int32_t*>(srcs[s])[i] * factor;
    }
    static_cast<int32_t*>(dst)[i] = sum;
    if (dst2 != nullptr) static_cast<int32_t*>(dst2)[i] = sum;
  }
}

sl_status_t LoadImage(sl_device_t*, const sl_image_desc_t* desc, sl_image_t** out) {
  *out = reinterpret_cast<sl_image_t*>(const_cast<sl_host_kernel_t*>(desc->host_kernels));
  return SL_OK;
}
sl_status_t UnloadImage(sl_device_t*, sl_image_t*) { return SL_OK; }
sl_reduce_fn FindReduce(sl_device_t*, sl_datatype_t, sl_reduction_t) { return SumInt32; }

// `size` ranks over one heap.
class Ranks {
 public:
  explicit Ranks(uint32_t size) : size_(size), heap_(Layout::Of(kTiny).total * size / 64 + 1) {
    ops_.struct_size = sizeof(ops_);
    ops_.image_load = LoadImage;
    ops_.image_unload = UnloadImage;
    ops_.reduce_function = FindReduce;
    for (uint32_t r = 0; r < size; ++r) {
      sl_comm_shape_t shape{};
      shape.rank = r;
      shape.size = size;
      sl_algorithm_env_t env{};
      env.shape = &shape;
      env.device_ops = &ops_;
      env.symmetric = {reinterpret_cast<uint8_t*>(heap_.data()), Layout::Of(kTiny).total, Layout::Of(kTiny).total};
      ranks_.push_back(std::make_unique<HostAlgorithm>(nullptr, env, kTiny));
      EXPECT_TRUE(ranks_.back()->LoadKernels().ok());
    }
  }
  HostAlgorithm& operator[](uint32_t r) { return *ranks_[r]; }
  uint32_t size() const { return size_; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64] = {};
  };
  uint32_t size_;
  std::vector<Line> heap_;
  sl_device_ops_t ops_{};
  std::vector<std::unique_ptr<HostAlgorithm>> ranks_;
};

// One rank's running launch.
struct Running {
  alignas(64) uint8_t args[4096];
  alignas(16) uint8_t frame[kFrameBytes] = {};
  const sl_host_kernel_t* kernel = nullptr;

  void Begin(HostAlgorithm& algorithm, const sl_op_t& op) {
    sl_launch_t launch{};
    ASSERT_EQ(algorithm.Launch(op, args, &launch), SL_OK);
    kernel = reinterpret_cast<const sl_host_kernel_t*>(launch.image) + launch.kernel;
    std::memset(frame, 0, sizeof(frame));
  }
  sl_status_t Poll() {
    sl_wait_t wait{};
    return kernel->run(args, frame, &wait);
  }
};

// One collective: buffers of every rank, and what they must hold afterwards.
struct Case {
  sl_op_t op{};
  std::vector<std::vector<int32_t>> send, recv, expected;

  Case(uint32_t size, sl_op_kind_t kind, uint64_t count, int32_t root, bool premul, std::mt19937& random) {
    op.struct_size = sizeof(op);
    op.kind = kind;
    op.datatype = SL_INT32;
    op.reduction = premul ? SL_PREMUL_SUM : SL_SUM;
    op.root = root;
    op.count = count;
    op.scalar_bits = premul ? 3 : 0;
    op.signature = kind * 1000003u + count;
    const bool many_in = kind == SL_OP_REDUCE_SCATTER || kind == SL_OP_ALL_TO_ALL || kind == SL_OP_SCATTER;
    const bool many_out = kind == SL_OP_ALL_GATHER || kind == SL_OP_ALL_TO_ALL || kind == SL_OP_GATHER;
    for (uint32_t r = 0; r < size; ++r) {
      send.emplace_back(count * (many_in ? size : 1));
      for (int32_t& value : send.back()) value = static_cast<int32_t>(random() % 1000);
      recv.emplace_back(count * (many_out ? size : 1), -1);
    }
    expected = recv;
    for (uint32_t r = 0; r < size; ++r) {
      for (uint64_t i = 0; i < expected[r].size(); ++i) expected[r][i] = Oracle(size, r, i, premul ? 3 : 1);
    }
  }

  int32_t Oracle(uint32_t size, uint32_t r, uint64_t i, int32_t factor) const {
    const uint64_t n = op.count;
    const bool is_root = op.root == static_cast<int32_t>(r);
    auto sum = [&](uint64_t at) {
      int32_t total = 0;
      for (uint32_t s = 0; s < size; ++s) total += send[s][at] * factor;
      return total;
    };
    switch (op.kind) {
      case SL_OP_ALL_REDUCE:
        return sum(i);
      case SL_OP_REDUCE:
        return is_root ? sum(i) : -1;
      case SL_OP_REDUCE_SCATTER:
        return sum(r * n + i);
      case SL_OP_ALL_GATHER:
        return send[i / n][i % n];
      case SL_OP_GATHER:
        return is_root ? send[i / n][i % n] : -1;
      case SL_OP_BROADCAST:
        return send[op.root][i];
      case SL_OP_SCATTER:
        return send[op.root][r * n + i];
      default:
        return send[i / n][r * n + i % n];
    }
  }
  sl_op_t For(uint32_t r) {
    sl_op_t mine = op;
    mine.send = send[r].data();
    mine.recv = recv[r].data();
    return mine;
  }
};

std::vector<Case> RandomCases(uint32_t size, int how_many, uint32_t seed) {
  std::mt19937 random(seed);
  constexpr uint64_t kCounts[] = {1, 2, 13, 14, 15, 100, 129, 700, 3000, 5001};
  std::vector<Case> cases;
  for (int i = 0; i < how_many; ++i) {
    const auto kind = static_cast<sl_op_kind_t>(random() % 8);
    const bool reduces = kind == SL_OP_ALL_REDUCE || kind == SL_OP_REDUCE || kind == SL_OP_REDUCE_SCATTER;
    cases.emplace_back(size, kind, kCounts[random() % std::size(kCounts)], static_cast<int32_t>(random() % size),
                       reduces && random() % 4 == 0, random);
  }
  return cases;
}

TEST(SymmetricKernels, AgreeWithTheOracleWhenRanksAreThreads) {
  for (uint32_t size : {1u, 2u, 3u, 5u}) {
    Ranks ranks(size);
    std::vector<Case> cases = RandomCases(size, 60, size);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        Running running;
        for (Case& one : cases) {
          running.Begin(ranks[r], one.For(r));
          while (running.Poll() == SL_ERR_AGAIN) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Case& one : cases) {
      EXPECT_EQ(one.recv, one.expected) << "size " << size << " kind " << one.op.kind << " count " << one.op.count;
    }
  }
}

// Ranks run through the cases at their own pace, interleaved at random; nobody may starve, nothing may be overwritten.
TEST(SymmetricKernels, AgreeWithTheOracleUnderAnyInterleaving) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const uint32_t size = 2 + seed % 4;
    Ranks ranks(size);
    std::vector<Case> cases = RandomCases(size, 25, 100 + seed);
    std::vector<Running> running(size);
    std::vector<size_t> at(size, 0);
    for (uint32_t r = 0; r < size; ++r) running[r].Begin(ranks[r], cases[0].For(r));
    std::mt19937 random(seed);
    uint64_t idle = 0;
    for (uint32_t done = 0; done < size;) {
      const uint32_t r = random() % size;
      if (at[r] == cases.size()) continue;
      const sl_status_t status = running[r].Poll();
      ASSERT_TRUE(status == SL_OK || status == SL_ERR_AGAIN) << status;
      ASSERT_LT(++idle, 1000000u) << "no rank can go on";
      if (status == SL_ERR_AGAIN) continue;
      idle = 0;
      if (++at[r] == cases.size()) {
        ++done;
      } else {
        running[r].Begin(ranks[r], cases[at[r]].For(r));
      }
    }
    for (Case& one : cases) EXPECT_EQ(one.recv, one.expected) << "seed " << seed << " kind " << one.op.kind;
  }
}

TEST(SymmetricKernels, WorkInPlace) {
  std::mt19937 random(7);
  for (uint64_t count : {3u, 2000u}) {
    constexpr uint32_t kSize = 3;
    Ranks ranks(kSize);
    Case one(kSize, SL_OP_ALL_TO_ALL, count, -1, false, random);
    std::vector<Running> running(kSize);
    for (uint32_t r = 0; r < kSize; ++r) {
      sl_op_t op = one.For(r);
      op.recv = one.send[r].data();
      running[r].Begin(ranks[r], op);
    }
    std::vector<bool> done(kSize);
    for (uint64_t turn = 0; turn < 100000 && !(done[0] && done[1] && done[2]); ++turn) {
      if (!done[turn % kSize]) done[turn % kSize] = running[turn % kSize].Poll() == SL_OK;
    }
    EXPECT_EQ(one.send, one.expected) << "count " << count;
  }
}

TEST(SymmetricKernels, ReportAMismatchInsteadOfMixingOperations) {
  std::mt19937 random(1);
  for (uint64_t count : {4u, 4000u}) {
    Ranks ranks(2);
    Case one(2, SL_OP_ALL_REDUCE, count, -1, false, random);
    Running a, b;
    sl_op_t other = one.For(1);
    other.signature ^= 1;
    a.Begin(ranks[0], one.For(0));
    b.Begin(ranks[1], other);
    EXPECT_EQ(a.Poll(), SL_ERR_AGAIN);
    EXPECT_EQ(b.Poll(), SL_ERR_MISMATCH);
    EXPECT_EQ(a.Poll(), SL_ERR_MISMATCH);
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
