// SPDX-License-Identifier: Apache-2.0
//
// The decoders of docs/control-protocol.md: ids, cards, frames, all-gathers and joins. The first byte says which. What
// a decoder accepts must be what its encoder writes.
#include <cstdlib>
#include <cstring>

#include "kernel/comm/card.h"
#include "kernel/control/contributions.h"
#include "kernel/control/join_request.h"
#include "kernel/control/unique_id.h"

namespace sl::kernel {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadId(std::span<const uint8_t> bytes) {
  sl_unique_id_t id{};
  std::memcpy(id.bytes, bytes.data(), std::min(bytes.size(), sizeof(id.bytes)));
  const Result<RendezvousId> read = DecodeId(id);
  if (!read.ok()) return Require(!read.status().message().empty());
  const sl_unique_id_t again = EncodeId(read.value());
  Require(std::memcmp(again.bytes, id.bytes, sizeof(id.bytes)) == 0);
  Require(!ToText(read.value().rendezvous).empty());
}

void ReadCard(std::span<const uint8_t> bytes) {
  const Result<Card> read = Card::Decode(bytes);
  if (!read.ok()) return;
  const Bytes again = read.value().Encode();  // without what a later release may have added at the end
  Require(again.size() <= bytes.size() && std::equal(again.begin(), again.end(), bytes.begin()));
}

void ReadFrame(std::span<const uint8_t> bytes) {
  FrameHeader header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!CheckHeader(header, kMaxHelloBytes).ok()) return;
  Require(header.bytes <= kMaxHelloBytes);
  // Every kind of field in turn, until the payload is over.
  Reader in(bytes.subspan(sizeof(header)));
  while (in.ok() && !in.empty()) {
    const size_t left = in.rest().size();
    in.Get<uint16_t>();
    in.Get<Endpoint>();
    Require(in.GetText().size() <= left && in.GetBytes().size() <= left);
    Require(!in.ok() || in.rest().size() < left);
  }
}

void ReadGather(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  const Result<Contributions> read = Contributions::Read(Bytes(bytes.begin() + 1, bytes.end()), bytes[0]);
  if (!read.ok()) return;
  size_t total = 1;
  for (size_t i = 0; i < read.value().size(); ++i) total += read.value()[i].size() + 2 * sizeof(uint32_t);
  Require(total == bytes.size());
}

void ReadJoin(std::span<const uint8_t> bytes) {
  const Result<JoinRequest> read = JoinRequest::Decode(bytes);
  if (!read.ok()) return;
  const Bytes again = read.value().Encode();
  Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

}  // namespace
}  // namespace sl::kernel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      sl::kernel::ReadId(bytes);
      break;
    case 1:
      sl::kernel::ReadCard(bytes);
      break;
    case 2:
      sl::kernel::ReadFrame(bytes);
      break;
    case 3:
      sl::kernel::ReadGather(bytes);
      break;
    default:
      sl::kernel::ReadJoin(bytes);
  }
  return 0;
}
