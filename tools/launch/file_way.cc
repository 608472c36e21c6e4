// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "sdk/fd.h"
#include "tools/launch/way.h"

namespace sl::launch {
namespace {

// No event tells of a file on a file system that hosts share.
constexpr std::chrono::milliseconds kPoll{10};

class FileWay final : public Share::Way {
 public:
  FileWay(const Place& place, std::string path) : rank_(place.rank), path_(std::move(path)) {}
  ~FileWay() override {
    if (created_) unlink(path_.c_str());
  }

  void FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout) override {
    if (rank_ == 0) {
      Create(bytes);
    } else {
      Await(bytes, timeout);
    }
  }

 private:
  void Create(std::span<const std::byte> bytes) {
    const Fd file(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.valid() && errno == EEXIST) {
      throw std::runtime_error("id file " + path_ + " is already there, perhaps from a run that was killed: remove it");
    }
    if (!file.valid()) ThrowErrno("cannot create id file " + path_);
    created_ = true;
    // So few bytes are written at once, or the file system is full.
    if (write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      ThrowErrno("cannot write id file " + path_);
    }
  }

  void Await(std::span<std::byte> bytes, std::chrono::milliseconds timeout) const {
    const Clock::time_point deadline = Clock::now() + timeout;
    while (!TryRead(bytes)) {
      if (Clock::now() >= deadline) {
        throw std::runtime_error("rank 0 did not write id file " + path_ + " within " +
                                 std::to_string(timeout.count()) + " ms; is it on a file system that all hosts share?");
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  // A file that is shorter than the id is still being written.
  bool TryRead(std::span<std::byte> bytes) const {
    const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid() && errno == ENOENT) return false;
    if (!file.valid()) ThrowErrno("cannot open id file " + path_);
    return read(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }

  const int rank_;
  const std::string path_;
  bool created_ = false;
};

}  // namespace

std::unique_ptr<Share::Way> MakeFileWay(const Place& place, const std::string& path) {
  return std::make_unique<FileWay>(place, path);
}

}  // namespace sl::launch
