// SPDX-License-Identifier: Apache-2.0
//
// The kernels of algo-symmetric for the CUDA driver of tests (modules/device-cuda/tests/fake_driver.h), which runs them
// on the host: linked into that module instead of the images that nvcc makes, so that all above runs as on GPUs.
#include "modules/algo-symmetric/tests/run_block.h"
#include "modules/device-cuda/tests/fake_driver.h"

namespace sl::algo_symmetric {
namespace {

template <typename Args>
const Args& ArgsOf(const void* memory) {
  return *static_cast<const Args*>(memory);
}

template <template <typename, typename> class Protocol, typename F, typename Format>
void PacketKernel(const void* args, uint32_t block) {
  RunPackets<Protocol, F, Format>(ArgsOf<Args>(args), block);
}
template <typename F>
void PromptKernel(const void* args, uint32_t block) {
  Prompt<F>(ArgsOf<Args>(args), dev::Block::Whole(block)).Run();
}
template <typename F>
void LongKernel(const void* args, uint32_t block) {
  RunLong<F>(ArgsOf<LongArgs>(args), block);
}
template <typename F>
void PushKernel(const void* args, uint32_t block) {
  RunPushReduce<F>(ArgsOf<LongArgs>(args), block);
}
template <typename GroupArgs>
void GroupKernel(const void* args, uint32_t block) {
  RunChannels(ArgsOf<GroupArgs>(args), block);
}

template <typename GroupArgs>
void MailKernel(const void* args, uint32_t block) {
  RunMailBlock(ArgsOf<GroupArgs>(args), block);
}

// KERNEL(name, type) of a format.
#define SL_INTEGER_KERNELS(KERNEL)                                                                    \
  KERNEL(int8, SL_INT8), KERNEL(uint8, SL_UINT8), KERNEL(int32, SL_INT32), KERNEL(uint32, SL_UINT32), \
      KERNEL(int64, SL_INT64), KERNEL(uint64, SL_UINT64)
#define SL_FLOAT_KERNELS(KERNEL)                                                         \
  KERNEL(float16, SL_FLOAT16), KERNEL(float32, SL_FLOAT32), KERNEL(float64, SL_FLOAT64), \
      KERNEL(bfloat16, SL_BFLOAT16), KERNEL(fp8e4m3, SL_FLOAT8E4M3), KERNEL(fp8e5m2, SL_FLOAT8E5M2)

#define SL_ONE_SHOT(name, type) \
  { "one_shot_" #name, nullptr, PacketKernel<OneShotPackets, dev::FormatOf<type>, Format> }
#define SL_TWO_SHOT(name, type) \
  { "two_shot_" #name, nullptr, PacketKernel<TwoShotPackets, dev::FormatOf<type>, Format> }
#define SL_PROMPT(name, type) \
  { "prompt_" #name, nullptr, PromptKernel<dev::FormatOf<type>> }
#define SL_STAGED(name, type) \
  { "staged_" #name, nullptr, LongKernel<dev::FormatOf<type>> }

#define SL_PUSH(name, type) \
  { "push_" #name, nullptr, PushKernel<dev::FormatOf<type>> }

constexpr FakeKernel kLast = {nullptr, nullptr, nullptr};

template <typename Format>
constexpr FakeKernel kPackets[] = {
    {"one_shot_move", nullptr, PacketKernel<OneShotPackets, void, Format>},
    {"two_shot_move", nullptr, PacketKernel<HandOnPackets, void, Format>},
    SL_INTEGER_KERNELS(SL_ONE_SHOT),
    SL_FLOAT_KERNELS(SL_ONE_SHOT),
    SL_INTEGER_KERNELS(SL_TWO_SHOT),
    SL_FLOAT_KERNELS(SL_TWO_SHOT),
    kLast,
};
constexpr FakeKernel kPrompts[] = {
    {"prompt_move", nullptr, PromptKernel<void>},
    SL_INTEGER_KERNELS(SL_PROMPT),
    SL_FLOAT_KERNELS(SL_PROMPT),
    kLast,
};
constexpr FakeKernel kIntegers[] = {
    {"staged_move", nullptr, LongKernel<void>},
    SL_INTEGER_KERNELS(SL_STAGED),
    kLast,
};
constexpr FakeKernel kFloats[] = {SL_FLOAT_KERNELS(SL_STAGED), kLast};
constexpr FakeKernel kPushes[] = {SL_INTEGER_KERNELS(SL_PUSH), SL_FLOAT_KERNELS(SL_PUSH), kLast};
constexpr FakeKernel kGroups[] = {
    {"p2p_fewest", nullptr, GroupKernel<FewestMessages>}, {"p2p_few", nullptr, GroupKernel<FewMessages>},
    {"p2p_many", nullptr, GroupKernel<ManyMessages>},     {"mail_short", nullptr, MailKernel<ShortArgs>},
    {"mail_any", nullptr, MailKernel<AnyMailArgs>},       kLast,
};

constexpr FakeImage ImageOf(const FakeKernel* kernels) { return {kFakeImageMagic, 90, kernels}; }

}  // namespace
}  // namespace sl::algo_symmetric

using namespace sl::algo_symmetric;  // NOLINT(google-build-using-namespace)

// As the files that embed a fatbin name it and its size.
#define SL_HOST_IMAGE(name, kernels)                  \
  extern const FakeImage sl_image_##name;             \
  extern const uint64_t sl_image_##name##_size;       \
  const FakeImage sl_image_##name = ImageOf(kernels); \
  const uint64_t sl_image_##name##_size = sizeof(FakeImage);

extern "C" {
SL_HOST_IMAGE(packets, kPackets<LlFormat>)
SL_HOST_IMAGE(lamport, kPackets<LamportFormat>)
SL_HOST_IMAGE(prompt, kPrompts)
SL_HOST_IMAGE(p2p, kGroups)
SL_HOST_IMAGE(staged_integers, kIntegers)
SL_HOST_IMAGE(staged_floats, kFloats)
SL_HOST_IMAGE(push_reduce, kPushes)
}
