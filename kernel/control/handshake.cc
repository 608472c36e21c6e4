// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/handshake.h"

namespace sl::kernel {
namespace {

Proof MakeRoleProof(const Secret& secret, const char* role, const Greeting& greeting, std::span<const uint8_t> rest) {
  Writer message;
  message.PutText(role);
  message.Put(greeting.extension);
  message.Put(greeting.options);
  message.Put(greeting.callers);
  message.Put(greeting.calleds);
  message.PutBytes(rest);
  return MakeProof(secret, message.bytes());
}

}  // namespace

Proof CalledProof(const Secret& secret, const Greeting& greeting) {
  return MakeRoleProof(secret, "called", greeting, {});
}

Proof CallerProof(const Secret& secret, const Greeting& greeting, FrameType type, std::span<const uint8_t> body) {
  Writer rest;
  rest.Put(type);
  rest.PutBytes(body);
  return MakeRoleProof(secret, "caller", greeting, rest.bytes());
}

Result<Frame> ReceiveFrame(const Stream& stream, uint32_t max_bytes, const Patience& patience) {
  Frame frame;
  SL_TRY(ReceiveAll(stream, {reinterpret_cast<uint8_t*>(&frame.header), sizeof(frame.header)}, patience));
  SL_TRY(CheckHeader(frame.header, max_bytes));
  frame.payload.resize(frame.header.bytes);
  SL_TRY(ReceiveAll(stream, frame.payload, patience));
  if (frame.header.type != FrameType::kRefuse) return frame;
  Reader in(frame.payload);
  const auto code = in.Get<sl_status_t>();
  return Status(code < 0 ? code : SL_ERR_INTERNAL, in.GetText());
}

Bytes EncodeRefusal(const Status& why) {
  Writer out;
  out.Put(why.code());
  out.PutText(why.message());
  return EncodeFrame(FrameType::kRefuse, 0, out.bytes());
}

Status Encrypt(Stream* stream, Tls::Role role, const Secret& secret, uint64_t extension) {
  return stream->Encrypt(role, DeriveSecret(secret, "tls", extension, 0));
}

Status Introduce(Stream* stream, uint64_t extension, bool encrypts, const Secret& secret, FrameType type,
                 std::span<const uint8_t> body, const Patience& patience) {
  Greeting greeting{extension, encrypts ? kEncrypts : 0, {}, {}};
  SL_TRY(FillRandom(greeting.callers));
  Writer hello;
  hello.Put(greeting.extension);
  hello.Put(greeting.options);
  hello.Put(greeting.callers);
  SL_TRY(SendAll(*stream, EncodeFrame(FrameType::kHello, 0, hello.bytes()), patience));
  SL_ASSIGN(const Frame answer, ReceiveFrame(*stream, kMaxHelloBytes, patience));
  if (answer.header.type != FrameType::kAnswer || answer.payload.size() != kAnswerBytes) {
    return {SL_ERR_LINK_CORRUPT, "the process that was called spoke out of turn"};
  }
  Reader in(answer.payload);
  greeting.calleds = in.Get<Challenge>();
  if (!IsSame(in.Get<Proof>(), CalledProof(secret, greeting))) {
    return {SL_ERR_DENIED, "the process that was called does not know the secret of this job"};
  }
  Writer proven;
  proven.Put(CallerProof(secret, greeting, type, body));
  proven.Append(body);
  if (encrypts) SL_TRY(Encrypt(stream, Tls::Role::kCaller, secret, extension));
  return SendAll(*stream, EncodeFrame(type, 0, proven.bytes()), patience);
}

}  // namespace sl::kernel
