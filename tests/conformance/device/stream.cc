// SPDX-License-Identifier: Apache-2.0
// Streams: everything in order, events across them, words that start and end work.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"
#include "tests/conformance/kit/random.h"

namespace sl::conform::device {
namespace {

// Holds a stream until Open(), at the latest at the end of the scope.
class Gate {
 public:
  Gate(Bench& bench, sl_stream_t* stream) : bench_(bench), stream_(stream), word_(bench.MakeWord()) {
    bench.Good(bench.ops.stream_wait_value(bench.device, stream, &word_.value, 1), "stream_wait_value");
  }
  ~Gate() {
    Open();
    // The stream borrows the word until it has gone through.
    bench_.ops.stream_wait_idle(bench_.device, stream_, DeadlineIn(10000));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void Open() { word_.Store(1); }

 private:
  Bench& bench_;
  sl_stream_t* stream_;
  Word& word_;
};

void Ordered(Trial& trial) {
  Bench bench(trial);
  sl_stream_t* stream = bench.MakeStream();
  struct Journal {
    std::vector<int> entries;
    std::atomic<int> count{0};
  } journal;
  struct Entry {
    Journal* journal;
    int number;
  };
  constexpr int kEntries = 200;
  std::vector<Entry> entries;
  entries.reserve(kEntries);
  for (int i = 0; i < kEntries; ++i) entries.push_back({&journal, i});
  for (Entry& entry : entries) {
    const sl_status_t status = bench.ops.stream_callback(
        bench.device, stream,
        [](void* ctx) {
          auto* own = static_cast<Entry*>(ctx);
          own->journal->entries.push_back(own->number);
          own->journal->count.fetch_add(1, std::memory_order_release);
        },
        &entry);
    if (status == SL_ERR_UNSUPPORTED) trial.Skip("the device has no callbacks");
    bench.Good(status, "stream_callback");
  }
  bench.Wait(stream);
  trial.Require(journal.count.load(std::memory_order_acquire) == kEntries, "idle, but {} of {} callbacks ran",
                journal.count.load(), kEntries);
  trial.Expect(std::is_sorted(journal.entries.begin(), journal.entries.end()), "callbacks ran out of order");
}

void WaitsForIdle(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
  sl_stream_t* stream = bench.MakeStream();
  Word& done = bench.MakeWord();
  Gate gate(bench, stream);
  bench.Good(bench.ops.stream_write_value(bench.device, stream, &done.value, 5), "stream_write_value");
  trial.Expect(bench.ops.stream_wait_idle(bench.device, stream, 0) == SL_ERR_AGAIN,
               "a busy stream, deadline 0: must be SL_ERR_AGAIN");
  const uint64_t before = DeadlineIn(0);
  const sl_status_t status = bench.ops.stream_wait_idle(bench.device, stream, DeadlineIn(30));
  trial.Expect(status == SL_ERR_TIMEOUT, "a busy stream at its deadline gave {}", StatusName(status));
  trial.Expect(DeadlineIn(0) - before >= 29'000'000, "it gave up before the deadline");
  trial.Expect(done.Load() == 0, "work behind a waiting stream was done");
  gate.Open();
  bench.Wait(stream);
  trial.Expect(done.Load() == 5, "the stream is idle, but its last write is missing");
  trial.Expect(bench.ops.stream_wait_idle(bench.device, stream, 0) == SL_OK, "an idle stream, deadline 0");
}

void WordsLieInAttachedMemory(Trial& trial) {
  constexpr uint64_t kPage = 4096;
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
  void* memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  trial.Require(memory != MAP_FAILED, "no memory");
  trial.Expect(bench.ops.host_attach(bench.device, static_cast<uint8_t*>(memory) + 8, kPage) == SL_ERR_INVALID,
               "memory that is no whole page was attached");
  trial.Expect(bench.ops.host_attach(bench.device, memory, 100) == SL_ERR_INVALID, "a part of a page was attached");
  const sl_status_t status = bench.ops.host_attach(bench.device, memory, 2 * kPage);
  if (status == SL_ERR_UNSUPPORTED) {
    munmap(memory, 2 * kPage);
    trial.Skip("the device cannot be let at host memory");
  }
  bench.Good(status, "host_attach");
  auto* const words = static_cast<uint64_t*>(memory);
  uint64_t* const last = words + 2 * kPage / sizeof(uint64_t) - 1;
  sl_stream_t* stream = bench.MakeStream();
  bench.Good(bench.ops.stream_wait_value(bench.device, stream, words, 3), "stream_wait_value");
  bench.Good(bench.ops.stream_write_value(bench.device, stream, last, 9), "stream_write_value");
  trial.Expect(bench.ops.stream_wait_idle(bench.device, stream, DeadlineIn(20)) == SL_ERR_TIMEOUT,
               "a stream did not wait for a word of attached memory");
  std::atomic_ref<uint64_t>(*words).store(3);
  bench.Wait(stream);
  trial.Expect(std::atomic_ref<uint64_t>(*last).load() == 9, "a word of attached memory was not written");
  bench.Good(bench.ops.host_detach(bench.device, memory), "host_detach");
  munmap(memory, 2 * kPage);
}

void EventsOrderStreams(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
  sl_stream_t* first = bench.MakeStream();
  sl_stream_t* second = bench.MakeStream();
  sl_event_t* event = bench.MakeEvent();
  Word& seen = bench.MakeWord();
  {
    Gate gate(bench, first);
    bench.Good(bench.ops.event_record(bench.device, event, first), "event_record");
    trial.Expect(bench.ops.event_query(bench.device, event) == SL_ERR_AGAIN, "an event ahead counts as reached");
    bench.Good(bench.ops.stream_wait_event(bench.device, second, event), "stream_wait_event");
    bench.Good(bench.ops.stream_write_value(bench.device, second, &seen.value, 7), "stream_write_value");
    trial.Expect(bench.ops.stream_wait_idle(bench.device, second, DeadlineIn(20)) == SL_ERR_TIMEOUT,
                 "a stream did not wait for another's event");
    trial.Expect(seen.Load() == 0, "work behind an event was done before it");
  }
  bench.Wait(second);
  trial.Expect(seen.Load() == 7, "work behind a reached event is missing");
  trial.Expect(bench.ops.event_query(bench.device, event) == SL_OK, "a reached event is not");
  // Recorded again it marks the new point, for those who wait from now on.
  Gate gate(bench, first);
  bench.Good(bench.ops.event_record(bench.device, event, first), "event_record");
  trial.Expect(bench.ops.event_query(bench.device, event) == SL_ERR_AGAIN, "an event recorded anew counts as reached");
}

void NeverRecorded(Trial& trial) {
  Bench bench(trial);
  sl_stream_t* stream = bench.MakeStream();
  sl_event_t* event = bench.MakeEvent();
  trial.Expect(bench.ops.event_query(bench.device, event) == SL_OK, "an event never recorded is nothing to wait for");
  bench.Good(bench.ops.stream_wait_event(bench.device, stream, event), "stream_wait_event");
  bench.Wait(stream);
}

// *word >= value, unsigned: words count up and may have passed.
void ValuesCompare(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
  sl_stream_t* stream = bench.MakeStream();
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  const struct {
    uint64_t word;
    uint64_t wanted;
    bool passes;
  } cases[] = {{5, 5, true},     {6, 5, true},      {4, 5, false},
               {kHigh, 5, true}, {5, kHigh, false}, {~uint64_t{0}, kHigh, true}};
  for (const auto& one : cases) {
    Word& word = bench.MakeWord();
    word.Store(one.word);
    bench.Good(bench.ops.stream_wait_value(bench.device, stream, &word.value, one.wanted), "stream_wait_value");
    const sl_status_t status = bench.ops.stream_wait_idle(bench.device, stream, DeadlineIn(one.passes ? 5000 : 10));
    trial.Expect(status == (one.passes ? SL_OK : SL_ERR_TIMEOUT), "waiting for {:#x}, the word is {:#x}: {}",
                 one.wanted, one.word, StatusName(status));
    word.Store(one.wanted);
    bench.Wait(stream);
  }
  Word& word = bench.MakeWord();
  auto* odd = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(&word.value) + 4);
  for (sl_stream_t* on : {stream, static_cast<sl_stream_t*>(nullptr)}) {
    trial.Expect(bench.ops.stream_write_value(bench.device, on, odd, 1) < SL_OK, "a word that is not aligned");
  }
}

// Long enough for a device that takes so many at a time.
void ValuesGoInBatches(Trial& trial) {
  constexpr uint64_t kSteps = 300;
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
  const auto* slots = static_cast<const sl_device_ops_t*>(bench.subject.table);
  if (!SL_HAS(slots, sl_device_ops_t, stream_batch_values) || slots->stream_batch_values == nullptr) {
    trial.Skip("the device is of revision 1, which has no batches of words");
  }
  sl_stream_t* stream = bench.MakeStream();
  const auto issue = [&](sl_stream_t* on, const std::vector<sl_stream_value_t>& values) {
    return bench.ops.stream_batch_values(bench.device, on, static_cast<uint32_t>(values.size()), values.data());
  };
  Word& gate = bench.MakeWord();
  Word& steps = bench.MakeWord();
  Word& end = bench.MakeWord();
  std::vector<sl_stream_value_t> values;
  for (uint64_t i = 1; i <= kSteps; ++i) {
    values.push_back({&steps.value, i, SL_VALUE_WRITE, 0});
    values.push_back({i == kSteps / 2 ? &gate.value : &steps.value, i, SL_VALUE_WAIT, 0});
  }
  values.push_back({&end.value, 1, SL_VALUE_WRITE, 0});
  bench.Good(issue(stream, values), "stream_batch_values");
  values.clear();  // they were copied
  trial.Expect(bench.ops.stream_wait_idle(bench.device, stream, DeadlineIn(20)) == SL_ERR_TIMEOUT,
               "a batch did not wait for a word in its middle");
  trial.Expect(end.Load() == 0, "words behind one that is waited for were written");
  gate.Store(kSteps);
  bench.Wait(stream);
  trial.Expect(steps.Load() == kSteps && end.Load() == 1, "after a batch its words are {} and {}, must be {} and 1",
               steps.Load(), end.Load(), kSteps);
  bench.Good(issue(stream, {}), "an empty batch");
  auto* odd = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(&end.value) + 4);
  for (sl_stream_t* on : {stream, static_cast<sl_stream_t*>(nullptr)}) {
    trial.Expect(issue(on, {{odd, 1, SL_VALUE_WRITE, 0}}) < SL_OK, "a word of a batch that is not aligned");
    trial.Expect(issue(on, {{&end.value, 1, SL_VALUE_WAIT + 1, 0}}) == SL_ERR_INVALID, "an unknown action");
  }
}

void Copies(Trial& trial) {
  Bench bench(trial);
  sl_stream_t* stream = bench.MakeStream();
  const uint64_t room = 3 << 20;
  uint8_t* from = bench.Allocate(room);
  uint8_t* to = bench.Allocate(room);
  std::vector<uint8_t> pattern(room);
  Random random(trial.seed());
  for (uint8_t& byte : pattern) byte = static_cast<uint8_t>(random.Next());
  bench.Write(from, pattern.data(), room);
  const std::vector<uint8_t> blank(room, 0xee);
  for (const uint64_t bytes : {0u, 1u, 3u, 64u, 4095u, 4097u, 65536u, 1u << 20, (2u << 20) + 5}) {
    for (int round = 0; round < 3; ++round) {
      const uint64_t from_at = random.Below(64) + 1;
      const uint64_t to_at = random.Below(64) + 1;
      const Scope scope(fmt::format("{} bytes from +{} to +{}", bytes, from_at, to_at));
      bench.Write(to, blank.data(), room);
      sl_stream_t* on = round == 0 ? nullptr : stream;
      bench.Good(bench.ops.copy(bench.device, on, to + to_at, from + from_at, bytes), "copy");
      bench.Wait(on);
      const std::vector<uint8_t> got = bench.Read(to, to_at + bytes + 1);
      trial.Expect(std::memcmp(got.data() + to_at, pattern.data() + from_at, bytes) == 0, "other bytes arrived");
      trial.Expect(got[to_at - 1] == 0xee && got[to_at + bytes] == 0xee, "it wrote outside its range");
    }
  }
}

// Random work of several threads, each on a stream of its own, ordered across streams by events; what each stream
// writes last must be last.
void Fuzz(Trial& trial) {
  constexpr int kStreams = 4;
  const uint64_t seeds = trial.full() ? 20 : 2;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Scope scope(fmt::format("seed {}", trial.seed() + seed));
    Bench bench(trial);
    bench.Need(SL_DEVICE_CAN_WRITE_VALUE, "stream words");
    sl_stream_t* streams[kStreams];
    for (auto& stream : streams) stream = bench.MakeStream();
    uint8_t* memory = bench.Allocate(kStreams * 8192);
    Word* words[kStreams];
    for (auto& word : words) word = &bench.MakeWord();
    std::vector<std::thread> threads;
    threads.reserve(kStreams);
    for (int own = 0; own < kStreams; ++own) {
      threads.emplace_back([&, own] {
        Random random(trial.seed() * 100 + seed * 10 + static_cast<uint64_t>(own));
        uint8_t* slice = memory + own * 8192;
        uint64_t written = 0;
        sl_status_t status = SL_OK;
        for (int step = 0; step < 300 && status == SL_OK; ++step) {
          switch (random.Below(3)) {
            case 0:
              status = bench.ops.stream_write_value(bench.device, streams[own], &words[own]->value, ++written);
              break;
            case 1:
              status = bench.ops.copy(bench.device, streams[own], slice, slice + 4096, random.Between(1, 4096));
              break;
            default:
              // Its own word has passed by the time the stream gets here: order within the stream.
              status = bench.ops.stream_wait_value(bench.device, streams[own], &words[own]->value, written);
          }
        }
        if (status == SL_OK) status = bench.ops.stream_wait_idle(bench.device, streams[own], DeadlineIn(5000));
        trial.Expect(status == SL_OK && words[own]->Load() == written, "stream {}: {}, its word is {}, must be {}", own,
                     StatusName(status), words[own]->Load(), written);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

void NotCaptured(Trial& trial) {
  Bench bench(trial);
  std::set<uint64_t> ids;
  for (sl_stream_t* stream : {bench.MakeStream(), bench.MakeStream(), static_cast<sl_stream_t*>(nullptr)}) {
    uint32_t state = 77;
    uint64_t id = 77;
    const sl_status_t status = bench.ops.capture_state(bench.device, stream, &state, &id);
    if (status == SL_ERR_UNSUPPORTED) trial.Skip("the device has no capture_state");
    trial.Expect(status == SL_OK && state == 0, "a stream that nobody captures: {}, state {}", StatusName(status),
                 state);
    trial.Expect(id == 0 || ids.insert(id).second, "two streams have the id {}", id);
    const uint64_t before = id;
    bench.ops.capture_state(bench.device, stream, &state, &id);
    trial.Expect(id == before, "the id of a stream was {} and is {}", before, id);
  }
}

}  // namespace

std::vector<Test> StreamTests() {
  return {
      {"Stream.RunsInOrder", "callbacks run one after the other, as they were issued", Ordered},
      {"Stream.SaysWhenItIsIdle", "SL_ERR_AGAIN at once, SL_ERR_TIMEOUT at the deadline, never before", WaitsForIdle},
      {"Word.LiesInAttachedMemory", "host_attach takes whole pages; streams wait for words there and write them",
       WordsLieInAttachedMemory},
      {"Stream.IsDrivenByManyThreads", "a stream per thread, random work, seeds", Fuzz},
      {"Stream.IsNotCapturedByItself", "capture state 0 outside a capture", NotCaptured},
      {"Event.OrdersStreams", "a stream waits for the point another recorded", EventsOrderStreams},
      {"Event.NeverRecordedIsReached", "nothing to wait for", NeverRecorded},
      {"Value.ComparesUnsigned", "a stream goes on when *word >= value; words are aligned", ValuesCompare},
      {"Value.GoesInBatches", "words of a batch are written and waited for one after the other", ValuesGoInBatches},
      {"Copy.MovesEveryByteOnce", "all sizes and alignments, nothing outside the range", Copies},
  };
}

}  // namespace sl::conform::device
