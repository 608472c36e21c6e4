// SPDX-License-Identifier: Apache-2.0
#include "sdk/status.h"

namespace sl {

const char* StatusName(sl_status_t code) {
  switch (code) {
    case SL_OK:
      return "ok";
    case SL_IN_PROGRESS:
      return "in progress";
    case SL_ERR_AGAIN:
      return "again";
    case SL_ERR_INVALID:
      return "invalid argument";
    case SL_ERR_STATE:
      return "wrong state";
    case SL_ERR_UNSUPPORTED:
      return "unsupported";
    case SL_ERR_MISMATCH:
      return "ranks disagree";
    case SL_ERR_CONFIG:
      return "bad configuration";
    case SL_ERR_MEMORY:
      return "out of memory";
    case SL_ERR_LIMIT:
      return "limit reached";
    case SL_ERR_NOT_FOUND:
      return "not found";
    case SL_ERR_DENIED:
      return "denied";
    case SL_ERR_SYSTEM:
      return "system call failed";
    case SL_ERR_LINK_DOWN:
      return "link down";
    case SL_ERR_LINK_TIMEOUT:
      return "link timeout";
    case SL_ERR_LINK_CORRUPT:
      return "link corrupt";
    case SL_ERR_PEER_LOST:
      return "peer lost";
    case SL_ERR_PEER_FAILED:
      return "peer failed";
    case SL_ERR_TIMEOUT:
      return "timeout";
    case SL_ERR_ABORTED:
      return "aborted";
    case SL_ERR_DEVICE:
      return "device error";
    case SL_ERR_DEVICE_MEMORY:
      return "out of device memory";
    case SL_ERR_INTERNAL:
      return "internal error";
    case SL_ERR_EXCEPTION:
      return "exception";
    default:
      return "unknown status";
  }
}

}  // namespace sl
