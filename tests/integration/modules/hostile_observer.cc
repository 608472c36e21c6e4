// SPDX-License-Identifier: Apache-2.0
// An observer that does its users harm, in the way of the one HOSTILE_… that is defined; and a mark that it did. Two
// harm nobody: of HOSTILE_COUNTS the mark says what it saw and how it ended, of HOSTILE_KEEPS the tags of operations.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sdk/module.h"
#include "sl_observer.h"

struct sl_instance_t {
  uint64_t begun = 0;
  uint64_t ended = 0;
};

namespace {

// The file that SL_TEST_MARK names comes to be when the observer has been called.
void Mark() {
  const char* path = std::getenv("SL_TEST_MARK");
  const int fd = path == nullptr ? -1 : open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

// Appends a line to that file.
[[maybe_unused]] void Write(const char* line) {
  const char* path = std::getenv("SL_TEST_MARK");
  const int fd = path == nullptr ? -1 : open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, line, std::strlen(line)) < 0) std::abort();
  close(fd);
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

void Destroy([[maybe_unused]] sl_observer_t* observer) {
#if defined(HOSTILE_COUNTS)
  const auto* instance = reinterpret_cast<sl_instance_t*>(observer);
  char line[80];
  std::snprintf(line, sizeof line, "destroyed after %llu begun, %llu ended\n",
                static_cast<unsigned long long>(instance->begun), static_cast<unsigned long long>(instance->ended));
  Write(line);
#endif
}

sl_status_t Consume([[maybe_unused]] sl_observer_t* observer, [[maybe_unused]] const sl_batch_t* batch) {
#if defined(HOSTILE_COUNTS)
  auto* instance = reinterpret_cast<sl_instance_t*>(observer);
  for (uint64_t i = 0; i < batch->count; ++i) {
    instance->begun += batch->records[i].kind == SL_EVENT_OP_BEGIN ? 1 : 0;
    instance->ended += batch->records[i].kind == SL_EVENT_OP_END ? 1 : 0;
  }
  return SL_OK;
#endif
  Mark();
#if defined(HOSTILE_BLOCKS)
  for (;;) pause();
#elif defined(HOSTILE_CRASHES)
  static volatile uint64_t* volatile nowhere = nullptr;
  *nowhere = batch->count;
#elif defined(HOSTILE_THROWS)
  throw 7;
#elif defined(HOSTILE_FAILS)
  return SL_ERR_INTERNAL;
#elif defined(HOSTILE_KEEPS)
  const char* path = std::getenv("SL_TEST_MARK");
  const int fd = path == nullptr ? -1 : open(path, O_APPEND | O_WRONLY | O_CLOEXEC);
  for (uint64_t i = 0; fd >= 0 && i < batch->count; ++i) {
    const sl_record_t& record = batch->records[i];
    if (record.kind != SL_EVENT_OP_TAG) continue;
    dprintf(fd, "rank %u operation %llu tag %llu\n", record.rank, static_cast<unsigned long long>(record.op_seq),
            static_cast<unsigned long long>(record.value));
  }
  if (fd >= 0) close(fd);
#elif defined(HOSTILE_LIES)
  // It says that it took more than there is, and overwrites what it only borrows.
  std::memset(const_cast<sl_record_t*>(batch->records), 0xff, batch->count * sizeof(sl_record_t));
  return static_cast<sl_status_t>(batch->count + 1);
#endif
  return SL_OK;
}

constexpr sl_observer_ops_t kOps = {sizeof(sl_observer_ops_t), 0, Create, Destroy, Consume};

sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
  *out_instance = new sl_instance_t;
  return SL_OK;
}
void Close(sl_instance_t* instance) {
#if defined(HOSTILE_COUNTS)
  Write("closed\n");
#endif
  delete instance;
}

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
