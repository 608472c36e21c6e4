// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/connection.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "modules/fault-inject/transport.h"
#include "sdk/answer.h"

namespace sl::fault_inject {
namespace {

constexpr uint64_t kRetryNs = 50'000;
constexpr int kLeaveTries = 1000;  // some milliseconds

}  // namespace

// The dice of a connection do not depend on the order in which connections are made.
Connection::Connection(Transport* transport, sl_connection_t* inner, const sl_connect_args_t& args)
    : transport_(transport),
      inner_(inner),
      peer_(args.peer),
      lane_(args.lane),
      signal_count_(args.signal_count),
      inline_bytes_(transport->InlineBytes(args.port)),
      dice_(transport->base().seed, transport->rank(), args.peer, args.lane, args.tag),
      settings_(transport->SettingsOf(args.peer, args.lane)),
      resets_seen_(settings_.resets) {}

sl_status_t Connection::Put(const sl_put_t& put) {
  const uint32_t state = State();
  if (state != SL_CONNECTION_UP) return state == SL_CONNECTION_CONNECTING ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  if (put.signal != SL_NO_SIGNAL && put.signal >= signal_count_) return SL_ERR_INVALID;
  // A put that is not taken is not counted: tried again, it meets the same fate.
  const uint64_t number = puts_ + 1;
  if (settings_.kill_after_puts != 0 && number >= settings_.kill_after_puts && transport_->has_kill()) {
    // Lost on its way, as its sender will find out.
    sl_put_t lost = {};
    lost.cookie = put.cookie;
    if (put.cookie != 0) line_.Append(lost, Settings(), 0, -1, false);
    transport_->TakeKill();
    puts_ = number;
    Reset("after so many puts");
    return SL_OK;
  }
  if (number == settings_.stall_after_puts && number != stalled_by_put_) {
    stalled_by_put_ = number;
    stalled_until_ns_ = transport_->now() + settings_.stall_ms * 1'000'000;
  }
  sl_status_t status = SL_OK;
  if (dice_.Chance(Throw::kDrop, number, settings_.drop_per_million)) {
    status = Swallow(put);
    if (status == SL_OK) ++transport_->counts().dropped;
  } else {
    status = Forward(put, Decide(put, number));
  }
  if (status != SL_OK) return status;
  puts_ = number;
  transport_->CountPut();
  return SL_OK;
}

Connection::Fate Connection::Decide(const sl_put_t& put, uint64_t number) const {
  Fate fate{put.bytes};
  fate.duplicate = dice_.Chance(Throw::kDuplicate, number, settings_.duplicate_per_million);
  // Signals appear in the order of their calls; what has none may be overtaken.
  fate.yields = put.signal == SL_NO_SIGNAL && dice_.Chance(Throw::kReorder, number, settings_.reorder_per_million);
  if (put.bytes == 0) return fate;
  if (dice_.Chance(Throw::kTruncate, number, settings_.truncate_per_million)) {
    fate.bytes = dice_.Roll(Throw::kTruncateTo, number) % put.bytes;
  }
  if (put.region == nullptr && fate.bytes != 0 &&
      dice_.Chance(Throw::kCorrupt, number, settings_.corrupt_per_million)) {
    fate.flip_bit = static_cast<int64_t>(dice_.Roll(Throw::kCorruptAt, number) % (fate.bytes * 8));
  }
  return fate;
}

sl_status_t Connection::Forward(const sl_put_t& put, const Fate& fate) {
  sl_put_t sent = put;
  sent.bytes = fate.bytes;
  const bool is_timed = settings_.HasLine() || stalled_until_ns_ != 0 || settings_.stalled != 0;
  const uint64_t now_ns = is_timed ? transport_->now() : 0;
  const bool is_plain = !fate.duplicate && !fate.yields && fate.flip_bit < 0;
  if (is_plain && line_.empty() && !settings_.HasLine() && !IsStalled(now_ns)) {
    std::vector<uint8_t> copy;
    if (sent.source != nullptr && sent.region == nullptr && sent.bytes > inline_bytes_) {
      copy = line_.Copy(sent.source, sent.bytes);
      sent.source = copy.data();
    }
    const sl_status_t status = Hand(sent, &copy);
    if (status != SL_OK) line_.Recycle(std::move(copy));
    if (status == SL_OK && fate.bytes != put.bytes) ++transport_->counts().truncated;
    return status;
  }
  line_.Append(sent, settings_, now_ns, fate.flip_bit, fate.yields);
  // From here on it is taken, whatever there is no memory for.
  AppendAgain(sent, now_ns, fate);
  Counts& counts = transport_->counts();
  counts.duplicated += fate.duplicate ? 1 : 0;
  counts.reordered += fate.yields ? 1 : 0;
  counts.truncated += fate.bytes != put.bytes ? 1 : 0;
  counts.corrupted += fate.flip_bit >= 0 ? 1 : 0;
  DrainOrLater(now_ns);
  if (!line_.empty()) transport_->WakeThread();
  return SL_OK;
}

// Where memory is short it arrives once.
void Connection::AppendAgain(sl_put_t sent, uint64_t now_ns, const Fate& fate) noexcept {
  if (!fate.duplicate) return;
  sent.cookie = 0;
  try {
    line_.Append(sent, settings_, now_ns, fate.flip_bit, false);
  } catch (const std::bad_alloc&) {
  }
}

// What cannot go now for want of memory goes with the next Release().
void Connection::DrainOrLater(uint64_t now_ns) noexcept {
  try {
    Drain(now_ns, false, false);
  } catch (const std::bad_alloc&) {
  }
}

// The bytes are lost, the completion is not: a network tells its sender nothing.
sl_status_t Connection::Swallow(const sl_put_t& put) {
  if (put.cookie == 0) return SL_OK;
  sl_put_t nothing = {};
  nothing.struct_size = sizeof nothing;
  nothing.signal = SL_NO_SIGNAL;
  nothing.cookie = put.cookie;
  return Forward(nothing, Fate{0});
}

sl_status_t Connection::Hand(const sl_put_t& put, std::vector<uint8_t>* bytes) {
  const bool borrows = !bytes->empty() && put.bytes > inline_bytes_;
  if (put.cookie == 0 && !borrows) return transport_->ops()->put(inner_, &put);
  Lent& lent = lent_.emplace_back(Lent{handed_ + 1, put.cookie, put.region != nullptr, {}});
  ++handed_;
  lent.bytes.swap(*bytes);  // they stay where they are
  sl_put_t below = put;
  below.cookie = lent.number;
  const sl_status_t status = transport_->ops()->put(inner_, &below);
  if (status == SL_OK) return SL_OK;
  lent.bytes.swap(*bytes);
  lent_.pop_back();
  --handed_;
  return status;
}

void Connection::OnDone(uint64_t number, sl_status_t status) {
  if (lent_.empty() || number < lent_.front().number || number > handed_) return;
  Lent& lent = lent_[number - lent_.front().number];
  lent.over = true;
  lent.status = status;
  Settle();
}

void Connection::Settle() {
  bool all = true;
  for (Lent& lent : lent_) {
    all = lent.over || (is_down_ && !lent.registered);
    if (!all) break;
    if (lent.cookie == 0) continue;
    transport_->Tell(this, lent.cookie, lent.over ? lent.status : SL_ERR_LINK_DOWN);
    lent.cookie = 0;
  }
  for (; !lent_.empty() && lent_.front().over; lent_.pop_front()) line_.Recycle(std::move(lent_.front().bytes));
  if (!is_down_ || !all) return;
  for (; !line_.empty(); line_.PopFront()) {
    if (const uint64_t cookie = line_.front().put.cookie; cookie != 0) transport_->Tell(this, cookie, SL_ERR_LINK_DOWN);
  }
}

bool Connection::Drain(uint64_t now_ns, bool all, bool yielding) {
  if (!all && IsStalled(now_ns)) return false;
  bool drained = false;
  for (; !line_.empty(); line_.PopFront()) {
    Line::Held& held = line_.front();
    if (!all && (held.due_ns > now_ns || (held.yields && !yielding))) break;
    const sl_status_t status = Hand(held.put, &held.bytes);
    if (status == SL_ERR_AGAIN) break;
    drained = true;
    // Any other failure shows in the state of the connection, and to who waits for the put.
    if (status != SL_OK && held.put.cookie != 0) {
      lent_.push_back(Lent{handed_ + 1, held.put.cookie, false, {}, true, SL_ERR_LINK_DOWN});
      ++handed_;
    }
  }
  return drained;
}

bool Connection::Release(uint64_t now_ns, bool all) { return is_down_ ? SayReset() : Drain(now_ns, all, true); }

void Connection::Leave() noexcept {
  try {
    if (!is_down_) Drain(0, true, true);
  } catch (const std::bad_alloc&) {  // then it is lost, as on a network
  }
  for (int i = 0; i < kLeaveTries && reset_due_; ++i) {
    if (SayReset()) break;
    transport_->ops()->progress(transport_->inner());
    sched_yield();
  }
}

uint64_t Connection::NextDue(uint64_t now_ns) {
  if (reset_due_) return now_ns + kRetryNs;
  if (is_down_ || line_.empty() || settings_.stalled != 0) return UINT64_MAX;
  const uint64_t due_ns = std::max(line_.front().due_ns, stalled_until_ns_);
  // The transport below has no room, or a put waits to be overtaken.
  return due_ns > now_ns ? due_ns : now_ns + kRetryNs;
}

void Connection::Configure(const Settings& settings) {
  settings_ = settings;
  const bool reset = settings.resets > resets_seen_;
  resets_seen_ = settings.resets;
  if (reset && State() == SL_CONNECTION_UP) Reset("as the control file says");
}

void Connection::Reset(const char* why) noexcept {
  if (is_down_) return;
  ++transport_->counts().reset;
  is_down_ = true;
  reset_due_ = true;
  if (!SayReset()) transport_->WakeThread();
  try {
    transport_->Log(SL_LOG_INFO, "peer " + std::to_string(peer_) + " lane " + std::to_string(lane_) +
                                     ": reset a connection " + why + ", put " + std::to_string(puts_));
  } catch (const std::bad_alloc&) {  // unsaid
  }
}

bool Connection::SayReset() {
  if (!reset_due_) return false;
  sl_put_t reset = {};
  reset.struct_size = sizeof reset;
  reset.signal = signal_count_;
  reset.signal_value = 1;
  const sl_status_t status = transport_->ops()->put(inner_, &reset);
  reset_due_ = status == SL_ERR_AGAIN;
  if (status == SL_OK) transport_->ops()->notify(inner_);
  return status == SL_OK;
}

uint32_t Connection::State() {
  if (is_down_) return SL_CONNECTION_DOWN;
  const uint32_t state = transport_->ops()->connection_state(inner_);
  if (state == SL_CONNECTION_CONNECTING) return state;
  if (local_reset_ == nullptr) {
    sl_window_t window = {};
    window.struct_size = sizeof window;
    if (transport_->ops()->window(inner_, &window) != SL_OK) return state;
    local_reset_ = window.local_signals + size_t{signal_count_} * 8;
  }
  if (std::atomic_ref<uint64_t>(*local_reset_).load(std::memory_order_acquire) == 0) return state;
  is_down_ = true;
  return SL_CONNECTION_DOWN;
}

sl_status_t Connection::Window(sl_window_t* out_window) {
  sl_window_t window = {};
  window.struct_size = sizeof window;
  if (const sl_status_t status = transport_->ops()->window(inner_, &window); status != SL_OK) return status;
  window.signal_count = signal_count_;
  window.peer = nullptr;  // stores past put() could not be lost
  Answer(out_window, window);
  return SL_OK;
}

void Connection::Notify() {
  // What is held back rings when it goes.
  if (!is_down_) transport_->ops()->notify(inner_);
}

}  // namespace sl::fault_inject
