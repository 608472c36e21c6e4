// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/fake_transport_test_util.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernel/events/last_error.h"

namespace sl::kernel {

// The table's functions.
struct FakeCalls {
  static FakePort* Of(sl_transport_t* transport) { return reinterpret_cast<FakePort*>(transport); }
  static FakeEnd* Of(sl_connection_t* connection) { return reinterpret_cast<FakeEnd*>(connection); }

  static void Tell(const FakePort& port) {
    const uint64_t one = 1;
    if (port.news.valid()) [[maybe_unused]]
      const ssize_t told = write(port.news.get(), &one, sizeof one);
  }
  static bool Heard(const FakePort& port) {
    uint64_t count = 0;
    return read(port.news.get(), &count, sizeof count) > 0;
  }

  static sl_status_t Connect(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                             sl_connection_t** out_connection) {
    FakePort* port = Of(transport);
    FakeNet* net = port->net;
    const std::lock_guard lock(net->mutex_);
    const uint32_t peer = address->data[0];
    if (port->shortage != nullptr) return SetLastError(SL_ERR_LIMIT, port->shortage);
    if (!port->up) return SL_ERR_LINK_DOWN;
    if (port->outage != nullptr) return SetLastError(SL_ERR_LINK_DOWN, port->outage);
    if (!net->ports_[peer]->listening) return SetLastError(SL_ERR_PEER_LOST, "refused");
    auto pair = std::make_shared<FakePair>();
    pair->ranks = {port->rank, peer};
    for (int side = 0; side < 2; ++side) {
      pair->windows[side].resize(args->window_bytes + 64);
      pair->signals[side].resize(args->signal_count * 8 + 8);
      pair->states[side] = SL_CONNECTION_UP;
    }
    pair->args = *args;
    pair->args.peer = port->rank;
    pair->number = net->pairs_.size();
    net->pairs_.push_back(pair);
    net->waiting_[peer].push_back(pair);
    Tell(*net->ports_[peer]);
    *out_connection = net->NewEnd(pair, 0);
    return SL_OK;
  }

  static sl_status_t PortInfo(sl_transport_t* transport, uint32_t, sl_port_t* out_port) {
    out_port->state = Of(transport)->up ? SL_PORT_UP : 0;
    return SL_OK;
  }

  static sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args) {
    FakePort* port = Of(transport);
    const std::lock_guard lock(port->net->mutex_);
    auto& waiting = port->net->waiting_[port->rank];
    if (waiting.empty()) return SL_ERR_AGAIN;
    const std::shared_ptr<FakePair> pair = waiting.front();
    waiting.pop_front();
    pair->accepted = true;
    *out_args = pair->args;
    *out_connection = port->net->NewEnd(pair, 1);
    return SL_OK;
  }

  static uint32_t State(sl_connection_t* connection) {
    FakeEnd* end = Of(connection);
    const uint32_t state = end->pair->states[end->side].load(std::memory_order_acquire);
    if (state != SL_CONNECTION_CLOSED || end->net->mapped_) return state;
    // What was put before the goodbye comes first.
    const std::lock_guard lock(end->net->mutex_);
    return end->pair->inbound[end->side].empty() ? SL_CONNECTION_CLOSED : SL_CONNECTION_UP;
  }

  static uint8_t* Aligned(std::vector<uint8_t>& bytes) {
    return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  }

  static sl_status_t Window(sl_connection_t* connection, sl_window_t* out_window) {
    FakeEnd* end = Of(connection);
    FakePair& pair = *end->pair;
    *out_window = {sizeof(sl_window_t),
                   pair.args.signal_count,
                   Aligned(pair.windows[end->side]),
                   pair.signals[end->side].data(),
                   end->net->mapped_ ? Aligned(pair.windows[1 - end->side]) : nullptr,
                   pair.args.window_bytes};
    return SL_OK;
  }

  static void Retire(sl_connection_t* connection) {
    FakeEnd* end = Of(connection);
    FakeNet* net = end->net;
    const std::lock_guard lock(net->mutex_);
    uint32_t up = SL_CONNECTION_UP;
    end->pair->states[1 - end->side].compare_exchange_strong(up, SL_CONNECTION_CLOSED);
    end->pair->states[end->side] = SL_CONNECTION_CLOSED;
    end->pair->inbound[end->side].clear();
    for (FakePut& item : end->pair->inbound[1 - end->side]) ReadSource(&item);
    --net->live_ends_;
    delete end;
  }

