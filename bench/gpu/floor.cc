// SPDX-License-Identifier: Apache-2.0
//
// What a machine asks of any library: below these figures no operation between its GPUs ends, whoever wrote it.
//
//   bench_floor [--json FILE]
//
// All GPUs at once, a thread each; medians of rounds, of the slowest GPU. `report.py --floor FILE` weighs a record by
// it. Exit code 77: fewer than two GPUs.
#include <cuda_runtime.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "bench/gpu/demand.h"
#include "bench/gpu/floor.h"

extern "C" {
extern const unsigned char sl_image_floor_kernels[];
extern const uint64_t sl_image_floor_kernels_size;
}

namespace sl::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRounds = 15;
constexpr uint32_t kLaunches = 300;  // of a round; a stream takes as many before launches wait
constexpr uint32_t kMeetings = 300;
constexpr uint64_t kCopied = 256 << 20;  // to every peer
constexpr uint32_t kCopies = 4;

double Microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

struct Gpu {
  uint32_t number = 0;
  FloorArgs args{};
  uint8_t* from = nullptr;
  uint8_t* to = nullptr;  // kCopied for each GPU
  cudaStream_t stream = nullptr;
  cudaStream_t copying[kMostFloorGpus] = {};
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaKernel_t nothing = nullptr;
  cudaKernel_t meet = nullptr;

  // `dependent`: a programmatic dependent launch, which is prepared while the kernel before it runs.
  void Launch(cudaKernel_t kernel, uint32_t meetings, bool dependent) {
    FloorArgs told = args;
    told.meetings = meetings;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = dependent ? 1 : 0;
    void* parameters[] = {&told};
    Demand(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters), "launch");
  }
};

class Machine {
 public:
  explicit Machine(uint32_t gpus) : gpus_(gpus), together_(gpus) {
    for (uint32_t g = 0; g < gpus; ++g) Open(g);
    for (Gpu& gpu : gpus_) {
      for (uint32_t g = 0; g < gpus; ++g) gpu.args.told[g] = gpus_[g].args.told[g];
    }
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // µs of the CPU for a launch.
  double LaunchTime(bool dependent) {
    return Measure([&](Gpu& gpu) {
      const Clock::time_point begin = Clock::now();
      for (uint32_t i = 0; i < kLaunches; ++i) gpu.Launch(gpu.nothing, 0, dependent);
      const double us = Microseconds(Clock::now() - begin) / kLaunches;
      Demand(cudaStreamSynchronize(gpu.stream), "launch");
      return us;
    });
  }
  // µs from one kernel to the next, captured in a chain.
  double ChainTime(bool meets, bool dependent) {
    std::vector<cudaGraphExec_t> graphs(gpus_.size());
    for (Gpu& gpu : gpus_) {
      Demand(cudaSetDevice(static_cast<int>(gpu.number)), "set device");
      cudaGraph_t graph = nullptr;
      Demand(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal), "capture");
      for (uint32_t i = 0; i < kLaunches; ++i) gpu.Launch(meets ? gpu.meet : gpu.nothing, 1, dependent);
      Demand(cudaStreamEndCapture(gpu.stream, &graph), "capture");
      Demand(cudaGraphInstantiate(&graphs[gpu.number], graph, 0), "instantiate");
      Demand(cudaGraphDestroy(graph), "destroy");
    }
    const double us = Measure([&](Gpu& gpu) {
      return TimeOf(gpu, [&] { Demand(cudaGraphLaunch(graphs[gpu.number], gpu.stream), "launch"); }) / kLaunches;
    });
    for (cudaGraphExec_t graph : graphs) Demand(cudaGraphExecDestroy(graph), "destroy");
    return us;
  }
  // µs for all to tell each other, within a kernel.
  double MeetingTime() {
    return Measure([&](Gpu& gpu) { return TimeOf(gpu, [&] { gpu.Launch(gpu.meet, kMeetings, false); }) / kMeetings; });
  }
  // GB/s that leave each GPU, and come, by copy engines.
  double WireBandwidth() {
    const double us = Measure([&](Gpu& gpu) {
      return TimeOf(gpu, [&] {
        for (uint32_t i = 1; i < gpus_.size(); ++i) {
          const Gpu& peer = gpus_[(gpu.number + i) % gpus_.size()];
          Demand(cudaStreamWaitEvent(gpu.copying[i], gpu.begin), "wait");
          for (uint32_t copy = 0; copy < kCopies; ++copy) {
            Demand(
                cudaMemcpyAsync(peer.to + gpu.number * kCopied, gpu.from, kCopied, cudaMemcpyDefault, gpu.copying[i]),
                "copy");
          }
          Demand(cudaEventRecord(gpu.end, gpu.copying[i]), "record");
          Demand(cudaStreamWaitEvent(gpu.stream, gpu.end), "wait");
        }
      });
    });
    return static_cast<double>(kCopies * kCopied * (gpus_.size() - 1)) / us / 1e3;
  }

