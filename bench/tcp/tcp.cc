// SPDX-License-Identifier: Apache-2.0
// One-way latency and bandwidth of transport-tcp beside bare TCP, between two processes: over loopback, or between two
// network namespaces (run_namespaces makes them). Rounds of all paths interleave; medians, with extremes.
//
//   bench_tcp [--rounds N] [--address IP --interfaces LIST --left NAMESPACE --right NAMESPACE]
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/tcp/path.h"
#include "sdk/clock.h"

namespace sl::bench_tcp {

void Die(const char* what) {
  std::fprintf(stderr, "bench_tcp: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void Meeting::Tell(const void* bytes, uint64_t size) const {
  if (write(out, bytes, size) != static_cast<ssize_t>(size)) Die("pipe");
}

void Meeting::Hear(void* bytes, uint64_t size) const {
  if (read(in, bytes, size) != static_cast<ssize_t>(size)) Die("pipe");
}

namespace {

constexpr uint64_t kPings = 4000;
constexpr uint64_t kSmall = 8;
constexpr uint64_t kStreamBytes = 64 << 20;

struct Options {
  uint64_t rounds = 7;
  std::string address = "127.0.0.1";
  std::string interfaces = "=lo";
  std::string left;
  std::string right;
};

double Now() { return static_cast<double>(NowNs()) * 1e-9; }

struct Numbers {
  std::vector<double> one_way_us;
  std::vector<double> gigabytes;
  // Of both ends, the sender first.
  std::vector<double> calls_per_mib[2];
  std::vector<double> copies_per_byte[2];
};

// What an end does for a stream, and tells the other one.
struct Effort {
  uint64_t calls;
  uint64_t copied;
};
Effort EffortOf(const Path& path) { return {path.calls(), path.copied()}; }
Effort operator-(Effort a, Effort b) { return {a.calls - b.calls, a.copied - b.copied}; }

std::string Spread(std::vector<double> values, int digits) {
  std::sort(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof text, "%.*f [%.*f..%.*f]", digits, values[values.size() / 2], digits, values.front(),
                digits, values.back());
  return text;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void MeasureLeft(Path* path, const Meeting& meeting, const std::vector<uint8_t>& bytes, Numbers* out) {
  const double begin = Now();
  for (uint64_t i = 0; i < kPings; ++i) {
    path->Put(bytes.data(), kSmall);
    path->Take(kSmall);
  }
  out->one_way_us.push_back((Now() - begin) / kPings / 2 * 1e6);
  const Effort before = EffortOf(*path);
  const double start = Now();
  for (uint64_t sent = 0; sent < kStreamBytes; sent += kChunk) path->Put(bytes.data(), kChunk);
  path->Take(kSmall);
  out->gigabytes.push_back(kStreamBytes / (Now() - start) * 1e-9);
  Effort efforts[2] = {EffortOf(*path) - before, {}};
  meeting.Hear(&efforts[1], sizeof efforts[1]);
  for (int end = 0; end < 2; ++end) {
    out->calls_per_mib[end].push_back(static_cast<double>(efforts[end].calls) / (kStreamBytes >> 20));
    out->copies_per_byte[end].push_back(static_cast<double>(efforts[end].copied) / kStreamBytes);
  }
}

void MeasureRight(Path* path, const Meeting& meeting, const std::vector<uint8_t>& bytes) {
  for (uint64_t i = 0; i < kPings; ++i) {
    path->Take(kSmall);
    path->Put(bytes.data(), kSmall);
  }
  const Effort before = EffortOf(*path);
  for (uint64_t got = 0; got < kStreamBytes; got += kChunk) path->Take(kChunk);
  path->Put(bytes.data(), kSmall);
  const Effort effort = EffortOf(*path) - before;
  meeting.Tell(&effort, sizeof effort);
}

void Enter(const std::string& network) {
  if (network.empty()) return;
  // A name of `ip netns`, or a path.
  const std::string path = network[0] == '/' ? network : "/run/netns/" + network;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) Die(network.c_str());
  close(fd);
}

void Run(const Meeting& meeting, const Options& options) {
  Enter(meeting.left ? options.left : options.right);
  std::vector<std::unique_ptr<Path>> paths;
  for (const auto make : {MakeSpin, MakeEpoll, MakeUring, MakeTransport}) {
    std::unique_ptr<Path> path = make(meeting);
    if (path != nullptr) paths.push_back(std::move(path));
  }
  const std::vector<uint8_t> bytes(kChunk, 7);
  std::vector<Numbers> numbers(paths.size());
  for (uint64_t round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < paths.size(); ++i) {
      Numbers warm_up;
      if (meeting.left) MeasureLeft(paths[i].get(), meeting, bytes, round == 0 ? &warm_up : &numbers[i]);
      if (!meeting.left) MeasureRight(paths[i].get(), meeting, bytes);
    }
  }
  if (!meeting.left) return;
  std::printf("%-16s %-24s %-8s %-24s %-8s %-18s %s\n", "path", "one way, 8 B, us", "ratio", "64 MiB, GB/s", "ratio",
              "calls per MiB", "copies per byte (sender, receiver)");
  for (size_t i = 0; i < paths.size(); ++i) {
    const double slower = Median(numbers[i].one_way_us) / Median(numbers[0].one_way_us);
    const double share = Median(numbers[i].gigabytes) / Median(numbers[0].gigabytes);
    std::printf("%-16s %-24s %-8.2f %-24s %-8.2f %-7.1f %-10.1f %.4f %.4f\n", paths[i]->name(),
                Spread(numbers[i].one_way_us, 2).c_str(), slower, Spread(numbers[i].gigabytes, 2).c_str(), share,
                Median(numbers[i].calls_per_mib[0]), Median(numbers[i].calls_per_mib[1]),
                Median(numbers[i].copies_per_byte[0]), Median(numbers[i].copies_per_byte[1]));
  }
}

int Main(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string word = words[i];
    if (word == "--rounds") options.rounds = std::max(1ul, std::strtoul(words[i + 1], nullptr, 10));
    if (word == "--address") options.address = words[i + 1];
    if (word == "--interfaces") options.interfaces = words[i + 1];
    if (word == "--left") options.left = words[i + 1];
    if (word == "--right") options.right = words[i + 1];
  }
  int to_right[2], to_left[2];
  if (pipe(to_right) != 0 || pipe(to_left) != 0) Die("pipe");
  const pid_t right = fork();
  if (right < 0) Die("fork");
  Meeting meeting = {right != 0, right != 0 ? to_left[0] : to_right[0], right != 0 ? to_right[1] : to_left[1],
                     options.address, options.interfaces};
  Run(meeting, options);
  if (right == 0) return 0;
  int status = 1;
  waitpid(right, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sl::bench_tcp

int main(int count, char** words) { return sl::bench_tcp::Main(count, words); }
