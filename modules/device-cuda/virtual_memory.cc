// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/virtual_memory.h"

#include "modules/device-cuda/device.h"

namespace sl::device_cuda {

uint64_t RoundToGranularity(const sl_device_t& device, uint64_t bytes) {
  const uint64_t granularity = device.info.export_granularity;
  if (bytes > UINT64_MAX - granularity) return 0;
  return (bytes + granularity - 1) / granularity * granularity;
}

Result<cu::Address> ReserveAddresses(const sl_device_t& device, uint64_t bytes) {
  cu::Address address = 0;
  SL_TRY(SL_CUDA(device, MemAddressReserve, &address, bytes, device.info.export_granularity, 0, 0));
  return address;
}

Status MapAt(const sl_device_t& device, cu::Address address, uint64_t bytes, cu::Memory memory) {
  SL_TRY(SL_CUDA(device, MemMap, address, bytes, 0, memory, 0));
  const cu::AccessDesc access = {{cu::kLocationDevice, device.id}, cu::kAccessReadWrite};
  Status status = SL_CUDA(device, MemSetAccess, address, bytes, &access, 1);
  if (!status.ok()) device.calls.MemUnmap(address, bytes);
  return status;
}

Result<cu::Address> MapAnywhere(const sl_device_t& device, uint64_t bytes, cu::Memory memory) {
  SL_ASSIGN(const cu::Address address, ReserveAddresses(device, bytes));
  if (Status status = MapAt(device, address, bytes, memory); !status.ok()) {
    device.calls.MemAddressFree(address, bytes);
    return status;
  }
  return address;
}

Status UnmapAnywhere(const sl_device_t& device, cu::Address address, uint64_t bytes) {
  SL_TRY(SL_CUDA(device, MemUnmap, address, bytes));
  return SL_CUDA(device, MemAddressFree, address, bytes);
}

}  // namespace sl::device_cuda
