// SPDX-License-Identifier: Apache-2.0
//
// The GPU kernels of this module, loaded once for each device. Loading takes 20 ms, each copy 20 MiB of the GPU, and
// NVIDIA's driver 580 gives 1.2 MiB of what it has loaded never back: too much to do for every communicator.
#pragma once

#include <array>
#include <map>
#include <mutex>

#include "sdk/status.h"
#include "sl_device.h"

namespace sl::algo_symmetric {

// The images, by their index in an ImageSet.
inline constexpr uint32_t kPackets = 0;
inline constexpr uint32_t kIntegers = 1;
inline constexpr uint32_t kFloats = 2;
inline constexpr uint32_t kP2p = 3;
inline constexpr uint32_t kLamport = 4;
inline constexpr uint32_t kPrompt = 5;
inline constexpr uint32_t kPushReductions = 6;
inline constexpr uint32_t kImages = 7;

using ImageSet = std::array<sl_image_t*, kImages>;

class ImageShelf {
 public:
  ImageShelf() = default;
  // Unloads all: the devices are open, and run none of these kernels any more.
  ~ImageShelf();
  ImageShelf(const ImageShelf&) = delete;
  ImageShelf& operator=(const ImageShelf&) = delete;

  // Whether this module was built with GPU kernels.
  static bool HasImages();
  // Loaded at the first call for `device`; they stay as long as this object.   thread: [any]
  Result<ImageSet> For(const sl_device_ops_t* ops, sl_device_t* device);

 private:
  struct Loaded {
    const sl_device_ops_t* ops;
    ImageSet images;
  };
  static void Unload(const sl_device_ops_t* ops, sl_device_t* device, const ImageSet& images);

  std::mutex mutex_;
  std::map<sl_device_t*, Loaded> loaded_;  // guarded by mutex_
};

// Kernels in their image, in the order of sl_datatype_t as far as they compute; what only moves comes behind them.
inline constexpr uint32_t kMovingIntegers = 6;  // of kIntegers
inline constexpr uint32_t kFewest = 0;          // of kP2p
inline constexpr uint32_t kFew = 1;
inline constexpr uint32_t kMany = 2;
inline constexpr uint32_t kMailShort = 3;
inline constexpr uint32_t kMailAny = 4;

}  // namespace sl::algo_symmetric
