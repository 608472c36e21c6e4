// SPDX-License-Identifier: Apache-2.0
//
// The few calls of CUDA's driver that programs here make, opened at run time: one that links CUDA would not start
// where there is none. Every wrapper ends the process with the call's name when it fails, but those that return a code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sl::gpu {

using CudaStream = void*;
using CudaGraph = void*;
using CudaGraphExec = void*;

// "" when the driver and a GPU are there; else why not. From any thread; a process asks once.
std::string OpenCuda();
int DeviceCount();
std::string DeviceName(int ordinal);
// The newest CUDA that the driver serves, as 13000.
int DriverVersion();
// Of the calling thread's device; 0 when the driver cannot tell.
size_t FreeMemory();

// The device's primary context becomes the calling thread's.
void UseDevice(int ordinal);
// From an arena of the thread, which is empty again when all is freed: the driver's own calls wait for everything that
// runs on a GPU, also for another rank's kernel that waits for this thread.
void* Allocate(size_t bytes);
void Free(void* memory);
// An allocation of its own, for the life of the process.
uint8_t* AllocateWhole(size_t bytes);

// Memory mapped by hand: address space, and pieces of physical memory in it. `shared`: other processes can have it.
constexpr size_t kPieceBytes = size_t{2} << 20;
uint8_t* Reserve(size_t bytes);
void MapPiece(uint8_t* at, bool shared);
void UnmapPiece(uint8_t* at);

// Complete on return, whatever else runs.
void ToDevice(void* to, const void* from, size_t bytes);
void FromDevice(void* to, const void* from, size_t bytes);
void CopyOnDevice(void* to, const void* from, size_t bytes);

CudaStream MakeStream();
void DestroyStream(CudaStream stream);
// False when its work has not ended within `seconds`.
bool WaitFor(CudaStream stream, double seconds);
// The same without sleeping, for what is timed.
bool SpinFor(CudaStream stream, double seconds);
// Work of the stream that does not end before it is let: returns the word it waits for, in host memory that stays.
uint64_t* HoldStream(CudaStream stream);
void LetStream(uint64_t* word);
void WaitForDevice();

void BeginCapture(CudaStream stream);
CudaGraphExec EndCapture(CudaStream stream);
void Launch(CudaGraphExec graph, CudaStream stream);
void DestroyGraph(CudaGraphExec graph);

}  // namespace sl::gpu
