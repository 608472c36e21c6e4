// SPDX-License-Identifier: Apache-2.0
// An observer that does its users harm, in the way of the one HOSTILE_… that is defined; and a mark that it did.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "sdk/module.h"
#include "sl_observer.h"

struct sl_instance_t {
  int unused;
};

namespace {

// The file that SL_TEST_MARK names comes to be when the observer has been called.
void Mark() {
  const char* path = std::getenv("SL_TEST_MARK");
  const int fd = path == nullptr ? -1 : open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

sl_status_t Create(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_event_mask) {
  *out_observer = reinterpret_cast<sl_observer_t*>(instance);
  *out_event_mask = UINT64_MAX;  // kinds that there are not, too
#if defined(HOSTILE_THROWS_AT_ONCE)
  Mark();
  throw 5;
#endif
  return SL_OK;
}

void Destroy(sl_observer_t*) {}

sl_status_t Consume(sl_observer_t*, [[maybe_unused]] const sl_batch_t* batch) {
  Mark();
#if defined(HOSTILE_BLOCKS)
  for (;;) pause();
#elif defined(HOSTILE_THROWS)
  throw 7;
#elif defined(HOSTILE_FAILS)
  return SL_ERR_INTERNAL;
#elif defined(HOSTILE_LIES)
  // It says that it took more than there is, and overwrites what it only borrows.
  std::memset(const_cast<sl_record_t*>(batch->records), 0xff, batch->count * sizeof(sl_record_t));
  return static_cast<sl_status_t>(batch->count + 1);
#endif
  return SL_OK;
}

constexpr sl_observer_ops_t kOps = {sizeof(sl_observer_ops_t), 0, Create, Destroy, Consume};

sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
  *out_instance = new sl_instance_t{0};
  return SL_OK;
}
void Close(sl_instance_t* instance) { delete instance; }

constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_OBSERVER_ID, SL_OBSERVER_REVISION, 1, &kOps, SL_MODULE_NAME}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "0.1.0",
    .vendor = "tests",
    .summary = "an observer that means harm",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
