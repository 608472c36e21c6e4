// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a communicator share: the symmetric heap of the algorithms, the log of calls, the control block.
#include <sys/stat.h>

#include "kernel/comm/comm.h"
#include "kernel/comm/roster.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

// For all peers to map an allocation; the largest that fit a GPU take half a second.
constexpr uint64_t kReachPatienceNs = 2'000'000'000;
// No call takes so long from asking to launching, and who works with more memory than may be offered does not gain by
// mapping it anew all the time.
constexpr uint64_t kReachRestNs = 10'000'000'000;
// Of a device's memory, that stays free besides what peers have mapped.
constexpr uint64_t kSparedShare = 16;

}  // namespace

uint64_t Communicator::Demand(std::vector<uint64_t>* out_demands) const {
  uint64_t total = 0;
  for (const auto& served : process_->algorithms()) {
    sl_demand_t demand{sizeof(demand), 0, 0};
    if (served.ops->demand(served.instance, &shape_, &demand) != SL_OK) demand.symmetric_bytes = 0;
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
    op_log_ = OpLog(own_log_.data(), 0, config_.rank);
    return {};
  }
  std::vector<uint64_t> demands;
  const uint64_t demanded = Demand(&demands);
  if (device().is_addressable()) {
    SL_ASSIGN(auto heap, ShareSegment(device(), demanded + OpLog::kBytes));
    const auto held = HoldLog();
    heap_ = std::move(heap);
    op_log_ = OpLog(heap_->base() + demanded, heap_->stride(), config_.rank);
    return {};
  }
  // Equal on all ranks, as the device's kind and comm.reach_mib are.
  const bool reaches =
      !is_apart && (config_.size == 1 || device().can_export()) && process_->profile().settings().comm.reach_mib != 0;
  const uint64_t boards_bytes =
      reaches ? OfferBoard::SliceBytes(config_.size) + SignalBoard::SliceBytes(config_.size) : 0;
  if (log_heap_ == nullptr) {
    SL_ASSIGN(log_heap_, ShareSegment(process_->host_device(), OpLog::kBytes + boards_bytes));
    op_log_ = OpLog(log_heap_->base(), log_heap_->stride(), config_.rank);
  }
  if (is_apart || shape_.heap_on_host != 0) return ShareHostHeap();
  if (demanded != 0) SL_TRY(ShareSlices(demanded));
  // Log and boards stay while the communicator is suspended.
  if (boards_bytes == 0 || reach_ != nullptr || is_relayed() || shape_.heap_on_host != 0) return {};
  SL_TRY(MakeReach());
  return MakeSignals();
}

// A device that cannot be let at the words serves all but one-sided operations, and nothing is lost but those.
Status Communicator::MakeSignals() {
  SL_ASSIGN(bool attached, AttachSignals());
  SL_ASSIGN(attached, AllAgree(attached));
  if (!attached) return {};
  const uint64_t offset = OpLog::kBytes + OfferBoard::SliceBytes(config_.size);
  signals_ = SignalBoard(log_heap_->base() + offset, log_heap_->stride(), config_.size);
  signals_.Prepare(config_.rank);
  has_signals_.store(true);
  if (cancelled_ns_.load() != SL_NO_DEADLINE) ReleaseSignals();  // Cancel() may have come before there were any
  return {};
}

