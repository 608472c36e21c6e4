// SPDX-License-Identifier: Apache-2.0
//
// Kernels, loaded for one device, and their launches.
#ifndef STARLING_MODULES_DEVICE_CUDA_IMAGE_H_
#define STARLING_MODULES_DEVICE_CUDA_IMAGE_H_

#include <memory>
#include <vector>

#include "modules/device-cuda/driver_types.h"
#include "sdk/status.h"
#include "sl_device.h"

// One module of the driver. Every kernel is loaded and set up with it, so that no launch waits for that.
struct sl_image_t {
  // Needs the device's context to be current, as do the destructor and launches.
  static sl::Result<std::unique_ptr<sl_image_t>> Load(const sl_device_t& device, const sl_image_desc_t& desc);
  ~sl_image_t();
  sl_image_t(const sl_image_t&) = delete;
  sl_image_t& operator=(const sl_image_t&) = delete;

  const sl_device_t& device;
  std::vector<sl::device_cuda::cu::Function*> kernels;
  // Whether SL_LAUNCH_DEPENDENT is heeded; else a grid begins when the one before it is over.
  bool launches_dependently = false;

 private:
  explicit sl_image_t(const sl_device_t& the_device) : device(the_device) {}
  sl::Status Prepare(const sl_image_desc_t& desc);

  sl::device_cuda::cu::Module* module_ = nullptr;
};

namespace sl::device_cuda {

// Whether `launch` names a kernel that can be launched with its arguments; not whether it fits the GPU.
bool IsLaunchable(const sl_launch_t& launch);

// Issues it. The kernel takes one struct by value, whose bytes the driver copies from `launch.args`. No allocation, no
// lock.
cu::Code Launch(cu::Stream* stream, const sl_launch_t& launch);

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_IMAGE_H_
