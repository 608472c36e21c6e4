// SPDX-License-Identifier: Apache-2.0
// One source, several modules: SAMPLE_KIND says what is wrong with this one.
#include <stdexcept>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "tests/loader/modules/sample.h"

namespace {

constexpr sl_algorithm_ops_t Table(uint32_t struct_size) {
  sl_algorithm_ops_t ops{};
  ops.struct_size = struct_size;
  return ops;
}
[[maybe_unused]] constexpr sl_algorithm_ops_t kNoCreate = Table(sizeof(sl_algorithm_ops_t));
[[maybe_unused]] constexpr sl_algorithm_ops_t kTruncatedTable = Table(12);

[[maybe_unused]] sl_status_t ThrowingOpen(const sl_host_t*, const sl_open_args_t*, sl_instance_t**) {
  throw std::runtime_error("no hardware and no manners");
}

[[maybe_unused]] sl_status_t FailingOpen(const sl_host_t* host, const sl_open_args_t*, sl_instance_t**) {
  return host->set_error(host->ctx, SL_ERR_DEVICE, "the firmware is too old; update it to 7");
}

[[maybe_unused]] sl_status_t SilentOpen(const sl_host_t*, const sl_open_args_t*, sl_instance_t**) {
  return SL_ERR_AGAIN;
}

[[maybe_unused]] sl_status_t EmptyOpen(const sl_host_t*, const sl_open_args_t*, sl_instance_t**) { return SL_OK; }

#define PROVIDE(ops) \
  { sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, 1, 1, ops, "spoiled" }

#if defined(SAMPLE_NO_CREATE)
constexpr sl_provide_t kProvide = PROVIDE(&kNoCreate);
#elif defined(SAMPLE_BUILD_ID)
constexpr sl_provide_t kProvide = {sizeof(sl_provide_t), 0, SL_FAULT_ID, 1, 1, &kNoCreate, "spoiled"};
#elif defined(SAMPLE_TRUNCATED_OPS)
constexpr sl_provide_t kProvide = PROVIDE(&kTruncatedTable);
#else
constexpr sl_provide_t kProvide = {sizeof(sl_provide_t), 0, "sl.test/1", 1, 1, &kNoCreate, "spoiled"};
#endif
constexpr const sl_provide_t* kProvides[] = {&kProvide};

#if defined(SAMPLE_REVISION)
constexpr sl_require_t kRequire = {sizeof(sl_require_t), 0, SL_DEVICE_ID, 8, 9};
#else
constexpr sl_require_t kRequire = {sizeof(sl_require_t), 0, "sl.absent/1", 1, 1};
#endif
constexpr const sl_require_t* kRequirements[] = {&kRequire};

constexpr sl_option_t kBadDefault = {
    sizeof(sl_option_t), SL_OPTION_INT, "depth", "", "how deep", "ten", 0, 100, nullptr};
constexpr const sl_option_t* kOptions[] = {&kBadDefault};

constexpr sl_module_t Make() {
  sl_module_t module = sample::Plain(SL_MODULE_NAME);
  module.provides = kProvides;
  module.provide_count = 1;
#if defined(SAMPLE_MAGIC)
  module.magic = 0x1234;
#elif defined(SAMPLE_OLDER)
  module.container_version = 0;
#elif defined(SAMPLE_NEWER)
  module.container_version = 2;
#elif defined(SAMPLE_TRUNCATED)
  module.struct_size = offsetof(sl_module_t, open);
#elif defined(SAMPLE_NO_CLOSE)
  module.close = nullptr;
#elif defined(SAMPLE_BUILD_ID)
  module.build_id = "1999-01-draft-0";
#elif defined(SAMPLE_THROWS)
  module.open = &ThrowingOpen;
#elif defined(SAMPLE_FAILS)
  module.open = &FailingOpen;
#elif defined(SAMPLE_REQUIRES) || defined(SAMPLE_REVISION)
  module.requirements = kRequirements;
  module.require_count = 1;
#elif defined(SAMPLE_OPTION)
  module.options = kOptions;
  module.option_count = 1;
#elif defined(SAMPLE_NAME)
  module.name = "somebody-else";
#elif defined(SAMPLE_COUNT)
  module.provide_count = UINT32_MAX;
#elif defined(SAMPLE_AGAIN)
  module.open = &SilentOpen;
#elif defined(SAMPLE_NO_INSTANCE)
  module.open = &EmptyOpen;
#elif defined(SAMPLE_VERSION)
  module.version = "latest";
#endif
  return module;
}

[[maybe_unused]] constexpr sl_module_t kModule = Make();
// Like the module itself, used by some kinds only.
[[maybe_unused]] constexpr const void* kUnused[] = {kRequirements, kOptions};

}  // namespace

#if !defined(SAMPLE_NO_ENTRY)
extern "C" SL_EXPORT sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  (void)hello;
#if defined(SAMPLE_QUERY_REFUSES)
  return SL_ERR_UNSUPPORTED;
#elif defined(SAMPLE_QUERY_THROWS)
  throw 42;
#elif defined(SAMPLE_QUERY_NOTHING)
  return SL_OK;
#else
  *out_module = &kModule;
  return SL_OK;
#endif
}
#endif
