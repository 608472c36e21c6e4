// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/choice_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "modules/algo-symmetric/tests/gpu_team.h"

namespace sl::algo_symmetric {
namespace {

void ExpectAlike(const Choice& got, const Choice& wanted) {
  EXPECT_EQ(got.family, wanted.family);
  EXPECT_EQ(got.blocks, wanted.blocks);
  EXPECT_EQ(got.threads, wanted.threads);
  EXPECT_EQ(got.share_elements, wanted.share_elements);
  EXPECT_EQ(got.rounds, wanted.rounds);
  EXPECT_EQ(got.time_ns, wanted.time_ns);
  EXPECT_EQ(got.pattern.total_elements, wanted.pattern.total_elements);
  EXPECT_EQ(got.pattern.publishes, wanted.pattern.publishes);
  EXPECT_EQ(got.direct.kind, wanted.direct.kind);
  EXPECT_EQ(got.direct.bytes, wanted.direct.bytes);
}

// More operations than there are slots, which differ in one thing each, many of them met again while they are kept.
TEST(ChoiceCache, SaysWhatCuttingWould) {
  const GpuSettings settings = GpuTeam::SettingsOf(24);
  std::mt19937 random(1);
  const auto below = [&random](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::vector<ChoiceCache> caches(kFamilies.size());
  for (int i = 0; i < 20'000; ++i) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = SL_OP_ALL_REDUCE + below(SL_OP_SEND - SL_OP_ALL_REDUCE);
    op.datatype = below(3) == 0 ? SL_FLOAT32 : SL_BFLOAT16;
    op.reduction = below(3) == 0 ? SL_PREMUL_SUM : SL_SUM;
    op.root = static_cast<int32_t>(below(2));
    op.count = uint64_t{1} << below(26);
    SCOPED_TRACE(testing::Message() << OpKindName(op.kind) << " of " << op.count << ", root " << op.root);
    const size_t family = below(kFamilies.size());
    if (kFamilies[family]->refuses(op, 4, settings) != nullptr) continue;
    const Choice wanted = Cut(*kFamilies[family], op, 1, 4, settings);
    ExpectAlike(caches[family].Of(op, 0, [&] { return wanted; }), wanted);
    if (HasFailure()) return;
  }
}

TEST(ChoiceCache, KeepsCallsWithSettingsOfTheirOwnApart) {
  const GpuSettings settings = GpuTeam::SettingsOf(24);
  GpuSettings bound = settings;
  bound.budget.most = 4;
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = SL_OP_ALL_REDUCE;
  op.datatype = SL_FLOAT32;
  op.count = 1 << 22;
  const auto cut = [&op](const GpuSettings& by) { return Cut(families::kStaged, op, 1, 4, by); };
  ChoiceCache cache;
  const Choice plain = cache.Of(op, 0, [&] { return cut(settings); });
  const Choice held = cache.Of(op, 6, [&] { return cut(bound); });
  EXPECT_GT(plain.blocks, 4u);
  EXPECT_EQ(held.blocks, 4u);
  ExpectAlike(cache.Of(op, 0, [&] { return cut(settings); }), plain);
}

}  // namespace
}  // namespace sl::algo_symmetric
