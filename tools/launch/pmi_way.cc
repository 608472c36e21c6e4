// SPDX-License-Identifier: Apache-2.0
//
// PMI, version 1: lines of text between a process and its launcher, which keeps a store of keys and values for the job.
// Spoken by MPICH's Hydra and its relatives; described in "PMI: A Scalable Parallel Process-Management Interface for
// Extreme-Scale Systems" (Balaji and others, EuroMPI 2010) and in MPICH's documentation of the wire protocol.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "tools/launch/way.h"

namespace sl::launch {
namespace {

constexpr size_t kMaxLine = 1024;  // of the protocol
constexpr char kKey[] = "starling-id";

std::string ToHex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

bool FromHex(const std::string& text, std::span<std::byte> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* begin = text.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) return false;
    bytes[i] = std::byte(value);
  }
  return true;
}

// "… name=value …"; empty when there is none.
std::string ValueOf(const std::string& line, const std::string& name) {
  const size_t begin = (" " + line).find(" " + name + "=");
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 1;
  return line.substr(value, line.find(' ', value) - value);
}

class PmiWay final : public Share::Way {
 public:
  explicit PmiWay(const Place& place) : rank_(place.rank), fd_(place.pmi_fd) {}

  void FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout) override {
    deadline_ = Clock::now() + timeout;
    Ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    const std::string store = " kvsname=" + ValueOf(Ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
    if (rank_ == 0) Ask("cmd=put" + store + " key=" + kKey + " value=" + ToHex(bytes), "put_result");
    Ask("cmd=barrier_in", "barrier_out");
    if (rank_ != 0) {
      const std::string answer = Ask("cmd=get" + store + " key=" + kKey, "get_result");
      if (!FromHex(ValueOf(answer, "value"), bytes)) Fail("answered \"" + answer + "\" to the question for the id");
    }
    // From init to finalize the launcher takes the end of a process for a failure of the job.
    Ask("cmd=finalize", "finalize_ack");
  }

 private:
  [[noreturn]] static void Fail(const std::string& what) {
    throw std::runtime_error("PMI: mpiexec " + what + "; give --id-file PATH on a shared file system instead");
  }

  std::string Ask(const std::string& question, const std::string& answer) {
    const std::string line = question + "\n";
    if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) Fail("does not listen");
    std::string heard = ReadLine(question);
    const std::string code = ValueOf(heard, "rc");
    if (ValueOf(heard, "cmd") != answer || (!code.empty() && code != "0")) {
      Fail("answered \"" + heard + "\" to \"" + question.substr(0, 60) + "\"");
    }
    return heard;
  }

  std::string ReadLine(const std::string& question) {
    std::string line;
    for (char c = 0; line.size() < kMaxLine;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      pollfd wait{fd_, POLLIN, 0};
      const int ready = poll(&wait, 1, static_cast<int>(std::max<long>(left.count(), 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) Fail("has not answered \"" + question + "\" in time: not all ranks have come this far");
      if (recv(fd_, &c, 1, 0) != 1) Fail("has closed its connection");
      if (c == '\n') return line;
      line += c;
    }
    Fail("sent a line of more than " + std::to_string(kMaxLine) + " bytes");
  }

  const int rank_;
  const int fd_;
  Clock::time_point deadline_;
};

}  // namespace

std::unique_ptr<Share::Way> MakePmiWay(const Place& place) { return std::make_unique<PmiWay>(place); }

}  // namespace sl::launch
