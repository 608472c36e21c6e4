// SPDX-License-Identifier: Apache-2.0
//
// sl.transport/1, checked.
#include <array>
#include <new>

#include "modules/checker/call.h"
#include "modules/checker/outstanding.h"

namespace sl::checker {
namespace {

constexpr uint32_t kMaxSignals = 64;
constexpr Interface kInterface = Interface::kTransport;

struct TransportFacts final : Facts {
  uint32_t rank = 0;
  uint32_t size = 0;
  Outstanding outstanding;
  std::atomic<uint64_t> retirements{0};  // of connections, so far; counted before their work is
};

struct ConnectionFacts final : Facts {
  uint32_t signal_count = 0;
  uint64_t window_bytes = 0;
  std::atomic<bool> ended{false};                               // its state said so
  std::array<std::atomic<uint64_t>, kMaxSignals> signals = {};  // last value put on each of the peer's words
};

struct RegionFacts final : Facts {
  uintptr_t begin = 0;
  uint64_t bytes = 0;
};

TransportFacts* FactsOf(const Object* object) {
  const Object* transport = object->kind == Kind::kTransport ? object : object->parent;
  return transport->As<TransportFacts>();
}

// Ports are few and asked for rarely: a call more below.
void CheckPort(Frame& frame, uint32_t port) {
  uint32_t count = 0;
  const auto* ops = frame.ops<sl_transport_ops_t>();
  if (ops->port_count(static_cast<sl_transport_t*>(frame.object(0)->inner), &count) != SL_OK || port < count) return;
  frame.Break(RuleId::kPortRange, "port %u of %u", port, count);
}

template <size_t kBytes>
bool IsTerminated(const char (&text)[kBytes]) {
  return std::memchr(text, 0, kBytes) != nullptr;
}

struct OpenHook : MakingHook<TransportFacts> {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    TransportFacts* facts = Remember(frame);
    if (facts == nullptr) return;
    const sl_transport_env_t* env = std::get<1>(values);
    facts->rank = env->rank;
    facts->size = env->size;
    frame.made()->rank = static_cast<int32_t>(env->rank);
    if (env->rank >= env->size) frame.Break(RuleId::kPeerRange, "rank %u of %u", env->rank, env->size);
  }
};

struct PortInfoHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckPort(frame, std::get<1>(values));
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    const sl_port_t* port = std::get<2>(values);
    if (status == SL_OK && port->struct_size >= sizeof *port &&
        (!IsTerminated(port->name) || !IsTerminated(port->pci_path))) {
      frame.Break(RuleId::kTextOpen, "the name or PCI path of port %u has no end", std::get<1>(values));
    }
  }
};

struct ListenHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckPort(frame, std::get<1>(values));
  }
};

struct ConnectionHook : MakingHook<ConnectionFacts> {
 protected:
  // False: there is no connection.
  bool RememberAs(Frame& frame, const sl_connect_args_t& args) {
    ConnectionFacts* facts = Remember(frame);
    if (facts == nullptr) return false;
    facts->signal_count = args.signal_count;
    facts->window_bytes = args.window_bytes;
    Object* connection = frame.made();
    connection->rank = connection->parent->rank;
    connection->peer = static_cast<int32_t>(args.peer);
    connection->lane = static_cast<int32_t>(args.lane);
    return true;
  }
};

struct ConnectHook : ConnectionHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const sl_connect_args_t* args = std::get<2>(values);
    CheckPort(frame, args->port);
    const uint32_t size = FactsOf(frame.object(0))->size;
    if (args->peer >= size) frame.Break(RuleId::kPeerRange, "peer %u of %u ranks", args->peer, size);
    if (args->signal_count > kMaxSignals) frame.Break(RuleId::kSignalCount, "%u signal words", args->signal_count);
    MakingHook::Before(frame, values);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    RememberAs(frame, *std::get<2>(values));
  }
};

struct AcceptHook : ConnectionHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    const sl_connect_args_t& args = *std::get<2>(values);
    if (!RememberAs(frame, args)) return;
    const uint32_t size = FactsOf(frame.object(0))->size;
    if (args.peer >= size || args.signal_count > kMaxSignals) {
      frame.Break(RuleId::kAcceptFacts, "from rank %u of %u with %u signal words", args.peer, size, args.signal_count);
    }
  }
};

