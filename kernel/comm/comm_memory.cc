// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a communicator share: the symmetric heap of the algorithms, the log of calls, the control block.
#include <utility>

#include "kernel/comm/comm.h"
#include "kernel/comm/heap_sharing.h"
#include "kernel/comm/roster.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

// For all peers to map what a call asks for; the largest allocations that fit a GPU take half a second.
constexpr uint64_t kReachPatienceNs = 2'000'000'000;
// A program that works with more memory than may be offered does not gain by mapping it anew all the time.
constexpr uint64_t kReachRestNs = 10'000'000'000;
// Of a device's memory, that stays free besides what peers have mapped.
constexpr uint64_t kSparedShare = 16;

}  // namespace

HeapSharing Communicator::sharing() const {
  return HeapSharing({config_.rank, *roster_, tree_.get(), extension_.get(), patience()});
}

uint64_t Communicator::Demand(std::vector<uint64_t>* out_demands) const {
  uint64_t total = 0;
  for (const auto& served : process_->algorithms()) {
    sl_demand_t demand{sizeof(demand), 0, 0};
    const sl_status_t status = CallModule("demand", served.ops->demand, served.instance, &shape_, &demand);
    if (status != SL_OK) demand.symmetric_bytes = 0;
    if (status == SL_ERR_EXCEPTION) Logf(SL_LOG_ERROR, "algorithm {}: {}", served.name, LastError());
    out_demands->push_back((demand.symmetric_bytes + 4095) / 4096 * 4096);
    total += out_demands->back();
  }
  return total;
}

// The log of calls is read by CPUs: where they do not reach the heap it has a segment of its own.
Status Communicator::MakeHeap() {
  const bool is_apart = shape_.domain_size != config_.size;
  if (is_apart && !MayShareHost()) {
    const auto held = HoldLog();
    op_log_ = OpLog(own_log_.data(), 0, config_.rank, config_.size);
    return {};
  }
  std::vector<uint64_t> demands;
  const uint64_t demanded = Demand(&demands);
  if (device().is_addressable()) {
    SL_ASSIGN(auto heap, sharing().Segment(device(), demanded + OpLog::kBytes));
    const auto held = HoldLog();
    heap_ = std::move(heap);
    op_log_ = OpLog(heap_->base() + demanded, heap_->stride(), config_.rank, config_.size);
    return {};
  }
  // Equal on all ranks, as the device's kind and comm.reach_mib are.
  const bool reaches =
      !is_apart && (config_.size == 1 || device().can_export()) && process_->profile().settings().comm.reach_mib != 0;
  const uint64_t boards_bytes =
      reaches ? OfferBoard::SliceBytes(config_.size) + SignalBoard::SliceBytes(config_.size) : 0;
  if (log_heap_ == nullptr) {
    SL_ASSIGN(log_heap_, sharing().Segment(process_->host_device(), OpLog::kBytes + boards_bytes));
    op_log_ = OpLog(log_heap_->base(), log_heap_->stride(), config_.rank, config_.size);
  }
  if (is_apart || shape_.heap_on_host != 0) return ShareHostHeap();
  if (demanded != 0) {
    SL_ASSIGN(auto heap, sharing().Slices(device(), demanded));
    {
      const auto held = HoldLog();
      heap_ = std::move(heap);
    }
    if (heap_ == nullptr) SL_TRY(ShareHostHeap());
  }
  // Log and boards stay while the communicator is suspended.
  if (boards_bytes == 0 || reach_ != nullptr || is_relayed() || shape_.heap_on_host != 0) return {};
  SL_TRY(MakeReach());
  return MakeSignals();
}

// A device that cannot be let at the words serves all but one-sided operations, and nothing is lost but those.
Status Communicator::MakeSignals() {
  SL_ASSIGN(const bool attached, tree_->AllAgree(AttachSignals(), patience()));
  if (!attached) return {};
  const uint64_t offset = OpLog::kBytes + OfferBoard::SliceBytes(config_.size);
  signals_ = SignalBoard(log_heap_->base() + offset, log_heap_->stride(), config_.size);
  signals_.Prepare(config_.rank);
  has_signals_.store(true);
  if (cancelled_ns_.load() != SL_NO_DEADLINE) ReleaseSignals();  // Cancel() may have come before there were any
  return {};
}

bool Communicator::AttachSignals() {
  if ((device().info.capabilities & SL_DEVICE_CAN_WRITE_VALUE) == 0) return false;
  const sl_status_t status = device().ops->host_attach(device().handle, log_heap_->base(), log_heap_->bytes());
  if (status == SL_OK) is_attached_ = true;
  if (status != SL_OK) Logf(SL_LOG_INFO, "put and signal are not served: {}", LastError());
  return is_attached_;
}

void Communicator::DetachSignals() {
  if (std::exchange(is_attached_, false)) device().ops->host_detach(device().handle, log_heap_->base());
}

