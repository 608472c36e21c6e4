// SPDX-License-Identifier: Apache-2.0
#include "communicator.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace digits {
namespace {

// Work on the null stream is complete when the call (or the group's end) returns, so there is nothing to wait for.
constexpr cudaStream_t kStream = nullptr;

}  // namespace

Communicator::Communicator(World& world) : rank_(world.rank()), size_(world.size()) {
  ncclUniqueId id{};
  if (rank_ == 0) Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  world.Share(std::as_writable_bytes(std::span(&id, 1)));
  Check(ncclCommInitRank(&comm_, size_, id, rank_), "ncclCommInitRank");
}

Communicator::~Communicator() {
  if (comm_ != nullptr) ncclCommAbort(comm_);
}

void Communicator::Broadcast(std::span<float> values) {
  Check(ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat, 0, comm_, kStream), "ncclBroadcast");
}

void Communicator::Sum(std::span<float> values) {
  Check(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm_, kStream),
        "ncclAllReduce");
}

void Communicator::Sum(int64_t& count) {
  Check(ncclAllReduce(&count, &count, 1, ncclInt64, ncclSum, comm_, kStream), "ncclAllReduce");
}

void Communicator::Sum(double& value, int64_t& count) {
  Check(ncclGroupStart(), "ncclGroupStart");
  Check(ncclAllReduce(&value, &value, 1, ncclDouble, ncclSum, comm_, kStream), "ncclAllReduce");
  Sum(count);
  Check(ncclGroupEnd(), "ncclGroupEnd");
}

void Communicator::Close() {
  Check(ncclCommFinalize(comm_), "ncclCommFinalize");
  Check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
}

void Communicator::Check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(comm_));
}

}  // namespace digits