  static void ReadSource(FakePut* item) {
    if (item->source != nullptr) std::memcpy(item->bytes.data(), item->source, item->bytes.size());
    item->source = nullptr;
  }

  static void Store(FakePair* pair, uint32_t side, uint32_t signal, uint64_t value) {
    if (signal == SL_NO_SIGNAL) return;
    std::atomic_ref<uint64_t>(pair->signals[side][signal * 8]).store(value, std::memory_order_release);
  }

  static sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) {
    FakeEnd* end = Of(connection);
    FakeNet* net = end->net;
    FakePair& pair = *end->pair;
    const uint32_t peer = 1 - end->side;
    if (pair.states[end->side].load(std::memory_order_acquire) != SL_CONNECTION_UP) return SL_ERR_LINK_DOWN;
    if (net->mapped_ && net->faults_.kill_every_puts == 0) {  // no lock: the protocol's own order is under test
      Store(&pair, peer, put->signal, put->signal_value);
      return SL_OK;
    }
    const std::lock_guard lock(net->mutex_);
    ++net->puts_;
    if (net->faults_.kill_every_puts != 0 && net->puts_ % net->faults_.kill_every_puts == 0) {
      pair.states[0] = pair.states[1] = SL_CONNECTION_DOWN;
      pair.inbound[0].clear();
      pair.inbound[1].clear();
      return SL_OK;  // lost on the way, as the sender finds out later
    }
    if (net->mapped_) {
      Store(&pair, peer, put->signal, put->signal_value);
      return SL_OK;
    }
    if (pair.inbound[peer].size() >= net->faults_.queue_capacity) return SL_ERR_AGAIN;
    pair.unsaid[end->side] = true;
    if (net->Chance(net->faults_.drop_per_million)) {
      ++net->dropped_;
      return SL_OK;
    }
    const auto* bytes = static_cast<const uint8_t*>(put->source);
    FakePut item{{}, nullptr, put->offset, put->signal, put->signal_value, net->ports_[pair.ranks[peer]]->polls};
    if (bytes != nullptr) {
      item.bytes.resize(put->bytes);
      item.source = bytes;
      if (!net->faults_.reads_late) ReadSource(&item);
    }
    if (net->faults_.delay_polls != 0) item.due += net->random_() % net->faults_.delay_polls;
    if (net->Chance(net->faults_.duplicate_per_million)) pair.inbound[peer].push_back(item);
    pair.inbound[peer].push_back(std::move(item));
    Tell(*net->ports_[pair.ranks[peer]]);
    return SL_OK;
  }

  static void Notify(sl_connection_t* connection) {
    const FakeEnd* end = Of(connection);
    const std::lock_guard lock(end->net->mutex_);
    FakePair& pair = *end->pair;
    if (!std::exchange(pair.unsaid[end->side], false)) return;
    ++end->net->ports_[pair.ranks[end->side]]->messages;
  }

  static sl_status_t Progress(sl_transport_t* transport) {
    FakePort* port = Of(transport);
    FakeNet* net = port->net;
    if (net->mapped_) return SL_OK;
    const std::lock_guard lock(net->mutex_);
    const bool moved = !net->has_descriptors_ || Heard(*port);
    ++port->polls;
    for (const auto& weak : net->pairs_) {
      const std::shared_ptr<FakePair> pair = weak.lock();
      if (pair == nullptr) continue;
      for (uint32_t side = 0; side < 2; ++side) {
        if (pair->ranks[side] != port->rank || (side == 1 && !pair->accepted)) continue;
        auto& inbound = pair->inbound[side];
        if (pair->held[side]) continue;
        for (; !inbound.empty() && inbound.front().due <= port->polls; inbound.pop_front()) {
          FakePut& item = inbound.front();
          if (!net->pace_.empty() && !item.bytes.empty()) {
            if (port->polls < pair->ready[side]) break;
            pair->ready[side] = port->polls + net->pace_[pair->number % net->pace_.size()];
          }
          ReadSource(&item);
          if (!item.bytes.empty()) {
            std::memcpy(Aligned(pair->windows[side]) + item.offset, item.bytes.data(), item.bytes.size());
          }
          Store(pair.get(), side, item.signal, item.value);
        }
      }
    }
    return moved ? SL_OK : SL_ERR_AGAIN;
  }

  static sl_status_t WaitObject(sl_transport_t* transport, sl_wait_object_t* out_object) {
    const FakePort* port = Of(transport);
    out_object->type = port->news.valid() ? SL_WAIT_FD : SL_WAIT_DOORBELL;
    out_object->doorbell = port->news.valid() ? nullptr : &Of(transport)->bell;
    out_object->fd = port->news.get();
    return SL_OK;
  }
};

