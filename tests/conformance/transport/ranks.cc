// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport/ranks.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace sl::conform::transport {

Ranks::Ranks(Trial& trial, uint32_t size, const std::vector<uint8_t>& secrets)
    : trial_(trial), subject_(trial, SL_TRANSPORT_ID) {
  addresses_.resize(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    sl_transport_env_t env = {};
    env.struct_size = sizeof env;
    env.rank = rank;
    env.size = size;
    std::memset(env.job_secret, rank < secrets.size() ? secrets[rank] : 0, sizeof env.job_secret);
    env.job_secret[0] ^= 0x5a;
    std::memset(env.host_id, 7, sizeof env.host_id);
    sl_transport_t* transport = nullptr;
    ClearError();
    const sl_status_t status = ops().open(subject_.instance(), &env, &transport);
    if (status == SL_ERR_NOT_FOUND) trial.Skip("it has no usable port here: " + ErrorText());
    trial.Require(status == SL_OK && transport != nullptr, "open of rank {} of {} gave {}: {}", rank, size,
                  StatusName(status), ErrorText());
    transports_.push_back(transport);
    const sl_status_t listening = ops().listen(transport, 0, &addresses_[rank]);
    trial.Require(listening == SL_OK, "listen of rank {} on port 0 gave {}: {}", rank, StatusName(listening),
                  ErrorText());
  }
}

Ranks::~Ranks() {
  for (uint32_t rank = 0; rank < transports_.size(); ++rank) Close(rank);
}

void Ranks::Close(uint32_t rank) {
  if (transports_[rank] != nullptr) ops().close(transports_[rank]);
  transports_[rank] = nullptr;
}

sl_connect_args_t Ranks::Args(uint32_t to, uint32_t lane, uint64_t window) {
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  args.peer = to;
  args.lane = lane;
  args.tag = uint64_t{0xabc} << 32 | lane;
  args.window_bytes = window;
  args.signal_count = kSignals;
  return args;
}

sl_connection_t* Ranks::Start(uint32_t from, uint32_t to, const sl_connect_args_t& args, sl_status_t* out_status) {
  sl_connection_t* connection = nullptr;
  *out_status = ops().connect(transports_[from], &addresses_[to], &args, &connection);
  trial_.Expect((*out_status == SL_OK) == (connection != nullptr), "connect gave {} and a connection of {}",
                StatusName(*out_status), static_cast<void*>(connection));
  return *out_status == SL_OK ? connection : nullptr;
}

void Ranks::Dial(uint32_t from, uint32_t to, End* out_from, uint32_t lane, uint64_t window) {
  sl_status_t status = SL_OK;
  out_from->transport = transports_[from];
  out_from->connection = Start(from, to, Args(to, lane, window), &status);
  trial_.Require(status == SL_OK, "connect from rank {} to rank {} gave {}: {}", from, to, StatusName(status),
                 ErrorText());
}

void Ranks::Take(uint32_t rank, End* out_end) {
  out_end->transport = transports_[rank];
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  const bool taken = Until([&] { return ops().accept(out_end->transport, &out_end->connection, &said) == SL_OK; });
  out_end->accepted = true;
  trial_.Require(taken, "rank {} had no connection to accept within {} ms", rank, kPatienceMs);
}

void Ranks::AwaitUp(End* end) {
  end->window.struct_size = sizeof end->window;
  const bool up = Until([&] {
    return ops().connection_state(end->connection) == SL_CONNECTION_UP &&
           ops().window(end->connection, &end->window) == SL_OK;
  });
  trial_.Require(up, "a connection was not up within {} ms at the {} end", kPatienceMs,
                 end->accepted ? "accepting" : "connecting");
}

void Ranks::Connect(uint32_t from, uint32_t to, End* out_from, End* out_to, uint32_t lane, uint64_t window) {
  const Scope scope(fmt::format("from rank {} to rank {}", from, to));
  Dial(from, to, out_from, lane, window);
  Take(to, out_to);
  AwaitUp(out_from);
  AwaitUp(out_to);
}

