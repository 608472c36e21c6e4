// SPDX-License-Identifier: Apache-2.0
#ifndef STARLING_MODULES_DEVICE_HOST_ADDRESS_MAP_H_
#define STARLING_MODULES_DEVICE_HOST_ADDRESS_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sl::device_host {

// What is known about a range of addresses.
struct Range {
  uintptr_t base = 0;
  uint64_t bytes = 0;
  uint64_t id = 0;  // never the same twice in a process; serves as allocation id and as generation
  bool exportable = false;
};

// Disjoint ranges by address. Find: any thread, without a lock, so that the data path may ask. Insert and Erase: one
// writer at a time, which the owner sees to.
//
// A sequence lock over a sorted array: a reader that met a writer looks again. Arrays that were outgrown are kept, at
// most as much memory again, because a reader may still be in them.
class AddressMap {
 public:
  AddressMap();
  ~AddressMap();
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;

  void Insert(const Range& range);
  void Erase(uintptr_t base);
  // False when no range holds `address`.
  bool Find(uintptr_t address, Range* out) const;

 private:
  struct Entry {
    std::atomic<uintptr_t> base{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> id{0};
    std::atomic<uint64_t> exportable{0};
  };
  struct Table {
    explicit Table(size_t room) : capacity(room), entries(new Entry[room]) {}
    const size_t capacity;
    std::atomic<size_t> count{0};
    const std::unique_ptr<Entry[]> entries;
  };

  static void Set(Entry* entry, const Range& range);
  static Range Get(const Entry& entry);
  static size_t FirstAbove(const Table& table, size_t count, uintptr_t address);
  void BeginWrite();
  void EndWrite();

  std::atomic<uint64_t> sequence_{0};  // odd while a writer is at work
  std::atomic<Table*> table_;
  std::vector<std::unique_ptr<Table>> tables_;  // the last one is table_; writer only
};

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_ADDRESS_MAP_H_
