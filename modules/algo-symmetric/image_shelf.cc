// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/image_shelf.h"

#include <iterator>

extern "C" {
extern const unsigned char sl_image_prompt[];
extern const uint64_t sl_image_prompt_size;
extern const unsigned char sl_image_packets[];
extern const uint64_t sl_image_packets_size;
extern const unsigned char sl_image_p2p[];
extern const uint64_t sl_image_p2p_size;
extern const unsigned char sl_image_staged_integers[];
extern const uint64_t sl_image_staged_integers_size;
extern const unsigned char sl_image_lamport[];
extern const uint64_t sl_image_lamport_size;
extern const unsigned char sl_image_staged_floats[];
extern const uint64_t sl_image_staged_floats_size;
extern const unsigned char sl_image_push_reduce[];
extern const uint64_t sl_image_push_reduce_size;
}

namespace sl::algo_symmetric {
namespace {

const char* const kPacketKernels[] = {
    "one_shot_int8",    "one_shot_uint8",   "one_shot_int32",    "one_shot_uint32",  "one_shot_int64",
    "one_shot_uint64",  "one_shot_float16", "one_shot_float32",  "one_shot_float64", "one_shot_bfloat16",
    "one_shot_fp8e4m3", "one_shot_fp8e5m2", "one_shot_move",     "two_shot_int8",    "two_shot_uint8",
    "two_shot_int32",   "two_shot_uint32",  "two_shot_int64",    "two_shot_uint64",  "two_shot_float16",
    "two_shot_float32", "two_shot_float64", "two_shot_bfloat16", "two_shot_fp8e4m3", "two_shot_fp8e5m2",
    "two_shot_move",
};
const char* const kPromptKernels[] = {
    "prompt_int8",    "prompt_uint8",   "prompt_int32",   "prompt_uint32",  "prompt_int64",
    "prompt_uint64",  "prompt_float16", "prompt_float32", "prompt_float64", "prompt_bfloat16",
    "prompt_fp8e4m3", "prompt_fp8e5m2", "prompt_move",
};
const char* const kP2pKernels[] = {"p2p_fewest", "p2p_few", "p2p_many", "mail_short", "mail_any"};
const char* const kIntegerKernels[] = {
    "staged_int8", "staged_uint8", "staged_int32", "staged_uint32", "staged_int64", "staged_uint64", "staged_move",
};
const char* const kFloatKernels[] = {
    "staged_float16", "staged_float32", "staged_float64", "staged_bfloat16", "staged_fp8e4m3", "staged_fp8e5m2",
};
const char* const kPushKernels[] = {
    "push_int8",    "push_uint8",   "push_int32",   "push_uint32",   "push_int64",   "push_uint64",
    "push_float16", "push_float32", "push_float64", "push_bfloat16", "push_fp8e4m3", "push_fp8e5m2",
};

struct Image {
  const unsigned char* binary;
  uint64_t bytes;
  const char* const* names;
  uint32_t kernels;
};

static_assert(std::size(kPacketKernels) == 2 * (SL_DATATYPE_COUNT + 1));
static_assert(std::size(kPromptKernels) == SL_DATATYPE_COUNT + 1);
static_assert(std::size(kIntegerKernels) == kMovingIntegers + 1 && kMovingIntegers == SL_FLOAT16);
static_assert(std::size(kFloatKernels) == SL_DATATYPE_COUNT - SL_FLOAT16);
static_assert(std::size(kPushKernels) == SL_DATATYPE_COUNT);
static_assert(std::size(kP2pKernels) == kMailAny + 1);

Image ImageOf(uint32_t index) {
  switch (index) {
    case kPackets:
      return {sl_image_packets, sl_image_packets_size, kPacketKernels, std::size(kPacketKernels)};
    case kPrompt:
      return {sl_image_prompt, sl_image_prompt_size, kPromptKernels, std::size(kPromptKernels)};
    case kIntegers:
      return {sl_image_staged_integers, sl_image_staged_integers_size, kIntegerKernels, std::size(kIntegerKernels)};
    case kFloats:
      return {sl_image_staged_floats, sl_image_staged_floats_size, kFloatKernels, std::size(kFloatKernels)};
    case kPushReductions:
      return {sl_image_push_reduce, sl_image_push_reduce_size, kPushKernels, std::size(kPushKernels)};
    case kP2p:
      return {sl_image_p2p, sl_image_p2p_size, kP2pKernels, std::size(kP2pKernels)};
    default:
      return {sl_image_lamport, sl_image_lamport_size, kPacketKernels, std::size(kPacketKernels)};
  }
}

}  // namespace

bool ImageShelf::HasImages() { return sl_image_p2p_size != 0; }  // without nvcc, images are empty

void ImageShelf::Unload(const sl_device_ops_t* ops, sl_device_t* device, const ImageSet& images) {
  for (sl_image_t* image : images) {
    if (image != nullptr) ops->image_unload(device, image);
  }
}

ImageShelf::~ImageShelf() {
  for (const auto& [device, loaded] : loaded_) Unload(loaded.ops, device, loaded.images);
}

Result<ImageSet> ImageShelf::For(const sl_device_ops_t* ops, sl_device_t* device) {
  std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(device); found != loaded_.end()) return found->second.images;
  ImageSet images{};
  for (uint32_t i = 0; i < kImages; ++i) {
    const Image image = ImageOf(i);
    const sl_image_desc_t desc{sizeof(desc), image.kernels, nullptr, image.binary, image.bytes, image.names};
    if (const sl_status_t status = ops->image_load(device, &desc, &images[i]); status != SL_OK) {
      Unload(ops, device, images);
      return Status(status,
                    "algo-symmetric: the GPU cannot load its kernels; was the module built for this architecture "
                    "(SL_CUDA_ARCHS)?");
    }
  }
  loaded_.emplace(device, Loaded{ops, images});
  return images;
}

}  // namespace sl::algo_symmetric
