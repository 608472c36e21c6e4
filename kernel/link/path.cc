// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/path.h"

#include <algorithm>
#include <utility>

namespace sl::kernel {
namespace {

// A sample of the rate counts for so much; the rest is what was known before.
constexpr double kNewest = 0.125;

// Chunks put on a path behind one that is still to be taken: a window's, and again as many with every query.
constexpr uint32_t kMostBehind = uint32_t{1} << 24;

// Multiples of 2^32 over the golden ratio: those of all indices and epochs there will be lie far apart (Knuth, The Art
// of Computer Programming, 6.4).
uint32_t MarkOf(uint32_t index, uint32_t epoch) { return (epoch * 16 + index + 1) * 2654435769u; }

// Low halves of number and order, the order's in the high half.
std::atomic_ref<uint64_t> StampOf(ChunkHeader* header) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(header));
}

// a is after b, in counts modulo 2^32.
bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

void Path::Open(const LinkConnection& connection, uint32_t index, uint32_t epoch, const LinkGeometry& geometry) {
  const double known = rate_;
  *this = Path();
  link_ = connection;
  epoch_ = epoch;
  mark_ = MarkOf(index, epoch);
  slots_ = geometry.slots;
  chunk_bytes_ = geometry.chunk_bytes;
  rate_ = known != 0 ? known : static_cast<double>(connection.bytes_per_second) * 1e-9;
  // Each chunk of the window may be on its way twice.
  sent_bytes_.assign(2 * size_t{geometry.slots} + 1, 0);
  up_ = true;
}

LinkConnection Path::TakeOut() {
  up_ = false;
  return std::exchange(link_, LinkConnection());
}

void Path::GoDown() {
  up_ = false;
  frozen_ = false;  // nothing is written any more
}

sl_status_t Path::Signal(SignalWord word, uint64_t value) const {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = word;
  put.signal_value = value;
  return link_.ops->put(link_.connection, &put);
}

sl_status_t Path::Put(uint8_t* outbox, uint64_t offset, uint64_t sequence) {
  uint8_t* slot = outbox + offset;
  ChunkHeader* header = LinkGeometry::HeaderOf(slot);
  header->sequence_high = static_cast<uint32_t>(sequence >> 32);
  // In one store, since the peer may look at a mapped slot at any time. It looks at nothing else before this one fits.
  const uint64_t stamp = uint64_t{static_cast<uint32_t>(orders_ + 1) + mark_} << 32 | static_cast<uint32_t>(sequence);
  StampOf(header).store(stamp, std::memory_order_relaxed);
  const uint64_t bytes = sizeof(ChunkHeader) + header->bytes;
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = kPosted;
  put.signal_value = orders_ + 1;
  if (!mapped()) {
    put.source = slot + LinkGeometry::kHeader;
    put.bytes = bytes;
    put.offset = offset + LinkGeometry::kHeader;
  }
  // No completion is asked for: puts of a connection leave in order, so the acknowledgement of a chunk, without which
  // its slot is not written again, says that every earlier put of the slot has left.
  const sl_status_t status = link_.ops->put(link_.connection, &put);
  if (status != SL_OK) return status;
  const uint64_t before = sent_bytes_[orders_ % sent_bytes_.size()];
  ++orders_;
  sent_bytes_[orders_ % sent_bytes_.size()] = before + bytes;
  newest_ = std::max(newest_, sequence);
  return SL_OK;
}

uint64_t Path::InFlight(uint64_t now_ns) {
  const uint64_t seen = Word(kSeen);
  if (seen > orders_) return 0;  // nonsense; the path's chunks are judged by their acknowledgement
  const size_t size = sent_bytes_.size();
  if (seen != seen_) {
    // The ring holds the newest orders only; older ones were seen long ago.
    if (was_busy_ && orders_ - seen_ < size && now_ns > seen_at_ns_) {
      const uint64_t bytes = sent_bytes_[seen % size] - sent_bytes_[seen_ % size];
      const double rate = static_cast<double>(bytes) / static_cast<double>(now_ns - seen_at_ns_);
      rate_ = rate_ == 0 ? rate : rate_ + kNewest * (rate - rate_);
    }
    seen_ = seen;
    seen_at_ns_ = now_ns;
    was_busy_ = seen != orders_;
  } else if (seen == orders_) {
    was_busy_ = false;
    seen_at_ns_ = now_ns;
  }
  if (seen == orders_) return 0;
  if (orders_ - seen >= size) return uint64_t{slots_} * chunk_bytes_;
  return sent_bytes_[orders_ % size] - sent_bytes_[seen % size];
}

