// SPDX-License-Identifier: Apache-2.0
// Ports, and how connections come about.
#include <cstring>

#include "tests/conformance/kit/random.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

// What the header calls possible: times and rates are multiplied, and must not overflow.
constexpr uint64_t kFastest = 1'000'000'000'000'000;
constexpr uint64_t kSlowest = 1'000'000'000'000;

template <size_t kBytes>
bool IsText(const char (&text)[kBytes]) {
  return std::memchr(text, 0, kBytes) != nullptr;
}

void Facts(Trial& trial) {
  Ranks ranks(trial, 1);
  uint32_t count = 0;
  const sl_status_t status = ranks.ops().port_count(ranks.transport(0), &count);
  trial.Require(status == SL_OK && count > 0, "port_count gave {} and {} ports after an open that found one",
                StatusName(status), count);
  for (uint32_t port = 0; port < count; ++port) {
    const Scope scope(fmt::format("port {}", port));
    sl_port_t facts;
    std::memset(&facts, 0xee, sizeof facts);
    facts.struct_size = sizeof facts;
    const sl_status_t asked = ranks.ops().port_info(ranks.transport(0), port, &facts);
    trial.Require(asked == SL_OK, "port_info gave {}", StatusName(asked));
    trial.Expect(IsText(facts.name) && facts.name[0] != 0, "its name is empty or has no end");
    trial.Expect(IsText(facts.pci_path), "its PCI path has no end");
    trial.Expect((facts.state & ~(SL_PORT_UP | SL_PORT_NEEDS_REGION)) == 0,
                 "its state {:#x} has bits that mean nothing", facts.state);
    trial.Expect((facts.state & SL_PORT_NEEDS_REGION) == 0 || facts.max_key_bytes > 0,
                 "it needs regions, and has no keys for them");
    trial.Expect(facts.bytes_per_second > 0, "its speed is 0");
    trial.Expect(facts.bytes_per_second <= kFastest, "its speed is {} bytes/s; at most {} are possible",
                 facts.bytes_per_second, kFastest);
    trial.Expect(facts.latency_ns <= kSlowest, "its latency is {} ns; at most {} are possible", facts.latency_ns,
                 kSlowest);
    trial.Expect(facts.numa_node >= -1, "its NUMA node is {}", facts.numa_node);
  }
  sl_port_t facts = {};
  facts.struct_size = sizeof facts;
  const sl_status_t beyond = ranks.ops().port_info(ranks.transport(0), count, &facts);
  trial.Expect(SL_IS_USAGE_ERROR(beyond), "port_info of port {} of {} gave {}", count, count, StatusName(beyond));
}

void ShortFacts(Trial& trial) {
  Ranks ranks(trial, 1);
  sl_port_t facts;
  std::memset(&facts, 0xee, sizeof facts);
  facts.struct_size = offsetof(sl_port_t, bytes_per_second);
  const sl_status_t asked = ranks.ops().port_info(ranks.transport(0), 0, &facts);
  if (asked != SL_OK) return;  // it may refuse what is shorter than revision 1
  const auto* bytes = reinterpret_cast<const uint8_t*>(&facts);
  for (size_t i = offsetof(sl_port_t, bytes_per_second); i < sizeof facts; ++i) {
    if (!trial.Expect(bytes[i] == 0xee, "it wrote byte {} of a struct that says it has {}", i, facts.struct_size))
      break;
  }
}

void Carries(Trial& trial) {
  Ranks ranks(trial, 3);
  sl_connect_args_t args = Ranks::Args(2, 5, 12345);
  args.tag = 0xfeedfacecafe;
  args.signal_count = 3;
  sl_status_t status = SL_OK;
  sl_connection_t* from = ranks.Start(1, 2, args, &status);
  trial.Require(status == SL_OK, "connect gave {}: {}", StatusName(status), ErrorText());
  sl_connection_t* to = nullptr;
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  const bool taken = ranks.Until([&] { return ranks.ops().accept(ranks.transport(2), &to, &said) == SL_OK; });
  trial.Require(taken, "it was not accepted within {} ms", kPatienceMs);
  trial.Expect(said.peer == 1, "accept names rank {} as the one that connects, it was rank 1", said.peer);
  trial.Expect(said.lane == 5, "accept says lane {}, connect said 5", said.lane);
  trial.Expect(said.tag == args.tag, "accept says tag {:#x}, connect said {:#x}", said.tag, args.tag);
  trial.Expect(said.window_bytes == 12345, "accept says windows of {} bytes, connect said 12345", said.window_bytes);
  uint32_t ports = 0;
  trial.Expect(ranks.ops().port_count(ranks.transport(2), &ports) == SL_OK && said.port < ports,
               "accept says it came to port {}; there are {}", said.port, ports);
  trial.Expect(said.signal_count == 3, "accept says {} signals, connect said 3", said.signal_count);
  ranks.ops().retire(to);
  ranks.ops().retire(from);
}

