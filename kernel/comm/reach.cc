// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/reach.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "kernel/control/stream.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

// Peers in the middle of a call answer within microseconds; mapping takes up to some milliseconds for each GiB.
constexpr uint64_t kYieldNs = 100'000;
constexpr timespec kNap = {0, 50'000};

uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

sl_status_t AskForAddresses(sl_reach_t* reach, const void* memory, uint64_t bytes, uint64_t capture,
                            uint64_t* out_addresses) {
  return static_cast<Reach*>(reach)->Addresses(memory, bytes, capture, out_addresses);
}

}  // namespace

const sl_reach_ops_t kReachOps = {sizeof(sl_reach_ops_t), 0, AskForAddresses};

Reach::Reach(Setting setting) : setting_(std::move(setting)) {
  taken_.resize(uint64_t{setting_.board.ranks()} * OfferBoard::kOffers);
  for (Own& own : own_) own.addresses.resize(setting_.board.ranks());
}

Reach::~Reach() = default;

sl_status_t Reach::Addresses(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses) {
  std::unique_lock lock(mutex_);
  Own* own = Reached(&lock, memory, bytes, Call(), out_addresses);
  if (own == nullptr) return SL_ERR_UNSUPPORTED;
  if (capture != 0) {
    own->is_captured = true;
    own->memory.Hold(memory, bytes);
  }
  return SL_OK;
}

Reach::Pin Reach::PinAddresses(const void* memory, uint64_t bytes, uint64_t* out_addresses) {
  std::unique_lock lock(mutex_);
  Own* own = Reached(&lock, memory, bytes, 0, out_addresses);
  if (own == nullptr) return {};
  ++own->pins;
  own->memory.Hold(memory, bytes);
  return {IndexOf(*own), own->turn};
}

// What was withdrawn meanwhile has another turn.
void Reach::Unpin(const Pin& pin) {
  std::lock_guard lock(mutex_);
  if (pin.place < own_.size() && own_[pin.place].turn == pin.turn) --own_[pin.place].pins;
}

bool Reach::HoldPinned(const Pin& pin, const void* memory, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (pin.place >= own_.size() || own_[pin.place].turn != pin.turn) return false;
  Own& own = own_[pin.place];
  if (asked_.Find(setting_.device_ops, setting_.device, memory, bytes) != nullptr) return false;
  if (!own.memory.extent().Covers(asked_) || !own.memory.extent().AgreesWith(asked_)) return false;
  own.is_captured = true;
  own.memory.Hold(memory, bytes);
  return true;
}

Reach::Own* Reach::Reached(std::unique_lock<std::mutex>* lock, const void* memory, uint64_t bytes, uint64_t call,
                           uint64_t* out_addresses) {
  if (const char* why = asked_.Find(setting_.device_ops, setting_.device, memory, bytes); why != nullptr) {
    return *why == '\0' ? nullptr : Refuse(why);
  }
  ++asked_times_;
  Own* own = Find();
  if (own == nullptr) {
    std::string reason;
    own = Offer(&reason);
    if (own == nullptr) return Refuse(reason);
  }
  own->last_call = Call();
  if (own->state == State::kOffered && !AwaitAnswers(own, call, lock))
    return Refuse("peers have not mapped it in time");
  if (own->state != State::kReady) return Refuse("a peer could not map it");
  own->last_use_ns = NowNs();
  const uint64_t offset = AddressOf(memory) - own->memory.extent().base();
  for (size_t rank = 0; rank < own->addresses.size(); ++rank) out_addresses[rank] = own->addresses[rank] + offset;
  return own;
}

// Not an error: the operation goes another way. Said once, for it is slower.
Reach::Own* Reach::Refuse(std::string_view reason) {
  if (refused_times_++ == 0) {
    Logf(SL_LOG_INFO, "rank {}: peers do not reach a buffer directly, its data is copied on the way: {}", setting_.rank,
         reason);
  }
  return nullptr;
}

