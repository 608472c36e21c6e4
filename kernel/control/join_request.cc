// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/join_request.h"

namespace sl::kernel {

Bytes JoinRequest::Encode() const {
  Writer out;
  out.Put(rank);
  out.Put(size);
  out.Put(tree);
  out.Put(known_as);
  out.Put(total);
  out.PutText(terms);
  out.Put(attempt);
  return out.Take();
}

Result<JoinRequest> JoinRequest::Decode(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  JoinRequest request;
  request.rank = in.Get<uint32_t>();
  request.size = in.Get<uint32_t>();
  request.tree = in.Get<Endpoint>();
  request.known_as = in.Get<uint32_t>();
  request.total = in.Get<uint32_t>();
  request.terms = in.GetText();
  request.attempt = in.Get<uint32_t>();
  if (!in.ok() || !in.empty() || !IsWellFormed(request.tree)) {
    return Status(SL_ERR_LINK_CORRUPT, "a join frame of the wrong form");
  }
  return request;
}

}  // namespace sl::kernel
