// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA driver's binary interface that this module speaks: its types and numbers, as NVIDIA documents
// them. Written down here because the module is to be built and tested on machines without the toolkit; where the
// toolkit's cuda.h is found, tests/driver_types_test.cc compares every line with it.
#ifndef STARLING_MODULES_DEVICE_CUDA_DRIVER_TYPES_H_
#define STARLING_MODULES_DEVICE_CUDA_DRIVER_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace sl::device_cuda::cu {

// Handles. A Device is a number, an Address one of the device's (with unified addressing also the CPU's).
using Device = int;
using Address = unsigned long long;
using Memory = unsigned long long;  // physical memory of cuMemCreate
struct Context;
struct Module;
struct Function;
struct Stream;
struct Event;
struct Graph;
struct UserObject;

// Results.
using Code = int;
inline constexpr Code kSuccess = 0;
inline constexpr Code kInvalidValue = 1;
inline constexpr Code kOutOfMemory = 2;
inline constexpr Code kNotInitialized = 3;
inline constexpr Code kDeinitialized = 4;
inline constexpr Code kStubLibrary = 34;
inline constexpr Code kDeviceUnavailable = 46;
inline constexpr Code kNoDevice = 100;
inline constexpr Code kInvalidDevice = 101;
inline constexpr Code kInvalidImage = 200;
inline constexpr Code kInvalidContext = 201;
inline constexpr Code kMapFailed = 205;
inline constexpr Code kNoBinaryForGpu = 209;
inline constexpr Code kEccUncorrectable = 214;
inline constexpr Code kPeerAccessUnsupported = 217;
inline constexpr Code kInvalidPtx = 218;
inline constexpr Code kNvlinkUncorrectable = 220;
inline constexpr Code kJitCompilerNotFound = 221;
inline constexpr Code kUnsupportedPtxVersion = 222;
inline constexpr Code kOperatingSystem = 304;
inline constexpr Code kInvalidHandle = 400;
inline constexpr Code kNotFound = 500;
inline constexpr Code kNotReady = 600;
inline constexpr Code kIllegalAddress = 700;
inline constexpr Code kLaunchOutOfResources = 701;
inline constexpr Code kLaunchTimeout = 702;
inline constexpr Code kContextIsDestroyed = 709;
inline constexpr Code kAssert = 710;
inline constexpr Code kPeerAccessAlreadyEnabled = 704;
inline constexpr Code kTooManyPeers = 711;
inline constexpr Code kHardwareStackError = 714;
inline constexpr Code kIllegalInstruction = 715;
inline constexpr Code kMisalignedAddress = 716;
inline constexpr Code kInvalidAddressSpace = 717;
inline constexpr Code kInvalidPc = 718;
inline constexpr Code kLaunchFailed = 719;
inline constexpr Code kCooperativeLaunchTooLarge = 720;
inline constexpr Code kNotPermitted = 800;
inline constexpr Code kNotSupported = 801;
inline constexpr Code kSystemNotReady = 802;
inline constexpr Code kSystemDriverMismatch = 803;
inline constexpr Code kCompatNotSupportedOnDevice = 804;
inline constexpr Code kMpsMaxClientsReached = 808;
inline constexpr Code kStreamCaptureUnsupported = 900;
inline constexpr Code kStreamCaptureInvalidated = 901;
inline constexpr Code kStreamCaptureIsolation = 905;
inline constexpr Code kStreamCaptureImplicit = 906;
inline constexpr Code kCapturedEvent = 907;
inline constexpr Code kStreamCaptureWrongThread = 908;
inline constexpr Code kInvalidClusterSize = 912;

// Facts of a device.
using DeviceAttribute = int;
inline constexpr DeviceAttribute kMultiprocessorCount = 16;
inline constexpr DeviceAttribute kComputeCapabilityMajor = 75;
inline constexpr DeviceAttribute kComputeCapabilityMinor = 76;
inline constexpr DeviceAttribute kMaxSharedMemoryPerBlockOptin = 97;
inline constexpr DeviceAttribute kVirtualMemoryManagementSupported = 102;
inline constexpr DeviceAttribute kHandleTypePosixFdSupported = 103;
inline constexpr DeviceAttribute kGpuDirectRdmaWithVmmSupported = 110;
inline constexpr DeviceAttribute kCanUse64BitStreamMemOps = 122;
inline constexpr DeviceAttribute kHandleTypeFabricSupported = 128;

// Facts of a pointer.
using PointerAttribute = int;
inline constexpr PointerAttribute kMemoryType = 2;
inline constexpr PointerAttribute kBufferId = 7;
inline constexpr PointerAttribute kDeviceOrdinal = 9, kIsLegacyIpcCapable = 10;
inline constexpr PointerAttribute kRangeStart = 11;
inline constexpr PointerAttribute kRangeSize = 12;
inline constexpr PointerAttribute kAllowedHandleTypes = 14;
inline constexpr PointerAttribute kMempoolHandle = 17;
inline constexpr PointerAttribute kMemoryBlockId = 20;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

// Memory that is mapped by hand.
using HandleType = int;
inline constexpr HandleType kHandlePosixFd = 1;
inline constexpr HandleType kHandleFabric = 8;
inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityRecommended = 1;
struct Location {
  int type;
  int id;
};
struct AccessDesc {
  Location location;
  int flags;
};
struct AllocationProp {
  int type;
  HandleType requested_handle_types;
  Location location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } alloc_flags;
};

// Other memory.
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;
struct IpcHandle {
  char reserved[64];
};

// Streams and events.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamWaitValueGeq = 0;
inline constexpr unsigned kStreamWriteValueDefault = 0;
inline constexpr unsigned kStreamWaitValue64 = 4;
inline constexpr unsigned kStreamWriteValue64 = 5;
inline constexpr unsigned kMostMemoryOps = 255;  // of one call
struct StreamMemoryOp {
  unsigned operation;
  unsigned reserved;
  Address address;
  uint64_t value;
  unsigned flags;
  unsigned reserved2;
  uint64_t of_driver[2];
};
using CaptureStatus = int;
inline constexpr CaptureStatus kCaptureNone = 0;
inline constexpr CaptureStatus kCaptureActive = 1;
inline constexpr CaptureStatus kCaptureInvalidated = 2;
using CaptureMode = int;
inline constexpr CaptureMode kCaptureModeRelaxed = 2;
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;

// Kernels.
using FunctionAttribute = int;
inline constexpr FunctionAttribute kSharedSizeBytes = 1;
inline constexpr FunctionAttribute kPtxVersion = 5;  // 90: compiled for compute capability 9.0
inline constexpr FunctionAttribute kMaxDynamicSharedSizeBytes = 8;
inline constexpr int kLaunchCooperative = 2;
inline constexpr int kLaunchClusterDimension = 4;
inline constexpr int kLaunchProgrammaticStreamSerialization = 6;
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char size[64];
    int flag;  // cooperative, programmaticStreamSerializationAllowed
    unsigned cluster[3];
  } value;
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
inline constexpr uintptr_t kLaunchParamEnd = 0;
inline constexpr uintptr_t kLaunchParamBufferPointer = 1;
inline constexpr uintptr_t kLaunchParamBufferSize = 2;

}  // namespace sl::device_cuda::cu

#endif  // STARLING_MODULES_DEVICE_CUDA_DRIVER_TYPES_H_