Result<bool> Communicator::AttachSignals() {
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

void Communicator::CloseReach() {
  if (reach_ == nullptr) return;
  process_->reach_keeper()->Remove(reach_.get());
  reach_->Close();
  handle_desk_->TakeAllBack();
}

Status Communicator::MakeControl() {
  if (device().is_watched()) return {};
  void* memory = nullptr;
  const sl_status_t status = device().ops->allocate(device().handle, SL_MEMORY_HOST, sizeof(sl_control_t), &memory);
  if (status != SL_OK) return {status, LastError()};
  control_.store(static_cast<sl_control_t*>(memory));
  if (cancelled()) StopLaunches(SL_ERR_ABORTED);  // Cancel() may have come before there was anything to write to
  return {};
}

// When it returns, all ranks have let go: what this rank owned is free, and not only unmapped here.
Status Communicator::ReleaseHeap(uint64_t turn) {
  sl_comm_info_t info{};
  FillInfo(&info);
  DestroyAlgorithms();
  {
    const auto held = HoldLog();
    released_bytes_.store(info.releasable_bytes);
    if (device().is_addressable()) op_log_ = OpLog(own_log_.data(), 0, config_.rank);
    heap_.reset();
  }
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

// One rank of the host owns the segment, the others fetch its descriptor from it; who asks has proved to be of this
// communicator, and the operating system vouches for the user.
Result<std::unique_ptr<SymmetricHeap>> Communicator::ShareSegment(const Device& device, uint64_t slice_bytes) {
  if (shape_.local_rank != 0) return FetchSegment(device, slice_bytes);
  SL_ASSIGN(auto heap, SymmetricHeap::Create(device.ops, device.handle, shape_.local_size, slice_bytes));
  if (shape_.local_size > 1) SL_TRY(ServeDescriptor(*heap, FrameType::kHeap));
  return heap;
}

Status Communicator::ServeDescriptor(const SymmetricHeap& heap, FrameType asked_by) {
  SL_ASSIGN(const sl_memory_handle_t handle, heap.Export());
  const Fd descriptor(handle.fd);
  for (uint32_t served = 1; served < shape_.local_size; ++served) {
    SL_ASSIGN(const Switchboard::Caller member, extension_->Take(asked_by, patience()));
    SL_TRY(SendDescriptor(member.stream.fd(), descriptor.get(), patience()));
  }
  return {};
}

Result<HandleList> Communicator::FetchHandles(uint32_t owner, const HandleDesk::Ticket& ticket) const {
  const Patience patience{NowNs() + kReachPatienceNs, &cancelled_ns_};
  const Endpoint& endpoint = roster_->cards()[owner].endpoint;
  SL_ASSIGN(const Stream stream, process_->switchboard()->Call(endpoint, tree_->identity().secret, FrameType::kHandles,
                                                               HandleDesk::Ask(ticket), patience));
  return HandleDesk::Receive(stream, patience);
}

Result<Stream> Communicator::CallNeighbour(uint32_t rank, FrameType type) const {
  const Endpoint& endpoint = roster_->cards()[rank].endpoint;
  if (!process_->switchboard()->IsHere(endpoint.space)) {
    return Status(SL_ERR_CONFIG, "NCCL_HOSTID says that " + ToText(endpoint) +
                                     " is on this host, but it runs under another kernel or in another network "
                                     "namespace; give NCCL_HOSTID different values, or none");
  }
  return process_->switchboard()->Call(endpoint, tree_->identity().secret, type, {}, patience());
}

Result<std::unique_ptr<SymmetricHeap>> Communicator::FetchSegment(const Device& device, uint64_t slice_bytes) const {
  const uint32_t leader = roster_->RanksOfHost(config_.rank).front();
  SL_ASSIGN(const Stream stream, CallNeighbour(leader, FrameType::kHeap));
  SL_ASSIGN(const Fd descriptor, ReceiveDescriptor(stream.fd(), patience()));
  struct stat facts {};
  if (fstat(descriptor.get(), &facts) != 0) return Status(SL_ERR_SYSTEM, "fstat of the symmetric heap failed");
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  handle.type = SL_HANDLE_FD;
  handle.fd = descriptor.get();
  handle.bytes = static_cast<uint64_t>(facts.st_size);
  return SymmetricHeap::Map(device.ops, device.handle, shape_.local_size, slice_bytes, handle);
}

// Every rank asks all others before it answers any: answering waits for nobody but those who have asked. Whether a GPU
// reaches another one's memory is known when it has mapped it.
Status Communicator::ShareSlices(uint64_t slice_bytes) {
  const bool shares = device().can_export();  // else this rank is alone
  SL_ASSIGN(auto heap,
            shares ? SymmetricHeap::CreateSlice(device().ops, device().handle, config_.size, config_.rank, slice_bytes)
                   : SymmetricHeap::CreateAlone(device().ops, device().handle, slice_bytes));
  {
    const auto held = HoldLog();
    heap_ = std::move(heap);
  }
  if (!shares) return {};
  std::vector<std::pair<uint32_t, Stream>> asked;
  for (uint32_t step = 1; step < config_.size; ++step) {
    const uint32_t rank = (config_.rank + step) % config_.size;
    SL_ASSIGN(Stream stream, CallNeighbour(rank, FrameType::kSlice));
    asked.emplace_back(rank, std::move(stream));
  }
  SL_TRY(ServeDescriptor(*heap_, FrameType::kSlice));
  Status reached;
  for (const auto& [rank, stream] : asked) {
    SL_ASSIGN(const Fd descriptor, ReceiveDescriptor(stream.fd(), patience()));
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    handle.type = SL_HANDLE_FD;
    handle.fd = descriptor.get();
    handle.bytes = heap_->stride();
    Status mapped = heap_->AddSlice(rank, handle);
    if (mapped.code() == SL_ERR_DEVICE_MEMORY) return mapped;
    if (mapped.ok() || !reached.ok()) continue;
    reached = mapped;
    Logf(SL_LOG_WARN, "the device does not reach the memory of {}, operations go through the host: {}", RankName(rank),
         mapped.message());
  }
  SL_ASSIGN(const bool all, AllAgree(reached.ok()));
  return all ? Status() : ShareHostHeap();
}

// Equal on all ranks.
bool Communicator::MayShareHost() const {
  return shape_.local_size == config_.size && !device().is_addressable() &&
         process_->profile().settings().comm.host_heap;
}

// The heap in host memory, which all devices are let at. Where that cannot be, operations are relayed. Descriptors are
// asked for when all have agreed to it, so that nobody takes a question about this segment for one about the log's.
Status Communicator::ShareHostHeap() {
  const Device& host = process_->host_device();
  shape_.domain_size = config_.size;
  shape_.heap_on_host = 1;
  shape_.processors = device().info.processors;
  std::vector<uint64_t> demands;
  const uint64_t demanded = MayShareHost() ? Demand(&demands) : 0;
  const bool leads = shape_.local_rank == 0;
  Result<std::unique_ptr<SymmetricHeap>> heap(Status(SL_ERR_UNSUPPORTED, "no algorithm is there, or let, to use it"));
  if (demanded != 0 && leads) heap = SymmetricHeap::Create(host.ops, host.handle, shape_.local_size, demanded);
  SL_ASSIGN(bool all, AllAgree(demanded != 0 && (!leads || heap.ok())));
  Status mine = leads ? heap.status() : Status();
  if (all) {
    if (leads) SL_TRY(ServeDescriptor(*heap.value(), FrameType::kHeap));
    if (!leads) heap = FetchSegment(host, demanded);
    mine = heap.ok() ? heap.value()->Attach(device().ops, device().handle) : heap.status();
    SL_ASSIGN(all, AllAgree(mine.ok()));
  }
  if (!all) {
    Logf(SL_LOG_WARN, "devices do not meet in memory of the host, which makes operations slower: {}",
         mine.ok() ? "another rank says why" : mine.message());
    StandAlone();
    return {};
  }
  Logf(SL_LOG_INFO, "rank {}: devices do not reach each other's memory, their kernels meet in {} MiB of the host's",
       config_.rank, heap.value()->bytes() >> 20);
  const auto held = HoldLog();
  heap_ = heap.Take();
  return {};
}

Result<bool> Communicator::AllAgree(bool mine) const {
  Writer told;
  told.Put(static_cast<uint32_t>(mine));
  SL_ASSIGN(const Contributions all, tree_->AllGather(tree_->TakeNumber(), told.bytes(), patience()));
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    Reader in(all[rank]);
    if (in.Get<uint32_t>() == 0) return false;
  }
  return true;
}

// As if no other rank were in this one's domain.
void Communicator::StandAlone() {
  const auto held = HoldLog();
  heap_.reset();
  log_heap_.reset();
  op_log_ = OpLog(own_log_.data(), 0, config_.rank);
  shape_.domain_size = 1;
  shape_.heap_on_host = 0;
  shape_.processors = roster_->HostProcessors(config_.rank);
}

}  // namespace sl::kernel
