// SPDX-License-Identifier: Apache-2.0
// A sound observer, but for what the one BROKEN_… that is defined says.
#include "sdk/module.h"
#include "sl_observer.h"

struct sl_instance_t {
  uint64_t records;
};

struct sl_observer_t {
  sl_instance_t* instance;
  const sl_record_t* last;
  uint64_t by_rank[64];
};

namespace {

sl_status_t Create(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_event_mask) {
  *out_observer = new sl_observer_t{instance, nullptr, {}};
  *out_event_mask = UINT64_MAX;
  return SL_OK;
}

void Destroy(sl_observer_t* observer) {
#if defined(BROKEN_OBSERVER_SHARES)
  observer->instance->records = UINT64_MAX;
#endif
  delete observer;
}

sl_status_t Consume(sl_observer_t* observer, const sl_batch_t* batch) {
#if defined(BROKEN_OBSERVER_KEEPS)
  if (observer->last != nullptr) observer->by_rank[0] += observer->last->bytes;
  observer->last = batch->records;
#elif defined(BROKEN_OBSERVER_WRITES)
  if (batch->count != 0) const_cast<sl_record_t*>(batch->records)->value2 = 5;
#elif defined(BROKEN_OBSERVER_TRUSTS)
  for (uint64_t i = 0; i < batch->count; ++i) observer->by_rank[batch->records[i].rank] += batch->records[i].bytes;
#elif defined(BROKEN_OBSERVER_EMPTY)
  if (batch->count == 0) return SL_ERR_INVALID;
#elif defined(BROKEN_OBSERVER_COUNTS)
  return static_cast<sl_status_t>(batch->count);
#elif defined(BROKEN_OBSERVER_SHARES)
  if (observer->instance->records == UINT64_MAX) return SL_ERR_STATE;
#endif
  observer->instance->records += batch->count;
  return SL_OK;
}

constexpr sl_observer_ops_t kOps = {sizeof(sl_observer_ops_t), 0, Create, Destroy, Consume};

sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
  *out_instance = new sl_instance_t{0};
  return SL_OK;
}
void Close(sl_instance_t* instance) { delete instance; }

constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_OBSERVER_ID, SL_OBSERVER_REVISION, 1, &kOps, SL_MODULE_NAME}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "0.1.0",
    .vendor = "tests",
    .summary = "an observer that is wrong in one way",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
