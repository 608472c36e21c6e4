// SPDX-License-Identifier: Apache-2.0
//
// The algorithms that a profile's modules provide, and the host device they are made with: what a communicator has,
// without a communicator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel/loader/loader.h"
#include "kernel/profile/profile.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "tools/verify/rank_set.h"

namespace sl::verify {

class Algorithms {
 public:
  // Loads the modules of a profile as a program would; "": the profile in effect.
  // returns: what Profile and Loader say, SL_ERR_NOT_FOUND when no module provides a host device
  static Result<std::unique_ptr<Algorithms>> Load(const std::string& profile);
  // The profile `auto`, and this file in place of a module of its name.
  static Result<std::unique_ptr<Algorithms>> LoadWith(const std::string& module_path);
  ~Algorithms();
  Algorithms(const Algorithms&) = delete;
  Algorithms& operator=(const Algorithms&) = delete;

  // They live as long as this object.
  const std::vector<Algorithm>& list() const { return list_; }
  // Says what links look like: settings().link.
  const kernel::Profile& profile() const { return profile_; }

 private:
  explicit Algorithms(kernel::Profile profile) : profile_(std::move(profile)) {}
  static Result<std::unique_ptr<Algorithms>> Open(kernel::Profile profile);
  Status OpenHostDevice();

  kernel::Profile profile_;
  std::unique_ptr<kernel::Loader> loader_;
  std::vector<Algorithm> list_;
  const sl_device_ops_t* device_ops_ = nullptr;
  sl_device_t* device_ = nullptr;
};

}  // namespace sl::verify
