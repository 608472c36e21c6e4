// SPDX-License-Identifier: Apache-2.0
// Devices and their memory: what is known about it, and that nothing known about it is ever stale.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"
#include "tests/conformance/kit/random.h"
#include "tests/conformance/kit/traces.h"

namespace sl::conform::device {
namespace {

void InfoLegal(Trial& trial) {
  const Bench bench(trial);
  const sl_device_info_t& info = bench.info;
  trial.Expect(strnlen(info.name, sizeof(info.name)) < sizeof(info.name) && info.name[0] != '\0', "it has no name");
  trial.Expect(strnlen(info.pci_path, sizeof(info.pci_path)) < sizeof(info.pci_path), "its PCI path does not end");
  trial.Expect(info.processors >= 1, "it has {} processors", info.processors);
  trial.Expect(info.memory_bytes > 0, "it has no memory");
  trial.Expect(info.max_argument_bytes >= 4096, "launches take {} bytes of arguments, must be 4096 or more",
               info.max_argument_bytes);
  const bool can_export = bench.Can(SL_DEVICE_CAN_EXPORT);
  trial.Expect(!can_export || info.export_granularity > 0, "it exports memory, in multiples of 0 bytes");
  trial.Expect(info.kind != SL_DEVICE_HOST || bench.Can(SL_DEVICE_MEMORY_IS_HOST), "the host's memory is host memory");
}

// A caller of any age: no byte behind its struct is written.
void InfoShort(Trial& trial) {
  const Bench bench(trial);
  for (const uint32_t size : {8u, 16u, 100u, static_cast<uint32_t>(sizeof(sl_device_info_t))}) {
    alignas(sl_device_info_t) uint8_t bytes[sizeof(sl_device_info_t) + 64];
    std::memset(bytes, 0xa5, sizeof(bytes));
    std::memcpy(bytes, &size, sizeof(size));
    const sl_status_t status = bench.ops.info(bench.device, reinterpret_cast<sl_device_info_t*>(bytes));
    trial.Expect(status == SL_OK, "info of a struct of {} bytes gave {}", size, StatusName(status));
    const bool whole = std::all_of(bytes + size, bytes + sizeof(bytes), [](uint8_t byte) { return byte == 0xa5; });
    trial.Expect(whole, "info wrote behind a struct of {} bytes", size);
  }
}

void NoSuchDevice(Trial& trial) {
  const Subject<sl_device_ops_t> subject(trial, SL_DEVICE_ID);
  uint32_t count = 0;
  trial.Require(subject.ops.count(subject.instance(), &count) == SL_OK, "count failed: {}", ErrorText());
  for (const uint32_t ordinal : {count, count + 1, UINT32_MAX}) {
    ClearError();
    sl_device_t* device = nullptr;
    const sl_status_t status = subject.ops.open(subject.instance(), ordinal, &device);
    trial.Expect(status == SL_ERR_NOT_FOUND, "of {} devices, opening {} gave {}", count, ordinal, StatusName(status));
    trial.Expect(device == nullptr && !ErrorText().empty(), "a refusal has a text and no device");
  }
}

void Zeroed(Trial& trial) {
  Bench bench(trial);
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE, SL_MEMORY_HOST}) {
    if (kind == SL_MEMORY_EXPORTABLE && !bench.Can(SL_DEVICE_CAN_EXPORT)) continue;
    const uint64_t alignment = kind == SL_MEMORY_EXPORTABLE ? 4096 : 64;
    for (const uint64_t bytes : {1u, 63u, 4096u, 70000u, 1u << 20, 5u << 20}) {
      const Scope scope(fmt::format("{} bytes of kind {}", bytes, kind));
      for (int round = 0; round < 3; ++round) {
        uint8_t* memory = bench.Allocate(bytes, kind);
        trial.Expect(reinterpret_cast<uintptr_t>(memory) % alignment == 0, "at {}, not aligned to {}", fmt::ptr(memory),
                     alignment);
        const std::vector<uint8_t> is = bench.Read(memory, bytes);
        trial.Expect(std::all_of(is.begin(), is.end(), [](uint8_t byte) { return byte == 0; }), "not zeroed");
        const std::vector<uint8_t> used(bytes, 0xff);
        bench.Write(memory, used.data(), bytes);
        bench.Release(memory);
      }
    }
  }
}

