// SPDX-License-Identifier: Apache-2.0
//
// The control file: faults that are set while programs run. It states what is, not what to do, so it may be read at any
// time, by all ranks at once, and again.
//
//   drop_per_million = 1000              # every connection
//   delay_us = 20000 rank 0 peer 1       # of rank 0 to rank 1
//   stalled = 1 rank 1 lane 0
//
// A file and not a socket: it reaches ranks that come later, needs no descriptor and nobody who listens, and is
// replaced whole by a rename.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "modules/fault-inject/settings.h"
#include "sdk/status.h"

namespace sl::fault_inject {

// One line: sets a number for the connections it names; -1 names all.
struct Override {
  const Setting* setting = nullptr;
  uint64_t value = 0;
  int64_t rank = -1;
  int64_t peer = -1;
  int64_t lane = -1;
};

// Reads the text of a control file.   returns: SL_ERR_CONFIG with the line
Status ParseControl(const std::string& text, std::vector<Override>* out);

// `base` with what the overrides say of a connection; later lines win. A transport as a whole has peer and lane -2,
// which only lines that name neither fit.
Settings Apply(const Settings& base, const std::vector<Override>& overrides, int64_t rank, int64_t peer, int64_t lane);

// thread: the transport's user.
class ControlFile {
 public:
  static constexpr off_t kMaxBytes = 65536;
  static constexpr uint64_t kPeriodNs = 10'000'000;  // between two looks

  explicit ControlFile(std::string path) : path_(std::move(path)) {}

  bool used() const { return !path_.empty(); }
  // Looks whether the file is another one, at most every kPeriodNs. True: `overrides` changed.
  // A file that is missing says nothing; one that cannot be trusted or read keeps what was said before.
  Result<bool> Look(uint64_t now_ns);
  const std::vector<Override>& overrides() const { return overrides_; }

 private:
  // A state of the file.
  struct Seen {
    uint64_t inode = 0;
    uint64_t changed_ns = 0;
    off_t bytes = -1;
    bool is_settled = false;  // another state would have another time of change
    std::string text;         // "" where it was not read
  };

  Result<bool> Read(int fd);
  static Status Judge(const struct stat& facts);

  const std::string path_;
  uint64_t next_look_ns_ = 0;
  Seen read_;  // the newest that was read, or found wrong
  std::vector<Override> overrides_;
};

}  // namespace sl::fault_inject