// An address that was freed and allocated again is another allocation.
Reach::Own* Reach::Find() {
  Own* found = nullptr;
  for (Own& own : own_) {
    if (!own.is_standing()) continue;
    own.memory.Compare(asked_);
    if (own.memory.is_gone()) {
      Withdraw(&own);
    } else if (!own.memory.is_stale() && own.memory.extent().Covers(asked_)) {
      found = &own;
    }
  }
  return found;
}

Reach::Own* Reach::Offer(std::string* out_reason) {
  const auto refuse = [&](std::string reason) {
    *out_reason = std::move(reason);
    return nullptr;
  };
  if (asked_.bytes() > setting_.most_bytes) return refuse("it lies in more memory than comm.reach_mib");
  if (IsScarce(asked_.bytes())) return refuse("too little memory of the device is free besides");
  Own* own = FindRoom(asked_.bytes());
  if (own == nullptr) return refuse("comm.reach_mib, or all places for allocations, are in use");
  OfferBoard::Offer* offer = setting_.board.OfferOf(setting_.rank, IndexOf(*own));
  HandleList list;
  const uint64_t begin_ns = NowNs();
  if (const Status exported = Export(offer, &list); !exported.ok()) return refuse(exported.message());
  ++offered_times_;
  exporting_ns_ += NowNs() - begin_ns;
  own->state = State::kOffered;
  own->is_captured = false;
  own->pins = 0;
  own->memory.Begin(asked_);
  own->patience_end_ns = NowNs() + setting_.patience_ns;
  offered_bytes_ += own->memory.extent().bytes();
  ++own->turn;
  own->is_laid = !list.handles.empty();
  if (own->is_laid) setting_.desk->Lay({IndexOf(*own), own->turn}, std::move(list));
  OfferBoard::SetTurn(offer, own->turn);
  setting_.ring();
  return own;
}

// Fills the offer but for its turn; the list stays empty where the board holds all there is to know.
Status Reach::Export(OfferBoard::Offer* offer, HandleList* out_list) const {
  const bool is_single = asked_.pieces().size() == 1;
  const bool all_here = std::all_of(setting_.shares_process.begin(), setting_.shares_process.end(), std::identity());
  const auto make = [&](uint32_t type, uint8_t* out) {
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    void* memory = reinterpret_cast<void*>(asked_.base());
    SL_TRY(StatusOf(setting_.device_ops->export_memory(setting_.device, memory, type, &handle)));
    std::memcpy(out, handle.fabric, sizeof(handle.fabric));
    offer->type = type;
    return Status();
  };
  offer->bytes = asked_.bytes();
  offer->pieces = 0;
  if (is_single) {
    SL_TRY(make(SL_HANDLE_LOCAL, offer->local));
    if (all_here || make(SL_HANDLE_IPC, offer->handle).ok() || make(SL_HANDLE_FABRIC, offer->handle).ok()) return {};
  }
  Result<HandleList> list = ExportAll(SL_HANDLE_FD);
  if (!list.ok() && !is_single) list = ExportAll(SL_HANDLE_FABRIC);
  if (!list.ok()) return list.status();
  *out_list = list.Take();
  offer->type = out_list->handles[0].type;
  offer->pieces = static_cast<uint32_t>(asked_.pieces().size());
  return {};
}

Result<HandleList> Reach::ExportAll(uint32_t type) const {
  HandleList list;
  for (const Extent::Piece& piece : asked_.pieces()) {
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    void* memory = reinterpret_cast<void*>(piece.base);
    SL_TRY(StatusOf(setting_.device_ops->export_memory(setting_.device, memory, type, &handle)));
    if (type == SL_HANDLE_FD) list.descriptors.emplace_back(handle.fd);
    list.handles.push_back(handle);
  }
  return list;
}

