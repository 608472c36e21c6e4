// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/reduce.h"

#include <algorithm>
#include <string>

#include "modules/device-cuda/device.h"
#include "modules/device-cuda/image.h"
#include "modules/device-cuda/kernels/reduce.h"
#include "sdk/datatype.h"

extern "C" {
extern const unsigned char sl_image_reduce[];
extern const uint64_t sl_image_reduce_size;
}

namespace sl::device_cuda {
namespace {

#define SL_REDUCE_NAME(type, name) #name,
constexpr const char* kNames[SL_DATATYPE_COUNT] = {SL_REDUCE_KERNELS(SL_REDUCE_NAME)};
#undef SL_REDUCE_NAME

constexpr uint32_t kThreads = 512;
constexpr uint64_t kVectorBytes = 16;

// Who multiplies and who divides.
void FillScale(const Reduction& wanted, ReduceArgs* args) {
  args->reduction = wanted.reduction == SL_AVG || wanted.reduction == SL_PREMUL_SUM ? SL_SUM : wanted.reduction;
  if (wanted.scale == nullptr) return;
  const sl_reduce_scale_t& scale = *wanted.scale;
  args->world = std::max<uint32_t>(scale.world, 1);
  if (wanted.reduction == SL_PREMUL_SUM) {
    args->factor_mask = scale.premul_mask;
    args->factor_bits = scale.scalar_bits;
  } else if (wanted.reduction == SL_AVG && args->world > 1) {
    args->divides = (scale.flags & SL_REDUCE_FINAL) != 0 ? 1 : 0;
    // Integers average when the sum is complete, and only then.
    args->is_share = args->divides == 0 && wanted.datatype >= SL_FLOAT16 ? 1 : 0;
    args->factor_mask = args->is_share != 0 ? scale.premul_mask : 0;
  }
}

}  // namespace

Result<sl_image_t*> LoadReductions(const sl_device_t& device) {
  if (sl_image_reduce_size == 0) {
    return Status(SL_ERR_UNSUPPORTED, "device-cuda: built without a CUDA compiler, so there are no reductions");
  }
  const sl_image_desc_t desc = {sizeof(desc),    SL_DATATYPE_COUNT,    nullptr,
                                sl_image_reduce, sl_image_reduce_size, kNames};
  SL_ASSIGN(std::unique_ptr<sl_image_t> image, sl_image_t::Load(device, desc));
  return image.release();
}

Status Reduce(const sl_device_t& device, sl_image_t* kernels, cu::Stream* stream, const Reduction& wanted) {
  if (wanted.datatype >= SL_DATATYPE_COUNT || wanted.reduction >= SL_REDUCTION_COUNT || wanted.source_count == 0 ||
      wanted.srcs == nullptr) {
    return {SL_ERR_INVALID, "device-cuda: reduce of " + std::to_string(wanted.source_count) + " sources, data type " +
                                std::to_string(wanted.datatype) + ", reduction " + std::to_string(wanted.reduction) +
                                ": one of these is out of range"};
  }
  if (wanted.source_count > kMostSources) {
    return {SL_ERR_LIMIT, "device-cuda: reduce of " + std::to_string(wanted.source_count) + " sources, at most " +
                              std::to_string(kMostSources) + " fit a launch; reduce them in parts"};
  }
  if (wanted.count == 0) return {};
  ReduceArgs args{};
  args.dst = static_cast<uint8_t*>(wanted.dst);
  args.bytes = wanted.count * DatatypeBytes(wanted.datatype);
  args.source_count = wanted.source_count;
  FillScale(wanted, &args);
  for (uint32_t i = 0; i < wanted.source_count; ++i) args.srcs[i] = static_cast<const uint8_t*>(wanted.srcs[i]);
  sl_launch_t launch{};
  launch.struct_size = sizeof(launch);
  launch.image = kernels;
  launch.kernel = wanted.datatype;
  const uint64_t blocks = (args.bytes + kVectorBytes * kThreads - 1) / (kVectorBytes * kThreads);
  launch.grid[0] = static_cast<uint32_t>(std::min<uint64_t>(blocks, uint64_t{2} * device.info.processors));
  launch.block[0] = kThreads;
  launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
  launch.args = &args;
  launch.args_bytes = sizeof(args);
  return device.Check(Launch(stream, launch), "cuLaunchKernelEx");
}

}  // namespace sl::device_cuda
