// SPDX-License-Identifier: Apache-2.0
// Bare TCP, driven in three ways.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "bench/tcp/path.h"
#include "sdk/fd.h"

namespace sl::bench_tcp {
namespace {

Fd Connect(const Meeting& meeting) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  inet_pton(AF_INET, meeting.address.c_str(), &name.sin_addr);
  Fd stream(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (meeting.left) {
    if (bind(stream.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || listen(stream.get(), 1) != 0) {
      Die("listen");
    }
    socklen_t bytes = sizeof name;
    getsockname(stream.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
    meeting.Tell(&name, sizeof name);
    Fd accepted(accept4(stream.get(), nullptr, nullptr, SOCK_CLOEXEC));
    stream = std::move(accepted);
  } else {
    meeting.Hear(&name, sizeof name);
    if (connect(stream.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) Die("connect");
  }
  if (!stream.valid()) Die("accept");
  const int one = 1;
  setsockopt(stream.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(stream.get(), F_SETFL, O_NONBLOCK);
  return stream;
}

class Spin : public Path {
 public:
  explicit Spin(Fd stream) : stream_(std::move(stream)), inbox_(kChunk) {}
  const char* name() const override { return "bare, spinning"; }
  uint64_t calls() const override { return calls_; }
  void Put(const uint8_t* bytes, uint64_t size) override {
    while (size != 0) {
      const ssize_t sent = send(stream_.get(), bytes, size, MSG_NOSIGNAL);
      ++calls_;
      if (sent < 0 && errno != EAGAIN) Die("send");
      if (sent < 0) continue;
      bytes += sent;
      size -= static_cast<uint64_t>(sent);
    }
  }
  void Take(uint64_t size) override {
    for (uint64_t have = 0; have != size;) {
      Wait();
      const ssize_t got = recv(stream_.get(), inbox_.data() + have, size - have, 0);
      ++calls_;
      if (got == 0 || (got < 0 && errno != EAGAIN)) Die("recv");
      if (got > 0) have += static_cast<uint64_t>(got);
    }
  }

 protected:
  virtual void Wait() {}
  const Fd stream_;
  uint64_t calls_ = 0;

 private:
  std::vector<uint8_t> inbox_;
};

class Epoll : public Spin {
 public:
  explicit Epoll(Fd stream) : Spin(std::move(stream)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event = {};
    event.events = EPOLLIN;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream_.get(), &event);
  }
  const char* name() const override { return "bare, epoll"; }

 private:
  void Wait() override {
    epoll_event event;
    do ++calls_;
    while (epoll_wait(epoll_.get(), &event, 1, 0) == 0);
  }
  const Fd epoll_;
};

// One request at a time, submitted by one call; its end is seen in the ring, without a call.
class Uring : public Path {
 public:
  explicit Uring(Fd stream) : stream_(std::move(stream)), inbox_(kChunk) {
    io_uring_params params = {};
    ring_ = Fd(static_cast<int>(syscall(SYS_io_uring_setup, 4, &params)));
    if (!ring_.valid()) return;
    const size_t rings = std::max(params.sq_off.array + params.sq_entries * sizeof(uint32_t),
                                  params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
    base_ = static_cast<uint8_t*>(Map(rings, IORING_OFF_SQ_RING));
    sqes_ = static_cast<io_uring_sqe*>(Map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    params_ = params;
  }
  bool valid() const { return ring_.valid(); }
  const char* name() const override { return "bare, io_uring"; }
  uint64_t calls() const override { return calls_; }
  void Put(const uint8_t* bytes, uint64_t size) override {
    for (uint64_t have = 0; have != size;) {
      have += Do(IORING_OP_SEND, const_cast<uint8_t*>(bytes) + have, size - have, MSG_NOSIGNAL);
    }
  }
  void Take(uint64_t size) override {
    for (uint64_t have = 0; have != size;) have += Do(IORING_OP_RECV, inbox_.data() + have, size - have, 0);
  }

 private:
  void* Map(size_t bytes, off_t offset) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_.get(), offset);
    if (memory == MAP_FAILED) Die("mmap of io_uring");
    return memory;
  }
  uint32_t& Word(uint32_t offset) { return *reinterpret_cast<uint32_t*>(base_ + offset); }
  uint64_t Do(uint8_t operation, uint8_t* bytes, uint64_t size, int flags) {
    const uint32_t tail = Word(params_.sq_off.tail);
    const uint32_t slot = tail & Word(params_.sq_off.ring_mask);
    io_uring_sqe& request = sqes_[slot];
    request = {};
    request.opcode = operation;
    request.fd = stream_.get();
    request.addr = reinterpret_cast<uint64_t>(bytes);
    request.len = static_cast<uint32_t>(size);
    request.msg_flags = static_cast<uint32_t>(flags);
    reinterpret_cast<uint32_t*>(base_ + params_.sq_off.array)[slot] = slot;
    std::atomic_ref<uint32_t>(Word(params_.sq_off.tail)).store(tail + 1, std::memory_order_release);
    ++calls_;
    if (syscall(SYS_io_uring_enter, ring_.get(), 1, 0, 0, nullptr, 0) != 1) Die("io_uring_enter");
    const uint32_t head = Word(params_.cq_off.head);
    while (std::atomic_ref<uint32_t>(Word(params_.cq_off.tail)).load(std::memory_order_acquire) == head) {
    }
    const auto* ends = reinterpret_cast<const io_uring_cqe*>(base_ + params_.cq_off.cqes);
    const int32_t result = ends[head & Word(params_.cq_off.ring_mask)].res;
    std::atomic_ref<uint32_t>(Word(params_.cq_off.head)).store(head + 1, std::memory_order_release);
    if (result <= 0) Die("io_uring request");
    return static_cast<uint64_t>(result);
  }

  const Fd stream_;
  std::vector<uint8_t> inbox_;
  Fd ring_;
  io_uring_params params_ = {};
  uint8_t* base_ = nullptr;
  io_uring_sqe* sqes_ = nullptr;
  uint64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Path> MakeSpin(const Meeting& meeting) { return std::make_unique<Spin>(Connect(meeting)); }
std::unique_ptr<Path> MakeEpoll(const Meeting& meeting) { return std::make_unique<Epoll>(Connect(meeting)); }

std::unique_ptr<Path> MakeUring(const Meeting& meeting) {
  auto path = std::make_unique<Uring>(Connect(meeting));
  return path->valid() ? std::move(path) : nullptr;
}

}  // namespace sl::bench_tcp