// A place, and as many bytes: of free ones, else of those that were not used for longest and are not in use.
Reach::Own* Reach::FindRoom(uint64_t bytes) {
  Own* room = nullptr;
  for (;;) {
    for (Own& own : own_) {
      const bool is_withdrawn = own.state == State::kWithdrawn && IsAnswered(own, own.turn);
      if (is_withdrawn) own.state = State::kFree;
      if (own.state == State::kFree && room == nullptr) room = &own;
    }
    if (room != nullptr && offered_bytes_ + bytes <= setting_.most_bytes) return room;
    Own* oldest = Oldest(NowNs() - setting_.rest_ns);
    if (oldest == nullptr || (have_ended_ && !have_ended_())) return nullptr;
    // Its memory and its place are free again when peers have answered.
    Withdraw(oldest);
    if (room == nullptr) return nullptr;
  }
}

// Picks what is stale among what may go, else what is unused for longest. What the newest call asked for may not go:
// perhaps it is still to launch with it.
Reach::Own* Reach::Oldest(uint64_t unused_since_ns) {
  const uint64_t call = Call();
  Own* oldest = nullptr;
  for (Own& own : own_) {
    const bool is_asked_for = call != 0 && own.last_call == call;
    const bool may_go = (own.state == State::kReady || own.state == State::kRefused) && !own.IsHeld();
    if (!may_go || (is_asked_for && !IsIdleLocked())) continue;
    if (own.memory.is_stale()) return &own;
    if (own.last_use_ns > unused_since_ns) continue;
    if (oldest == nullptr || own.last_use_ns < oldest->last_use_ns) oldest = &own;
  }
  return oldest;
}

// What the device keeps for peers, should all of it be freed now.
uint64_t Reach::HeldBytes() const {
  uint64_t bytes = 0;
  for (const Own& own : own_) {
    const bool is_given_back = own.state == State::kWithdrawn && IsAnswered(own, own.turn);
    if (own.state != State::kFree && !is_given_back) bytes += own.memory.extent().bytes();
  }
  return bytes;
}

// Asking takes the driver a microsecond or more, and a program without memory to spare calls all the time.
bool Reach::IsScarce(uint64_t bytes) {
  constexpr uint64_t kAskAgainNs = 10'000'000;
  const uint64_t now_ns = NowNs();
  if (bytes >= scarce_bytes_ && now_ns < scarce_until_ns_) return true;
  if (LeavesEnough(bytes)) return false;
  scarce_bytes_ = bytes;
  scarce_until_ns_ = now_ns + kAskAgainNs;
  return true;
}

// With so many bytes more.
bool Reach::LeavesEnough(uint64_t bytes) const {
  uint64_t free_bytes = 0;
  if (setting_.device_ops->free_memory(setting_.device, &free_bytes) != SL_OK) return false;
  return HeldBytes() + bytes + setting_.spared_bytes <= free_bytes;
}

void Reach::Withdraw(Own* own) {
  own->state = State::kWithdrawn;
  offered_bytes_ -= own->memory.extent().bytes();
  TakeBack(own);
  ++own->turn;
  if (setting_.gives_up()) return;
  OfferBoard::SetTurn(setting_.board.OfferOf(setting_.rank, IndexOf(*own)), own->turn);
  setting_.ring();
}

// Its handles: all who wanted them have them, or nobody is to have them any more.
void Reach::TakeBack(Own* own) {
  if (std::exchange(own->is_laid, false)) setting_.desk->TakeBack(IndexOf(*own));
}

bool Reach::IsAnswered(const Own& own, uint64_t turn) const {
  for (uint32_t peer = 0; peer < setting_.board.ranks(); ++peer) {
    if (peer == setting_.rank) continue;
    if (OfferBoard::Turn(setting_.board.AnswerTo(setting_.rank, IndexOf(own), peer)) != turn) return false;
  }
  return true;
}

// However many buffers a call asks for, it waits for silent peers no longer than for one.
uint64_t Reach::WaitEndOf(uint64_t call) {
  if (call == 0) return UINT64_MAX;
  if (std::exchange(waiting_call_, call) != call) wait_end_ns_ = NowNs() + setting_.patience_ns;
  return wait_end_ns_;
}

