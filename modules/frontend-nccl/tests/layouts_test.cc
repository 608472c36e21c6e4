// SPDX-License-Identifier: Apache-2.0
//
// Programs built against the headers of other releases: the layouts that those have, written down here field by field,
// passed to this library as such a program passes them, at the end of a page that nothing may be read beyond.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "modules/frontend-nccl/config.h"
#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

struct Header {
  size_t size;
  unsigned magic;
  unsigned version;
};
struct Config214 : Header {
  int blocking;
};
struct Config217 : Header {
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
};
struct Config218 : Config217 {
  int splitShare;
};
struct Config227 : Config217 {
  int splitShare, trafficClass;
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
};
struct Config228 : Config227 {
  int nChannelsPerNetPeer, nvlinkCentricSched;
};
struct Config229 : Config228 {
  int graphUsageMode, numRmaCtx;
};
struct Config2303 : Config229 {
  int maxP2pPeers;
};
struct Config2307 : Config229 {
  int maxP2pPeers, graphStreamOrdering;
};
struct Config2312 : Config2307 {
  int launchOrderImplicit, numRmaSig, rmaEagerInit, hostCftMode;
};
struct Config2323 : Config2312 {
  int nvlsHostMode;
};
static_assert(sizeof(Config214) == 24 && sizeof(Config217) == 40 && sizeof(Config218) == 48);
static_assert(sizeof(Config227) == 72 && sizeof(Config228) == 80 && sizeof(Config229) == 88);
static_assert(sizeof(Config2303) == 96 && sizeof(Config2307) == 96 && sizeof(Config2312) == 112);
static_assert(sizeof(Config2323) == 120 && sizeof(ncclConfig_t) == 120);

// `bytes` that end where a page begins that cannot be read.
class EndOfPage {
 public:
  explicit EndOfPage(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* memory = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    base_ = static_cast<char*>(memory);
    EXPECT_EQ(mprotect(base_ + page_, page_, PROT_NONE), 0);
    at_ = base_ + page_ - bytes;
  }
  ~EndOfPage() { munmap(base_, 2 * page_); }
  void* at() const { return at_; }

 private:
  const size_t page_;
  char* base_ = nullptr;
  char* at_ = nullptr;
};

class Layouts : public Fixture {
 protected:
  // A communicator of one rank as a program of that release makes it.
  template <typename Config>
  static void MakeAsOf(int version, const Config& config) {
    const EndOfPage place(sizeof(Config));
    std::memcpy(place.at(), static_cast<const void*>(&config), sizeof(Config));
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, static_cast<ncclConfig_t*>(place.at())), ncclSuccess)
        << version << ": " << Text();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }

  // All fields but the header's hold what a program may not ask for, unless it is of that release.
  template <typename Config>
  static Config Undefined(int version) {
    Config config;
    std::memset(static_cast<void*>(&config), 0x5a, sizeof(config));  // what is no field is anything
    config.size = sizeof(config);
    config.magic = NCCL_API_MAGIC;
    config.version = static_cast<unsigned>(version);
    config.blocking = NCCL_CONFIG_UNDEF_INT;
    return config;
  }
  template <typename Config>
  static Config Undefined217(int version) {
    Config config = Undefined<Config>(version);
    config.cgaClusterSize = config.minCTAs = NCCL_CONFIG_UNDEF_INT;
    config.maxCTAs = 8;
    config.netName = nullptr;
    return config;
  }
  template <typename Config>
  static Config Undefined227(int version) {
    Config config = Undefined217<Config>(version);
    config.splitShare = config.trafficClass = config.collnetEnable = config.CTAPolicy = NCCL_CONFIG_UNDEF_INT;
    config.shrinkShare = config.nvlsCTAs = NCCL_CONFIG_UNDEF_INT;
    config.commName = "of another release";
    return config;
  }
  template <typename Config>
  static Config Undefined229(int version) {
    Config config = Undefined227<Config>(version);
    config.nChannelsPerNetPeer = config.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
    config.graphUsageMode = config.numRmaCtx = NCCL_CONFIG_UNDEF_INT;
    return config;
  }
  template <typename Config>
  static Config Undefined231(int version) {
    Config config = Undefined229<Config>(version);
    config.maxP2pPeers = config.graphStreamOrdering = NCCL_CONFIG_UNDEF_INT;
    config.launchOrderImplicit = config.numRmaSig = config.rmaEagerInit = NCCL_CONFIG_UNDEF_INT;
    config.hostCftMode = ncclHostCftDefault;
    return config;
  }
};

