// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/fake_links_test_util.h"

#include <algorithm>

#include "sdk/doorbell.h"

namespace sl::kernel {

FakePipe::FakePipe(const FakeNetOptions& options, sl_doorbell_t* receiver_bell)
    : slots_(options.slots), receiver_bell_(receiver_bell) {
  for (Slot& slot : slots_) slot.payload.resize(options.chunk_bytes);
}

sl_status_t FakePipe::Reserve(void** out_payload) {
  const std::lock_guard lock(mutex_);
  if (broken_ != SL_OK) return broken_;
  if (posted_ - released_ == slots_.size()) return SL_ERR_AGAIN;
  *out_payload = slots_[posted_ % slots_.size()].payload.data();
  return SL_OK;
}

sl_status_t FakePipe::Post(uint32_t bytes, const OpTag& tag) {
  const std::lock_guard lock(mutex_);
  if (broken_ != SL_OK) return broken_;
  if (bytes > slots_[0].payload.size() || posted_ - released_ == slots_.size()) return SL_ERR_INTERNAL;
  slots_[posted_ % slots_.size()].header = {
      static_cast<uint32_t>(posted_ + 1), 0, 0, bytes, tag.algorithm, 0, tag.seq, tag.signature};
  ++posted_;
  return SL_OK;
}

sl_status_t FakePipe::Peek(Chunk* out_chunk) {
  const std::lock_guard lock(mutex_);
  if (broken_ != SL_OK) return broken_;
  if (posted_ == released_) return SL_ERR_AGAIN;
  const Slot& slot = slots_[released_ % slots_.size()];
  *out_chunk = {&slot.header, slot.payload.data()};
  return SL_OK;
}

sl_status_t FakePipe::Release() {
  const std::lock_guard lock(mutex_);
  if (broken_ != SL_OK) return broken_;
  if (posted_ == released_) return SL_ERR_INTERNAL;
  ++released_;
  return SL_OK;
}

void FakePipe::Break(sl_status_t status) {
  const std::lock_guard lock(mutex_);
  broken_ = status;
}

uint64_t FakePipe::posted() const {
  const std::lock_guard lock(mutex_);
  return posted_;
}

uint64_t FakePipe::released() const {
  const std::lock_guard lock(mutex_);
  return released_;
}

class FakeLink : public Link {
 public:
  FakeLink(uint32_t peer, uint32_t lane, uint32_t chunk_bytes, bool mapped, FakePipe* out, FakePipe* in)
      : peer_(peer), lane_(lane), chunk_bytes_(chunk_bytes), mapped_(mapped), out_(out), in_(in) {}

  uint32_t peer() const override { return peer_; }
  uint32_t lane() const override { return lane_; }
  uint32_t chunk_bytes() const override { return chunk_bytes_; }
  bool mapped() const override { return mapped_; }
  sl_status_t Reserve(void** out_payload) override { return out_->Reserve(out_payload); }
  sl_status_t Post(uint32_t bytes, const OpTag& tag) override { return out_->Post(bytes, tag); }
  sl_status_t Peek(Chunk* out_chunk) override { return in_->Peek(out_chunk); }
  sl_status_t Release() override { return in_->Release(); }
  void EndReceiving() override {}
  void Notify() override { Ring(out_->receiver_bell_); }
  void DescribeWait(bool sending, sl_wait_t* wait) const override {
    wait->peer = static_cast<int32_t>(peer_);
    wait->what = sending ? "credit" : "chunk";
    wait->seen = sending ? out_->released() : in_->posted();
    wait->wanted = wait->seen + 1;
  }

 private:
  const uint32_t peer_;
  const uint32_t lane_;
  const uint32_t chunk_bytes_;
  const bool mapped_;
  FakePipe* const out_;
  FakePipe* const in_;
};

class FakeLinkNet::Provider : public LinkProvider {
 public:
  Provider(FakeLinkNet* net, uint32_t rank) : net_(net), rank_(rank) {}

  Link* Get(uint32_t peer, uint32_t lane) override {
    auto& link = links_[{peer, lane}];
    if (link == nullptr) {
      const std::vector<uint32_t>& networked = net_->options().networked;
      const bool mapped = std::find(networked.begin(), networked.end(), peer) == networked.end();
      link = std::make_unique<FakeLink>(peer, lane, net_->options().chunk_bytes, mapped, net_->pipe(rank_, peer, lane),
                                        net_->pipe(peer, rank_, lane));
    }
    return link.get();
  }
  sl_status_t Progress() override { return net_->Progress(); }
  std::span<const int32_t> descriptors() override { return net_->options().descriptors; }
  sl_doorbell_t* doorbell() override { return net_->options().doorbells ? net_->bell(rank_) : nullptr; }

 private:
  FakeLinkNet* const net_;
  const uint32_t rank_;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<FakeLink>> links_;
};

FakeLinkNet::FakeLinkNet(uint32_t ranks, const FakeNetOptions& options) : options_(options), bells_(ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) providers_.push_back(std::make_unique<Provider>(this, rank));
}

FakeLinkNet::~FakeLinkNet() = default;

LinkProvider* FakeLinkNet::provider(uint32_t rank) { return providers_[rank].get(); }

FakePipe* FakeLinkNet::pipe(uint32_t from, uint32_t to, uint32_t lane) {
  const std::lock_guard lock(mutex_);
  auto& pipe = pipes_[{uint64_t{from} << 32 | to, lane}];
  if (pipe == nullptr) pipe = std::make_unique<FakePipe>(options_, bell(to));
  return pipe.get();
}

bool FakeLinkNet::Drained() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, pipe] : pipes_) {
    if (pipe->posted() != pipe->released()) return false;
  }
  return true;
}

uint64_t FakeLinkNet::posted() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [key, pipe] : pipes_) sum += pipe->posted();
  return sum;
}

}  // namespace sl::kernel
