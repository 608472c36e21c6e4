// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/coll_config.h"

#include <cstddef>
#include <functional>

#include "modules/frontend-nccl/nccl_starling.h"
#include "modules/frontend-nccl/tests/fixture.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

class CollConfig : public Fixture {
 protected:
  void SetUp() override {
    Fixture::SetUp();
    comms_ = MakeComms(2);
    Fake().calls.clear();
  }
  void TearDown() override { DestroyComms(comms_); }

  ncclResult_t Reduce(const ncclCollConfig_t* config, int rank = 0) {
    return ncclAllReduceConfig(send_, recv_, 4, ncclFloat, ncclSum, comms_[static_cast<size_t>(rank)], nullptr, config);
  }
  // What the kernel was told of it, in words.
  std::string Told(ncclResult_t result = ncclSuccess) {
    EXPECT_EQ(Reduce(&config_), result) << Text();
    if (Fake().ops.empty() || Fake().ops.back().settings == 0) return "";
    return Fake().settings.at(Fake().ops.back().settings / 2 - 1);
  }

  std::vector<ncclComm_t> comms_;
  ncclCollConfig_t config_ = NCCL_COLLCONFIG_INITIALIZER;
  float send_[16] = {};
  float recv_[16] = {};
};

TEST_F(CollConfig, IsThePlainCallWhereThereIsNone) {
  EXPECT_EQ(Reduce(nullptr), ncclSuccess);
  EXPECT_EQ(Fake().calls, std::vector<std::string>{"enqueue all_reduce"});
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Fake().Count("call_settings"), 0) << "nothing is asked for";
}

TEST_F(CollConfig, IsTakenByEveryCollective) {
  config_.maxCTAs = 8;
  const ncclComm_t comm = comms_[1];
  const struct {
    std::function<ncclResult_t()> call;
    sl_op_kind_t kind;
    int32_t root;
  } cases[] = {
      {[&] { return ncclAllReduceConfig(send_, recv_, 4, ncclFloat, ncclMax, comm, nullptr, &config_); },
       SL_OP_ALL_REDUCE, -1},
      {[&] { return ncclBroadcastConfig(send_, recv_, 4, ncclFloat, 1, comm, nullptr, &config_); }, SL_OP_BROADCAST, 1},
      {[&] { return ncclReduceConfig(send_, recv_, 4, ncclFloat, ncclMax, 1, comm, nullptr, &config_); }, SL_OP_REDUCE,
       1},
      {[&] { return ncclAllGatherConfig(send_, recv_, 4, ncclFloat, comm, nullptr, &config_); }, SL_OP_ALL_GATHER, -1},
      {[&] { return ncclReduceScatterConfig(send_, recv_, 4, ncclFloat, ncclMax, comm, nullptr, &config_); },
       SL_OP_REDUCE_SCATTER, -1},
      {[&] { return ncclAlltoAllConfig(send_, recv_, 4, ncclFloat, comm, nullptr, &config_); }, SL_OP_ALL_TO_ALL, -1},
      {[&] { return ncclGatherConfig(send_, recv_, 4, ncclFloat, 1, comm, nullptr, &config_); }, SL_OP_GATHER, 1},
      {[&] { return ncclScatterConfig(send_, recv_, 4, ncclFloat, 1, comm, nullptr, &config_); }, SL_OP_SCATTER, 1},
  };
  for (const auto& [call, kind, root] : cases) {
    Fake().ops.clear();
    EXPECT_EQ(call(), ncclSuccess) << Text();
    ASSERT_EQ(Fake().ops.size(), 1u);
    const sl_op_t& op = Fake().ops[0];
    EXPECT_EQ(op.kind, kind);
    EXPECT_EQ(op.root, root);
    EXPECT_EQ(op.count, 4u);
    EXPECT_EQ(op.settings, 2u) << "the same settings, the same number";
  }
}

TEST_F(CollConfig, BindsSmsAndSaysWhatOneIsWorth) {
  config_.minCTAs = 2;
  config_.maxCTAs = 8;
  EXPECT_EQ(Told(), "2 to 8 SMs");
  config_.minCTAs = 9;
  EXPECT_EQ(Told(), "1 to 8 SMs") << "as NCCL has it";
  config_ = NCCL_COLLCONFIG_INITIALIZER;
  config_.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  EXPECT_EQ(Told(), "0 to 0 SMs, worth 0, none wanted");
  config_.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  EXPECT_EQ(Told(), "0 to 0 SMs, worth 8");
  setenv("NCCL_MAX_CTAS", "4", 1);
  ForgetVariables();
  config_.maxCTAs = 16;
  EXPECT_EQ(Told(), "0 to 0 SMs, worth 8") << "the environment wins";
  unsetenv("NCCL_MAX_CTAS");
  ForgetVariables();
}

TEST_F(CollConfig, SelectsAlgorithmsByTheirNamesAndNccls) {
  config_.algSelection = "tree, ring + ^RING_LL";
  EXPECT_EQ(Told(), "0 to 0 SMs, by tree|tree, ring|ring + ^RING_LL");
  config_.forceAlgSelection = 0;
  config_.algSelection = "symmetric_push";
  EXPECT_EQ(Told(), "0 to 0 SMs, rather by symmetric_push");
  config_.algSelection = "";
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(WaysOfSelection("Symk"), "Symk|symmetric");
  EXPECT_EQ(WaysOfSelection("^symk_ld"), "^symk_ld|symmetric_direct|symmetric_push");
  EXPECT_EQ(WaysOfSelection("nvls,(x)"), "nvls,(x)") << "the kernel says what is wrong";
}