void Nobody(Trial& trial) {
  Ranks ranks(trial, 2);
  sl_connection_t* connection = reinterpret_cast<sl_connection_t*>(uintptr_t{64});
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  said.tag = 77;
  for (int i = 0; i < 20; ++i) {
    const sl_status_t status = ranks.ops().accept(ranks.transport(0), &connection, &said);
    trial.Require(status == SL_ERR_AGAIN, "accept gave {} though nobody connects; again is the answer",
                  StatusName(status));
    ranks.Progress();
  }
  trial.Expect(connection == reinterpret_cast<sl_connection_t*>(uintptr_t{64}) && said.tag == 77,
               "accept wrote an output, though nobody connects");
}

void Windows(Trial& trial) {
  Ranks ranks(trial, 2);
  const uint64_t sizes[] = {0, 1, 4096, 100'001, uint64_t{1} << (trial.full() ? 28 : 22)};
  for (const uint64_t bytes : sizes) {
    const Scope scope(fmt::format("windows of {} bytes", bytes));
    End a, b;
    ranks.Connect(0, 1, &a, &b, 0, bytes);
    for (const End* end : {&a, &b}) {
      trial.Expect(end->window.bytes >= bytes, "a window has {} bytes", end->window.bytes);
      trial.Require(bytes == 0 || end->window.local != nullptr, "a window is NULL");
      trial.Expect(end->window.signal_count == kSignals, "it has {} signal words, {} were asked for",
                   end->window.signal_count, kSignals);
      trial.Require(end->window.local_signals != nullptr, "the signal words are NULL");
      const auto* memory = static_cast<const uint8_t*>(end->window.local);
      for (uint64_t i = 0; i < bytes; i += i < 256 || i + 64 >= bytes ? 1 : 61) {
        if (!trial.Expect(memory[i] == 0, "byte {} of a fresh window is {}", i, memory[i])) break;
      }
      for (uint32_t word = 0; word < kSignals; ++word) {
        trial.Expect(Ranks::Signal(*end, word) == 0, "signal word {} of a fresh window is {}", word,
                     Ranks::Signal(*end, word));
      }
    }
    ranks.Retire(&a);
    ranks.Retire(&b);
  }
}

// A struct of the caller's as it would be before `Type` had the member at `end`: what lies behind stays.
template <typename Type>
void ExpectUntouchedBehind(Trial& trial, const Type& given, uint32_t end, const char* call) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&given);
  for (size_t i = end; i < sizeof given; ++i) {
    if (!trial.Expect(bytes[i] == 0xee, "{} wrote byte {} of a struct that says it has {}", call, i, end)) return;
  }
}

template <typename Type>
Type Shorter(uint32_t bytes) {
  Type given;
  std::memset(&given, 0xee, sizeof given);
  given.struct_size = bytes;
  return given;
}

void ShortAnswers(Trial& trial) {
  Ranks ranks(trial, 2);
  sl_status_t status = SL_OK;
  sl_connection_t* from = ranks.Start(0, 1, Ranks::Args(1), &status);
  trial.Require(status == SL_OK, "connect gave {}: {}", StatusName(status), ErrorText());
  sl_connection_t* to = nullptr;
  auto said = Shorter<sl_connect_args_t>(offsetof(sl_connect_args_t, window_bytes));
  const bool taken = ranks.Until([&] { return ranks.ops().accept(ranks.transport(1), &to, &said) == SL_OK; });
  trial.Require(taken, "it was not accepted within {} ms", kPatienceMs);
  ExpectUntouchedBehind(trial, said, offsetof(sl_connect_args_t, window_bytes), "accept");
  auto window = Shorter<sl_window_t>(offsetof(sl_window_t, peer));
  ranks.Until([&] { return (status = ranks.ops().window(to, &window)) != SL_ERR_AGAIN; });
  trial.Expect(status == SL_OK, "window gave {}", StatusName(status));
  ExpectUntouchedBehind(trial, window, offsetof(sl_window_t, peer), "window");
  auto object = Shorter<sl_wait_object_t>(offsetof(sl_wait_object_t, fd));
  if (ranks.ops().wait_object(ranks.transport(0), &object) == SL_OK) {
    ExpectUntouchedBehind(trial, object, offsetof(sl_wait_object_t, fd), "wait_object");
  }
  ranks.ops().retire(to);
  ranks.ops().retire(from);
}

