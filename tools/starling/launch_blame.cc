// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_blame.h"

#include <atomic>
#include <cstring>

namespace sl::tools {
namespace {

std::atomic<WorkerSlot*> blamed{nullptr};

}  // namespace

void BlameThrough(WorkerSlot* slot) {
  WorkerSlot* none = nullptr;
  blamed.compare_exchange_strong(none, slot);
}

void Blame(const char* text) noexcept {
  WorkerSlot* const slot = blamed.load();
  if (slot == nullptr) return;
  std::strncpy(slot->doing, text, sizeof slot->doing - 1);
  slot->doing[sizeof slot->doing - 1] = 0;
  // The thread that set it last may have been stopped in the middle.
  slot->point.store((slot->point.load() + 2) & ~1u);
}

}  // namespace sl::tools