void RefusesToAllocate(Trial& trial) {
  const Bench bench(trial);
  const auto expect = [&](uint32_t kind, uint64_t bytes, sl_status_t wanted) {
    ClearError();
    void* memory = nullptr;
    const sl_status_t status = bench.ops.allocate(bench.device, kind, bytes, &memory);
    trial.Expect(status == wanted, "allocating {} bytes of kind {} gave {}, must be {}", bytes, kind,
                 StatusName(status), StatusName(wanted));
    trial.Expect(memory == nullptr && !ErrorText().empty(), "a refusal has a text and leaves the output alone");
  };
  expect(SL_MEMORY_PLAIN, 0, SL_ERR_INVALID);
  expect(77, 4096, SL_ERR_INVALID);
  expect(SL_MEMORY_PLAIN, uint64_t{1} << 60, SL_ERR_DEVICE_MEMORY);
  expect(SL_MEMORY_PLAIN, UINT64_MAX, SL_ERR_DEVICE_MEMORY);
}

void RefusesToRelease(Trial& trial) {
  Bench bench(trial);
  uint8_t* memory = bench.Allocate(8192);
  int local = 0;
  for (void* wrong : {static_cast<void*>(memory + 64), static_cast<void*>(&local), static_cast<void*>(nullptr)}) {
    const sl_status_t status = bench.ops.release(bench.device, wrong);
    trial.Expect(status == SL_ERR_INVALID, "releasing what is no allocation's start gave {}", StatusName(status));
  }
  bench.Release(memory);
  const sl_status_t again = bench.ops.release(bench.device, memory);
  trial.Expect(again == SL_ERR_INVALID, "releasing twice gave {}", StatusName(again));
}

void KnowsWhatIsFree(Trial& trial) {
  Bench bench(trial);
  uint64_t bytes = 0;
  bench.Good(bench.ops.free_memory(bench.device, &bytes), "free_memory");
  trial.Expect(bytes != 0 && bytes <= bench.info.memory_bytes, "{} bytes are free, of {}", bytes,
               bench.info.memory_bytes);
}

sl_pointer_info_t InfoOf(const Bench& bench, const void* pointer) {
  sl_pointer_info_t info{};
  info.struct_size = sizeof(info);
  bench.Good(bench.ops.pointer_info(bench.device, pointer, &info), "pointer_info");
  return info;
}

void PointersKnown(Trial& trial) {
  Bench bench(trial);
  const uint64_t bytes = 10000;
  uint8_t* memory = bench.Allocate(bytes);
  const sl_pointer_info_t start = InfoOf(bench, memory);
  trial.Expect(start.allocation_id != 0, "an allocation has no id");
  trial.Expect(start.base == memory && start.bytes >= bytes, "base {} and {} bytes, must be {} and {} or more",
               fmt::ptr(start.base), start.bytes, fmt::ptr(memory), bytes);
  for (const uint64_t offset : {uint64_t{1}, bytes / 2, bytes - 1}) {
    const sl_pointer_info_t inside = InfoOf(bench, memory + offset);
    trial.Expect(
        inside.allocation_id == start.allocation_id && inside.base == memory && inside.generation == start.generation,
        "byte {} of an allocation is not known as part of it", offset);
  }
  const sl_pointer_info_t behind = InfoOf(bench, memory + start.bytes);
  trial.Expect(behind.allocation_id != start.allocation_id, "the byte behind an allocation counts as part of it");
  int local = 0;
  trial.Expect(InfoOf(bench, &local).allocation_id == 0, "a local variable is known as an allocation");
  trial.Expect(InfoOf(bench, nullptr).allocation_id == 0, "NULL is known as an allocation");
  bench.Release(memory);
  trial.Expect(InfoOf(bench, memory).allocation_id == 0, "released memory is still known");
}

