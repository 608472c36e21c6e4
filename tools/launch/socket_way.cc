// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tools/launch/handout.h"
#include "tools/launch/way.h"

namespace sl::launch {
namespace {

constexpr std::chrono::milliseconds kNap{20};  // between two rounds of knocking

uint64_t Hash(const std::string& text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

class SocketWay final : public Share::Way {
 public:
  explicit SocketWay(const Place& place) : place_(place) {
    asked_.rank = static_cast<uint32_t>(place.rank);
    asked_.size = static_cast<uint32_t>(place.size);
    asked_.job = Hash(place.job);
  }

  void FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout) override {
    deadline_ = Clock::now() + timeout;
    if (place_.rank == 0) {
      HandOut(Listen(timeout), asked_, bytes, deadline_, Where());
    } else {
      Fetch(bytes, timeout);
    }
  }

 private:
  bool local() const { return place_.one_host; }

  std::string Where() const {
    if (local()) return "this host, socket @" + SocketName();
    return place_.master + " port " + std::to_string(place_.port);
  }
  std::string SocketName() const { return "starling-" + std::to_string(geteuid()) + "-" + place_.key; }

  // Looked up again in every round: the name of a pod that has just started is not known at once.
  Doors FindDoors(std::string& problem) const {
    return local() ? LocalDoor(SocketName()) : NetworkDoors(place_.master, place_.port, kPorts, problem);
  }

  std::vector<Fd> Listen(std::chrono::milliseconds timeout) const {
    for (;;) {
      std::string problem;
      const Doors doors = FindDoors(problem);
      std::vector<Fd> listeners = OpenDoors(doors, problem);
      if (!listeners.empty()) return listeners;
      // A local name that is taken, or an address of another host, does not come free by waiting.
      if (!doors.empty() || Clock::now() >= deadline_) {
        throw std::runtime_error("rank 0 cannot listen at " + Where() + " for the other ranks: " + problem +
                                 (doors.empty() ? "; waited " + std::to_string(timeout.count()) + " ms" : ""));
      }
      std::this_thread::sleep_for(kNap);
    }
  }

  void Fetch(std::span<std::byte> bytes, std::chrono::milliseconds timeout) const {
    std::string problem;
    while (Clock::now() < deadline_) {
      for (const Door& door : FindDoors(problem)) {
        if (FetchFrom(door, asked_, bytes, deadline_, problem)) return;
      }
      std::this_thread::sleep_for(kNap);
    }
    throw std::runtime_error("rank 0 of " + std::to_string(place_.size) + " did not hand out the id at " + Where() +
                             " within " + std::to_string(timeout.count()) + " ms, last: " + problem +
                             "; see why it did not start" + (local() ? ", or give --id-file PATH" : ""));
  }

  const Place place_;
  Request asked_;
  Clock::time_point deadline_;
};

}  // namespace

std::unique_ptr<Share::Way> MakeSocketWay(const Place& place) { return std::make_unique<SocketWay>(place); }

}  // namespace sl::launch
