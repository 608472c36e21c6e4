// SPDX-License-Identifier: Apache-2.0
#ifndef STARLING_MODULES_DEVICE_HOST_IMAGE_H_
#define STARLING_MODULES_DEVICE_HOST_IMAGE_H_

#include <cstdint>
#include <memory>

#include "modules/device-host/launch.h"
#include "sl_device.h"

// A loaded image: a copy of the table of kernels, constant after image_load. Frames are rounded up to 16 bytes.
struct sl_image_t {
  uint32_t kernel_count = 0;
  std::unique_ptr<sl_host_kernel_t[]> kernels;
};

namespace sl::device_host {

// The kernel a launch names; null when the launch is malformed.
inline const sl_host_kernel_t* FindKernel(const sl_launch_t& launch) {
  if (launch.struct_size < sizeof(sl_launch_t) || launch.image == nullptr ||
      launch.kernel >= launch.image->kernel_count || launch.args_bytes > kMaxArgumentBytes) [[unlikely]] {
    return nullptr;
  }
  return &launch.image->kernels[launch.kernel];
}

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_IMAGE_H_