 private:
  void Open(uint32_t g) {
    Gpu& gpu = gpus_[g];
    const auto count = static_cast<uint32_t>(gpus_.size());
    gpu.number = gpu.args.gpu = g;
    gpu.args.gpus = count;
    Demand(cudaSetDevice(static_cast<int>(g)), "set device");
    for (uint32_t peer = 0; peer < count; ++peer) {
      if (peer != g) Demand(cudaDeviceEnablePeerAccess(static_cast<int>(peer), 0), "peer access");
    }
    gpu.args.told[g] = static_cast<uint64_t*>(Memory(kMostFloorGpus * sizeof(uint64_t)));
    gpu.args.count = static_cast<uint64_t*>(Memory(sizeof(uint64_t)));
    gpu.from = static_cast<uint8_t*>(Memory(kCopied));
    gpu.to = static_cast<uint8_t*>(Memory(count * kCopied));
    Demand(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "make a stream");
    for (cudaStream_t& stream : gpu.copying) {
      Demand(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    }
    Demand(cudaEventCreate(&gpu.begin), "make an event");
    Demand(cudaEventCreate(&gpu.end), "make an event");
    cudaLibrary_t library{};
    Demand(cudaLibraryLoadData(&library, sl_image_floor_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0),
           "load kernels");
    Demand(cudaLibraryGetKernel(&gpu.nothing, library, "nothing"), "nothing");
    Demand(cudaLibraryGetKernel(&gpu.meet, library, "meet"), "meet");
  }
  static void* Memory(uint64_t bytes) {
    void* memory = nullptr;
    Demand(cudaMalloc(&memory, bytes), "allocate");
    Demand(cudaMemset(memory, 0, bytes), "clear");
    Demand(cudaDeviceSynchronize(), "clear");
    return memory;
  }

  // µs of the stream between what stands before and behind.
  double TimeOf(Gpu& gpu, const std::function<void()>& work) {
    cudaEvent_t done = nullptr;
    Demand(cudaEventCreate(&done), "make an event");
    Demand(cudaEventRecord(gpu.begin, gpu.stream), "record");
    work();
    Demand(cudaEventRecord(done, gpu.stream), "record");
    Demand(cudaEventSynchronize(done), "wait");
    float milliseconds = 0;
    Demand(cudaEventElapsedTime(&milliseconds, gpu.begin, done), "time");
    Demand(cudaEventDestroy(done), "destroy");
    return milliseconds * 1e3;
  }

  // Of a round the slowest GPU; of the rounds the median, the first left out.
  double Measure(const std::function<double(Gpu&)>& once) {
    std::vector<double> us(gpus_.size() * (kRounds + 1));
    std::vector<std::thread> threads;
    for (Gpu& gpu : gpus_) {
      threads.emplace_back([&, this] {
        Demand(cudaSetDevice(static_cast<int>(gpu.number)), "set device");
        for (uint32_t round = 0; round <= kRounds; ++round) {
          together_.arrive_and_wait();
          us[round * gpus_.size() + gpu.number] = once(gpu);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<double> slowest;
    for (uint32_t round = 1; round <= kRounds; ++round) {
      const auto first = us.begin() + static_cast<std::ptrdiff_t>(round * gpus_.size());
      slowest.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(gpus_.size())));
    }
    std::nth_element(slowest.begin(), slowest.begin() + kRounds / 2, slowest.end());
    return slowest[kRounds / 2];
  }

  std::vector<Gpu> gpus_;
  std::barrier<> together_;
};

struct Figure {
  const char* name;  // in the file
  const char* what;
  double value;
};

int Main(int argc, char** argv) {
  const bool keeps = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  if (argc != 1 && !keeps) {
    std::fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
    return 2;
  }
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // no load may wait for a kernel that waits for a peer
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("fewer than two GPUs here: nothing was measured\n");
    return 77;
  }
  const auto gpus = std::min(static_cast<uint32_t>(devices), kMostFloorGpus);
  Machine machine(gpus);
  const Figure figures[] = {
      {"launch_us", "CPU, a launch of an empty kernel", machine.LaunchTime(false)},
      {"dependent_launch_us", "CPU, a dependent one", machine.LaunchTime(true)},
      {"kernel_us", "empty kernels in a graph, each", machine.ChainTime(false, false)},
      {"dependent_kernel_us", "dependent ones, each", machine.ChainTime(false, true)},
      {"meeting_us", "all GPUs tell each other, within a kernel", machine.MeetingTime()},
      {"operation_us", "dependent kernels in a graph that do so, each", machine.ChainTime(true, true)},
      {"wire_gb_per_s", "GB/s out of each GPU, and into it, by copy engines", machine.WireBandwidth()},
  };
  cudaDeviceProp properties{};
  Demand(cudaGetDeviceProperties(&properties, 0), "properties");
  std::printf("%u x %s, all at once, us unless said otherwise\n", gpus, properties.name);
  for (const Figure& figure : figures) std::printf("%-52s %8.2f\n", figure.what, figure.value);
  if (!keeps) return 0;
  std::FILE* file = std::fopen(argv[2], "w");
  if (file == nullptr) {
    std::fprintf(stderr, "%s: cannot be written: %s\n", argv[2], std::strerror(errno));
    return 1;
  }
  std::fprintf(file, "{\"gpu\": \"%s\", \"gpus\": %u", properties.name, gpus);
  for (const Figure& figure : figures) std::fprintf(file, ", \"%s\": %.3f", figure.name, figure.value);
  const bool written = std::fprintf(file, "}\n") > 0;
  if (std::fclose(file) == 0 && written) return 0;
  std::fprintf(stderr, "%s: could not be written\n", argv[2]);
  return 1;
}

}  // namespace
}  // namespace sl::bench

int main(int argc, char** argv) { return sl::bench::Main(argc, argv); }
