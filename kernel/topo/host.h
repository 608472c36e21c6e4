// SPDX-License-Identifier: Apache-2.0
//
// Who this host is and what it has, as far as every rank must know it. Two processes are on one host when their ids are
// equal: they share a kernel (boot id) and a network namespace, hence abstract sockets and memory. Never the host name.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace sl::kernel {

using HostId = std::array<uint8_t, 16>;

// Boot id and network namespace, hashed: processes where it is equal reach each other's abstract sockets.
// thread: [any]; reads files
HostId ReadSpaceId();
// Boot id, hashed: processes where it is equal share processors, whatever keeps them apart.   thread: [any]; reads a
// file
HostId ReadMachineId();
// NCCL_HOSTID when it is set, else boot id and network namespace, hashed.   thread: [any]; reads files
HostId ReadHostId();

// For messages: the host's name, or "unknown host".
std::string HostName();

// "3f2a…": the first 8 bytes in hex.
std::string ToText(const HostId& id);

// CPUs this thread may run on, a bit each; CPUs from 1,024 on are not told apart.
using CpuSet = std::array<uint64_t, 16>;
CpuSet ReadCpuSet();
// At least 1.
uint32_t CountProcessors(const CpuSet& cpus);

}  // namespace sl::kernel
