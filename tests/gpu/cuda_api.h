// SPDX-License-Identifier: Apache-2.0
//
// The few calls of CUDA's driver that the GPU tests make, opened at run time: a test that links CUDA would not start
// where there is none. Every wrapper ends the process with the call's name when it fails, but those that return a code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sl::gpu {

using CudaStream = void*;
using CudaGraph = void*;
using CudaGraphExec = void*;

// "" when the driver and a GPU are there; else why not.
std::string OpenCuda();
int DeviceCount();

// The device's primary context becomes the calling thread's.
void UseDevice(int ordinal);
void* Allocate(size_t bytes);
void Free(void* memory);
void ToDevice(void* to, const void* from, size_t bytes);
void FromDevice(void* to, const void* from, size_t bytes);
void Fill(void* memory, uint8_t value, size_t bytes);

CudaStream MakeStream();
void DestroyStream(CudaStream stream);
// False when its work has not ended within `seconds`.
bool WaitFor(CudaStream stream, double seconds);
void WaitForDevice();

void BeginCapture(CudaStream stream);
CudaGraphExec EndCapture(CudaStream stream);
void Launch(CudaGraphExec graph, CudaStream stream);
void DestroyGraph(CudaGraphExec graph);

}  // namespace sl::gpu
