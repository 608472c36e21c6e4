// SPDX-License-Identifier: Apache-2.0
// Modules that work: a chain of requirements over interfaces of their own ("sl.test.a/1" …), fault policies and a layer
// around them. SAMPLE_PROVIDES, SAMPLE_REQUIRES, SAMPLE_PROVIDER, SAMPLE_LAYER, SAMPLE_FAULT choose the shape. What
// happens is written into the file that SAMPLE_JOURNAL names, so that tests see the order.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_fault.h"

#ifndef SAMPLE_VERSION
#define SAMPLE_VERSION "1.0.0"
#endif
#ifndef SAMPLE_PROVIDER
#define SAMPLE_PROVIDER SL_MODULE_NAME
#endif
#ifndef SAMPLE_FLAGS
#define SAMPLE_FLAGS 0
#endif

struct sl_instance_t {
  const sl_host_t* host;
  uint32_t weight;
  const sl_fault_ops_t* inner_ops;
  sl_instance_t* inner;
};

struct sl_fault_policy_t {
  sl_instance_t* instance;
  sl_fault_policy_t* inner;
};

namespace {

void Write(const char* what) {
  const char* path = getenv("SAMPLE_JOURNAL");
  if (path == nullptr) return;
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char line[128];
  const int length = snprintf(line, sizeof(line), "%s %s\n", what, SL_MODULE_NAME);
  if (write(fd, line, static_cast<size_t>(length)) != length) abort();
  close(fd);
}

constexpr sl_option_t kOptions[] = {
    sl::IntOption("weight", "", "the weight this policy gives", "1", 0, 1000),
    sl::StringOption("label", "any text", "none"),
};
constexpr auto kOptionPointers = sl::PointersTo(kOptions);

// A policy says the sum of the weights around it, so that a test sees through how many tables its call went.
sl_status_t Create(sl_instance_t* instance, uint32_t connections, sl_fault_policy_t** out_policy) {
  sl_fault_policy_t* inner = nullptr;
  if (instance->inner_ops != nullptr) {
    const sl_status_t status = instance->inner_ops->create(instance->inner, connections, &inner);
    if (status != SL_OK) return status;
  }
  *out_policy = new sl_fault_policy_t{instance, inner};
  return SL_OK;
}

void Destroy(sl_fault_policy_t* policy) {
  if (policy->inner != nullptr) policy->instance->inner_ops->destroy(policy->inner);
  delete policy;
}

[[maybe_unused]] sl_status_t Evaluate(sl_fault_policy_t* policy, uint64_t now_ns, const sl_connection_health_t* health,
                                      uint32_t connections, uint32_t* out_weights, sl_fault_verdict_t* out_verdict) {
  out_weights[0] = 0;
  if (policy->inner != nullptr) {
    policy->instance->inner_ops->evaluate(policy->inner, now_ns, health, connections, out_weights, out_verdict);
  }
  out_weights[0] = out_weights[0] * 10 + policy->instance->weight;
  return SL_OK;
}

// The last slot is missing on purpose where SAMPLE_SHORT says so: an older table.
#ifdef SAMPLE_SHORT
constexpr sl_fault_ops_t kOps = {offsetof(sl_fault_ops_t, evaluate), 0, &Create, &Destroy, nullptr};
#else
constexpr sl_fault_ops_t kOps = {sizeof(sl_fault_ops_t), 0, &Create, &Destroy, &Evaluate};
#endif

constexpr sl_provide_t kProvides[] = {
#ifdef SAMPLE_FAULT
    {sizeof(sl_provide_t), SAMPLE_FLAGS, SL_FAULT_ID, 1, 1, &kOps, SAMPLE_PROVIDER},
#endif
#ifdef SAMPLE_PROVIDES
    {sizeof(sl_provide_t), SAMPLE_FLAGS, SAMPLE_PROVIDES, 1, 1, &kOps, SAMPLE_PROVIDER},
#endif
};
constexpr auto kProvidePointers = sl::PointersTo(kProvides);

#ifdef SAMPLE_REQUIRES
constexpr sl_require_t kRequires[] = {{sizeof(sl_require_t), 0, SAMPLE_REQUIRES, 1, 1}};
constexpr auto kRequirePointers = sl::PointersTo(kRequires);
constexpr const sl_require_t* const* kRequireArray = kRequirePointers.data();
constexpr uint32_t kRequireCount = kRequirePointers.size();
#else
constexpr const sl_require_t* const* kRequireArray = nullptr;
constexpr uint32_t kRequireCount = 0;
#endif

#ifdef SAMPLE_UNDEFINED
}  // namespace
extern "C" void sl_test_nowhere();
namespace {
#endif

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
#ifdef SAMPLE_UNDEFINED
  sl_test_nowhere();
#endif
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    auto* instance = new sl_instance_t{host, static_cast<uint32_t>(options.Int(0)), nullptr, nullptr};
    if (args->binding_count > 0) {
      if (args->bindings[0]->ops == nullptr) return sl::Status(SL_ERR_INTERNAL, "a requirement was not bound");
#ifdef SAMPLE_FAULT
      instance->inner_ops = static_cast<const sl_fault_ops_t*>(args->bindings[0]->ops);
      instance->inner = args->bindings[0]->instance;
#endif
    }
    Write("open");
    if (host->log_enabled(host->ctx, SL_LOG_INFO) != 0) {
      host->log(host->ctx, SL_LOG_INFO, options.String(1).c_str());
    }
    *out_instance = instance;
    return sl::Status();
  });
}

sl_status_t Quiesce(sl_instance_t* instance, uint64_t) {
  Write("quiesce");
#ifdef SAMPLE_BUSY
  return instance->host->set_error(instance->host->ctx, SL_ERR_TIMEOUT, "graph 7 still holds it");
#else
  (void)instance;
  return SL_OK;
#endif
}

void Close(sl_instance_t* instance) {
  Write("close");
  delete instance;
}

constexpr sl_module_t kModule = {
    sizeof(sl_module_t),
    SL_CONTAINER_VERSION,
    SL_MODULE_MAGIC,
    SL_MODULE_NAME,
    SAMPLE_VERSION,
    "Starling",
    "a module of the loader's tests",
    SL_ABI_BUILD_ID,
    kOptionPointers.data(),
    kProvidePointers.data(),
    kRequireArray,
    kOptionPointers.size(),
    kProvidePointers.size(),
    kRequireCount,
    0,
    &Open,
    &Quiesce,
    &Close,
};

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
