// SPDX-License-Identifier: Apache-2.0
//
// What strangers and peers may send, in any order and cut anywhere: addresses, both ends of the handshake, frames, and
// the filters that people write. The first byte says which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "modules/transport-tcp/frame_reader.h"
#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/interface.h"

namespace sl::transport_tcp {
namespace {

constexpr uint8_t kSecret[32] = {1, 2, 3};

void Check(bool holds) {
  if (!holds) std::abort();
}

// Bytes of the input, one after the other; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {}
  size_t left() const { return left_; }
  size_t Take(void* out, size_t size) {
    const size_t given = size < left_ ? size : left_;
    std::memset(out, 0, size);
    if (given != 0) std::memcpy(out, bytes_, given);
    bytes_ += given;
    left_ -= given;
    return given;
  }
  uint8_t Byte() {
    uint8_t byte = 0;
    Take(&byte, 1);
    return byte;
  }

 private:
  const uint8_t* bytes_;
  size_t left_;
};

// Gives an end what is left of the input, in pieces that the input chooses.
template <typename End>
Step Feed(End* end, Input* input) {
  Step step = Step::kMore;
  while (step == Step::kMore && input->left() != 0) {
    const size_t piece = 1 + input->Byte() % end->room_bytes();
    if (input->left() == 0) break;
    step = end->Advance(input->Take(end->room(), piece));
    Check(step == Step::kDone || step == Step::kRefused || end->room_bytes() != 0);
  }
  return step;
}

void Addresses(Input* input) {
  sl_address_t bytes = {};
  bytes.bytes = input->Byte();
  input->Take(bytes.data, sizeof bytes.data);
  Address address;
  if (!DecodeAddress(bytes, &address)) return;
  sl_address_t again;
  EncodeAddress(address, &again);
  Check(again.bytes == bytes.bytes && std::memcmp(again.data, bytes.data, bytes.bytes) == 0);
}

// With an odd byte first, the proof of the hello is made right, so that what lies behind it is reached.
void Hosts(Input* input) {
  Host host({kSecret, 1, 4, {}}, {9});
  const bool proved = input->Byte() % 2 == 1;
  if (proved) {
    Hello hello;
    input->Take(&hello, sizeof hello);
    hello.magic = kWireMagic;
    hello.version = kWireVersion;
    hello.bytes = sizeof hello;
    hello.proof = ProveHello(kSecret, hello, Nonce{}.data());
    std::memcpy(host.room(), &hello, sizeof hello);
    if (host.Advance(sizeof hello) != Step::kSay) return;
    Check(hello.to == 1 && hello.from < 4 && hello.signal_count <= kMaxSignals &&
          hello.window_bytes <= kMaxWindowBytes);
  }
  // Nobody guesses 128 bits.
  const Step step = Feed(&host, input);
  Check(step == Step::kMore || step == Step::kRefused);
}

void Callers(Input* input) {
  Caller caller(kSecret, Hello{}, {}, {9});
  Check(Feed(&caller, input) != Step::kDone);
}

void Frames(Input* input) {
  constexpr uint64_t kGuard = 64;
  const uint64_t window_bytes = input->Byte() * 37u;
  const uint32_t signal_count = input->Byte() % 5;
  std::vector<uint8_t> memory(window_bytes + 2 * kGuard, 0xee);
  std::vector<uint64_t> signals(signal_count * 8 + 8, 0);
  FrameReader reader({memory.data() + kGuard, window_bytes, signals.data(), signal_count});
  while (input->left() != 0) {
    iovec parts[2];
    const int count = reader.Room(parts);
    Check(count >= 1 && parts[0].iov_len != 0 && (count == 1 || parts[1].iov_len != 0));
    size_t piece = 1 + input->Byte() * 16u;
    size_t taken = 0;
    for (int i = 0; i < count && piece != 0; ++i) {
      const size_t size = piece < parts[i].iov_len ? piece : parts[i].iov_len;
      const size_t had = input->left();
      if (had < size) {
        taken += input->Take(parts[i].iov_base, had);
        break;
      }
      taken += input->Take(parts[i].iov_base, size);
      piece -= size;
    }
    if (taken == 0) break;
    if (!reader.Take(taken)) {
      Check(reader.why() != nullptr);
      break;
    }
  }
  for (uint64_t i = 0; i < kGuard; ++i) Check(memory[i] == 0xee && memory[kGuard + window_bytes + i] == 0xee);
  Check(signals[signal_count * 8] == 0);
}

void Filters(Input* input) {
  InterfaceFilter filter;
  const size_t names = input->Byte() % 16;
  filter.names.resize(names);
  input->Take(filter.names.data(), names);
  filter.subnets.resize(input->left());
  input->Take(filter.subnets.data(), filter.subnets.size());
  Interface four;
  four.name = "eth0";
  four.up = true;
  Interface six = four;
  six.family = 6;
  Interface loopback;
  loopback.name = "lo";
  loopback.loopback = true;
  const auto selected = SelectInterfaces({four, six, loopback}, filter);
  Check(selected.ok() ? !selected.value().empty() : selected.status().has_message());
}

}  // namespace
}  // namespace sl::transport_tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace sl::transport_tcp;
  Input input(bytes, size);
  switch (input.Byte() % 5) {
    case 0:
      Addresses(&input);
      break;
    case 1:
      Hosts(&input);
      break;
    case 2:
      Callers(&input);
      break;
    case 3:
      Frames(&input);
      break;
    default:
      Filters(&input);
      break;
  }
  return 0;
}