const sl_transport_ops_t* FakeNet::Ops() {
  static constexpr sl_transport_ops_t kOps = [] {
    sl_transport_ops_t ops = {};
    ops.struct_size = sizeof ops;
    ops.port_info = FakeCalls::PortInfo;
    ops.connect = FakeCalls::Connect;
    ops.accept = FakeCalls::Accept;
    ops.connection_state = FakeCalls::State;
    ops.window = FakeCalls::Window;
    ops.retire = FakeCalls::Retire;
    ops.put = FakeCalls::Put;
    ops.progress = FakeCalls::Progress;
    ops.notify = FakeCalls::Notify;
    ops.wait_object = FakeCalls::WaitObject;
    return ops;
  }();
  return &kOps;
}

FakeNet::FakeNet(uint32_t size, bool mapped, FakeFaults faults)
    : mapped_(mapped), faults_(faults), random_(faults.seed), waiting_(size) {
  for (uint32_t rank = 0; rank < size; ++rank) {
    ports_.push_back(std::make_unique<FakePort>());
    ports_.back()->net = this;
    ports_.back()->rank = rank;
  }
}

FakeNet::~FakeNet() = default;

std::vector<sl_address_t> FakeNet::Addresses() const {
  std::vector<sl_address_t> addresses(ports_.size());
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    addresses[rank].bytes = 1;
    addresses[rank].data[0] = static_cast<uint8_t>(rank);
  }
  return addresses;
}

LinkTransport FakeNet::LinkTransportOf(uint32_t rank) {
  LinkTransport transport;
  transport.ops = Ops();
  transport.transport = Transport(rank);
  transport.name = "fake";
  transport.fabrics.resize(1);
  LinkPeers peers;
  for (const sl_address_t& address : Addresses()) peers.push_back({LinkAddress{address, {}}});
  transport.peers = std::make_shared<const LinkPeers>(std::move(peers));
  return transport;
}

void FakeNet::KillAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : pairs_) {
    const std::shared_ptr<FakePair> pair = weak.lock();
    if (pair == nullptr) continue;
    for (int side = 0; side < 2; ++side) {
      uint32_t up = SL_CONNECTION_UP;
      pair->states[side].compare_exchange_strong(up, SL_CONNECTION_DOWN);
      pair->inbound[side].clear();
    }
  }
}

void FakeNet::KillOne(size_t n) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<FakePair>> up;
  for (const auto& weak : pairs_) {
    const std::shared_ptr<FakePair> pair = weak.lock();
    if (pair != nullptr && pair->states[0] == SL_CONNECTION_UP && pair->states[1] == SL_CONNECTION_UP)
      up.push_back(pair);
  }
  if (up.empty()) return;
  FakePair& pair = *up[n % up.size()];
  pair.states[0] = pair.states[1] = SL_CONNECTION_DOWN;
  pair.inbound[0].clear();
  pair.inbound[1].clear();
}

void FakeNet::Hold(size_t k, uint32_t rank, bool held) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<FakePair> pair = pairs_.at(k).lock();
  for (uint32_t side = 0; side < 2; ++side) {
    if (pair->ranks[side] == rank) pair->held[side] = held;
  }
}

void FakeNet::SetPortUp(uint32_t rank, bool up) {
  const std::lock_guard lock(mutex_);
  ports_[rank]->up = up;
}

void FakeNet::UseDescriptors() {
  has_descriptors_ = true;
  for (const auto& port : ports_) port->news = sl::Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void FakeNet::StopListening(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  ports_[rank]->listening = false;
}

void FakeNet::SetOutage(uint32_t rank, const char* words) {
  const std::lock_guard lock(mutex_);
  ports_[rank]->outage = words;
}

void FakeNet::SetShortage(uint32_t rank, const char* words) {
  const std::lock_guard lock(mutex_);
  ports_[rank]->shortage = words;
}

sl_connection_t* FakeNet::NewEnd(std::shared_ptr<FakePair> pair, uint32_t side) {
  ++live_ends_;
  return reinterpret_cast<sl_connection_t*>(new FakeEnd{this, std::move(pair), side});
}

}  // namespace sl::kernel
