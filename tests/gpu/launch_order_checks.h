// SPDX-License-Identifier: Apache-2.0
//
// The checks of gpu.launch_order, which says what they are. A kernel that does not end ends the program.
#pragma once

#include <cstdint>

#include "tests/gpu/foreign_kernels.h"
#include "tests/gpu/verdict.h"

namespace sl::gpu_test {

struct OrderEffort {
  uint32_t ranks = 0;
  uint32_t rounds = 2000;
  uint64_t operations = 200000;
};

void CheckLatePeer(Verdicts* verdicts, const OrderEffort& effort);
void CheckOption(Verdicts* verdicts, const OrderEffort& effort);
void CheckForeignKernels(Verdicts* verdicts, const OrderEffort& effort);
void CheckHostHeap(Verdicts* verdicts, const OrderEffort& effort);

// Ends the program if the team's streams are not idle within 20 s, or else says nothing.
void DemandEnd(GpuTeam& team, Verdicts* verdicts, const char* what);

// Memory of a rank, which stays zero until it is written.
class DeviceMemory {
 public:
  DeviceMemory(int device, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  template <typename T = uint8_t>
  T* As() const {
    return static_cast<T*>(base_);
  }

 private:
  void* base_ = nullptr;
};

sl_op_t CollectiveOf(sl_op_kind_t kind, sl_datatype_t datatype, uint64_t count, const void* send, void* recv);
sl_op_t MessageOf(sl_op_kind_t kind, uint32_t peer, void* user, uint64_t bytes);

}  // namespace sl::gpu_test