// A cache keyed by id and generation must never be stale, wherever the memory comes to lie.
void Generations(Trial& trial) {
  Bench bench(trial);
  std::set<std::pair<uint64_t, uint64_t>> seen;
  Random random(trial.seed());
  for (int round = 0; round < 500; ++round) {
    const bool exportable = bench.Can(SL_DEVICE_CAN_EXPORT) && random.Below(4) == 0;
    uint8_t* memory = bench.Allocate(random.Between(1, 9000), exportable ? SL_MEMORY_EXPORTABLE : SL_MEMORY_PLAIN);
    const sl_pointer_info_t info = InfoOf(bench, memory);
    trial.Expect(seen.emplace(info.allocation_id, info.generation).second,
                 "allocation {} has id {} and generation {}, as an earlier one had", round, info.allocation_id,
                 info.generation);
    bench.Release(memory);
  }
}

// [any]: looked up while others allocate and release.
void LookedUpMeanwhile(Trial& trial) {
  Bench bench(trial);
  uint8_t* steady = bench.Allocate(65536);
  const sl_pointer_info_t known = InfoOf(bench, steady);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (uint64_t reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&, reader] {
      Random random(trial.seed() * 10 + reader);
      while (!stop.load(std::memory_order_relaxed)) {
        sl_pointer_info_t info{};
        info.struct_size = sizeof(info);
        const sl_status_t status = bench.ops.pointer_info(bench.device, steady + random.Below(65536), &info);
        const bool right = status == SL_OK && info.allocation_id == known.allocation_id && info.base == steady;
        if (!trial.Expect(right, "beside allocations, a pointer is not known as before")) return;
      }
    });
  }
  Random random(trial.seed());
  std::vector<uint8_t*> alive;
  const int rounds = trial.full() ? 20000 : 2000;
  for (int round = 0; round < rounds; ++round) {
    if (alive.size() < 40 && random.Below(2) == 0) {
      alive.push_back(bench.Allocate(random.Between(1, 20000)));
    } else if (!alive.empty()) {
      const size_t which = random.Below(alive.size());
      bench.Release(alive[which]);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

// Uses a device a little; returns whether its memory is the host's.
bool UseAndClose(Trial& trial) {
  Bench bench(trial);
  bench.Allocate(1 << 20);
  if (bench.Can(SL_DEVICE_CAN_EXPORT)) bench.Allocate(1 << 20, SL_MEMORY_EXPORTABLE);
  sl_stream_t* stream = bench.MakeStream();
  if (bench.Can(SL_DEVICE_CAN_WRITE_VALUE)) {
    Word& word = bench.MakeWord();
    bench.Good(bench.ops.stream_write_value(bench.device, stream, &word.value, 1), "stream_write_value");
  }
  bench.Wait(stream);
  return bench.Can(SL_DEVICE_MEMORY_IS_HOST);
}

void LeavesNothing(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  Traces before = Traces::Now();
  if (!UseAndClose(trial)) {
    // The first use starts the driver of the device, which stays in the process with threads and descriptors of its
    // own.
    before = Traces::Now();
    UseAndClose(trial);
  }
  Traces::ExpectNothingNew(trial, before, "after the device and its module were closed");
}

}  // namespace

std::vector<Test> MemoryTests() {
  return {
      {"Info.IsLegal", "texts end; at least one processor; launches take 4,096 bytes of arguments", InfoLegal},
      {"Info.FillsWhatTheCallerHas", "at most out_info->struct_size bytes are written", InfoShort},
      {"Device.ThatIsNotThereIsNotFound", "an ordinal behind the last gives SL_ERR_NOT_FOUND", NoSuchDevice},
      {"Device.LeavesNothingBehind", "no thread and no descriptor after close", LeavesNothing},
      {"Memory.IsZeroedAndAligned", "every allocation, also where memory was used before", Zeroed},
      {"Memory.KnowsWhatIsFree", "not nothing, and not more than there is", KnowsWhatIsFree},
      {"Memory.RefusesWhatCannotBe", "nothing, unknown kinds, more than there is", RefusesToAllocate},
      {"Memory.ReleasesAllocationsOnly", "an allocation's start, once", RefusesToRelease},
      {"Pointer.IsKnownInEveryByte", "base, bytes and id from any address inside, and nothing else", PointersKnown},
      {"Pointer.GenerationsNeverRepeat", "(allocation id, generation) names one allocation for ever", Generations},
      {"Pointer.IsLookedUpBesideAllocations", "on any thread, at any time", LookedUpMeanwhile},
  };
}

}  // namespace sl::conform::device
