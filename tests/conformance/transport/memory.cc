// SPDX-License-Identifier: Apache-2.0
// Registered memory: keys, puts into it, and its end.
#include <cstring>
#include <memory>

#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

constexpr uint64_t kBytes = 20'000;

sl_region_t* Register(Ranks& ranks, uint32_t rank, std::vector<uint8_t>* memory) {
  sl_region_t* region = nullptr;
  const sl_status_t status =
      ranks.ops().register_memory(ranks.transport(rank), memory->data(), memory->size(), &region);
  if (status == SL_ERR_UNSUPPORTED) ranks.trial().Skip("it registers no memory: its users stage");
  ranks.trial().Require(status == SL_OK && region != nullptr, "register_memory gave {}: {}", StatusName(status),
                        ErrorText());
  return region;
}

void RemoteMemory(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  std::vector<uint8_t> source(kBytes), target(kBytes);
  sl_region_t* from = Register(ranks, 0, &source);
  sl_region_t* to = Register(ranks, 1, &target);
  sl_port_t port = {};
  port.struct_size = sizeof port;
  trial.Require(ranks.ops().port_info(ranks.transport(1), 0, &port) == SL_OK, "port_info of port 0 failed: {}",
                ErrorText());
  std::vector<uint8_t> key(port.max_key_bytes);
  uint32_t key_bytes = 0;
  sl_status_t status = ranks.ops().region_key(to, key.data(), port.max_key_bytes, &key_bytes);
  trial.Require(status == SL_OK && key_bytes <= port.max_key_bytes, "region_key gave {} and {} bytes, at most {}",
                StatusName(status), key_bytes, port.max_key_bytes);
  sl_remote_region_t* remote = nullptr;
  status = ranks.ops().import_key(a.connection, key.data(), key_bytes, &remote);
  trial.Require(status == SL_OK && remote != nullptr, "import_key gave {}", StatusName(status));
  Fill(source.data(), kBytes, 3);
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = 0;
  put.signal_value = 1;
  put.source = source.data() + 5;
  put.region = from;
  put.bytes = kBytes - 5;
  put.target = remote;
  put.offset = 5;
  put.cookie = 8;
  status = SL_ERR_AGAIN;
  ranks.Until([&] { return (status = ranks.ops().put(a.connection, &put)) != SL_ERR_AGAIN; });
  trial.Require(status == SL_OK, "a put between registered memories gave {}", StatusName(status));
  ranks.ops().notify(a.connection);
  trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == 1; }), "its signal did not appear");
  ranks.Flush(b);
  trial.Expect(std::memcmp(target.data() + 5, source.data() + 5, kBytes - 5) == 0, "its bytes are not there");
  trial.Expect(target[0] == 0 && target[4] == 0, "it wrote before its offset");
  bool completed = false;
  ranks.Until([&] {
    for (const sl_completion_t& completion : ranks.Poll(0)) completed = completed || completion.cookie == 8;
    return completed;
  });
  trial.Expect(completed, "it did not complete");
  ranks.ops().release_key(remote);
  ranks.ops().deregister_memory(from);
  ranks.ops().deregister_memory(to);
}

void ShortKey(Trial& trial) {
  Ranks ranks(trial, 1);
  std::vector<uint8_t> memory(kBytes);
  sl_region_t* region = Register(ranks, 0, &memory);
  uint8_t key[1] = {0x77};
  uint32_t key_bytes = 0xabcd;
  const sl_status_t status = ranks.ops().region_key(region, key, 0, &key_bytes);
  trial.Expect(status != SL_OK || key_bytes == 0, "a key of {} bytes in a buffer of none", key_bytes);
  trial.Expect(key[0] == 0x77, "it wrote a key where there is no room");
  trial.Expect(status == SL_OK || key_bytes == 0xabcd, "it wrote an output and gave {}", StatusName(status));
  ranks.ops().deregister_memory(region);
}

void OverAndOver(Trial& trial) {
  Ranks ranks(trial, 1);
  std::vector<uint8_t> memory(kBytes);
  for (int i = 0; i < (trial.full() ? 5000 : 200); ++i) ranks.ops().deregister_memory(Register(ranks, 0, &memory));
}

}  // namespace

std::vector<Test> MemoryTests() {
  return {
      {"Region.TakesAndGivesPuts", "a key lets the peer write into registered memory", RemoteMemory},
      {"Region.KeysFitTheirBuffer", "a key is written only where there is room for it", ShortKey},
      {"Region.ComesAndGoes", "memory is registered and deregistered over and over", OverAndOver},
  };
}

}  // namespace sl::conform::transport
