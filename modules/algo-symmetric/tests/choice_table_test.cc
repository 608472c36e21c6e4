// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of families, and that it decides.
#include <gtest/gtest.h>

#include "modules/algo-symmetric/choice.h"

namespace sl::algo_symmetric {
namespace {

constexpr char kText[] = R"(
  all_reduce 4: one_shot 65536, two_shot 262144, direct 1048576 on 8, direct
  all_gather 2: direct ; all_gather 4:staged 1024,direct on 2;
)";

ChoiceTable Table(const std::string& text) {
  Result<ChoiceTable> table = ChoiceTable::Parse(text);
  EXPECT_TRUE(table.ok()) << table.status().message();
  return table.ok() ? table.Take() : ChoiceTable();
}

TEST(ChoiceTable, FindsTheFamilyOfASize) {
  const ChoiceTable table = Table(kText);
  const auto family = [&](sl_op_kind_t kind, uint32_t ranks, uint64_t bytes) {
    const ChoiceTable::Entry* entry = table.Find(kind, ranks, bytes);
    return entry == nullptr ? "none" : FamilyOption(entry->family) + std::to_string(entry->blocks);
  };
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 4, 0), "one_shot0");
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 4, 65536), "one_shot0");
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 4, 65537), "two_shot0");
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 4, 1 << 20), "direct8");
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 4, UINT64_MAX), "direct0");
  EXPECT_EQ(family(SL_OP_ALL_REDUCE, 2, 8), "none");
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 4, 1024), "staged0");
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 4, 1025), "direct2");
  EXPECT_EQ(family(SL_OP_BROADCAST, 4, 8), "none");
  EXPECT_EQ(Table("").Find(SL_OP_ALL_REDUCE, 4, 8), nullptr);
}

TEST(ChoiceTable, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"all_reduse 4: direct", "\"all_reduse\" is no collective"},
      {"send 4: direct", "\"send\" is no collective"},
      {"all_reduce: direct", "a row begins with OPERATION RANKS:"},
      {"all_reduce 4 5: direct", "a row begins with OPERATION RANKS:"},
      {"all_reduce four: direct", "a row begins with OPERATION RANKS:"},
      {"all_reduce 4: tree", "\"tree\" is no family; use one of one_shot, two_shot, staged, direct"},
      {"all_reduce 4: direct 64K", "\"64K\" is no number of bytes"},
      {"all_reduce 4: staged 64, direct 0", "\"0\" is no number of bytes"},
      {"all_reduce 4: direct on many", "\"many\" is no number of SMs"},
      {"all_reduce 4: direct on 4 SMs", "\"SMs\" is too much"},
      {"all_reduce 4: staged 64, one_shot 64, direct", "sizes go upwards"},
      {"all_reduce 4: staged, direct", "sizes go upwards"},
      {"all_reduce 4: staged 64", "the last family of a row goes without a size"},
      {"all_reduce 4:", "the last family of a row goes without a size"},
      {"all_reduce 4: direct\nall_reduce 4: staged", "there is such a row already"},
  };
  for (const auto& [text, what] : wrong) {
    const Result<ChoiceTable> table = ChoiceTable::Parse(text);
    ASSERT_FALSE(table.ok()) << text;
    EXPECT_EQ(table.status().code(), SL_ERR_INVALID);
    EXPECT_NE(table.status().message().find("gpu_choices: \""), std::string::npos) << table.status().message();
    EXPECT_NE(table.status().message().find(what), std::string::npos) << table.status().message();
  }
}

TEST(ChoiceTable, DecidesWhereItsFamilyCanServe) {
  const ChoiceTable table = Table("all_reduce 4: staged 4096, direct 1000000 on 3, one_shot");
  GpuSettings settings{24, 1, false, Family::kStaged, true, true};
  settings.table = &table;
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = SL_OP_ALL_REDUCE;
  op.datatype = SL_FLOAT32;
  op.count = 1024;
  Choice choice = Choose(op, 0, 4, settings);
  EXPECT_EQ(choice.family, Family::kStaged);
  EXPECT_TRUE(choice.is_told);
  op.count = 200000;
  choice = Choose(op, 0, 4, settings);
  EXPECT_EQ(choice.family, Family::kDirect);
  EXPECT_EQ(choice.blocks, 3u);
  EXPECT_TRUE(choice.is_told);
  GpuSettings untold = settings;
  untold.table = nullptr;
  EXPECT_LE(choice.time_ns, Choose(op, 0, 4, untold).time_ns) << "what holds few SMs is not to lose for it";
  // Too long for packets: as if nothing were said.
  op.count = 1 << 24;
  choice = Choose(op, 0, 4, settings);
  EXPECT_EQ(choice.family, Family::kDirect);
  EXPECT_EQ(choice.blocks, BlocksForWire(SL_OP_ALL_REDUCE, 4));
  EXPECT_FALSE(choice.is_told);
  // Other numbers of ranks, and a family that is forced.
  op.count = 1024;
  EXPECT_FALSE(Choose(op, 0, 2, settings).is_told);
  settings.forced = true;
  settings.family = Family::kTwoShot;
  EXPECT_EQ(Choose(op, 0, 4, settings).family, Family::kTwoShot);
}

TEST(Choice, SparesNoBlocksWhereResultsBeginAtNoVector) {
  const GpuSettings settings{24, 1, false, Family::kStaged, true, true};
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = SL_OP_REDUCE_SCATTER;
  op.datatype = SL_BFLOAT16;
  for (const uint32_t size : {3u, 4u, 8u}) {
    op.count = (uint64_t{512} << 20) / size / 16 * 8;
    EXPECT_LT(Choose(op, 0, size, settings).blocks, kOddReducingBlocks) << size;
    ++op.count;
    const Choice choice = Choose(op, 0, size, settings);
    EXPECT_EQ(choice.family, Family::kDirect) << size;
    EXPECT_EQ(choice.blocks, kOddReducingBlocks) << size;
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