TEST_F(Layouts, ServeProgramsOfEveryReleaseWhoseConfigDiffers) {
  MakeAsOf(21403, Undefined<Config214>(21403));
  MakeAsOf(21701, Undefined217<Config217>(21701));
  auto of_218 = Undefined217<Config218>(21805);
  of_218.splitShare = 0;
  MakeAsOf(21805, of_218);
  MakeAsOf(22707, Undefined227<Config227>(22707));
  auto of_228 = Undefined227<Config228>(22809);
  of_228.nChannelsPerNetPeer = of_228.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
  MakeAsOf(22809, of_228);
  MakeAsOf(22907, Undefined229<Config229>(22907));
  auto of_2303 = Undefined229<Config2303>(23003);
  of_2303.maxP2pPeers = NCCL_CONFIG_UNDEF_INT;
  MakeAsOf(23003, of_2303);
  auto of_2307 = Undefined229<Config2307>(23007);
  of_2307.maxP2pPeers = of_2307.graphStreamOrdering = NCCL_CONFIG_UNDEF_INT;
  MakeAsOf(23007, of_2307);
  MakeAsOf(23102, Undefined231<Config2312>(23102));
  auto of_232 = Undefined231<Config2323>(23203);
  of_232.nvlsHostMode = ncclNvlsHostModeDisable;
  MakeAsOf(23203, of_232);
  EXPECT_EQ(Fake().Count("comm_create"), 10);
}

TEST_F(Layouts, TakeTheFieldsThatAReleaseHadAndNoOthers) {
  CommSettings settings;
  auto old = Undefined231<Config2312>(23102);
  old.rmaEagerInit = 1;
  const EndOfPage place(sizeof(old));
  std::memcpy(place.at(), static_cast<const void*>(&old), sizeof(old));
  ASSERT_EQ(ParseConfig("f", static_cast<ncclConfig_t*>(place.at()), nullptr, &settings), ncclSuccess) << Text();
  EXPECT_EQ(settings.values.rmaEagerInit, 1);
  EXPECT_EQ(settings.values.maxCTAs, 8);
  EXPECT_EQ(settings.values.nvlsHostMode, NCCL_CONFIG_UNDEF_INT);
}

// First in its process to ask for anything, since each field is spoken of once.
TEST(LayoutsInAProcessOfItsOwn, SayOnceByNameWhichFieldsHaveNoEffect) {
  Fake().Reset();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.launchOrderImplicit = 1;
  config.numRmaSig = 2;
  config.rmaEagerInit = 1;
  config.hostCftMode = ncclHostCftFallback;
  config.nvlsHostMode = ncclNvlsHostModeDisableTransport;
  config.trafficClass = 3;
  config.netName = "IB";
  CommSettings settings;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(ParseConfig("f", &config, nullptr, &settings), ncclSuccess);
  std::string lines;
  for (const std::string& line : Fake().logs) {
    if (line.find(" has no effect: ") != std::string::npos) lines += line.substr(0, line.find(" has")) + "\n";
  }
  EXPECT_EQ(lines,
            "1 config.trafficClass = 3\n1 config.launchOrderImplicit = 1\n1 config.numRmaSig = 2\n"
            "1 config.netName = \"IB\"\n");
}

TEST_F(Layouts, RefuseWhatServesKernelsByName) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.hostCftMode = ncclHostCftEnable;
  CommSettings settings;
  EXPECT_EQ(ParseConfig("f", &config, nullptr, &settings), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("config.hostCftMode")) << Text();
}

}  // namespace
}  // namespace sl::frontend_nccl
