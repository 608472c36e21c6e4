// SPDX-License-Identifier: Apache-2.0
//
// Where a GPU is: on which host or NVLink fabric, and near which memory.
#ifndef STARLING_MODULES_DEVICE_CUDA_PLACE_H_
#define STARLING_MODULES_DEVICE_CUDA_PLACE_H_

#include <cstdint>
#include <string>

#include "sdk/status.h"

namespace sl::device_cuda {

// GPUs of equal domain and clique reach each other's memory by load and store.
struct Place {
  uint8_t domain[16] = {};
  uint32_t clique = 0;
  int32_t numa_node = -1;  // -1: unknown
};

// `pci_bus_id` as the driver writes it, "0000:18:00.0". The domain is the NVLink fabric's when NVML knows of one that
// spans hosts, else this boot of this host, whatever container the process is in.
// returns: SL_ERR_SYSTEM where this boot cannot be told from others
Result<Place> FindPlace(const std::string& pci_bus_id);

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_PLACE_H_
