// SPDX-License-Identifier: Apache-2.0
//
// When a kernel of algo-symmetric lets the next one in its stream onto the GPU, and what comes of kernels of other
// people that come in so: two GPUs or more, a thread for each.
//
//   gpu.launch_order [--check NAME] [--ranks N] [--rounds N] [--operations N]
//
// late-peer: a rank runs an operation of every family, and groups of messages, while its peers are held back; behind it
// a kernel that is launched dependently writes a word before it waits. The word must stay unset until the peers come.
//
// option: the same where gpu_dependent_launch is off.
//
// foreign: two small operations with a kernel between them that is launched dependently and never waits, eager and in
// graphs, --rounds times (2,000); peers are held up at random. All results must be right.
//
// host-heap: --operations small operations (200,000) of every family of packets on a heap in host memory, in graphs.
//
// Without --check all of them. Exit code: 0 right, 1 wrong or failed, 77 no two GPUs, or none that launches
// dependently.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/gpu/launch_order_checks.h"

namespace sl::gpu_test {
namespace {

int Main(int argc, char** argv) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // no load may wait for a kernel that waits for a peer
  std::string check;
  OrderEffort effort;
  int devices = 0;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--check") == 0 && has_value) {
      check = argv[++i];
    } else if (std::strcmp(argv[i], "--ranks") == 0 && has_value && std::atoi(argv[i + 1]) > 1) {
      effort.ranks = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--rounds") == 0 && has_value && std::atoi(argv[i + 1]) > 0) {
      effort.rounds = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--operations") == 0 && has_value && std::atoll(argv[i + 1]) > 0) {
      effort.operations = static_cast<uint64_t>(std::atoll(argv[++i]));
    } else {
      std::fprintf(stderr,
                   "usage: %s [--check late-peer|option|foreign|host-heap] [--ranks N] [--rounds N] "
                   "[--operations N]\n",
                   argv[0]);
      return 2;
    }
  }
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("no two GPUs here: nothing was checked\n");
    return 77;
  }
  if (effort.ranks == 0) effort.ranks = static_cast<uint32_t>(devices);
  if (!GpuTeam(2, "one_shot")[0].can_depend) {
    std::printf("this GPU, or its driver, does not launch dependently: nothing was checked\n");
    return 77;
  }
  Verdicts verdicts;
  const auto is_asked = [&](const char* name) { return check.empty() || check == name; };
  if (is_asked("late-peer")) CheckLatePeer(&verdicts, effort);
  if (is_asked("option")) CheckOption(&verdicts, effort);
  if (is_asked("foreign")) CheckForeignKernels(&verdicts, effort);
  if (is_asked("host-heap")) CheckHostHeap(&verdicts, effort);
  const std::string& wrong = verdicts.first_wrong();
  std::printf("\nlaunch order on %d GPUs: %s%s\n", devices, wrong.empty() ? "PASS" : "FAIL, first: ", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sl::gpu_test

int main(int argc, char** argv) { return sl::gpu_test::Main(argc, argv); }
