// SPDX-License-Identifier: Apache-2.0
//
// What a module asks the C library for, watched and refused. Only the module's own tables of imported functions are
// changed, so the kit, the library and other modules go on undisturbed: the n-th request of the module fails, and
// nothing else does. Requests the library makes for the module (strdup, opendir) are not seen.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/conformance/kit/module.h"

namespace sl::conform {

class Imports {
 public:
  enum class Kind {
    kMemory,    // malloc and its relatives, operator new
    kResource,  // mappings, threads, descriptors
  };

  // Watches from now on, one module of a process at a time. Skips the test where tables cannot be changed, unless
  // `required` is false: then nothing is seen.
  Imports(Trial& trial, const LoadedModule& module, bool required = true);
  ~Imports();
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  // The n-th request of this kind from now on fails, once; 0: none does. Counting starts anew.
  void FailAt(Kind kind, uint64_t nth);
  // Requests of the kind since FailAt().
  uint64_t Requests(Kind kind) const;
  // Blocks of memory that the module has taken since the start and not given back.
  uint64_t LiveBlocks() const;

 private:
  struct Patch {
    void** slot;
    void* original;
  };
  std::vector<Patch> patches_;
};

}  // namespace sl::conform
