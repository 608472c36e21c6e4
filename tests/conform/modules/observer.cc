// SPDX-License-Identifier: Apache-2.0
// A sound observer, but for what the one BROKEN_… that is defined says.
#include "sl_observer.h"
#include "tests/conform/modules/frame.h"

struct sl_observer_t {
  sl_instance_t* instance;
  const sl_record_t* last;
  uint64_t by_rank[64];
};

namespace {

sl_status_t Create(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_event_mask) {
#if defined(BROKEN_OBSERVER_THROWS)
  *out_observer = new sl_observer_t{instance, nullptr, {}};
  *out_event_mask = UINT64_MAX;
  return SL_OK;
#else
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_observer = new sl_observer_t{instance, nullptr, {}};
    *out_event_mask = UINT64_MAX;
    return {};
  });
#endif
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

}  // namespace

const sl_provide_t kProvide = {
    sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_OBSERVER_ID, SL_OBSERVER_REVISION, 1, &kOps, SL_MODULE_NAME};