Status Communicator::MakeReach() {
  const OfferBoard board(log_heap_->base() + OpLog::kBytes, log_heap_->stride(), config_.size);
  reach_ = std::make_unique<Reach>(Reach::Setting{
      .device_ops = device().ops,
      .device = device().handle,
      .board = board,
      .rank = config_.rank,
      .shares_process = roster_->SharesProcess(config_.rank),
      .most_bytes = process_->profile().settings().comm.reach_mib << 20,
      .spared_bytes = device().info.memory_bytes / kSparedShare,
      .patience_ns = kReachPatienceNs,
      .rest_ns = kReachRestNs,
      .ring = [this] { tree_->Ring(); },
      .is_over = [this] { return cancelled() || !healthy() || !complete(); },
      .gives_up = [this] { return cancelled() || !healthy() || HasStoppedLaunches(); },
      .desk = handle_desk_.get(),
      .fetch = [this](uint32_t owner, const HandleDesk::Ticket& ticket) { return FetchHandles(owner, ticket); },
  });
  extension_->SetDesk(FrameType::kHandles, [desk = handle_desk_](Switchboard::Caller* caller) {
    desk->Serve(caller);
    return true;
  });
  tree_->WatchRings([keeper = process_->reach_keeper()] { keeper->Wake(); });
  return process_->reach_keeper()->Add(reach_.get());
}

void Communicator::LeaveKeeper() {
  if (reach_ != nullptr) process_->reach_keeper()->Forget(reach_.get());
}

void Communicator::CloseReach() {
  if (reach_ == nullptr) return;
  process_->reach_keeper()->Remove(reach_.get());
  reach_->Close();
  handle_desk_->TakeAllBack();
}

Status Communicator::MakeControl() {
  if (device().is_watched()) return {};
  void* memory = nullptr;
  SL_TRY(StatusOf(device().ops->allocate(device().handle, SL_MEMORY_HOST, sizeof(sl_control_t), &memory)));
  control_.store(static_cast<sl_control_t*>(memory));
  if (cancelled()) StopLaunches(SL_ERR_ABORTED);  // Cancel() may have come before there was anything to write to
  return {};
}

// When it returns, all ranks have let go: what this rank owned is free, and not only unmapped here.
Status Communicator::ReleaseHeap(uint64_t turn) {
  sl_comm_info_t info{};
  FillInfo(&info);
  DestroyAlgorithms();
  std::unique_ptr<SymmetricHeap> heap;
  {
    const auto held = HoldLog();
    released_bytes_.store(info.releasable_bytes);
    if (device().is_addressable()) op_log_ = OpLog(own_log_.data(), 0, config_.rank, config_.size);
    heap = std::move(heap_);
  }
  heap.reset();  // without the lock: the driver may wait for all kernels, the control thread must not
  return tree_->AllGather(turn, {}, {NowNs() + config_.timeout_ns, &cancelled_ns_}).status();
}

Status Communicator::RemakeHeap() {
  deadline_ns_ = NowNs() + config_.timeout_ns;
  // What is relayed stays so, and nothing is there to relay what was not.
  if (!is_relayed()) {
    SL_TRY(WhyGivenUp(MakeHeap()));
    if (is_relayed()) return {SL_ERR_MEMORY, "the memory that the ranks shared cannot be had again; the log says why"};
  }
  return MakeAlgorithms();
}

Result<HandleList> Communicator::FetchHandles(uint32_t owner, const HandleDesk::Ticket& ticket) const {
  const Patience patience{NowNs() + kReachPatienceNs, &cancelled_ns_};
  SL_ASSIGN(const Stream stream, CallRank(owner, FrameType::kHandles, HandleDesk::Ask(ticket), patience));
  return HandleDesk::Receive(stream, patience);
}

// Equal on all ranks.
bool Communicator::MayShareHost() const {
  return shape_.local_size == config_.size && !device().is_addressable() &&
         process_->profile().settings().comm.host_heap;
}

// The heap in host memory, which all devices are let at. Where that cannot be, operations are relayed.
Status Communicator::ShareHostHeap() {
  shape_.domain_size = config_.size;
  shape_.heap_on_host = 1;
  shape_.processors = device().info.processors;
  std::vector<uint64_t> demands;
  const uint64_t demanded = MayShareHost() ? Demand(&demands) : 0;
  SL_ASSIGN(auto heap, sharing().HostSegment(process_->host_device(), device(), demanded));
  if (heap == nullptr) {
    StandAlone();
    return {};
  }
  const auto held = HoldLog();
  heap_ = std::move(heap);
  return {};
}

// As if no other rank were in this one's domain.
void Communicator::StandAlone() {
  const auto held = HoldLog();
  heap_.reset();
  log_heap_.reset();
  op_log_ = OpLog(own_log_.data(), 0, config_.rank, config_.size);
  shape_.domain_size = 1;
  shape_.heap_on_host = 0;
  shape_.processors = roster_->HostProcessors(config_.rank);
}

}  // namespace sl::kernel
