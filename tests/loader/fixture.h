// SPDX-License-Identifier: Apache-2.0
//
// What the loader's tests share: a temporary folder, the folders of sample modules, a journal of what modules did.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/loader/loader.h"

namespace sl::kernel {

class LoaderTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Modules are looked for in this folder of samples.
  void UseSamples(const std::string& folder);
  // Modules are looked for in the temporary folder.
  void UseTemporary();
  // The path of a sample, and a copy of it in the temporary folder under another name.
  std::string Sample(const std::string& folder, const std::string& file) const;
  std::string Copy(const std::string& folder, const std::string& file, const std::string& as);

  // Opens a profile given as text below its first line; the file is called p.toml.
  Result<std::unique_ptr<Loader>> Open(const std::string& toml);
  // The message of the error that Open gives.
  std::string OpenError(const std::string& toml, sl_status_t code);
  // Lines written by the samples since the last call.
  std::vector<std::string> Journal();

  std::string folder_;  // temporary
};

// True when some mapping of this process belongs to a file whose path contains `text`.
bool IsMapped(const std::string& text);

}  // namespace sl::kernel
