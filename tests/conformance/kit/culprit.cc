// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/culprit.h"

#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_module.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"
#include "tests/conformance/kit/calls.h"

namespace sl::conform {
namespace {

const SlotInfo* SlotsById(std::string_view id) {
  if (id == SL_DEVICE_ID) return SlotsOf<sl_device_ops_t>();
  if (id == SL_TRANSPORT_ID) return SlotsOf<sl_transport_ops_t>();
  if (id == SL_ALGORITHM_ID) return SlotsOf<sl_algorithm_ops_t>();
  if (id == SL_FAULT_ID) return SlotsOf<sl_fault_ops_t>();
  if (id == SL_OBSERVER_ID) return SlotsOf<sl_observer_ops_t>();
  if (id == SL_TOPOLOGY_ID) return SlotsOf<sl_topology_ops_t>();
  return nullptr;
}

struct Search {
  Culprit* out;
  const void* base = nullptr;  // of the file that was found; the walk goes on in it alone
  const sl_module_t* table = nullptr;
};

// The table of the module whose file `code` lies in; NULL: it is no module.
const sl_module_t* TableOf(const Dl_info& file) {
  void* handle = dlopen(file.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  const auto query = reinterpret_cast<sl_module_query_fn>(dlsym(handle, "sl_module_query"));
  const sl_hello_t hello = {sizeof hello,         0,         SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                            SL_CONTAINER_VERSION, "unknown", SL_ABI_BUILD_ID};
  const sl_module_t* table = nullptr;
  if (query == nullptr || query(&hello, &table) != SL_OK) return nullptr;
  return table;
}

void NoteSlot(const Search& search, const void* function) {
  const sl_module_t& table = *search.table;
  char* const slot = search.out->slot;
  constexpr size_t kBytes = sizeof search.out->slot;
  if (function == reinterpret_cast<const void*>(table.open)) std::snprintf(slot, kBytes, "its open()");
  if (function == reinterpret_cast<const void*>(table.close)) std::snprintf(slot, kBytes, "its close()");
  if (function == reinterpret_cast<const void*>(table.quiesce)) std::snprintf(slot, kBytes, "its quiesce()");
  for (uint32_t i = 0; i < table.provide_count; ++i) {
    const sl_provide_t& provide = *table.provides[i];
    const SlotInfo* const names = SlotsById(provide.id);
    uint32_t bytes = 0;
    std::memcpy(&bytes, provide.ops, sizeof bytes);
    for (size_t at = 2 * sizeof bytes, n = 0; names != nullptr && at + sizeof(void*) <= bytes; at += sizeof(void*)) {
      const void* known = nullptr;
      std::memcpy(&known, static_cast<const char*>(provide.ops) + at, sizeof known);
      if (known == function) {
        std::snprintf(slot, kBytes, "%s() of %s %s", names[n].name, provide.id, provide.name);
      }
      ++n;
    }
  }
}

_Unwind_Reason_Code Look(_Unwind_Context* frame, void* ctx) {
  auto& search = *static_cast<Search*>(ctx);
  void* const code = reinterpret_cast<void*>(_Unwind_GetIP(frame) - 1);  // not what follows the call
  Dl_info file = {};
  if (dladdr(code, &file) == 0 || file.dli_fname == nullptr) return _URC_NO_REASON;
  if (search.base == nullptr) {
    search.table = TableOf(file);
    if (search.table == nullptr) return _URC_NO_REASON;
    search.base = file.dli_fbase;
    std::snprintf(search.out->module, sizeof search.out->module, "%s %s", search.table->name, search.table->version);
  }
  if (file.dli_fbase == search.base) NoteSlot(search, _Unwind_FindEnclosingFunction(code));
  return search.out->slot[0] == 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

}  // namespace

bool FindCulprit(Culprit* out) noexcept {
  constexpr unsigned kMostSeconds = 5;
  alarm(kMostSeconds);
  *out = {};
  Search search = {out};
  _Unwind_Backtrace(Look, &search);
  alarm(0);
  return search.table != nullptr;
}

}  // namespace sl::conform
