// SPDX-License-Identifier: Apache-2.0
//
// device-cuda: NVIDIA's GPUs as devices. The ABI face; the slots are in device_ops.cc.
#include "sdk/module.h"
#include "modules/device-cuda/device.h"

namespace {

enum Option : uint32_t { kDrainTimeoutMs };
const sl_option_t kOptions[] = {
    sl::IntOption("drain_timeout_ms", "ms", "how long destroying a stream waits for its work", "10000", 0, 86400000),
};

// Finds the driver and initialises nothing: whether this process uses CUDA is for others to say.
sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    constexpr uint64_t kNsPerMs = 1'000'000;
    const sl::OptionReader options(args);
    SL_ASSIGN(std::unique_ptr<sl::device_cuda::Driver> driver, sl::device_cuda::Driver::Load());
    *out_instance =
        new sl_instance_t(host, std::move(driver), static_cast<uint64_t>(options.Int(kDrainTimeoutMs)) * kNsPerMs);
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t* instance, uint64_t deadline_ns) {
  return sl::Guard(instance->host, [&] { return instance->Quiesce(deadline_ns); });
}

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_DEVICE_ID, SL_DEVICE_REVISION, 1, &sl::device_cuda::kDeviceOps, "cuda"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "NVIDIA's GPUs as devices, by the CUDA driver",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .quiesce = Quiesce,
    .close = sl_instance_t::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
