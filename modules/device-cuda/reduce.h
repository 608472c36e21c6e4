// SPDX-License-Identifier: Apache-2.0
//
// Reductions in stream order, by kernels of this module.
#ifndef STARLING_MODULES_DEVICE_CUDA_REDUCE_H_
#define STARLING_MODULES_DEVICE_CUDA_REDUCE_H_

#include "modules/device-cuda/driver_types.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::device_cuda {

// What one reduction is asked for, as sl_device_ops_t::reduce is.
struct Reduction {
  void* dst;
  const void* const* srcs;
  uint32_t source_count;
  uint64_t count;
  sl_datatype_t datatype;
  sl_reduction_t reduction;
  const sl_reduce_scale_t* scale;
};

// Loads the kernels, when this build has any: SL_ERR_UNSUPPORTED where no CUDA compiler was found.
Result<sl_image_t*> LoadReductions(const sl_device_t& device);

// Launches with these kernels; needs the device's context to be current.
// returns: SL_ERR_INVALID out of range | SL_ERR_LIMIT more sources than a launch takes
Status Reduce(const sl_device_t& device, sl_image_t* kernels, cu::Stream* stream, const Reduction& reduction);

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_REDUCE_H_
