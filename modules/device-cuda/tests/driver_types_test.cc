// SPDX-License-Identifier: Apache-2.0
// Every type and number of driver_types.h against the toolkit's cuda.h. The compiler does the test.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "modules/device-cuda/driver_types.h"

namespace sl::device_cuda {
namespace {

#define SL_SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SL_SAME(cu::kSuccess, CUDA_SUCCESS);
SL_SAME(cu::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SL_SAME(cu::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SL_SAME(cu::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SL_SAME(cu::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SL_SAME(cu::kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SL_SAME(cu::kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SL_SAME(cu::kNoDevice, CUDA_ERROR_NO_DEVICE);
SL_SAME(cu::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SL_SAME(cu::kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
SL_SAME(cu::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SL_SAME(cu::kMapFailed, CUDA_ERROR_MAP_FAILED);
SL_SAME(cu::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SL_SAME(cu::kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SL_SAME(cu::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SL_SAME(cu::kInvalidPtx, CUDA_ERROR_INVALID_PTX);
SL_SAME(cu::kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SL_SAME(cu::kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SL_SAME(cu::kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SL_SAME(cu::kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
SL_SAME(cu::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SL_SAME(cu::kNotFound, CUDA_ERROR_NOT_FOUND);
SL_SAME(cu::kNotReady, CUDA_ERROR_NOT_READY);
SL_SAME(cu::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SL_SAME(cu::kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SL_SAME(cu::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SL_SAME(cu::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SL_SAME(cu::kAssert, CUDA_ERROR_ASSERT);
SL_SAME(cu::kPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SL_SAME(cu::kTooManyPeers, CUDA_ERROR_TOO_MANY_PEERS);
SL_SAME(cu::kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SL_SAME(cu::kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SL_SAME(cu::kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SL_SAME(cu::kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SL_SAME(cu::kInvalidPc, CUDA_ERROR_INVALID_PC);
SL_SAME(cu::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SL_SAME(cu::kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SL_SAME(cu::kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
SL_SAME(cu::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SL_SAME(cu::kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SL_SAME(cu::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SL_SAME(cu::kCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SL_SAME(cu::kMpsMaxClientsReached, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
SL_SAME(cu::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SL_SAME(cu::kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SL_SAME(cu::kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SL_SAME(cu::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SL_SAME(cu::kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
SL_SAME(cu::kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SL_SAME(cu::kInvalidClusterSize, CUDA_ERROR_INVALID_CLUSTER_SIZE);

SL_SAME(cu::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SL_SAME(cu::kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SL_SAME(cu::kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SL_SAME(cu::kMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SL_SAME(cu::kVirtualMemoryManagementSupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SL_SAME(cu::kHandleTypePosixFdSupported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SL_SAME(cu::kGpuDirectRdmaWithVmmSupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SL_SAME(cu::kCanUse64BitStreamMemOps, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SL_SAME(cu::kHandleTypeFabricSupported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);

SL_SAME(cu::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SL_SAME(cu::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SL_SAME(cu::kIsLegacyIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SL_SAME(cu::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SL_SAME(cu::kRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SL_SAME(cu::kAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SL_SAME(cu::kMempoolHandle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SL_SAME(cu::kMemoryBlockId, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
SL_SAME(cu::kMemoryTypeHost, CU_MEMORYTYPE_HOST);
SL_SAME(cu::kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);

SL_SAME(cu::kHandlePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SL_SAME(cu::kHandleFabric, CU_MEM_HANDLE_TYPE_FABRIC);
SL_SAME(cu::kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SL_SAME(cu::kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SL_SAME(cu::kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SL_SAME(cu::kGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SL_SAME(cu::kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SL_SAME(cu::kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SL_SAME(cu::kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
SL_SAME(cu::kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
SL_SAME(cu::kIpcLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

SL_SAME(cu::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SL_SAME(cu::kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SL_SAME(cu::kStreamWaitValueGeq, CU_STREAM_WAIT_VALUE_GEQ);
SL_SAME(cu::kStreamWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT);
SL_SAME(cu::kStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SL_SAME(cu::kStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SL_SAME(cu::kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
SL_SAME(cu::kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SL_SAME(cu::kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SL_SAME(cu::kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SL_SAME(cu::kUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SL_SAME(cu::kGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE);

SL_SAME(cu::kSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SL_SAME(cu::kMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SL_SAME(cu::kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SL_SAME(cu::kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SL_SAME(cu::kLaunchProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SL_SAME(cu::kLaunchParamEnd, CU_LAUNCH_PARAM_END_AS_INT);
SL_SAME(cu::kLaunchParamBufferPointer, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
SL_SAME(cu::kLaunchParamBufferSize, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);

#define SL_SAME_PLACE(ours, field, theirs, their_field) SL_SAME(offsetof(ours, field), offsetof(theirs, their_field))

SL_SAME(sizeof(cu::Code), sizeof(CUresult));
SL_SAME(sizeof(cu::Device), sizeof(CUdevice));
SL_SAME(sizeof(cu::Address), sizeof(CUdeviceptr));
SL_SAME(sizeof(cu::Memory), sizeof(CUmemGenericAllocationHandle));
SL_SAME(sizeof(cu::StreamMemoryOp), sizeof(CUstreamBatchMemOpParams));
SL_SAME_PLACE(cu::StreamMemoryOp, address, CUstreamBatchMemOpParams, writeValue.address);
SL_SAME_PLACE(cu::StreamMemoryOp, value, CUstreamBatchMemOpParams, writeValue.value64);
SL_SAME_PLACE(cu::StreamMemoryOp, flags, CUstreamBatchMemOpParams, writeValue.flags);
SL_SAME_PLACE(cu::StreamMemoryOp, address, CUstreamBatchMemOpParams, waitValue.address);
SL_SAME_PLACE(cu::StreamMemoryOp, value, CUstreamBatchMemOpParams, waitValue.value64);
SL_SAME_PLACE(cu::StreamMemoryOp, flags, CUstreamBatchMemOpParams, waitValue.flags);
SL_SAME(sizeof(cu::IpcHandle), sizeof(CUipcMemHandle));
SL_SAME(sizeof(cu::AccessDesc), sizeof(CUmemAccessDesc));
SL_SAME_PLACE(cu::AccessDesc, flags, CUmemAccessDesc, flags);
SL_SAME(sizeof(cu::AllocationProp), sizeof(CUmemAllocationProp));
SL_SAME_PLACE(cu::AllocationProp, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
SL_SAME_PLACE(cu::AllocationProp, location.id, CUmemAllocationProp, location.id);
SL_SAME_PLACE(cu::AllocationProp, alloc_flags.gpu_direct_rdma_capable, CUmemAllocationProp,
              allocFlags.gpuDirectRDMACapable);
SL_SAME(sizeof(cu::LaunchAttribute), sizeof(CUlaunchAttribute));
SL_SAME_PLACE(cu::LaunchAttribute, value, CUlaunchAttribute, value);
SL_SAME(sizeof(cu::LaunchConfig), sizeof(CUlaunchConfig));
SL_SAME_PLACE(cu::LaunchConfig, block, CUlaunchConfig, blockDimX);
SL_SAME_PLACE(cu::LaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SL_SAME_PLACE(cu::LaunchConfig, stream, CUlaunchConfig, hStream);
SL_SAME_PLACE(cu::LaunchConfig, attributes, CUlaunchConfig, attrs);
SL_SAME_PLACE(cu::LaunchConfig, attribute_count, CUlaunchConfig, numAttrs);

TEST(DriverTypes, AreThoseOfTheToolkit) { SUCCEED() << "compared by the compiler"; }

}  // namespace
}  // namespace sl::device_cuda
