// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/image.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "modules/device-cuda/device.h"

using sl::Result;
using sl::Status;
namespace cu = sl::device_cuda::cu;

namespace {

// Dependent launches: from this compute capability on, of the GPU and of what the kernels were compiled for, since only
// these can wait for the grids before them; and from the driver (CUDA 12.3) on that captures them.
constexpr int kDependentCapability = 90;
constexpr int kDependentDriver = 12030;

}  // namespace

Result<std::unique_ptr<sl_image_t>> sl_image_t::Load(const sl_device_t& device, const sl_image_desc_t& desc) {
  if (desc.kernel_count == 0 || desc.binary == nullptr || desc.binary_bytes == 0 || desc.kernel_names == nullptr) {
    return Status(SL_ERR_UNSUPPORTED, "device-cuda: the image has no kernels for GPUs");
  }
  std::unique_ptr<sl_image_t> image(new sl_image_t(device));
  if (Status status = image->Prepare(desc); !status.ok()) {
    if (status.code() != SL_ERR_UNSUPPORTED) return status;
    return Status(status.code(), status.message() + "; its compute capability is " +
                                     std::to_string(device.capability / 10) + "." +
                                     std::to_string(device.capability % 10));
  }
  return image;
}

Status sl_image_t::Prepare(const sl_image_desc_t& desc) {
  SL_TRY(SL_CUDA(device, ModuleLoadData, &module_, desc.binary));
  const int shared_bytes = device.Attribute(cu::kMaxSharedMemoryPerBlockOptin);
  launches_dependently =
      device.capability >= kDependentCapability && device.instance->driver->version() >= kDependentDriver;
  for (uint32_t i = 0; i < desc.kernel_count; ++i) {
    cu::Function* kernel = nullptr;
    const cu::Code code = device.calls.ModuleGetFunction(&kernel, module_, desc.kernel_names[i]);
    if (code == cu::kNotFound) {
      return {SL_ERR_NOT_FOUND, std::string("device-cuda: the image has no kernel called ") + desc.kernel_names[i] +
                                    "; is it extern \"C\"?"};
    }
    SL_TRY(device.Check(code, "cuModuleGetFunction"));
    // Functions load lazily, and loading may wait for the GPU: now, rather than between two launches.
    if (device.calls.FuncLoad != nullptr) SL_TRY(SL_CUDA(device, FuncLoad, kernel));
    int static_bytes = 0;
    SL_TRY(SL_CUDA(device, FuncGetAttribute, &static_bytes, cu::kSharedSizeBytes, kernel));
    if (shared_bytes > static_bytes) {
      SL_TRY(SL_CUDA(device, FuncSetAttribute, kernel, cu::kMaxDynamicSharedSizeBytes, shared_bytes - static_bytes));
    }
    int compiled_for = 0;
    SL_TRY(SL_CUDA(device, FuncGetAttribute, &compiled_for, cu::kPtxVersion, kernel));
    if (compiled_for < kDependentCapability) launches_dependently = false;
    kernels.push_back(kernel);
  }
  return {};
}

sl_image_t::~sl_image_t() {
  if (module_ != nullptr) device.calls.ModuleUnload(module_);
}

namespace sl::device_cuda {

bool IsLaunchable(const sl_launch_t& launch) {
  return SL_HAS(&launch, sl_launch_t, args) && launch.image != nullptr &&
         launch.kernel < launch.image->kernels.size() &&
         launch.args_bytes <= launch.image->device.info.max_argument_bytes &&
         (launch.args != nullptr || launch.args_bytes == 0);
}

cu::Code Launch(cu::Stream* stream, const sl_launch_t& launch) {
  cu::LaunchAttribute attributes[3];
  cu::LaunchConfig config{};
  config.attributes = attributes;
  const auto add = [&](int id) -> cu::LaunchAttribute& {
    cu::LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute = {};
    attribute.id = id;
    return attribute;
  };
  std::copy_n(launch.grid, std::size(launch.grid), config.grid);
  std::copy_n(launch.block, std::size(launch.block), config.block);
  config.shared_bytes = launch.shared_bytes;
  config.stream = stream;
  if ((launch.flags & SL_LAUNCH_COOPERATIVE) != 0) add(cu::kLaunchCooperative).value.flag = 1;
  if ((launch.flags & SL_LAUNCH_DEPENDENT) != 0 && launch.image->launches_dependently) {
    add(cu::kLaunchProgrammaticStreamSerialization).value.flag = 1;
  }
  if (launch.cluster[0] != 0) {
    std::copy_n(launch.cluster, std::size(launch.cluster), add(cu::kLaunchClusterDimension).value.cluster);
  }
  size_t args_bytes = launch.args_bytes;
  void* extra[] = {reinterpret_cast<void*>(cu::kLaunchParamBufferPointer), const_cast<void*>(launch.args),
                   reinterpret_cast<void*>(cu::kLaunchParamBufferSize), &args_bytes,
                   reinterpret_cast<void*>(cu::kLaunchParamEnd)};
  return launch.image->device.calls.LaunchKernelEx(&config, launch.image->kernels[launch.kernel], nullptr,
                                                   args_bytes != 0 ? extra : nullptr);
}

}  // namespace sl::device_cuda