struct StateHook : NoHook {
  template <typename Values>
  void After(Frame& frame, uint32_t& state, Values&) {
    auto* facts = frame.object(0)->template As<ConnectionFacts>();
    if (state > SL_CONNECTION_CLOSED) {
      frame.Break(RuleId::kStateReturns, "state %u is none", state);
    } else if (state >= SL_CONNECTION_DOWN) {
      facts->ended.store(true, std::memory_order_relaxed);
    } else if (facts->ended.load(std::memory_order_relaxed)) {
      frame.Break(RuleId::kStateReturns, "state %u, though it had ended", state);
    }
  }
};

struct WindowHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    const sl_window_t* window = std::get<1>(values);
    if (status != SL_OK || window->struct_size < sizeof *window) return;
    const auto* facts = frame.object(0)->template As<ConnectionFacts>();
    const bool aligned = reinterpret_cast<uintptr_t>(window->local_signals) % 64 == 0;
    if (window->signal_count != facts->signal_count || window->bytes < facts->window_bytes ||
        (window->local == nullptr && facts->window_bytes != 0) ||
        (window->local_signals == nullptr && facts->signal_count != 0) || !aligned) {
      frame.Break(RuleId::kWindowFacts, "%u signal words at %p, %llu bytes at %p; asked for %u and %llu",
                  window->signal_count, static_cast<void*>(window->local_signals),
                  static_cast<unsigned long long>(window->bytes), window->local, facts->signal_count,
                  static_cast<unsigned long long>(facts->window_bytes));
    }
  }
};

struct RetireHook : NoHook {
  template <typename Values>
  void After(Frame& frame, Nothing, Values&) {
    TransportFacts* facts = FactsOf(frame.object(0));
    facts->retirements.fetch_add(1, std::memory_order_release);
    facts->outstanding.Retire(frame.object(0));
  }
};

struct RegisterHook : MakingHook<RegionFacts> {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    RegionFacts* facts = Remember(frame);
    if (facts == nullptr) return;
    facts->begin = reinterpret_cast<uintptr_t>(std::get<1>(values));
    facts->bytes = std::get<2>(values);
    frame.made()->rank = frame.object(0)->rank;
  }
};

struct DeregisterHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values&) {
    const uint32_t users = frame.object(0)->users.load(std::memory_order_relaxed);
    if (users != 0) frame.Break(RuleId::kRegionBorrowed, "%u puts from it have not completed", users);
  }
};

struct RegionKeyHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    if (status != SL_OK || *std::get<3>(values) <= std::get<2>(values)) return;
    frame.Break(RuleId::kKeyLength, "a key of %u bytes in a buffer of %u", *std::get<3>(values), std::get<2>(values));
  }
};

// Takes handles inside the descriptor for what they are below, and a token for its cookie.
struct PutHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const sl_put_t& given = *std::get<1>(values);
    std::memcpy(&put, &given, std::min<size_t>(given.struct_size, sizeof put));
    auto* facts = frame.object(0)->template As<ConnectionFacts>();
    CheckSignal(frame, *facts);
    if (put.target == nullptr && put.bytes != 0 &&
        (put.offset > facts->window_bytes || put.bytes > facts->window_bytes - put.offset)) {
      frame.Break(RuleId::kWindowOverrun, "%llu bytes at %llu of a window of %llu", Wide(put.bytes), Wide(put.offset),
                  Wide(facts->window_bytes));
    }
    Work work = {put.cookie, frame.object(0), nullptr, SL_COMPLETION_PUT};
    if (put.region != nullptr) {
      put.region = static_cast<sl_region_t*>(frame.Take(put.region, Kind::kRegion, kRegionAt, false));
      work.region = frame.object(kRegionAt);
      if (work.region != nullptr) CheckSource(frame, *work.region->As<RegionFacts>());
    }
    if (put.target != nullptr) {
      put.target = static_cast<sl_remote_region_t*>(frame.Take(put.target, Kind::kRemoteRegion, kTargetAt, false));
    }
    if (put.cookie != 0 && !frame.refused()) {
      put.cookie = token = FactsOf(frame.object(0))->outstanding.Begin(work);
      // The bound is ours, the answer is a full queue's: poll and try again.
      if (token == 0) frame.Answer(SL_ERR_AGAIN);
    }
    std::get<1>(values) = &put;
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values&) {
    if (status != SL_OK && token != 0) FactsOf(frame.object(0))->outstanding.Cancel(token);
    if (status != SL_OK || put.signal >= kMaxSignals) return;
    auto* facts = frame.object(0)->template As<ConnectionFacts>();
    facts->signals[put.signal].store(put.signal_value, std::memory_order_relaxed);
  }

 private:
  using Work = Outstanding::Work;
  // Places for handles that are no parameters of their own.
  static constexpr uint32_t kRegionAt = 2;
  static constexpr uint32_t kTargetAt = 3;
  static unsigned long long Wide(uint64_t value) { return value; }

  void CheckSignal(Frame& frame, const ConnectionFacts& facts) {
    if (put.signal == SL_NO_SIGNAL) return;
    if (put.signal >= facts.signal_count) {
      return frame.Break(RuleId::kSignalRange, "signal word %u of %u", put.signal, facts.signal_count);
    }
    const uint64_t last = facts.signals[put.signal].load(std::memory_order_relaxed);
    if (put.signal_value >= last) return;
    frame.Break(RuleId::kSignalShrinks, "signal word %u gets %llu after %llu", put.signal, Wide(put.signal_value),
                Wide(last));
  }

  void CheckSource(Frame& frame, const RegionFacts& region) {
    const auto source = reinterpret_cast<uintptr_t>(put.source);
    if (source >= region.begin && put.bytes <= region.bytes && source - region.begin <= region.bytes - put.bytes)
      return;
    frame.Break(RuleId::kRegionOverrun, "%llu bytes at %p are not inside the region's %llu at %#zx", Wide(put.bytes),
                put.source, Wide(region.bytes), static_cast<size_t>(region.begin));
  }

  sl_put_t put = {};
  uint64_t token = 0;
};

