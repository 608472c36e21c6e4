// SPDX-License-Identifier: Apache-2.0
//
// What a rank says when it comes to a rendezvous.
#pragma once

#include <string>

#include "kernel/control/endpoint.h"
#include "kernel/control/frame.h"

namespace sl::kernel {

// The body of a kJoin frame.
struct JoinRequest {
  uint32_t rank = 0;
  uint32_t size = 0;
  Endpoint tree;          // where its children in the control tree will call
  uint32_t known_as = 0;  // its number in messages: in the communicator that is shrunk, or made by several ids
  uint32_t total = 0;     // ranks of the communicator: more than `size` where it is made by several ids
  std::string terms;      // what all have to say alike; "" by one id
  uint32_t attempt = 0;   // how often this rank has called for a shrink of that communicator, this time included

  Bytes Encode() const;
  // SL_ERR_LINK_CORRUPT unless it is one, and nothing else.
  static Result<JoinRequest> Decode(std::span<const uint8_t> bytes);
};

}  // namespace sl::kernel