void Ranks::Retire(End* end) {
  if (end->connection != nullptr) ops().retire(end->connection);
  end->connection = nullptr;
}

void Ranks::Progress() {
  for (sl_transport_t* transport : transports_) {
    if (transport == nullptr) continue;
    const sl_status_t status = ops().progress(transport);
    trial_.Expect(status == SL_OK || status == SL_ERR_AGAIN || status == SL_ERR_UNSUPPORTED, "progress gave {}: {}",
                  StatusName(status), ErrorText());
  }
}

bool Ranks::Until(const std::function<bool()>& done) {
  constexpr int kYields = 10'000;  // then it naps: what has not come by then rarely comes
  int turns = 0;
  for (const uint64_t deadline = DeadlineIn(kPatienceMs); DeadlineIn(0) < deadline;) {
    if (done()) return true;
    Progress();
    if (++turns < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return done();
}

uint8_t* Ranks::Lend(uint64_t bytes) {
  lent_.push_back(std::make_unique<uint8_t[]>(bytes));
  return lent_.back().get();
}

sl_status_t Ranks::Put(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal,
                       uint64_t value, uint64_t cookie) {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = signal;
  put.signal_value = value;
  put.source = source;
  put.bytes = bytes;
  put.offset = offset;
  put.cookie = cookie;
  sl_status_t status = SL_ERR_AGAIN;
  ++puts_;
  for (const uint64_t deadline = DeadlineIn(kPatienceMs); status == SL_ERR_AGAIN && DeadlineIn(0) < deadline;) {
    status = ops().put(end.connection, &put);
    if (status == SL_ERR_AGAIN) Progress();
  }
  ops().notify(end.connection);
  return status;
}

void Ranks::MustPut(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal,
                    uint64_t value) {
  const sl_status_t status = Put(end, source, bytes, offset, signal, value);
  trial_.Require(status == SL_OK, "put {} of the test, of {} bytes, gave {}: {}", puts_, bytes, StatusName(status),
                 ErrorText());
}

uint64_t Ranks::Signal(const End& end, uint32_t word) {
  return std::atomic_ref<uint64_t>(end.window.local_signals[size_t{word} * 8]).load(std::memory_order_acquire);
}

void Ranks::Flush(const End& end) {
  sl_status_t status = SL_ERR_AGAIN;
  for (const uint64_t deadline = DeadlineIn(kPatienceMs); status == SL_ERR_AGAIN && DeadlineIn(0) < deadline;) {
    status = ops().flush(end.connection);
    if (status == SL_ERR_AGAIN) ops().progress(end.transport);
  }
  const bool is_over = ops().connection_state(end.connection) >= SL_CONNECTION_DOWN;
  const bool may_refuse = is_over && (SL_IS_LINK_ERROR(status) || SL_IS_PEER_ERROR(status));
  trial_.Expect(status == SL_OK || status == SL_ERR_UNSUPPORTED || may_refuse, "flush gave {}: {}", StatusName(status),
                ErrorText());
}

std::vector<sl_completion_t> Ranks::Poll(uint32_t rank) {
  std::vector<sl_completion_t> completions(64);
  uint32_t count = 0;
  const sl_status_t status = ops().poll(transports_[rank], completions.data(), 64, &count);
  if (status == SL_ERR_UNSUPPORTED) return {};
  trial_.Expect(status == SL_OK, "poll gave {}: {}", StatusName(status), ErrorText());
  trial_.Require(count <= 64, "poll gave {} completions where there was room for 64", count);
  completions.resize(status == SL_OK ? count : 0);
  return completions;
}

void Fill(uint8_t* bytes, uint64_t count, uint64_t pattern) {
  for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>((pattern * 167 + i * 13 + (i >> 8)) ^ pattern);
}

uint64_t FirstWrong(const uint8_t* bytes, uint64_t count, uint64_t pattern) {
  for (uint64_t i = 0; i < count; ++i) {
    if (bytes[i] != static_cast<uint8_t>((pattern * 167 + i * 13 + (i >> 8)) ^ pattern)) return i;
  }
  return count;
}

}  // namespace sl::conform::transport