struct ProbeHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    token = FactsOf(frame.object(0))
                ->outstanding.Begin({std::get<1>(values), frame.object(0), nullptr, SL_COMPLETION_PROBE});
    if (token == 0) return frame.Answer(SL_ERR_AGAIN);
    std::get<1>(values) = token;
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values&) {
    if (status != SL_OK) FactsOf(frame.object(0))->outstanding.Cancel(token);
  }
  uint64_t token = 0;
};

// Gives tokens and connections back as what the caller knows; leaves out what it could not know, and what was retired
// while the module below had it in hand, which is nobody's fault: a connection may be retired beside this call.
struct PollHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values&) {
    retirements_ = FactsOf(frame.object(0))->retirements.load(std::memory_order_acquire);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [transport, completions, capacity, out_count] = values;
    if (status != SL_OK) return;
    if (*out_count > capacity) {
      frame.Break(RuleId::kPollOverrun, "%u completions, room for %u", *out_count, capacity);
      *out_count = capacity;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *out_count; ++i) {
      sl_completion_t completion = completions[i];
      if (Translate(frame, &completion)) completions[kept++] = completion;
    }
    *out_count = kept;
  }

 private:
  bool Translate(Frame& frame, sl_completion_t* completion) const {
    if (completion->kind == SL_COMPLETION_PORT) {
      completion->connection = nullptr;
      CheckPort(frame, static_cast<uint32_t>(completion->cookie));
      return true;
    }
    TransportFacts* facts = FactsOf(frame.object(0));
    Outstanding::Work work;
    const Outstanding::Fate fate = facts->outstanding.Complete(completion->cookie, &work);
    const bool is_gone = fate == Outstanding::Fate::kRetired || fate == Outstanding::Fate::kForgotten;
    if (is_gone && facts->retirements.load(std::memory_order_acquire) != retirements_) return false;
    switch (fate) {
      case Outstanding::Fate::kCompleted:
      case Outstanding::Fate::kForgotten:
        frame.Break(RuleId::kCompletedTwice, "work %#zx has completed before", static_cast<size_t>(completion->cookie));
        return false;
      case Outstanding::Fate::kRetired:
        frame.Break(RuleId::kCompletedAfterRetire, "the connection of work %#zx was retired",
                    static_cast<size_t>(completion->cookie));
        return false;
      case Outstanding::Fate::kNever:
        frame.Break(RuleId::kCompletionUnasked, "nobody asked for the completion of %#zx",
                    static_cast<size_t>(completion->cookie));
        return false;
      default:
        break;
    }
    if (completion->kind != work.kind || completion->connection != work.connection->inner || completion->status > 0 ||
        completion->status == SL_ERR_AGAIN) {
      frame.BreakOf(work.connection, RuleId::kCompletionFacts, "kind %u, status %d, cookie %llu", completion->kind,
                    completion->status, static_cast<unsigned long long>(work.cookie));
    }
    completion->kind = work.kind;
    completion->cookie = work.cookie;
    completion->connection = HandleOf<sl_connection_t>(work.connection);
    return true;
  }

  uint64_t retirements_ = 0;
};

