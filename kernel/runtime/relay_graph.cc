// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_graph.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "kernel/events/log.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/relay.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kPageBytes = 65536;
constexpr uint64_t kShortestRestNs = 50'000;
constexpr uint64_t kLongestRestNs = 2'000'000;
constexpr uint64_t kPauseShare = 64;  // of a pause; a rest may be as long

void Store(uint64_t* word, uint64_t value) { std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release); }

void FillWait(const char* what, sl_wait_t* wait) {
  *wait = {};
  wait->struct_size = sizeof(*wait);
  wait->peer = -1;
  wait->what = what;
}

}  // namespace

RelayGraph::RelayGraph(Relay* relay, uint64_t capture, uint8_t* areas)
    : relay_(relay), capture_(capture), areas_(areas), newest_ns_(NowNs()) {}

RelayGraph::~RelayGraph() = default;

Result<const RelayGraph::Job*> RelayGraph::Add(std::span<Pending* const> ops) {
  auto job = std::make_unique<Job>(relay_->handle_);
  std::vector<Pending*> own;
  for (const Pending* entered : ops) {
    own.push_back(job->ops.emplace_back(std::make_unique<Pending>()).get());
    own.back()->handle = entered->handle;
    own.back()->op = entered->op;
  }
  SL_TRY(job->pieces.Prepare(own, relay_->room_.area_bytes));
  SL_TRY(Place(job.get()));
  job->pieces.Restart();
  const std::lock_guard lock(relay_->mutex_);
  if (has_ended_ || is_closed()) {
    return Status(SL_ERR_STATE,
                  "a call of this capture has failed before, or the communicator was stopped while it was captured");
  }
  std::atomic<Job*>& before = jobs_.empty() ? first_ : jobs_.back()->next;
  Job* const added = jobs_.emplace_back(std::move(job)).get();  // kept before the progress thread can find it
  before.store(added, std::memory_order_release);
  return added;
}

// Gives the job its words, as they are between replays.
Status RelayGraph::Place(Job* job) {
  const uint32_t pieces = job->pieces.count();
  SL_ASSIGN(uint8_t * memory, TakeWords(sizeof(Words) + pieces * sizeof(RelayWords)));
  job->words = new (memory) Words{0, 1};
  const RelayRoom room{new (memory + sizeof(Words)) RelayWords[pieces]{}, pieces, areas_, relay_->room_.area_bytes};
  job->pieces.PlaceIn(room, 0, true);
  return {};
}

Result<uint8_t*> RelayGraph::TakeWords(uint64_t bytes) {
  if (word_pages_.empty() || word_pages_.back().size() - used_bytes_ < bytes) {
    SL_ASSIGN(const std::span<uint8_t> page, relay_->TakePage(std::max(bytes, kPageBytes)));
    word_pages_.push_back(page);
    used_bytes_ = 0;
  }
  uint8_t* words = word_pages_.back().data() + used_bytes_;
  used_bytes_ += bytes;
  return words;
}

bool RelayGraph::awaits_device() const { return is_running_ && (has_run_ || next_->pieces.awaits_device()); }

uint64_t RelayGraph::rest_ns() const {
  if (is_running_) return 0;
  return std::clamp((NowNs() - newest_ns_) / kPauseShare, kShortestRestNs, kLongestRestNs);
}

sl_status_t RelayGraph::Poll(sl_wait_t* wait) {
  moved_ = false;
  if (is_closed_.load(std::memory_order_acquire)) return is_running_ && !has_run_ ? SL_ERR_ABORTED : SL_OK;
  sl_status_t status = SL_OK;
  while (status == SL_OK) {
    status = PollJob(wait);
    moved_ |= status == SL_OK;
  }
  return status;
}

// SL_OK: it has been replayed, and the next one may be.
sl_status_t RelayGraph::PollJob(sl_wait_t* wait) {
  if (next_ == nullptr) next_ = first_.load(std::memory_order_acquire);
  RelayPieces& pieces = next_->pieces;
  if (!is_running_) {
    if (!pieces.IsIn(0)) {
      FillWait("launch of a graph", wait);
      return SL_ERR_AGAIN;
    }
    Begin();
  }
  if (!has_run_) {
    const sl_status_t status = pieces.Poll(wait);
    moved_ |= pieces.moved();
    if (status != SL_OK) return status;
    pieces.Leave(SL_OK);
    has_run_ = true;
  }
  if (LoadRelayWord(next_->words->left) == 0) {
    FillWait("copy from host memory", wait);
    return SL_ERR_AGAIN;
  }
  PutBack();
  return SL_OK;
}

void RelayGraph::Begin() {
  Store(&next_->words->ready, 0);
  next_->pieces.Restart();
  next_->pieces.TellBegin();
  is_running_ = true;
  is_busy_.store(true, std::memory_order_release);
}

void RelayGraph::PutBack() {
  next_->pieces.LowerWords();
  Store(&next_->words->left, 0);
  Store(&next_->words->ready, 1);
  is_running_ = has_run_ = false;
  newest_ns_ = NowNs();
  next_ = next_->next.load(std::memory_order_acquire);
  if (next_ == nullptr) is_busy_.store(false, std::memory_order_release);
}

sl_status_t RelayGraph::Check(void* context, const sl_wait_t* wait, uint64_t waited_ns) {
  auto* graph = static_cast<RelayGraph*>(context);
  return graph->is_running_ ? graph->next_->pieces.Check(wait, waited_ns) : SL_OK;
}

// The communicator hears of a failure before the device goes on. Last of all the lock is given back: who finds that the
// graph has ended may free the relay.
void RelayGraph::Done(void* context, sl_status_t status) {
  auto* graph = static_cast<RelayGraph*>(context);
  Relay* relay = graph->relay_;
  const LogRankScope rank_scope(relay->handle_->comm.rank());
  if (graph->is_running_ && !graph->has_run_) graph->next_->pieces.Leave(status);
  const std::lock_guard lock(relay->mutex_);
  graph->LetPass();
  if (graph->is_gone_) relay->Forget(graph);
}

// W3.
void RelayGraph::LetPass() {
  for (const auto& job : jobs_) {
    job->pieces.DropPlans();
    job->pieces.RaiseEnds();
    Store(&job->words->ready, 1);
  }
  has_ended_ = true;
  is_busy_.store(false, std::memory_order_release);
}

}  // namespace sl::kernel
