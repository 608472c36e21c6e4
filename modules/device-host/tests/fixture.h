// SPDX-License-Identifier: Apache-2.0
//
// The module opened as the kernel opens it, with options by name, for the tests of this folder.
#ifndef STARLING_MODULES_DEVICE_HOST_TESTS_FIXTURE_H_
#define STARLING_MODULES_DEVICE_HOST_TESTS_FIXTURE_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "modules/device-host/device.h"
#include "sdk/doorbell.h"

namespace sl::device_host {

inline thread_local std::string last_error;

inline sl_host_t FakeHost() {
  sl_host_t host{};
  host.struct_size = sizeof(host);
  host.log_enabled = [](void*, sl_log_level_t) -> int32_t { return 1; };
  host.log = [](void*, sl_log_level_t, const char*) {};
  host.set_error = [](void*, sl_status_t status, const char* text) {
    last_error = text;
    return status;
  };
  host.now_ns = [](void*) { return NowNs(); };
  return host;
}

// The host device, open. Options not named keep their defaults.
class HostDevice {
 public:
  explicit HostDevice(const std::map<std::string, int64_t>& options = {}) : host_(FakeHost()) {
    sl_hello_t hello{};
    hello.struct_size = sizeof(hello);
    hello.magic = SL_MODULE_MAGIC;
    hello.container_min = hello.container_max = SL_CONTAINER_VERSION;
    EXPECT_EQ(sl_module_query(&hello, &module_), SL_OK);
    std::vector<sl_option_value_t> values(module_->option_count);
    std::vector<const sl_option_value_t*> pointers;
    for (uint32_t i = 0; i < module_->option_count; ++i) {
      const auto given = options.find(module_->options[i]->name);
      values[i].integer = given != options.end() ? given->second : atoll(module_->options[i]->default_text);
      pointers.push_back(&values[i]);
    }
    sl_open_args_t args{};
    args.struct_size = sizeof(args);
    args.option_count = module_->option_count;
    args.options = pointers.data();
    EXPECT_EQ(module_->open(&host_, &args, &instance), SL_OK);
    ops = static_cast<const sl_device_ops_t*>(module_->provides[0]->ops);
    EXPECT_EQ(ops->open(instance, 0, &device), SL_OK);
  }
  ~HostDevice() {
    ops->close(device);
    module_->close(instance);
  }
  sl_status_t Quiesce(uint64_t deadline_ns) { return module_->quiesce(instance, deadline_ns); }
  Counters& counters() { return device->counters; }

  sl_stream_t* NewStream() {
    sl_stream_t* stream = nullptr;
    EXPECT_EQ(ops->stream_create(device, &stream), SL_OK);
    return stream;
  }
  sl_image_t* Load(const std::vector<sl_host_kernel_t>& kernels) {
    sl_image_desc_t desc{};
    desc.struct_size = sizeof(desc);
    desc.kernel_count = static_cast<uint32_t>(kernels.size());
    desc.host_kernels = kernels.data();
    sl_image_t* image = nullptr;
    EXPECT_EQ(ops->image_load(device, &desc, &image), SL_OK);
    return image;
  }

  const sl_device_ops_t* ops = nullptr;
  sl_instance_t* instance = nullptr;
  sl_device_t* device = nullptr;

 private:
  sl_host_t host_;
  const sl_module_t* module_ = nullptr;
};

inline uint64_t After(uint64_t seconds) { return NowNs() + seconds * 1'000'000'000u; }

// Polls `condition` for at most 20 seconds; what the tests wait for takes microseconds.
template <typename Condition>
bool Eventually(Condition&& condition) {
  const uint64_t deadline_ns = After(20);
  while (!condition()) {
    if (NowNs() > deadline_ns) return false;
    sched_yield();
  }
  return true;
}

inline uint32_t ThreadCount() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "Threads:") continue;
    uint32_t count = 0;
    status >> count;
    return count;
  }
  return 0;
}

// Something to wait for: what another rank would publish.
struct Flag {
  std::atomic<uint64_t> value{0};
  sl_doorbell_t bell{};

  void Publish(uint64_t news) {
    value.store(news, std::memory_order_release);
    Ring(&bell);
  }
  bool HasSleeper() { return std::atomic_ref<uint32_t>(bell.sleepers).load() != 0; }
};

// Waits until `flag` has reached `wanted`, then stores how often it was called.
struct WaitArgs {
  Flag* flag;
  uint64_t wanted;
  std::atomic<uint64_t>* calls;  // may be null
  bool has_bell;
  sl_status_t result;
};
inline sl_status_t RunWait(const void* raw, void* frame, sl_wait_t* wait) {
  const auto& args = *static_cast<const WaitArgs*>(raw);
  uint64_t& calls = *static_cast<uint64_t*>(frame);
  ++calls;
  const uint64_t seen = args.flag->value.load(std::memory_order_acquire);
  if (seen < args.wanted) {
    wait->doorbell = args.has_bell ? &args.flag->bell : nullptr;
    wait->what = "flag";
    wait->peer = 7;
    wait->seen = seen;
    wait->wanted = args.wanted;
    return SL_ERR_AGAIN;
  }
  if (args.calls != nullptr) args.calls->store(calls);
  return args.result;
}
inline const sl_host_kernel_t kWait = {"wait", RunWait, sizeof(uint64_t), 0};

inline sl_launch_t LaunchOf(sl_image_t* image, const void* args, uint32_t args_bytes) {
  sl_launch_t launch{};
  launch.struct_size = sizeof(launch);
  launch.image = image;
  launch.args = args;
  launch.args_bytes = args_bytes;
  return launch;
}

// Receives outcomes.
struct Outcome {
  std::atomic<int32_t> status{1};
  std::atomic<uint32_t> count{0};
  static void Done(void* ctx, sl_status_t status) {
    auto* outcome = static_cast<Outcome*>(ctx);
    outcome->status.store(status);
    outcome->count.fetch_add(1);
  }
  void Attach(sl_launch_t* launch) {
    launch->done = Done;
    launch->done_ctx = this;
  }
};

// Options that make every wait sleep at once.
inline const std::map<std::string, int64_t> kSleepAtOnce = {
    {"spin_polls", 1}, {"oversubscribed_spin_polls", 1}, {"yield_count", 0}, {"handover_polls", 1}};
inline std::map<std::string, int64_t> SleepAtOnceForLong() {
  auto options = kSleepAtOnce;
  options["sleep_slice_ms"] = 1000;
  return options;
}

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_TESTS_FIXTURE_H_