struct WaitObjectHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    const sl_wait_object_t* object = std::get<1>(values);
    if (status != SL_OK || object->struct_size < sizeof *object) return;
    const bool doorbell = object->type == SL_WAIT_DOORBELL && object->doorbell != nullptr;
    if (doorbell || (object->type == SL_WAIT_FD && object->fd >= 0)) return;
    frame.Break(RuleId::kWaitFacts, "type %u, doorbell %p, descriptor %d", object->type,
                static_cast<void*>(object->doorbell), object->fd);
  }
};

constexpr Call kOpen = {.name = "open", .interface = kInterface, .words = Words::kInit, .outs = 1, .makes = true};
constexpr Call kClose = {.name = "close", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kPortCount = {.name = "port_count", .interface = kInterface, .words = Words::kAny, .outs = 1};
constexpr Call kPortInfo = {.name = "port_info", .interface = kInterface, .words = Words::kAny, .outs = 1};
constexpr Call kListen = {
    .name = "listen", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kConnect = {
    .name = "connect", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kAccept = {
    .name = "accept", .interface = kInterface, .words = Words::kControl, .outs = 2, .makes = true};
constexpr Call kState = {.name = "connection_state", .interface = kInterface, .words = Words::kData};
constexpr Call kWindow = {.name = "window", .interface = kInterface, .words = Words::kControl, .outs = 1};
constexpr Call kRetire = {.name = "retire", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kRegister = {
    .name = "register_memory", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kDeregister = {
    .name = "deregister_memory", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kRegionKey = {.name = "region_key", .interface = kInterface, .words = Words::kControl, .outs = 1};
constexpr Call kImportKey = {
    .name = "import_key", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kReleaseKey = {.name = "release_key", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kPut = {.name = "put", .interface = kInterface, .words = Words::kData};
constexpr Call kFlush = {.name = "flush", .interface = kInterface, .words = Words::kData};
constexpr Call kProbe = {.name = "probe", .interface = kInterface, .words = Words::kData};
constexpr Call kProgress = {.name = "progress", .interface = kInterface, .words = Words::kData};
constexpr Call kPoll = {.name = "poll", .interface = kInterface, .words = Words::kData, .outs = 1};
constexpr Call kNotify = {.name = "notify", .interface = kInterface, .words = Words::kData};
constexpr Call kWaitObject = {.name = "wait_object", .interface = kInterface, .words = Words::kControl, .outs = 1};

}  // namespace

constexpr sl_transport_ops_t kTransportOps = {
    .struct_size = sizeof(sl_transport_ops_t),
    .reserved = 0,
    .open = Checked<&sl_transport_ops_t::open, kOpen, OpenHook>,
    .close = Checked<&sl_transport_ops_t::close, kClose>,
    .port_count = Checked<&sl_transport_ops_t::port_count, kPortCount>,
    .port_info = Checked<&sl_transport_ops_t::port_info, kPortInfo, PortInfoHook>,
    .listen = Checked<&sl_transport_ops_t::listen, kListen, ListenHook>,
    .connect = Checked<&sl_transport_ops_t::connect, kConnect, ConnectHook>,
    .accept = Checked<&sl_transport_ops_t::accept, kAccept, AcceptHook>,
    .connection_state = Checked<&sl_transport_ops_t::connection_state, kState, StateHook>,
    .window = Checked<&sl_transport_ops_t::window, kWindow, WindowHook>,
    .retire = Checked<&sl_transport_ops_t::retire, kRetire, RetireHook>,
    .register_memory = Checked<&sl_transport_ops_t::register_memory, kRegister, RegisterHook>,
    .deregister_memory = Checked<&sl_transport_ops_t::deregister_memory, kDeregister, DeregisterHook>,
    .region_key = Checked<&sl_transport_ops_t::region_key, kRegionKey, RegionKeyHook>,
    .import_key = Checked<&sl_transport_ops_t::import_key, kImportKey>,
    .release_key = Checked<&sl_transport_ops_t::release_key, kReleaseKey>,
    .put = Checked<&sl_transport_ops_t::put, kPut, PutHook>,
    .flush = Checked<&sl_transport_ops_t::flush, kFlush>,
    .probe = Checked<&sl_transport_ops_t::probe, kProbe, ProbeHook>,
    .progress = Checked<&sl_transport_ops_t::progress, kProgress>,
    .poll = Checked<&sl_transport_ops_t::poll, kPoll, PollHook>,
    .notify = Checked<&sl_transport_ops_t::notify, kNotify>,
    .wait_object = Checked<&sl_transport_ops_t::wait_object, kWaitObject, WaitObjectHook>,
};

}  // namespace sl::checker
