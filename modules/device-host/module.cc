// SPDX-License-Identifier: Apache-2.0
//
// device-host: the CPU and its memory as a device. The ABI face; the slots are in device_ops.cc.
#include "sdk/module.h"
#include "modules/device-host/device.h"

namespace {

using sl::device_host::Tuning;

const sl_option_t kOptions[] = {
    sl::IntOption("spin_polls", "", "polls of a waiting kernel before its thread yields", "1000", 1, 1e9),
    sl::IntOption("oversubscribed_spin_polls", "", "the same where ranks outnumber processors", "4", 1, 1e9),
    sl::IntOption("yield_count", "", "yields of a waiting thread before it sleeps", "200", 0, 1e9),
    sl::IntOption("sleep_slice_ms", "ms", "longest sleep before abort words are looked at again", "10", 1, 1000),
    sl::IntOption("handover_polls", "", "polls on the caller before a stream's thread takes a launch over", "500", 1,
                  1e9),
    sl::IntOption("drain_timeout_ms", "ms", "how long destroying a stream waits for its work before cancelling it",
                  "10000", 0, 86400000),
    sl::IntOption("wait_timeout_ms", "ms", "longest wait for an event or value on the default stream", "1800000", 1,
                  86400000),
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    constexpr uint64_t kNsPerMs = 1'000'000;
    const sl::OptionReader options(args);
    Tuning tuning;
    tuning.spin_polls = static_cast<uint32_t>(options.Int(0));
    tuning.crowded_polls = static_cast<uint32_t>(options.Int(1));
    tuning.yield_count = static_cast<uint32_t>(options.Int(2));
    tuning.sleep_slice_ns = static_cast<uint64_t>(options.Int(3)) * kNsPerMs;
    tuning.handover_polls = static_cast<uint32_t>(options.Int(4));
    tuning.drain_timeout_ns = static_cast<uint64_t>(options.Int(5)) * kNsPerMs;
    tuning.wait_timeout_ns = static_cast<uint64_t>(options.Int(6)) * kNsPerMs;
    *out_instance = new sl_instance_t(host, tuning);
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t* instance, uint64_t deadline_ns) {
  return sl::Guard(instance->host, [&] { return instance->Quiesce(deadline_ns); });
}

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_DEVICE_ID, SL_DEVICE_REVISION, 1, &sl::device_host::kDeviceOps, "host"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "the CPU and its memory as a device",
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
