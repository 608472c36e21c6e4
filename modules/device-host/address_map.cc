// SPDX-License-Identifier: Apache-2.0
//
// Memory order. The writer makes sequence_ odd (W1), stores entries with release (W2), makes it even with release (W3).
// The reader loads sequence_ with acquire (R1), entries with acquire (R2), sequence_ again (R3). If R2 saw a W2, it
// also sees that W2's W1, so R3, which cannot move before R2, differs from R1: torn reads are always noticed. R1 that
// saw W3 sees everything that writer stored.
#include "modules/device-host/address_map.h"

#include <algorithm>

#include "sdk/doorbell.h"

namespace sl::device_host {
namespace {
constexpr size_t kFirstCapacity = 32;
}

AddressMap::AddressMap() {
  tables_.push_back(std::make_unique<Table>(kFirstCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
}

AddressMap::~AddressMap() = default;

void AddressMap::Set(Entry* entry, const Range& range) {
  entry->base.store(range.base, std::memory_order_release);
  entry->bytes.store(range.bytes, std::memory_order_release);
  entry->id.store(range.id, std::memory_order_release);
  entry->exportable.store(range.exportable ? 1 : 0, std::memory_order_release);
}

Range AddressMap::Get(const Entry& entry) {
  return {entry.base.load(std::memory_order_acquire), entry.bytes.load(std::memory_order_acquire),
          entry.id.load(std::memory_order_acquire), entry.exportable.load(std::memory_order_acquire) != 0};
}

// Index of the first entry whose base lies above `address`.
size_t AddressMap::FirstAbove(const Table& table, size_t count, uintptr_t address) {
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (table.entries[middle].base.load(std::memory_order_acquire) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void AddressMap::BeginWrite() { sequence_.fetch_add(1, std::memory_order_acq_rel); }  // W1
void AddressMap::EndWrite() { sequence_.fetch_add(1, std::memory_order_release); }    // W3

void AddressMap::Insert(const Range& range) {
  Table* table = tables_.back().get();
  size_t count = table->count.load(std::memory_order_relaxed);
  if (count == table->capacity) {
    // A copy nobody sees yet; readers go on in the old one.
    auto larger = std::make_unique<Table>(table->capacity * 2);
    for (size_t i = 0; i < count; ++i) Set(&larger->entries[i], Get(table->entries[i]));
    larger->count.store(count, std::memory_order_relaxed);
    tables_.push_back(std::move(larger));
    table = tables_.back().get();
    table_.store(table, std::memory_order_release);
  }
  BeginWrite();
  const size_t place = FirstAbove(*table, count, range.base);
  for (size_t i = count; i > place; --i) Set(&table->entries[i], Get(table->entries[i - 1]));
  Set(&table->entries[place], range);
  table->count.store(count + 1, std::memory_order_release);
  EndWrite();
}

void AddressMap::Erase(uintptr_t base) {
  Table* table = tables_.back().get();
  const size_t count = table->count.load(std::memory_order_relaxed);
  const size_t above = FirstAbove(*table, count, base);
  if (above == 0 || table->entries[above - 1].base.load(std::memory_order_relaxed) != base) return;
  BeginWrite();
  for (size_t i = above; i < count; ++i) Set(&table->entries[i - 1], Get(table->entries[i]));
  table->count.store(count - 1, std::memory_order_release);
  EndWrite();
}

bool AddressMap::Find(uintptr_t address, Range* out) const {
  for (;;) {
    const uint64_t before = sequence_.load(std::memory_order_acquire);  // R1
    if ((before & 1) != 0) {
      CpuRelax();
      continue;
    }
    const Table& table = *table_.load(std::memory_order_acquire);
    const size_t count = std::min(table.count.load(std::memory_order_acquire), table.capacity);
    const size_t above = FirstAbove(table, count, address);
    const Range range = above == 0 ? Range{} : Get(table.entries[above - 1]);  // R2
    if (sequence_.load(std::memory_order_relaxed) != before) continue;         // R3
    if (above == 0 || address - range.base >= range.bytes) return false;
    *out = range;
    return true;
  }
}

}  // namespace sl::device_host