// Without the lock, so that this rank's own keeper goes on. False: not yet, and it is no use to wait longer.
bool Reach::AwaitAnswers(Own* own, uint64_t call, std::unique_lock<std::mutex>* lock) {
  const uint64_t end_ns = std::min(WaitEndOf(call), own->patience_end_ns);
  const uint64_t turn = own->turn;
  const uint64_t begin_ns = NowNs();
  while (own->state == State::kOffered && own->turn == turn && !IsAnswered(*own, turn)) {
    const uint64_t now_ns = NowNs();
    if (now_ns >= end_ns || setting_.is_over()) break;
    lock->unlock();
    if (now_ns - begin_ns < kYieldNs) {
      sched_yield();
    } else {
      nanosleep(&kNap, nullptr);
    }
    lock->lock();
  }
  waited_ns_ += NowNs() - begin_ns;
  if (own->turn != turn || (own->state == State::kOffered && !IsAnswered(*own, turn))) return false;
  if (own->state == State::kOffered) CollectAnswers(own);
  return true;
}

void Reach::CollectAnswers(Own* own) {
  own->state = State::kReady;
  for (uint32_t peer = 0; peer < setting_.board.ranks(); ++peer) {
    const bool is_own = peer == setting_.rank;
    own->addresses[peer] =
        is_own ? own->memory.extent().base() : setting_.board.AnswerTo(setting_.rank, IndexOf(*own), peer)->address;
    if (own->addresses[peer] == 0) own->state = State::kRefused;
  }
}

// Whether what is offered is still there, and not too much by now.
bool Reach::KeepOwn() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  bool is_offered = false;
  for (Own& own : own_) {
    if (!own.is_standing()) continue;
    if (IsAnswered(own, own.turn)) TakeBack(&own);
    own.memory.Look(setting_.device_ops, setting_.device);
    if (IsOver(own)) {
      Withdraw(&own);
    } else {
      is_offered = true;
    }
  }
  if (!is_offered || LeavesEnough(0)) return is_offered;
  if (Own* oldest = Oldest(UINT64_MAX); oldest != nullptr && IsIdleLocked()) Withdraw(oldest);
  return true;
}

// Nobody relies on it any more.
bool Reach::IsOver(const Own& own) const {
  return own.memory.is_gone() || (own.memory.is_stale() && !own.IsHeld() && IsIdleLocked());
}

bool Reach::IsIdle() const {
  std::lock_guard lock(mutex_);
  return IsIdleLocked();
}

// A call has recorded the end of its launches before it ends; in this order nothing slips through.
bool Reach::IsIdleLocked() const { return !have_ended_ || (!is_called_() && have_ended_()); }

void Reach::WatchUse(std::function<bool()> have_ended, std::function<bool()> is_called,
                     std::function<uint64_t()> call) {
  std::lock_guard lock(mutex_);
  have_ended_ = std::move(have_ended);
  is_called_ = std::move(is_called);
  call_ = std::move(call);
}

void Reach::Close() {
  std::lock_guard keep(keep_mutex_);
  if (std::exchange(is_closed_, true)) return;
  for (Taken& taken : taken_) taken.memory.reset();
  std::lock_guard lock(mutex_);
  if (asked_times_ != 0) {
    Logf(refused_times_ != 0 ? SL_LOG_INFO : SL_LOG_DEBUG,
         "rank {}: {} uses of buffers, {} of them not direct; {} offers to peers, exported in {} us, awaited for {} us",
         setting_.rank, asked_times_, refused_times_, offered_times_, exporting_ns_ / 1000, waited_ns_ / 1000);
  }
  have_ended_ = nullptr;
  call_ = nullptr;
  for (Own& own : own_) {
    if (own.is_standing()) Withdraw(&own);
  }
}

uint32_t Reach::offered() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(
      std::count_if(own_.begin(), own_.end(), [](const Own& own) { return own.is_standing(); }));
}

uint32_t Reach::mapped() const {
  std::lock_guard keep(keep_mutex_);
  return static_cast<uint32_t>(
      std::count_if(taken_.begin(), taken_.end(), [](const Taken& taken) { return taken.memory != nullptr; }));
}

uint64_t Reach::refused() const {
  std::lock_guard lock(mutex_);
  return refused_times_;
}

}  // namespace sl::kernel
