// SPDX-License-Identifier: Apache-2.0
//
// The algorithms of all ranks of one communicator, made as the kernel makes them, in one process: what estimates,
// plans and launches are compared across. Nothing is run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "tests/conformance/kit/bindings.h"
#include "tests/conformance/kit/subject.h"

namespace sl::conform::algorithm {

using Subject = conform::Subject<sl_algorithm_ops_t>;

// Of which a communicator consists.
struct TeamShape {
  uint32_t ranks = 2;
  uint32_t hosts = 1;  // ranks are dealt to them in blocks; one host shares memory
  uint32_t link_chunk_bytes = 131072;
  uint32_t link_slots = 8;
};

struct CloseDevice {
  const sl_device_ops_t* ops = nullptr;
  void operator()(sl_device_t* device) const { ops->close(device); }
};

class Team {
 public:
  // Creates every rank's algorithm. One that is not for this shape makes IsServed() false and its reason Refusal().
  Team(Trial& trial, const Subject& subject, const TeamShape& shape);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool IsServed() const { return refusal_.empty(); }
  const std::string& Refusal() const { return refusal_; }
  uint32_t size() const { return shape_.ranks; }
  const sl_comm_shape_t& shape(uint32_t rank) const { return ranks_[rank].shape; }
  sl_algorithm_t* algorithm(uint32_t rank) const { return ranks_[rank].algorithm; }
  // What create() of a rank is given.
  sl_algorithm_env_t env(uint32_t rank) const;

 private:
  struct Rank {
    sl_comm_shape_t shape{};
    sl_algorithm_t* algorithm = nullptr;
  };
  void OpenDevice(Trial& trial);
  uint64_t Demand(Trial& trial);
  void Create(Trial& trial, uint64_t symmetric_bytes);

  const Subject& subject_;
  const TeamShape shape_;
  std::unique_ptr<Companion> companion_;  // of the device; NULL, like what follows, unless the module requires one
  const sl_device_ops_t* device_ops_ = nullptr;
  std::unique_ptr<sl_device_t, CloseDevice> device_;
  std::vector<std::string> host_names_;
  std::vector<const char*> host_of_;
  std::vector<Rank> ranks_;
  std::unique_ptr<uint8_t[]> memory_;  // of the symmetric slices
  sl_symmetric_t symmetric_{};
  std::string refusal_;
};

// An operation as a caller states it, between symmetric buffers; pointers lead nowhere.
sl_op_t MakeOp(sl_op_kind_t kind, sl_datatype_t datatype, sl_reduction_t reduction, uint64_t count, int32_t root);
// "all_reduce of 7 float16, sum", for messages.
std::string OpText(const sl_op_t& op);
// Whether the operation has a root.
bool HasRoot(sl_op_kind_t kind);

// Operations of all kinds, types and reductions at telling sizes; in a full run many more.
std::vector<sl_op_t> ManyOps(const Trial& trial, uint32_t ranks);

// A kind of run, and the function that lists what is run.
struct Listing {
  uint32_t run;
  size_t slot;
  const char* function;
};
// Calls check(subject, team, op) for all of ManyOps that estimate() says is run so, among 2, 3 and 8 ranks of one host;
// skips when nothing is.
void ForOpsRun(Trial& trial, const Listing& kind,
               const std::function<void(const Subject&, const Team&, const sl_op_t&)>& check);

}  // namespace sl::conform::algorithm
