// SPDX-License-Identifier: Apache-2.0
// What a measurement depends on besides the point: two that differ in any of this are not comparable.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/starling/nccl_api.h"

namespace sl::bench {

struct Conditions {
  struct Library {
    int version = 0;          // ncclGetVersion
    std::string fingerprint;  // FingerprintOf its file: builds of one version differ
  };

  // The kind of machine, not its name: a run goes on on another one that is alike.
  std::string processor;
  std::string gpu;      // the first one's model
  int cuda_driver = 0;  // the newest CUDA that the driver serves, as 13000
  int gpus = 0;         // that take part
  int rounds = 0;
  std::string datatype;
  std::string op;                                  // of reductions
  int more_elements = 0;                           // of every rank's part than its size says
  std::map<std::string, std::string> environment;  // what libraries read, not the files named there
  std::vector<Library> libraries;                  // ours, then the peers
};

// Of this process on this machine. The driver is open. Throws CommandError (failure) when a library's file cannot be
// read.
Conditions ConditionsHere(const std::vector<tools::NcclApi>& libraries, int gpus, int rounds,
                          const std::string& datatype, const std::string& op, int more_elements);

// FNV-1a (Fowler, Noll, Vo) of the file and, for a drop-in of ours, of the runtime and all modules that stand with it
// in a built or an installed tree; 16 hexadecimal digits. Throws CommandError (failure).
std::string FingerprintOf(const std::string& path);

void to_json(nlohmann::json& json, const Conditions& conditions);  // NOLINT(readability-identifier-naming): its users'

}  // namespace sl::bench
