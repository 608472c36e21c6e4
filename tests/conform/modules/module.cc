// SPDX-License-Identifier: Apache-2.0
// A sound module, but for what the one BROKEN_… that is defined says.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "sdk/module.h"
#include "sl_algorithm.h"
#include "sl_fault.h"

struct sl_instance_t {
  const sl_host_t* host;
  const char* text;
};

namespace {

sl_status_t Estimate(sl_algorithm_t*, const sl_op_t*, sl_estimate_t*) { return SL_ERR_UNSUPPORTED; }
[[maybe_unused]] sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t*, sl_algorithm_t**) {
  return instance->host->set_error(instance->host->ctx, SL_ERR_UNSUPPORTED, "it serves no shape");
}

void Destroy(sl_algorithm_t*) {}

constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.estimate = Estimate;
  ops.destroy = Destroy;
#if !defined(BROKEN_NO_CREATE)
  ops.create = Create;
#endif
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

#if defined(BROKEN_DEFAULT)
constexpr char kDefault[] = "11";
#else
constexpr char kDefault[] = "5";
#endif
#if defined(BROKEN_OPTION_NAME)
constexpr char kName[] = "Depth-Max";
#else
constexpr char kName[] = "depth";
#endif
constexpr sl_option_t kOptions[] = {
    sl::IntOption(kName, "", "how deep it looks", kDefault, 1, 10),
    sl::StringOption("label", "what it calls itself", "none"),
};
constexpr auto kOptionPointers = sl::PointersTo(kOptions);

#if defined(BROKEN_LAYER)
constexpr uint32_t kFlags = SL_INTERFACE_LAYER;
#else
constexpr uint32_t kFlags = SL_INTERFACE_ON_REQUEST;
#endif
#if defined(BROKEN_MISSPELT)
constexpr char kId[] = "sl.algoritm/1";
#elif defined(BROKEN_TO_COME)
constexpr char kId[] = "sl.algorithm/2";
#else
constexpr char kId[] = SL_ALGORITHM_ID;
#endif
constexpr sl_provide_t kProvides[] = {
#if defined(BROKEN_OF_TWO_MAJORS)
    {sizeof(sl_provide_t), kFlags, "sl.algorithm/2", 1, 1, &kOps, SL_MODULE_NAME},
#endif
    {sizeof(sl_provide_t), kFlags, kId, SL_ALGORITHM_REVISION, 1, &kOps, SL_MODULE_NAME}};
constexpr auto kProvidePointers = sl::PointersTo(kProvides);

[[maybe_unused]] void Pause() {
  for (;;) pause();
}

// Keeps the compiler from taking an allocation that is given back for one that never was.
[[maybe_unused]] void* volatile g_last = nullptr;

// What goes wrong in open() or stays behind after it.
void Misbehave([[maybe_unused]] const sl_host_t* host) {
#if defined(BROKEN_LEAKS_THREAD)
  std::thread(Pause).detach();
#elif defined(BROKEN_LEAKS_DESCRIPTOR) || defined(BROKEN_WHEN_DEEP)
  static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
#elif defined(BROKEN_PINNED)
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&Pause), &info);
  dlopen(info.dli_fname, RTLD_NOW);
#elif defined(BROKEN_PRINTS)
  std::puts("hello");
#elif defined(BROKEN_TWO_LINES)
  host->log(host->ctx, SL_LOG_WARN, "one\ntwo");
#elif defined(BROKEN_READS_BEHIND_HOST)
  g_last = reinterpret_cast<void* const volatile*>(host)[sizeof(sl_host_t) / sizeof(void*)];
#elif defined(BROKEN_CRASHES)
  std::abort();
#elif defined(BROKEN_HANGS)
  Pause();
#elif defined(BROKEN_LEAVES_PROCESS)
  if (fork() == 0) Pause();
#elif defined(BROKEN_LEAKS_MEMORY)
  g_last = std::malloc(100);
#elif defined(BROKEN_TRUSTS_MEMORY)
  auto* block = static_cast<char*>(std::malloc(100));
  g_last = block;
  *static_cast<volatile char*>(block) = 1;
  std::free(block);
#endif
}

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
#if defined(BROKEN_EXACT_HOST)
  if (host->struct_size != sizeof(sl_host_t)) return host->set_error(host->ctx, SL_ERR_INVALID, "an odd host");
#endif
#if defined(BROKEN_OPENS_ONCE)
  static bool was_open = false;
  if (was_open) return host->set_error(host->ctx, SL_ERR_STATE, "it was open already");
  was_open = true;
#endif
#if defined(BROKEN_WHEN_DEEP)
  if (args->options[0]->integer > 7) Misbehave(host);
#else
  Misbehave(host);