TEST_F(CollConfig, ReportsASelectionThatNothingSatisfies) {
  config_.algSelection = "nvls";
  Fake().enqueue_status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(Reduce(&config_), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("ncclAllReduceConfig: the fake said so")) << Text();
  Fake().enqueue_status = SL_OK;
  Fake().settings_status = SL_ERR_INVALID;
  EXPECT_EQ(Reduce(&config_), ncclInvalidArgument);
  config_.forceAlgSelection = 0;
  EXPECT_EQ(Told(), "") << "dropped";
}

TEST_F(CollConfig, HandsOnATagAndAnEvent) {
  config_.userProfilerTag = 77;
  int event = 0;
  config_.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&event);
  EXPECT_EQ(Told(), "") << "neither changes how the operation runs";
  EXPECT_EQ(Fake().tags, std::vector<uint64_t>{77});
  EXPECT_EQ(Fake().events, std::vector<sl_event_t*>{reinterpret_cast<sl_event_t*>(&event)});
}

TEST_F(CollConfig, IsReadAtTheCallInsideAGroup) {
  config_.maxCTAs = 8;
  config_.userProfilerTag = 5;
  std::string selection = "tree";
  config_.algSelection = selection.c_str();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(&config_, 0), ncclSuccess);
  selection.clear();
  config_.maxCTAs = NCCL_CONFIG_UNDEF_INT;
  config_.userProfilerTag = 6;
  EXPECT_EQ(Reduce(&config_, 1), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  ASSERT_EQ(Fake().ops.size(), 2u);
  EXPECT_EQ(Fake().settings, std::vector<std::string>{"0 to 8 SMs, by tree|tree"});
  EXPECT_EQ(Fake().ops[0].settings, 2u);
  EXPECT_EQ(Fake().ops[1].settings, 0u);
  EXPECT_EQ(Fake().tags, (std::vector<uint64_t>{5, 6}));
}

TEST_F(CollConfig, KeepsWhatAGroupOfOneHasBesidesItsOperation) {
  config_.userProfilerTag = 5;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(&config_), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_EQ(Fake().tags, std::vector<uint64_t>{5});
}

TEST_F(CollConfig, FollowsARuleOfItsOwnAndNoOthersVendors) {
  ncclConfigExt_t foreign{nullptr, {0x1234, 1}, {}};
  foreign.val.raw = reinterpret_cast<void*>(1);
  ncclConfigExt_t rule{&foreign, {NCCL_STARLING_VENDOR_ID, NCCL_STARLING_OPTION_RULE}, {}};
  rule.val.s = "algorithm = \"tree\"";
  config_.ext = &foreign;
  EXPECT_EQ(Told(), "");
  config_.ext = &rule;
  EXPECT_EQ(Told(), "0 to 0 SMs, rule algorithm = \"tree\"");
  rule.key.optionId = 2;
  EXPECT_EQ(Reduce(&config_), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("option 2 of Starling")) << Text();
  rule.key.optionId = NCCL_STARLING_OPTION_RULE;
  foreign.next = &foreign;
  EXPECT_EQ(Reduce(&config_), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("does not end")) << Text();
}

TEST_F(CollConfig, NamesWhatIsWrong) {
  const auto refuses = [this](ncclCollConfig_t config, const char* text) {
    Fake().calls.clear();
    EXPECT_EQ(Reduce(&config), ncclInvalidArgument) << text;
    EXPECT_TRUE(TextHas(text)) << Text();
    EXPECT_TRUE(Fake().calls.empty());
  };
  ncclCollConfig_t config = config_;
  config.magic = 0;
  refuses(config, "NCCL_COLLCONFIG_INITIALIZER");
  config = config_;
  config.size = offsetof(ncclCollConfig_t, launchCompletionEvent) - 1;
  refuses(config, "NCCL_COLLCONFIG_INITIALIZER");
  config = config_;
  config.forceAlgSelection = 2;
  refuses(config, "config.forceAlgSelection is 2");
  config = config_;
  config.CTAPolicy = 4;
  refuses(config, "config.CTAPolicy is 4");
  config = config_;
  config.userProfilerTag = uint64_t{1} << 63;
  refuses(config, "config.userProfilerTag is 0x8000000000000000");
  EXPECT_EQ(ncclAllReduceConfig(send_, nullptr, 4, ncclFloat, ncclSum, comms_[0], nullptr, &config_),
            ncclInvalidArgument);
  EXPECT_TRUE(TextHas("ncclAllReduceConfig: argument recvbuff is NULL")) << Text();
}

// Of 2.31, which has no event, at the end of what its caller knows.
TEST_F(CollConfig, ReadsNoFurtherThanItsCallersStruct) {
  int event = 0;
  config_.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&event);
  config_.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
  config_.version = NCCL_VERSION(2, 31, 2);
  config_.maxCTAs = 3;
  EXPECT_EQ(Told(), "0 to 3 SMs");
  config_.size = sizeof(config_);
  EXPECT_EQ(Told(), "0 to 3 SMs");
  EXPECT_TRUE(Fake().events.empty());
}

TEST_F(CollConfig, SaysOnceWhatHasNoEffect) {
  config_.maxCTAs = 0;
  config_.nvlsCTAs = 4;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Told(), "");
  int lines = 0;
  for (const std::string& line : Fake().logs) lines += line.rfind("1 ncclCollConfig_t.", 0) == 0 ? 1 : 0;
  EXPECT_EQ(lines, 2) << "maxCTAs and nvlsCTAs";
}

}  // namespace
}  // namespace sl::frontend_nccl
