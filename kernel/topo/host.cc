// SPDX-License-Identifier: Apache-2.0
#include "kernel/topo/host.h"
#include "sdk/environment.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <fstream>

namespace sl::kernel {
namespace {

// FNV-1a, 64 bits, with a seed; two of them make an id. Not a secret, only a name.
uint64_t Fnv1a(const std::string& text, uint64_t hash) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

std::string BootId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

std::string BootAndNamespace() {
  std::string boot = BootId();
  struct stat net {};
  if (stat("/proc/self/ns/net", &net) == 0) boot += ":" + std::to_string(net.st_dev) + ":" + std::to_string(net.st_ino);
  return boot;
}

HostId HashOf(const std::string& text) {
  const uint64_t halves[2] = {Fnv1a(text, 0xcbf29ce484222325ull), Fnv1a(text, 0x84222325cbf29ce4ull)};
  HostId id;
  for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<uint8_t>(halves[i / 8] >> (i % 8 * 8));
  return id;
}

}  // namespace

HostId ReadSpaceId() { return HashOf(BootAndNamespace()); }

HostId ReadMachineId() { return HashOf(BootId()); }

HostId ReadHostId() {
  const char* given = SettingText("NCCL_HOSTID");
  return given != nullptr && *given != '\0' ? HashOf("given:" + std::string(given)) : ReadSpaceId();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown host";
}

std::string ToText(const HostId& id) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < 8; ++i) {
    text += kHex[id[i] >> 4];
    text += kHex[id[i] & 15];
  }
  return text;
}

CpuSet ReadCpuSet() {
  CpuSet cpus{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (size_t cpu = 0; cpu < cpus.size() * 64; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus[cpu / 64] |= uint64_t{1} << cpu % 64;
  }
  return cpus;
}

uint32_t CountProcessors(const CpuSet& cpus) {
  uint32_t count = 0;
  for (uint64_t word : cpus) count += static_cast<uint32_t>(std::popcount(word));
  return count > 0 ? count : 1;
}

}  // namespace sl::kernel
