// SPDX-License-Identifier: Apache-2.0
//
// The C boundary: exceptions stop here, and a Status becomes a code plus the host's thread-local error text.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "sdk/status.h"
#include "sl_host.h"

namespace sl {

// Hands a Status to C: its text to the host, its code to the caller. A Status without a text passes on what another
// call returned, whose own text stays.
inline sl_status_t ToC(const sl_host_t* host, const Status& status) noexcept {
  if (status.ok() || status.code() == SL_ERR_AGAIN || !status.has_message()) return status.code();
  try {
    return host->set_error(host->ctx, status.code(), status.message().c_str());
  } catch (...) {
    return status.code();
  }
}

// Runs `body`, which returns a Status, as the whole of a C function. Use it for every slot that may allocate or throw;
// data-path slots are noexcept by construction and do without.
template <typename Body>
sl_status_t Guard(const sl_host_t* host, Body&& body) noexcept {
  try {
    return ToC(host, std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return host->set_error(host->ctx, SL_ERR_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return host->set_error(host->ctx, SL_ERR_EXCEPTION, error.what());
  } catch (...) {
    return host->set_error(host->ctx, SL_ERR_EXCEPTION, "an exception that is not a std::exception");
  }
}

}  // namespace sl
