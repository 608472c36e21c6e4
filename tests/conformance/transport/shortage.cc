// SPDX-License-Identifier: Apache-2.0
// A transport that gets no memory, mapping or descriptor fails the call at hand, or the connection, and loses nothing.
#include <sched.h>

#include <cstring>

#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

// What is shown by then has been shown at all; a connection whose hello was lost never comes up.
constexpr uint64_t kTurnsMs = 60;

// Two ranks, a connection and some puts; a call that fails leaves out what would have built on it.
class Life {
 public:
  Life(Trial& trial, const Subject<sl_transport_ops_t>& subject) : trial_(trial), ops_(subject.ops) {
    ClearError();
    for (uint32_t rank = 0; rank < 2; ++rank) {
      sl_transport_env_t env = {};
      env.struct_size = sizeof env;
      env.rank = rank;
      env.size = 2;
      std::memset(env.host_id, 7, sizeof env.host_id);
      if (!Good(ops_.open(subject.instance(), &env, &transports_[rank]), "open")) return;
      if (!Good(ops_.listen(transports_[rank], 0, &addresses_[rank]), "listen")) return;
    }
  }
  // Ends the connections, too.
  ~Life() {
    for (sl_transport_t* transport : transports_) {
      if (transport != nullptr) ops_.close(transport);
    }
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  void Run() {
    if (transports_[1] == nullptr || addresses_[1].bytes == 0) return;
    const sl_connect_args_t args = Ranks::Args(1, 0, 4096);
    sl_connection_t* ends[2] = {};
    if (!Good(ops_.connect(transports_[0], &addresses_[1], &args, &ends[0]), "connect")) return;
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    const auto is_over = [&] {
      if (ends[1] == nullptr) Good(ops_.accept(transports_[1], &ends[1], &said), "accept");
      return ends[1] != nullptr && ops_.connection_state(ends[0]) != SL_CONNECTION_CONNECTING &&
             ops_.connection_state(ends[1]) != SL_CONNECTION_CONNECTING;
    };
    Turn(is_over);
    if (ends[1] != nullptr && ops_.connection_state(ends[1]) == SL_CONNECTION_UP) PutSome(ends[1]);
    ops_.retire(ends[0]);
    if (ends[1] != nullptr) ops_.retire(ends[1]);
  }

 private:
  // Whether a call succeeded; if not, it has to say why.
  bool Good(sl_status_t status, const char* what) {
    const bool may_be_mute = status == SL_OK || status == SL_ERR_AGAIN || status == SL_ERR_UNSUPPORTED;
    trial_.Expect(may_be_mute || !ErrorText().empty(), "{} gave {} without a text", what, StatusName(status));
    ClearError();
    return status == SL_OK;
  }

  template <typename Done>
  void Turn(Done is_over) {
    for (const uint64_t deadline = DeadlineIn(kTurnsMs); !is_over() && DeadlineIn(0) < deadline; sched_yield()) {
      for (sl_transport_t* transport : transports_) ops_.progress(transport);
    }
  }

  void PutSome(sl_connection_t* end) {
    uint64_t completed = 0;
    for (uint64_t cookie = 1; cookie <= 3; ++cookie) {
      sl_put_t put = {};
      put.struct_size = sizeof put;
      put.signal = 0;
      put.signal_value = cookie;
      put.source = source_;
      put.bytes = sizeof source_;
      put.cookie = cookie;
      Good(ops_.put(end, &put), "put");
    }
    Turn([&] {
      sl_completion_t completions[8];
      uint32_t count = 0;
      if (ops_.poll(transports_[1], completions, 8, &count) == SL_OK) completed += count;
      return completed >= 3;
    });
  }

  Trial& trial_;
  const sl_transport_ops_t& ops_;
  sl_transport_t* transports_[2] = {};
  sl_address_t addresses_[2] = {};
  const uint8_t source_[8] = {};  // borrowed until the transports are closed
};

void FailsCleanly(Trial& trial, Imports::Kind kind) {
  { const Ranks ranks(trial, 2); }  // skips when there is no port
  const Subject<sl_transport_ops_t> subject(trial, SL_TRANSPORT_ID);
  ForEachShortage(trial, subject.module(), kind, trial.full() ? 1000 : 100, [&] { Life(trial, subject).Run(); });
}

}  // namespace

std::vector<Test> ShortageTests() {
  return {
      {"Shortage.OfMemoryFailsCleanly", "any allocation refused: an error in words, or none, and nothing is lost",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kMemory); }, 30},
      {"Shortage.OfResourcesFailsCleanly", "the same for mappings, threads and descriptors",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kResource); }, 30},
  };
}

}  // namespace sl::conform::transport
