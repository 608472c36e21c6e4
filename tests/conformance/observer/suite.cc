// SPDX-License-Identifier: Apache-2.0
// Every observer: it takes what it is given, leaves it as it was, and keeps none of it. That a hostile one harms nobody
// is the kernel's side, and is tested there.
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "sl_observer.h"
#include "tests/conformance/kit/random.h"
#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/kit/subject.h"
#include "tests/conformance/kit/suite.h"

namespace sl::conform::observer {
namespace {

constexpr uint64_t kKinds = (uint64_t{1} << SL_EVENT_KIND_COUNT) - 1;

// The observer of the module under test.
class Observer {
 public:
  Observer(Trial& trial, const Subject<sl_observer_ops_t>& subject) : trial_(trial), ops_(subject.ops) {
    const sl_status_t status = ops_.create(subject.instance(), &observer_, &mask_);
    if (status == SL_ERR_UNSUPPORTED) trial.Skip("it makes no observer here");
    trial.Require(status == SL_OK && observer_ != nullptr, "create gave {}: {}", StatusName(status), ErrorText());
  }
  ~Observer() { Destroy(); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void Destroy() {
    if (observer_ != nullptr) ops_.destroy(observer_);
    observer_ = nullptr;
  }

  sl_status_t Consume(const sl_record_t* records, uint64_t count, uint32_t ring = 0, uint64_t dropped = 0) {
    const sl_batch_t batch = {sizeof batch, ring, dropped, count, records};
    const sl_status_t status = ops_.consume(observer_, &batch);
    trial_.Expect(status <= SL_OK, "consume gave {}, statuses are SL_OK or negative", status);
    return status;
  }

  uint64_t mask() const { return mask_; }

 private:
  Trial& trial_;
  const sl_observer_ops_t ops_;
  sl_observer_t* observer_ = nullptr;
  uint64_t mask_ = 0;
};

std::vector<sl_record_t> Records(Random* random, uint64_t mask, uint64_t count) {
  std::vector<sl_record_t> records(count);
  uint64_t time_ns = 1'000'000;
  for (sl_record_t& record : records) {
    record.time_ns = time_ns += random->Below(1000);
    do {
      record.kind = static_cast<uint32_t>(random->Below(SL_EVENT_KIND_COUNT));
    } while ((mask >> record.kind & 1) == 0);
    record.rank = static_cast<uint32_t>(random->Below(8));
    record.comm_id = 1 + random->Below(3);
    record.op_seq = random->Below(1000);
    record.peer = static_cast<int32_t>(random->Below(9)) - 1;
    record.lane = static_cast<uint32_t>(random->Below(4));
    record.bytes = random->Below(1 << 30);
    record.value = random->Below(16);
    record.value2 = random->Below(16);
  }
  return records;
}

uint64_t Wanted(Trial& trial, const Observer& observer) {
  const uint64_t wanted = observer.mask() & kKinds;
  if (wanted == 0) trial.Skip("it wants no kind of record that there is");
  return wanted;
}

void Comes(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  for (int round = 0; round < 20; ++round) Observer(trial, subject);
}

void Takes(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  Observer observer(trial, subject);
  const uint64_t wanted = Wanted(trial, observer);
  Random random(trial.seed());
  uint64_t dropped = 0;
  for (const uint64_t count : {1, 2, 63, 64, 65, 1000, 4096}) {
    const Scope scope(fmt::format("{} records", count));
    std::vector<sl_record_t> records = Records(&random, wanted, count);
    const std::vector<sl_record_t> before(records.begin(), records.end());
    const sl_status_t status = observer.Consume(records.data(), count, static_cast<uint32_t>(count % 3), dropped++);
    trial.Expect(status == SL_OK, "an ordinary batch was answered with {}", StatusName(status));
    trial.Expect(std::memcmp(records.data(), before.data(), count * sizeof(sl_record_t)) == 0,
                 "it changed records that it only borrows");
  }
}

void Nothing(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  Observer observer(trial, subject);
  const sl_status_t status = observer.Consume(nullptr, 0);
  trial.Expect(status == SL_OK, "an empty batch was answered with {}", StatusName(status));
}

// Records in pages of their own, which are gone when the call is over.
void KeepsNothing(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  Observer observer(trial, subject);
  const uint64_t wanted = Wanted(trial, observer);
  Random random(trial.seed());
  for (int round = 0; round < 20; ++round) {
    const std::vector<sl_record_t> records = Records(&random, wanted, 512);
    const size_t bytes = records.size() * sizeof(sl_record_t);
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    trial.Require(pages != MAP_FAILED, "no memory for the test");
    std::memcpy(pages, records.data(), bytes);
    trial.Require(mprotect(pages, bytes, PROT_READ) == 0, "mprotect failed: {}", std::strerror(errno));
    observer.Consume(static_cast<const sl_record_t*>(pages), records.size());
    trial.Require(mprotect(pages, bytes, PROT_NONE) == 0, "mprotect failed: {}",
                  std::strerror(errno));  // and never given back
  }
  observer.Destroy();
}

// A newer kernel, a ring that lost much, a clock that stands: none of it may end the process.
void SurvivesOddities(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  Observer observer(trial, subject);
  const uint64_t wanted = Wanted(trial, observer);
  Random random(trial.seed());
  std::vector<sl_record_t> records = Records(&random, wanted, 64);
  for (sl_record_t& record : records) {
    record.time_ns = 0;
    record.rank = UINT32_MAX;
    record.comm_id = record.op_seq = record.bytes = record.value = record.value2 = UINT64_MAX;
    record.peer = INT32_MIN;
    record.lane = UINT32_MAX;
  }
  observer.Consume(records.data(), records.size(), UINT32_MAX, UINT64_MAX);
  for (sl_record_t& record : records) {
    auto* bytes = reinterpret_cast<uint8_t*>(&record);
    const uint32_t kind = record.kind;
    for (size_t i = 0; i < sizeof record; ++i) bytes[i] = static_cast<uint8_t>(random.Next());
    record.kind = kind;
  }
  observer.Consume(records.data(), records.size());
}

void Several(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  Observer first(trial, subject);
  const uint64_t wanted = Wanted(trial, first);
  Random random(trial.seed());
  const std::vector<sl_record_t> records = Records(&random, wanted, 100);
  {
    Observer second(trial, subject);
    first.Consume(records.data(), records.size());
    second.Consume(records.data(), records.size());
  }
  trial.Expect(first.Consume(records.data(), records.size()) == SL_OK, "it fails after another one was destroyed");
}

void ShortOfMemory(Trial& trial) {
  const Subject<sl_observer_ops_t> subject(trial, SL_OBSERVER_ID);
  const uint64_t wanted = Wanted(trial, Observer(trial, subject));
  Random random(trial.seed());
  const std::vector<sl_record_t> records = Records(&random, wanted, 300);
  ForEachShortage(trial, subject.module(), Imports::Kind::kMemory, 200, [&] {
    ClearError();
    sl_observer_t* observer = nullptr;
    uint64_t mask = 0;
    const sl_status_t status = subject.ops.create(subject.instance(), &observer, &mask);
    if (status != SL_OK) {
      trial.Expect(observer == nullptr && !ErrorText().empty(), "create gave {}, an observer or no text",
                   StatusName(status));
      return;
    }
    for (uint32_t ring = 0; ring < 3; ++ring) {
      const sl_batch_t batch = {sizeof batch, ring, 0, records.size(), records.data()};
      subject.ops.consume(observer, &batch);
    }
    subject.ops.destroy(observer);
  });
}

}  // namespace

Suite MakeSuite() {
  return {SL_OBSERVER_ID,
          {
              {"Observer.ComesAndGoes", "created and destroyed without a batch", Comes},
              {"Observer.IsOneOfSeveral", "two of one instance do not disturb each other", Several},
              {"Batch.IsTakenAndLeftAlone", "records of the kinds it wants, in batches of many sizes", Takes},
              {"Batch.MayBeEmpty", "count 0, no records", Nothing},
              {"Batch.IsNotKept", "records are borrowed during the call", KeepsNothing},
              {"Batch.MayBeOdd", "values that no kernel of today would give", SurvivesOddities},
              {"Shortage.OfMemoryFailsCleanly",
               "any allocation refused: an error in words, or none, and nothing is lost", ShortOfMemory},
          }};
}

}  // namespace sl::conform::observer