void ForeignAddress(Trial& trial) {
  Ranks ranks(trial, 2);
  Random random(trial.seed());
  std::vector<sl_address_t> addresses(8);
  addresses[0].bytes = 0;
  addresses[1].bytes = 252;
  for (size_t i = 2; i < addresses.size(); ++i) {
    addresses[i] = ranks.address(1);
    if (i == 2) addresses[i].bytes /= 2;
    if (i > 2) addresses[i].data[0] ^= static_cast<uint8_t>(1 + random.Below(255));
    if (i > 3) {
      for (uint8_t& byte : addresses[i].data) byte = static_cast<uint8_t>(random.Next());
    }
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Scope scope(fmt::format("address {}", i));
    const sl_connect_args_t args = Ranks::Args(1);
    sl_connection_t* connection = nullptr;
    const sl_status_t status = ranks.ops().connect(ranks.transport(0), &addresses[i], &args, &connection);
    if (status != SL_OK) {
      trial.Expect(connection == nullptr, "connect gave {} and wrote an output", StatusName(status));
      continue;
    }
    for (int turn = 0; turn < 20; ++turn) ranks.Progress();
    sl_connection_t* accepted = nullptr;
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    trial.Expect(ranks.ops().accept(ranks.transport(1), &accepted, &said) == SL_ERR_AGAIN,
                 "a rank was reached by an address it did not give");
    ranks.ops().retire(connection);
  }
}

void WrongSecret(Trial& trial) {
  Ranks ranks(trial, 3, {0, 1, 0});
  sl_status_t status = SL_OK;
  sl_connection_t* stranger = ranks.Start(1, 0, Ranks::Args(0), &status);
  // A member of the job gets through meanwhile.
  End a, b;
  ranks.Connect(2, 0, &a, &b);
  for (int turn = 0; turn < 200; ++turn) ranks.Progress();
  sl_connection_t* accepted = nullptr;
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  trial.Expect(ranks.ops().accept(ranks.transport(0), &accepted, &said) == SL_ERR_AGAIN,
               "a connection of somebody who does not know the job's secret was accepted, from rank {}", said.peer);
  if (stranger != nullptr) ranks.ops().retire(stranger);
}

void WaitsLegally(Trial& trial) {
  Ranks ranks(trial, 1);
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  object.fd = -1;
  const sl_status_t status = ranks.ops().wait_object(ranks.transport(0), &object);
  if (status == SL_ERR_UNSUPPORTED) trial.Skip("it has no wait object: its users poll");
  trial.Require(status == SL_OK, "wait_object gave {}", StatusName(status));
  const bool rings = object.type == SL_WAIT_DOORBELL && object.doorbell != nullptr;
  trial.Expect(rings || (object.type == SL_WAIT_FD && object.fd >= 0), "type {}, doorbell {}, descriptor {}",
               object.type, static_cast<void*>(object.doorbell), object.fd);
}

}  // namespace

std::vector<Test> PortTests() {
  return {
      {"Port.HasLegalFacts", "ports are counted from 0, and each says what it is", Facts},
      {"Port.FillsOnlyWhatFits", "out_port has struct_size bytes and no more", ShortFacts},
      {"Port.HasALegalWaitObject", "a doorbell or a descriptor to sleep on", WaitsLegally},
      {"Connection.CarriesWhatConnectSaid", "accept gives what the connecting end said, and its rank", Carries},
      {"Connection.AnswersInWhatFits", "out structs have struct_size bytes and no more", ShortAnswers},
      {"Connection.IsNotAcceptedFromNobody", "accept gives again when nobody waits, and writes nothing", Nobody},
      {"Connection.HasFreshWindows", "windows are as large as asked for and zeroed, signal words too", Windows},
      {"Connection.NeedsAnAddressOfThisTransport", "other addresses are refused and reach nobody", ForeignAddress},
      {"Connection.NeedsTheSecret", "both ends prove that they know the job's secret", WrongSecret},
  };
}

}  // namespace sl::conform::transport
