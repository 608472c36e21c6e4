// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/share.h"

#include <cerrno>
#include <cstring>

#include "tools/launch/way.h"

namespace sl::launch {
namespace {

// Of one rank nobody has to hear.
class NoWay final : public Share::Way {
 public:
  void FromFirst(std::span<std::byte>, std::chrono::milliseconds) override {}
};

std::unique_ptr<Share::Way> ChooseWay(const Place& place, const std::string& id_file) {
  if (place.size == 1) return std::make_unique<NoWay>();
  if (!id_file.empty()) return MakeFileWay(place, id_file);
  if (place.one_host || (!place.master.empty() && place.port != 0)) return MakeSocketWay(place);
  if (place.pmi_fd >= 0) return MakePmiWay(place);
  if (!place.master.empty()) {
    throw EnvironmentError("environment: MASTER_ADDR is " + place.master +
                           " and MASTER_PORT is not set; set it to a free port of that host, the same for all ranks");
  }
  throw EnvironmentError(std::string("the ranks that ") + Name(place.launcher) +
                         " started are not all on one host, and nothing says how to reach rank 0: set MASTER_ADDR to "
                         "its host and MASTER_PORT to a free port there (mpirun -x passes them on), or name a file "
                         "that all hosts see with --id-file");
}

}  // namespace

Share::Share(const Place& place, const std::string& id_file) : way_(ChooseWay(place, id_file)) {}
Share::~Share() = default;

void Share::FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout) {
  way_->FromFirst(bytes, timeout);
}

void ThrowErrno(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

}  // namespace sl::launch
