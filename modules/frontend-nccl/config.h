// SPDX-License-Identifier: Apache-2.0
//
// ncclConfig_t by its rules: the magic is checked, as many bytes are taken as both sides know, fields younger than the
// caller's version are undefined, the environment overrides the program, undefined fields take the parent's value or
// the default, and a value out of range is refused by name.
#pragma once

#include <string>

#include "nccl.h"

namespace sl::frontend_nccl {

// The effective settings of one communicator. Integers hold defined values; the texts are our own copies.
struct CommSettings {
  ncclConfig_t values;
  std::string net_name;
  std::string comm_name;
  // What the program or the environment asks for, other than `values`, where defaults stand, too. 0: nothing.
  uint32_t least_ctas = 0;
  uint32_t most_ctas = 0;

  CommSettings();  // the defaults
  bool blocking() const { return values.blocking != 0; }
};

// NCCL_CTA_POLICY_… as the kernel has it: what an SM is worth, and whether none are wanted held.
void FillPolicy(int policy, uint32_t* out_weight, uint32_t* out_free);

// What a program's field says, as text for ncclParamGet… and the reference page.
struct ConfigField {
  const char* name;
  const char* variable;  // the NCCL variable that overrides it; NULL: none
  int version;           // the release that introduced it, as config.version says it
  int ncclConfig_t::*member;
  int minimum;
  int maximum;
  int default_value;
  const char* unmet;  // what is said, once a process, where another value is asked for; NULL: the field acts, or asks
                      // for what holds here in every case
};

const ConfigField* ConfigFields(size_t* out_count);

// Settings for a new communicator: from `user` (NULL: nothing asked), the environment, and `parent` (NULL: no parent;
// else what it was made with stands where `user` is NULL). `function` names the call in error texts.
// returns: ncclSuccess | ncclInvalidArgument with the field, its value and its range in the last error text
ncclResult_t ParseConfig(const char* function, const ncclConfig_t* user, const CommSettings* parent,
                         CommSettings* out_settings);

}  // namespace sl::frontend_nccl