bool Path::Has(uint64_t offset, uint64_t sequence, ChunkHeader* out_header, bool* out_corrupt) const {
  const uint64_t posted = Word(kPosted);
  if (posted == taken_) return false;
  if (frozen_ && sequence > frozen_above_) return false;
  const auto wanted = static_cast<uint32_t>(sequence);
  // A mapped path carries each chunk once after its opening, and once more what was taken over an earlier one.
  if (mapped() && (posted < taken_ || posted - taken_ > 2 * uint64_t{slots_})) *out_corrupt = true;
  auto* header = LinkGeometry::HeaderOf(static_cast<uint8_t*>(link_.window.local) + offset);
  const uint64_t stamp = StampOf(header).load(std::memory_order_relaxed);
  const auto number = static_cast<uint32_t>(stamp);
  const uint32_t order = static_cast<uint32_t>(stamp >> 32) - mark_;
  if (stamp == 0) return false;  // an empty slot
  if (number != wanted || static_cast<uint32_t>(posted) - order >= kMostBehind) {
    // A mapped path uses every slot in turn, so this one can only hold an earlier chunk, of 2^31 before or more where
    // others have carried those between. Both conditions: the upper half is written before the stamp.
    const uint64_t found = uint64_t{header->sequence_high} << 32 | number;
    if (mapped() && IsAfter(number, wanted) && found > sequence) *out_corrupt = true;
    return false;
  }
  if (header->sequence_high != static_cast<uint32_t>(sequence >> 32)) return false;  // 2^32 chunks old, or more
  *out_header = *header;
  if (out_header->bytes > chunk_bytes_) *out_corrupt = true;
  return !*out_corrupt;
}

void Path::TellSeen(uint64_t least) {
  if (!up_) return;
  const uint64_t posted = Word(kPosted);
  if (posted - told_ >= least && Signal(kSeen, posted) == SL_OK) told_ = posted;
}

// Puts leave in order, so what came after them tells.
bool Path::HasCopies() const {
  if (!up_ || copied_ <= answered_for_) return false;
  const uint64_t seen = Word(kSeen);
  return seen < copied_ || seen > orders_;
}

bool Path::MayAsk(uint64_t now_ns, uint64_t patience_ns) const {
  if (resend_from_ != 0) return false;
  return query_ == 0 || now_ns - asked_at_ns_ >= patience_ns << (query_ == dealt_with_ ? 0 : vain_);
}

sl_status_t Path::Ask(uint64_t now_ns) {
  constexpr uint32_t kMostVain = 6;  // a peer may be 64 resend times away
  const sl_status_t status = Signal(kQuery, (query_ + 1) << 32 | static_cast<uint32_t>(newest_));
  if (status != SL_OK) return status;
  vain_ = query_ == dealt_with_ ? 0 : std::min(vain_ + 1, kMostVain);
  asked_at_ns_ = now_ns;
  ++query_;
  asked_ = newest_;
  orders_asked_ = orders_;
  return SL_OK;
}

bool Path::TakeAnswer(int64_t* out_beyond) {
  if (query_ == dealt_with_) return false;
  const uint64_t answer = Word(kAnswer);
  if (answer >> 32 != query_) return false;
  dealt_with_ = query_;
  answered_for_ = orders_asked_;
  *out_beyond = static_cast<int32_t>(static_cast<uint32_t>(answer) - static_cast<uint32_t>(asked_));
  return true;
}

sl_status_t Path::SayResent() {
  const sl_status_t status = Signal(kResent, query_);
  if (status == SL_OK) resend_from_ = 0;
  return status;
}

// Nothing is looked at between the answer and the freeze that it announces: both happen on the link's thread.
sl_status_t Path::Answer(uint64_t received) {
  const uint64_t word = Word(kQuery);
  const uint64_t query = word >> 32;
  const sl_status_t status = Signal(kAnswer, query << 32 | (received & UINT32_MAX));
  if (status != SL_OK) return status;
  answered_ = query;
  const uint32_t missing = static_cast<uint32_t>(word) - static_cast<uint32_t>(received);
  frozen_ = !mapped() && missing != 0 && missing <= slots_;
  frozen_above_ = received;
  return SL_OK;
}

void Path::ThawIfResent() {
  if (frozen_ && Word(kResent) >= answered_) frozen_ = false;
}

}  // namespace sl::kernel
