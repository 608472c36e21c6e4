// SPDX-License-Identifier: Apache-2.0
//
// What the wire between GPUs gives: every GPU loads from and stores to all others at the same time, with ways and
// numbers of blocks that differ.
//
//   bench_wire [MiB of each pair]
//
// Prints GB/s that enter, and leave, a GPU: the slowest one, the best of a few runs. Exit code 77: fewer than two GPUs.
#include <cuda_runtime.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/gpu/demand.h"
#include "bench/gpu/wire.h"

extern "C" {
extern const unsigned char sl_image_wire_kernels[];
extern const uint64_t sl_image_wire_kernels_size;
}

namespace sl::bench {
namespace {

struct Way {
  const char* kernel;
  const char* what;
  uint32_t directions;  // 2: twice the bytes go over the wire
  uint32_t pipes = 0;   // of bulk copies, in a block
};
constexpr Way kWays[] = {
    {"pull_4", "load, 4 in flight", 1},
    {"pull_8", "load, 8 in flight", 1},
    {"pull_16", "load, 16 in flight", 1},
    {"push_4", "store, 4 at a time", 1},
    {"push_8", "store, 8 at a time", 1},
    {"push_16", "store, 16 at a time", 1},
    {"bulk_pull", "load, bulk copy", 1, 1},
    {"bulk_push", "store, bulk copy", 1, 1},
    {"bulk_push_2", "store, 2 bulk copies a block", 1, 2},
    {"bulk_push_4", "store, 4 bulk copies a block", 1, 4},
    {"push_drawn", "store, warps draw 32 KiB", 1},
    {"bulk_turns_2", "store, 2 bulk, 64 KiB in turn", 1, 2},
    {"bulk_drawn_1", "store, 1 bulk draws 64 KiB", 1, 1},
    {"bulk_drawn_2", "store, 2 bulk draw 64 KiB", 1, 2},
    {"bulk_drawn_4", "store, 4 bulk draw 64 KiB", 1, 4},
    {"bulk_reduce", "store twice, bulk, drawn", 2, 2},
    {"push_and_copy", "store, and copy as much at home", 1},
    {"push_and_copy_apart", "the same, a sixth of the blocks copy", 1},
    {"push_then_push", "store, and store what is at home", 2},
    {"both_8", "half the blocks load, half store", 2},
    {"pull_and_push", "load from all, then store to all", 2},
};
constexpr uint32_t kBlocks[] = {4, 6, 8, 10, 12, 16, 20, 24, 32, 64};

struct Gpu {
  uint8_t* memory = nullptr;  // a buffer for each peer, which it loads from and stores to; and as many of its own
  uint32_t* drawn = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  std::vector<cudaKernel_t> kernels;
};

class Wire {
 public:
  Wire(uint32_t gpus, uint64_t bytes) : bytes_(bytes), gpus_(gpus), together_(gpus) {
    for (uint32_t g = 0; g < gpus; ++g) Open(g);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // GB/s in each direction.
  double Measure(uint32_t way, uint32_t blocks) {
    std::vector<double> seconds(gpus_.size() * kRuns);
    std::vector<std::thread> threads;
    for (uint32_t g = 0; g < gpus_.size(); ++g) {
      threads.emplace_back([&, g] {
        for (uint32_t run = 0; run < kRuns; ++run) seconds[run * gpus_.size() + g] = Run(g, way, blocks);
      });
    }
    for (std::thread& thread : threads) thread.join();
    double best = 1e9;
    for (uint32_t run = 0; run < kRuns; ++run) {
      const auto first = seconds.begin() + static_cast<std::ptrdiff_t>(run * gpus_.size());
      best = std::min(best, *std::max_element(first, first + static_cast<std::ptrdiff_t>(gpus_.size())));
    }
    const double moved = static_cast<double>(bytes_) * (static_cast<double>(gpus_.size()) - 1);
    return kWays[way].directions * moved / best / 1e9;
  }

 private:
  static constexpr uint32_t kRuns = 3;
  static constexpr uint32_t kLaunches = 4;

  void Open(uint32_t g) {
    Gpu& gpu = gpus_[g];
    const auto count = static_cast<uint32_t>(gpus_.size());
    Demand(cudaSetDevice(static_cast<int>(g)), "set device");
    for (uint32_t peer = 0; peer < count; ++peer) {
      if (peer != g) Demand(cudaDeviceEnablePeerAccess(static_cast<int>(peer), 0), "peer access");
    }
    void* memory = nullptr;
    Demand(cudaMalloc(&memory, 2 * count * bytes_), "allocate buffers");
    Demand(cudaMemset(memory, static_cast<int>(g) + 1, 2 * count * bytes_), "fill buffers");
    gpu.memory = static_cast<uint8_t*>(memory);
    Demand(cudaMalloc(&memory, sizeof(uint32_t)), "allocate a counter");
    Demand(cudaMemset(memory, 0, sizeof(uint32_t)), "clear the counter");
    gpu.drawn = static_cast<uint32_t*>(memory);
    Demand(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "make a stream");
    Demand(cudaEventCreate(&gpu.begin), "make an event");
    Demand(cudaEventCreate(&gpu.end), "make an event");
    cudaLibrary_t library{};
    Demand(cudaLibraryLoadData(&library, sl_image_wire_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0),
           "load kernels");
    for (const Way& way : kWays) {
      cudaKernel_t kernel{};
      Demand(cudaLibraryGetKernel(&kernel, library, way.kernel), way.kernel);
      Demand(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(way.pipes * kPipeBytes)),
             way.kernel);
      gpu.kernels.push_back(kernel);
    }
  }

