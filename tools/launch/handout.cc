// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/handout.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sl::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{3};  // with a guest who says nothing, or a host that does not answer
constexpr size_t kMaxGuests = 64;             // then the oldest goes

enum Verdict : uint32_t { kGiven, kOtherJob, kOtherSize, kNoSuchRank, kTwice };

struct Answer {
  uint32_t magic = 0x41484c53;  // "SLHA": nobody takes an echo of a request for an answer
  uint32_t verdict = kGiven;
  uint32_t bytes = 0;  // that follow
  uint32_t size = 0;   // of rank 0's job
};
static_assert(sizeof(Answer) == 16);

int MillisecondsTo(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left + 1, 0, 1000));
}

// Whether the other end of a local stream is a process of this user. Other streams say nothing of that.
bool IsTrusted(const Fd& stream) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof name;
  if (getsockname(stream.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return false;
  ucred peer{};
  bytes = sizeof peer;
  return name.ss_family != AF_UNIX ||
         (getsockopt(stream.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid());
}

struct Guest {
  Fd stream;
  Clock::time_point until;
  size_t heard = 0;
  std::array<std::byte, sizeof(Request)> words{};
};

class Host {
 public:
  Host(std::vector<Fd> listeners, const Request& own, std::span<const std::byte> bytes)
      : listeners_(std::move(listeners)), own_(own), bytes_(bytes), served_(own.size), left_(own.size - 1) {
    served_[0] = true;
  }

  void Serve(Clock::time_point deadline) {
    while (left_ > 0 && Clock::now() < deadline) {
      Wait(deadline);
      for (const Fd& listener : listeners_) Welcome(listener);
      std::erase_if(guests_, [this](Guest& guest) { return Hear(guest) || Clock::now() >= guest.until; });
    }
  }
  uint32_t left() const { return left_; }

  std::string Missing() const {
    constexpr uint32_t kNamed = 8;
    std::string text;
    uint32_t named = 0;
    for (uint32_t rank = 0; rank < own_.size && named < kNamed; ++rank) {
      if (served_[rank]) continue;
      text += (named++ > 0 ? ", " : "") + std::to_string(rank);
    }
    return (left_ == 1 ? "rank " : "ranks ") + text +
           (left_ > named ? " and " + std::to_string(left_ - named) + " more" : "");
  }

 private:
  void Wait(Clock::time_point deadline) {
    std::vector<pollfd> all;
    for (const Fd& listener : listeners_) all.push_back({listener.get(), POLLIN, 0});
    for (const Guest& guest : guests_) {
      all.push_back({guest.stream.get(), POLLIN, 0});
      deadline = std::min(deadline, guest.until);
    }
    poll(all.data(), all.size(), MillisecondsTo(deadline));
  }

  void Welcome(const Fd& listener) {
    for (;;) {
      Fd stream(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!stream.valid()) return;
      if (!IsTrusted(stream)) continue;
      if (guests_.size() == kMaxGuests) guests_.erase(guests_.begin());
      guests_.push_back({std::move(stream), Clock::now() + kPatience});
    }
  }

  // True when the guest has been answered, or has gone.
  bool Hear(Guest& guest) {
    const ssize_t got = recv(guest.stream.get(), guest.words.data() + guest.heard, guest.words.size() - guest.heard, 0);
    if (got < 0) return errno != EAGAIN && errno != EINTR;
    guest.heard += static_cast<size_t>(got);
    if (guest.heard < guest.words.size()) return got == 0;
    Request request;
    std::memcpy(&request, guest.words.data(), sizeof request);
    if (request.magic == own_.magic && request.version == own_.version) Reply(guest, request);
    return true;
  }

  void Reply(const Guest& guest, const Request& request) {
    Answer answer;
    answer.size = own_.size;
    if (request.job != own_.job) {
      answer.verdict = kOtherJob;
    } else if (request.size != own_.size) {
      answer.verdict = kOtherSize;
    } else if (request.rank >= own_.size) {
      answer.verdict = kNoSuchRank;
    } else if (served_[request.rank]) {
      answer.verdict = kTwice;
    } else {
      answer.bytes = static_cast<uint32_t>(bytes_.size());
    }
    std::vector<std::byte> words(sizeof answer + answer.bytes);
    std::memcpy(words.data(), &answer, sizeof answer);
    if (answer.bytes != 0) std::memcpy(words.data() + sizeof answer, bytes_.data(), answer.bytes);
    // A new stream takes so few bytes at once; who did not get them asks again.
    const bool sent =
        send(guest.stream.get(), words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size());
    if (!sent || answer.verdict != kGiven) return;
    served_[request.rank] = true;
    --left_;
  }

  const std::vector<Fd> listeners_;
  const Request own_;
  const std::span<const std::byte> bytes_;
  std::vector<bool> served_;  // by rank
  uint32_t left_;
  std::vector<Guest> guests_;
};

// Waits until the stream can be written (or read); false when the time is over.
bool Await(const Fd& stream, short what, Clock::time_point until) {
  while (Clock::now() < until) {
    pollfd wait{stream.get(), what, 0};
    if (poll(&wait, 1, MillisecondsTo(until)) > 0) return true;
  }
  return false;
}

bool ReadAll(const Fd& stream, void* to, size_t bytes, Clock::time_point until) {
  auto* next = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (!Await(stream, POLLIN, until)) return false;
    const ssize_t got = recv(stream.get(), next, bytes, 0);
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

Fd Knock(const Door& door, Clock::time_point until, std::string& problem) {
  Fd stream(socket(door.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!stream.valid() || connect(stream.get(), reinterpret_cast<const sockaddr*>(&door.address), door.bytes) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    socklen_t bytes = sizeof error;
    if (!Await(stream, POLLOUT, until)) {
      error = ETIMEDOUT;
    } else if (getsockopt(stream.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
      error = errno;
    }
  }
  if (error == 0 && IsTrusted(stream)) return stream;
  problem = error == 0 ? "a process of another user answers there" : std::strerror(error);
  return Fd();
}

}  // namespace

void HandOut(std::vector<Fd> listeners, const Request& own, std::span<const std::byte> bytes,
             Clock::time_point deadline, const std::string& where) {
  Host host(std::move(listeners), own, bytes);
  host.Serve(deadline);
  if (host.left() == 0) return;
  throw std::runtime_error("of " + std::to_string(own.size) + " ranks, " + host.Missing() +
                           " did not come for the id in time (" + where + "); see why they did not start");
}

bool FetchFrom(const Door& door, const Request& own, std::span<std::byte> bytes, Clock::time_point deadline,
               std::string& problem) {
  const Clock::time_point until = std::min(deadline, Clock::now() + kPatience);
  const Fd stream = Knock(door, until, problem);
  if (!stream.valid()) return false;
  Answer answer;
  if (send(stream.get(), &own, sizeof own, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof own) ||
      !ReadAll(stream, &answer, sizeof answer, until) || answer.magic != Answer().magic) {
    problem = "something else answers there";
    return false;
  }
  const std::string asked = "rank " + std::to_string(own.rank) + " of " + std::to_string(own.size);
  switch (answer.verdict) {
    case kGiven:
      if (answer.bytes == bytes.size() && ReadAll(stream, bytes.data(), bytes.size(), until)) return true;
      problem = "rank 0 went away while it answered";
      return false;
    case kOtherJob:
      problem = "another job answers there";
      return false;
    case kOtherSize:
      throw std::runtime_error("this process is " + asked + ", says its launcher; rank 0 was told " +
                               std::to_string(answer.size) + " ranks: they are not of one start");
    case kTwice:
      throw std::runtime_error("two processes came as " + asked + "; every rank comes once");
    default:
      throw std::runtime_error("rank 0 refused " + asked);
  }
}

}  // namespace sl::launch