#endif
#if defined(BROKEN_LOSES_MEMORY)
  void* first = std::malloc(100);
  void* second = std::malloc(100);
  g_last = second;
  if (first == nullptr || second == nullptr) return host->set_error(host->ctx, SL_ERR_MEMORY, "out of memory");
  std::free(first);
  std::free(second);
#elif defined(BROKEN_MUTE_IN_SHORTAGE)
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SL_ERR_LIMIT;
  close(fd);
#endif
#if defined(BROKEN_SHARED_INSTANCE)
  static sl_instance_t shared{};
  shared.host = host;
  *out_instance = &shared;
  return SL_OK;
#else
  return sl::Guard(host, [&]() -> sl::Status {
    *out_instance = new sl_instance_t{host, args->options[1]->text};
    return {};
  });
#endif
}

sl_status_t Quiesce([[maybe_unused]] sl_instance_t* instance, uint64_t) {
#if defined(BROKEN_BUSY)
  return instance->host->set_error(instance->host->ctx, SL_ERR_TIMEOUT, "graph 7 still holds it");
#else
  return SL_OK;
#endif
}

void Close(sl_instance_t* instance) {
#if defined(BROKEN_BORROWS_TEXT)
  if (instance->text[0] == '#') std::abort();  // what was borrowed has changed
#endif
#if !defined(BROKEN_SHARED_INSTANCE)
  delete instance;
#endif
}

[[maybe_unused]] constexpr sl_require_t kDraftRequirement = {sizeof(sl_require_t), SL_REQUIRE_OPTIONAL, SL_FAULT_ID, 1,
                                                             1};
[[maybe_unused]] constexpr const sl_require_t* kDraftRequirements[] = {&kDraftRequirement};

constexpr sl_module_t MakeModule() {
  sl_module_t module{};
  module.struct_size = sizeof(module);
  module.container_version = SL_CONTAINER_VERSION;
  module.magic = SL_MODULE_MAGIC;
  module.name = SL_MODULE_NAME;
  module.version = "1.0.0";
  module.vendor = "Starling";
  module.summary = "a module of the conformance kit's own tests";
  module.build_id = SL_ABI_BUILD_ID;
  module.options = kOptionPointers.data();
  module.provides = kProvidePointers.data();
  module.option_count = kOptionPointers.size();
  module.provide_count = kProvidePointers.size();
  module.open = Open;
  module.quiesce = Quiesce;
  module.close = Close;
#if defined(BROKEN_MAGIC)
  module.magic = 0x1234;
#elif defined(BROKEN_VERSION)
  module.version = "latest";
#elif defined(BROKEN_STEM)
  module.name = "somebody-else";
#elif defined(BROKEN_BUILD_ID)
  module.build_id = "1999-01-draft-0";
  module.requirements = kDraftRequirements;
  module.require_count = 1;
#endif
  return module;
}
constexpr sl_module_t kModule = MakeModule();
[[maybe_unused]] constexpr sl_module_t kOtherModule = MakeModule();

#if defined(BROKEN_THREAD_AT_LOAD)
// Stays mapped, or the thread would crash in place of being found, should it begin after the module has gone.
bool StartThread() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&Pause), &info);
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
  std::thread(Pause).detach();
  return true;
}
[[maybe_unused]] const bool g_started = StartThread();
#elif defined(BROKEN_CRASHES_AT_LOAD)
[[maybe_unused]] const bool g_crashed = (std::abort(), true);
#endif

}  // namespace

#if defined(BROKEN_EXPORTS_MORE)
extern "C" SL_EXPORT int leaked_helper() { return 1; }
#endif

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
#if defined(BROKEN_OTHER_ANSWER)
  static int calls = 0;
  return sl::AnswerQuery(hello, ++calls % 2 == 0 ? &kOtherModule : &kModule, out_module);
#elif defined(BROKEN_ANY_MAGIC)
  sl_hello_t polite = *hello;
  polite.magic = SL_MODULE_MAGIC;
  return sl::AnswerQuery(&polite, &kModule, out_module);
#elif defined(BROKEN_WRITES_REFUSED)
  *out_module = &kModule;
  return sl::AnswerQuery(hello, &kModule, out_module);
#elif defined(BROKEN_ANY_RANGE)
  *out_module = &kModule;
  return hello->magic == SL_MODULE_MAGIC ? SL_OK : SL_ERR_INVALID;
#elif defined(BROKEN_EXACT_RANGE)
  if (hello->container_min != hello->container_max) return SL_ERR_UNSUPPORTED;
  return sl::AnswerQuery(hello, &kModule, out_module);
#elif defined(BROKEN_EXACT_HELLO)
  if (hello->struct_size != sizeof(sl_hello_t)) return SL_ERR_INVALID;
  return sl::AnswerQuery(hello, &kModule, out_module);
#else
  return sl::AnswerQuery(hello, &kModule, out_module);
#endif
}
