// SPDX-License-Identifier: Apache-2.0
//
// How long ncclCommInitRank takes: of fresh processes, the first communicator (which loads the modules) and a second
// one. The slowest rank counts; the median of the rounds. bench_init [RANKS] [ROUNDS]; prints one JSON line.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "nccl.h"

namespace {

constexpr int kComms = 2;
constexpr int kMaxRanks = 256;

struct Shared {
  ncclUniqueId ids[kComms];
  std::atomic<int> ids_made;
  std::atomic<int> arrived[2 * kComms];
  double ms[kComms][kMaxRanks];
};

double NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

void Meet(std::atomic<int>* arrived, int ranks) {
  ++*arrived;
  while (arrived->load() < ranks) sched_yield();
}

// Ranks start together: a job's launcher, not the library, decides when its processes begin.
int BeRank(Shared* shared, int rank, int ranks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ncclComm_t comms[kComms] = {};
  for (int i = 0; i < kComms; ++i) {
    Meet(&shared->arrived[2 * i], ranks);
    const double start = NowMs();
    if (rank == 0) {
      if (ncclGetUniqueId(&shared->ids[i]) != ncclSuccess) return 1;
      shared->ids_made.store(i + 1);
    }
    while (shared->ids_made.load() <= i) sched_yield();
    if (ncclCommInitRank(&comms[i], ranks, shared->ids[i], rank) != ncclSuccess) {
      std::fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(nullptr));
      return 1;
    }
    shared->ms[i][rank] = NowMs() - start;
    Meet(&shared->arrived[2 * i + 1], ranks);
  }
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  return 0;
}

// Milliseconds of the slowest rank, for each communicator; false when a rank failed.
bool RunRound(int ranks, double* out_ms) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* shared = static_cast<Shared*>(memory);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(BeRank(shared, rank, ranks));
    if (child > 0) children.push_back(child);
  }
  bool good = children.size() == static_cast<size_t>(ranks);
  for (size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    wait(&status);
    if (status == 0) continue;
    good = false;
    for (pid_t child : children) kill(child, SIGKILL);  // nobody waits for a rank that will not come
  }
  for (int i = 0; i < kComms; ++i) out_ms[i] = *std::max_element(shared->ms[i], shared->ms[i] + ranks);
  munmap(memory, sizeof(Shared));
  return good;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (ranks < 1 || ranks > kMaxRanks || rounds < 1) {
    std::fprintf(stderr, "usage: bench_init [RANKS, 1 to %d] [ROUNDS]\n", kMaxRanks);
    return 2;
  }
  std::vector<double> ms[kComms];
  for (int round = 0; round < rounds; ++round) {
    double slowest[kComms];
    if (!RunRound(ranks, slowest)) return 1;
    for (int i = 0; i < kComms; ++i) ms[i].push_back(slowest[i]);
  }
  std::printf("{\"ranks\": %d, \"rounds\": %d, \"first_ms\": %.2f, \"second_ms\": %.2f}\n", ranks, rounds,
              Median(ms[0]), Median(ms[1]));
  return 0;
}
