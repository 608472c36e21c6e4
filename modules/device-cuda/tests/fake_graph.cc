// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/tests/fake_graph.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace sl::fake_cuda {

GraphBody::~GraphBody() {
  if (retained_.empty()) return;
  std::thread([retained = std::move(retained_)] {
    for (const auto& destroy : retained) destroy();
  }).detach();
}

GraphPoint GraphBody::Add(Work work, const GraphPoint& behind) {
  nodes_.push_back({std::move(work), behind});
  return {static_cast<uint32_t>(nodes_.size() - 1)};
}

bool GraphBody::IsJoinedBy(const GraphPoint& point) const {
  std::vector<bool> is_joined(nodes_.size());
  for (const uint32_t node : point) is_joined[node] = true;
  for (size_t node = nodes_.size(); node-- != 0;) {
    if (!is_joined[node]) return false;
    for (const uint32_t before : nodes_[node].behind) is_joined[before] = true;
  }
  return true;
}

GraphRun::GraphRun(std::shared_ptr<const GraphBody> body, std::shared_ptr<const GraphRun> previous)
    : body_(std::move(body)), previous_(std::move(previous)) {
  for (const GraphBody::Node& node : body_->nodes_) left_.push_back(node.work);
}

bool GraphRun::IsReady(const GraphBody::Node& node) const {
  return std::all_of(node.behind.begin(), node.behind.end(), [this](uint32_t before) { return !left_[before]; });
}

bool GraphRun::Advance() {
  if (is_done_) return true;
  if (previous_ != nullptr && !previous_->is_done_) return false;
  previous_.reset();
  for (size_t node = 0; node < left_.size(); ++node) {
    if (!left_[node] || !IsReady(body_->nodes_[node]) || !left_[node]()) continue;
    left_[node] = nullptr;
    ++done_;
  }
  if (done_ < left_.size()) return false;
  is_done_ = true;
  body_.reset();
  return true;
}

}  // namespace sl::fake_cuda