  double Run(uint32_t g, uint32_t way, uint32_t blocks) {
    const auto count = static_cast<uint32_t>(gpus_.size());
    const Gpu& gpu = gpus_[g];
    Demand(cudaSetDevice(static_cast<int>(g)), "set device");
    WireArgs args{};
    args.peers = count - 1;
    for (uint32_t p = 0; p < args.peers; ++p) args.peer[p] = gpus_[(g + 1 + p) % count].memory + g * bytes_;
    args.own = gpu.memory + count * bytes_;
    args.bytes = bytes_;
    args.drawn = gpu.drawn;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kWireThreads);
    config.dynamicSmemBytes = kWays[way].pipes * kPipeBytes;
    config.stream = gpu.stream;
    void* parameters[] = {&args};
    const auto launch = [&] {
      Demand(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(gpu.kernels[way]), parameters), "launch");
    };
    together_.arrive_and_wait();
    launch();  // while it runs, the others begin, too
    Demand(cudaEventRecord(gpu.begin, gpu.stream), "record");
    for (uint32_t i = 0; i < kLaunches; ++i) launch();
    Demand(cudaEventRecord(gpu.end, gpu.stream), "record");
    launch();  // so that nobody measures a wire that others have left
    Demand(cudaStreamSynchronize(gpu.stream), kWays[way].kernel);
    float milliseconds = 0;
    Demand(cudaEventElapsedTime(&milliseconds, gpu.begin, gpu.end), "time");
    together_.arrive_and_wait();
    return milliseconds / 1e3 / kLaunches;
  }

  const uint64_t bytes_;
  std::vector<Gpu> gpus_;
  std::barrier<> together_;
};

int Main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("fewer than two GPUs here: nothing was measured\n");
    return 77;
  }
  const auto gpus = std::min(static_cast<uint32_t>(devices), kMostPeers + 1);
  const uint64_t mebibytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
  if (mebibytes == 0 || mebibytes > 4096 || argc > 2) {
    std::fprintf(stderr, "usage: %s [MiB of each pair, 1 to 4096]\n", argv[0]);
    return 2;
  }
  Wire wire(gpus, mebibytes << 20);
  std::printf("GB/s into and out of each of %u GPUs, all at once, %llu MiB for each pair\n%-34s", gpus,
              static_cast<unsigned long long>(mebibytes), "blocks of 512 threads:");
  for (uint32_t blocks : kBlocks) std::printf(" %7u", blocks);
  std::printf("\n");
  for (uint32_t way = 0; way < std::size(kWays); ++way) {
    std::printf("%-34s", kWays[way].what);
    for (uint32_t blocks : kBlocks) {
      std::printf(" %7.1f", wire.Measure(way, blocks));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace sl::bench

int main(int argc, char** argv) { return sl::bench::Main(argc, argv); }
