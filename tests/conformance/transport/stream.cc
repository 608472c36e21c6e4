// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport/stream.h"

#include <sched.h>

#include "tests/conformance/kit/random.h"

namespace sl::conform::transport {

uint64_t Stream::BytesOf(uint64_t chunk) const { return 1 + Random(seed_ ^ chunk << 20).Below(kSlotBytes); }

void Stream::Send() {
  // A slot's source may change once the peer has said that it has the slot's chunk.
  uint8_t* const sources = ranks_.Lend(kSlots * kSlotBytes);
  for (uint64_t chunk = 1; chunk <= chunks_; ++chunk) {
    if (!Wait(from_, 1, chunk > kSlots ? chunk - kSlots : 0)) return;
    const uint64_t bytes = BytesOf(chunk);
    const uint64_t slot = chunk % kSlots * kSlotBytes;
    Fill(sources + slot, bytes, chunk ^ seed_);
    if (!Put(from_, sources + slot, bytes, slot, 0, chunk)) return;
  }
  Wait(from_, 1, chunks_);
}

void Stream::Receive() { ReceiveUpTo(chunks_); }

bool Stream::ReceiveUpTo(uint64_t last) {
  for (; taken_ < last; ++taken_) {
    const uint64_t chunk = taken_ + 1;
    if (!Wait(to_, 0, chunk) || !IsWhole(chunk) || !Put(to_, nullptr, 0, 0, 1, chunk)) return false;
  }
  return true;
}

bool Stream::IsWhole(uint64_t chunk) {
  ranks_.Flush(to_);
  const uint64_t bytes = BytesOf(chunk);
  const auto* slot = static_cast<const uint8_t*>(to_.window.local) + chunk % kSlots * kSlotBytes;
  const uint64_t wrong = FirstWrong(slot, bytes, chunk ^ seed_);
  if (wrong != bytes) broken_ = true;
  return ranks_.trial().Expect(wrong == bytes, "chunk {}: byte {} of {} is not there when its signal is", chunk, wrong,
                               bytes);
}

// Each thread drives its own end's transport only.
bool Stream::Wait(const End& end, uint32_t word, uint64_t value) {
  for (const uint64_t deadline = DeadlineIn(kPatienceMs); Ranks::Signal(end, word) < value; sched_yield()) {
    ranks_.ops().progress(end.transport);
    if (broken_) return false;
    const bool is_up = ranks_.ops().connection_state(end.connection) == SL_CONNECTION_UP;
    if (is_up && DeadlineIn(0) < deadline) continue;
    broken_ = true;
    if (!is_up) return ranks_.trial().Expect(false, "the connection ended before {} was put on word {}", value, word);
    return ranks_.trial().Expect(false, "signal word {} stands at {}, {} was put {} ms ago", word,
                                 Ranks::Signal(end, word), value, kPatienceMs);
  }
  return true;
}

bool Stream::Put(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal, uint64_t value) {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = signal;
  put.signal_value = value;
  put.source = source;
  put.bytes = bytes;
  put.offset = offset;
  sl_status_t status = ranks_.ops().put(end.connection, &put);
  for (const uint64_t deadline = DeadlineIn(kPatienceMs); status == SL_ERR_AGAIN && DeadlineIn(0) < deadline;) {
    ranks_.ops().progress(end.transport);
    sched_yield();
    status = ranks_.ops().put(end.connection, &put);
  }
  ranks_.ops().notify(end.connection);
  if (!ranks_.trial().Expect(status == SL_OK, "put {} gave {}", value, StatusName(status))) broken_ = true;
  return status == SL_OK;
}

}  // namespace sl::conform::transport
