// SPDX-License-Identifier: Apache-2.0
// What tuning measures, and how it stands in a profile.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_tune_file.h"
#include "tools/starling/bench_tune_options.h"
#include "tools/starling/bench_tune_session.h"
#include "tools/starling/bench_tune_table.h"

namespace sl::tools {
namespace {

TuneOptions Parse(std::vector<std::string> more) {
  more.insert(more.begin(), {"--tune", "site.toml"});
  return ParseTuneOptions(more);
}

TEST(TuneOptions, AreToldFromThoseOfAMeasurement) {
  EXPECT_TRUE(AsksToTune({"--tune", "x"}));
  EXPECT_TRUE(AsksToTune({"all_reduce", "--tune=x"}));
  EXPECT_FALSE(AsksToTune({"all_reduce", "--ranks", "2"}));
}

TEST(TuneOptions, TakeEveryCollectiveAndSortedRanks) {
  const TuneOptions all = Parse({"--ranks", "8,2,8"});
  EXPECT_EQ(all.file, "site.toml");
  EXPECT_EQ(all.collectives.size(), static_cast<size_t>(kCollectiveCount));
  EXPECT_EQ(all.ranks, (std::vector<int>{2, 8}));
  EXPECT_EQ(Parse({"gather", "reduce"}).collectives,
            (std::vector<Collective>{Collective::kGather, Collective::kReduce}));
  EXPECT_EQ(Parse({}).ranks.front(), 2);
  const TuneOptions behind = Parse({"--ranks", "2,4", "all_reduce"});
  EXPECT_EQ(behind.ranks, (std::vector<int>{2, 4}));
  EXPECT_EQ(behind.collectives, (std::vector<Collective>{Collective::kAllReduce}));
  EXPECT_EQ(Parse({"--gpus", "2", "all_reduce"}).collectives, behind.collectives);
}

TEST(TuneOptions, RefuseWhatCannotBeMeasured) {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{{"--ranks", "0"},
                                                                                   {"-b", "0"},
                                                                                   {"-b", "8", "-e", "4"},
                                                                                   {"-f", "1"},
                                                                                   {"-d", "all"},
                                                                                   {"--budget", "0"},
                                                                                   {"nonsense"},
                                                                                   {"--profile", "x"}}) {
    try {
      Parse(bad);
      ADD_FAILURE() << bad[0];
    } catch (const CommandError& error) {
      EXPECT_EQ(error.exit_code(), kExitUsage) << bad[0];
    }
  }
}

TEST(TuneOptions, TakeNoOptionForTheFile) {
  const auto exit_code_of = [](const std::vector<std::string>& arguments) {
    try {
      ParseTuneOptions(arguments);
    } catch (const CommandError& error) {
      return error.exit_code();
    }
    return -1;
  };
  EXPECT_EQ(exit_code_of({"--tune", "--help"}), kExitGood);
  EXPECT_EQ(exit_code_of({"--tune", "--gpus", "2"}), kExitUsage);
  EXPECT_EQ(exit_code_of({"--tune", "./--gpus"}), -1);
}

TEST(TunePoints, GoFromSmallToLargeAndNameEachSizeOnce) {
  const auto points = TunePoints(Parse({"all_reduce", "all_gather", "-b", "4", "-e", "64"}), 4);
  std::vector<std::pair<Collective, size_t>> got;
  got.reserve(points.size());
  for (const TunePoint& point : points) got.emplace_back(point.collective, point.bytes);
  // An all-gather over 4 ranks has 4 floats at least.
  const std::vector<std::pair<Collective, size_t>> wanted = {{Collective::kAllReduce, 4},
                                                             {Collective::kAllGather, 16},
                                                             {Collective::kAllReduce, 16},
                                                             {Collective::kAllReduce, 64},
                                                             {Collective::kAllGather, 64}};
  EXPECT_EQ(got, wanted);
}

TuneTable Table() {
  TuneTable table;
  table.machine = "a \"bench\"";
  table.date = "2026-11-21";
  table.starling = "0.1.0";
  table.datatype = "float";
  table.modules = {"algo-ring 0.1.0", "algo-x 2.0.0"};
  table.curves = {{Collective::kAlltoAll, 2, "ring", {{8, 0.0001}, {64, 1.5}, {512, 4}}},
                  {Collective::kAlltoAll, 2, "tree", {{8, 0.5}, {64, 1.4}, {512, 3}}}};
  return table;
}

constexpr char kSection[] =
    "[measured]\nversion = 1\nmachine = \"a \\\"bench\\\"\"\ndate = \"2026-11-21\"\nstarling = \"0.1.0\"\n"
    "datatype = \"float\"\nmodules = [\"algo-ring 0.1.0\", \"algo-x 2.0.0\"]\n\n"
    "[[measured.cost]]\nop = \"all_to_all\"\nranks = 2\nalgorithm = \"ring\"\npoints = [[8, 1], [64, 1500], [512, "
    "4000]]\n\n"
    "[[measured.cost]]\nop = \"all_to_all\"\nranks = 2\nalgorithm = \"tree\"\npoints = [[8, 500], [64, 1400], [512, "
    "3000]]\n";

TEST(TuneTable, IsWrittenIntoNothingButAFile) {
  try {
    ProfileText(testing::TempDir());
    FAIL() << "a folder is no profile";
  } catch (const CommandError& error) {
    EXPECT_NE(std::string(error.what()).find("not a regular file; give a profile in TOML"), std::string::npos)
        << error.what();
  }
}

TEST(TuneTable, IsASectionOfAProfile) {
  const std::string text = TuneSection(Table());
  EXPECT_NE(text.find(kSection), std::string::npos) << text;
}

TEST(TuneTable, ReplacesItsOwnSectionAndNothingElse) {
  const std::string before = "# mine\nprofile_version = 1\n";
  const std::string behind = "[link]\nlanes = 1 # measured = best\n";
  EXPECT_EQ(WithoutTuneSection(before + TuneSection(Table()) + behind, "x.toml"), before + behind);
  EXPECT_EQ(WithoutTuneSection(before, "x.toml"), before);
  EXPECT_EQ(WithoutTuneSection("", "x.toml"), "");
}

TEST(TuneTable, LeavesCostsAloneThatItDidNotWrite) {
  for (const std::string text : {"[measured]\nversion = 1\n", "a = 1\n [ measured ]\n", "[[measured.cost]]\n",
                                 "measured = {}\n", "measured.version = 1\n"}) {
    EXPECT_THROW(WithoutTuneSection(text, "x.toml"), CommandError) << text;
  }
  const std::string section = TuneSection(Table());
  EXPECT_THROW(WithoutTuneSection(section.substr(0, section.size() / 2), "x.toml"), CommandError);
}

TEST(TuneTable, NamesWinnersByRange) {
  EXPECT_EQ(WinnersText(Table()), "alltoall over 2 ranks: ring from 8 to 8, tree from 64 to 512 bytes\n");
}

TEST(TuneOptions, MeasureOtherThingsOnGpus) {
  const TuneOptions options = Parse({"--gpus", "4,2"});
  EXPECT_EQ(options.gpus, (std::vector<int>{2, 4}));
  EXPECT_EQ(options.max_bytes, size_t{256} << 20);
  EXPECT_EQ(options.type, DataType::kBf16);
  EXPECT_EQ(options.collectives.size(), 6u);
  EXPECT_EQ(Parse({"--gpus", "2", "-e", "1M", "-d", "half"}).max_bytes, size_t{1} << 20);
  EXPECT_THROW(Parse({"--gpus", "2", "--ranks", "2"}), CommandError);
  EXPECT_THROW(Parse({"--gpus", "1"}), CommandError);
  EXPECT_THROW(Parse({"--gpus", "2", "gather"}), CommandError);
}

TuneTable GpuTable() {
  TuneTable table;
  table.machine = "4 GPUs";
  table.date = "2026-11-22";
  table.starling = "0.1.0";
  table.datatype = "bfloat16";
  // At 1000 "b" leads by 1, at 2000 it lags by 3; "c" is there from 2000 on, 2 % ahead at 3000.
  table.curves = {{Collective::kAllReduce, 2, "a", {{1000, 5}, {2000, 6}, {3000, 10}, {4000, 12}}},
                  {Collective::kAllReduce, 2, "b", {{1000, 4}, {2000, 9}}},
                  {Collective::kAllReduce, 2, "c", {{2000, 6.1}, {3000, 9.8}, {4000, 8}}},
                  {Collective::kAlltoAll, 4, "b", {{8, 1}}}};
  return table;
}

TEST(TuneTable, SaysWhatEachAlgorithmTook) {
  EXPECT_EQ(TimesText(GpuTable().curves),
            "# all_reduce 2 of 1000 bytes: b 4.00 a 5.00 us\n# all_reduce 2 of 2000 bytes: a 6.00 c 6.10 b 9.00 us\n"
            "# all_reduce 2 of 3000 bytes: c 9.80 a 10.00 us\n# all_reduce 2 of 4000 bytes: c 8.00 a 12.00 us\n"
            "# all_to_all 4 of 8 bytes: b 1.00 us\n");
}

TEST(TuneTable, SaysBetweenWhichSizesAlgorithmsChange) {
  std::string text;
  for (const TuneGap& gap : ChangesOf(GpuTable().curves)) {
    text += std::string(Name(gap.collective)) + " " + std::to_string(gap.ranks) + ": " + std::to_string(gap.low) +
            " to " + std::to_string(gap.high) + "\n";
  }
  EXPECT_EQ(text, "all_reduce 2: 1000 to 2000\nall_reduce 2: 3000 to 4000\n");
}

TEST(TuneTable, HasRoundSizesBetweenOthers) {
  const auto middle = [](size_t low, size_t high) {
    return MiddleOf({2, Collective::kAllGather, low, high}, DataType::kBf16);
  };
  EXPECT_EQ(middle(262144, 1048576), 524288u);
  EXPECT_EQ(middle(262144, 524288), 360448u);
  EXPECT_EQ(middle(64, 256), 128u);
  EXPECT_EQ(middle(64, 96), 0u) << "blocks of ranks go in steps of 16 bytes";
  EXPECT_EQ(middle(4, 8), 0u);
}

TEST(TuneTable, SaysThatCostsAreOfGpus) {
  TuneTable table = GpuTable();
  table.device = "cuda";
  const std::string section = TuneSection(table);
  EXPECT_NE(
      section.find("op = \"all_to_all\"\nranks = 4\nalgorithm = \"b\"\ndevice = \"cuda\"\npoints = [[8, 1000]]\n"),
      std::string::npos)
      << section;
  EXPECT_EQ(TuneSection(Table()).find("device"), std::string::npos) << "hosts are what is meant without";
}

TEST(TunePart, TravelsAsText) {
  TunePart part;
  part.ranks = 3;
  part.deadline_ns = 1'234'567'890'123;
  part.algorithms = {"a", "b"};
  part.profiles = {"/tmp/a b:c.toml", "d.toml"};
  part.result_file = "r.json";
  setenv(kTunePartVariable, part.ToText().c_str(), 1);
  EXPECT_EQ(TunePart::FromEnvironment().ToText(), part.ToText());
  setenv(kTunePartVariable, "{\"ranks\": 2}", 1);
  EXPECT_THROW(TunePart::FromEnvironment(), CommandError);
  unsetenv(kTunePartVariable);
}

TEST(TuneFile, FollowsALinkAndLeavesItOne) {
  char pattern[] = "/tmp/starling-tune-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern);
  std::filesystem::create_directory(folder / "there");
  std::ofstream(folder / "there" / "site.toml") << "profile_version = 1\n";
  std::filesystem::create_symlink("there/site.toml", folder / "site.toml");
  {
    Scratch scratch((folder / "site.toml").string());
    EXPECT_EQ(folder, std::filesystem::path(scratch.Add("base.toml", "")).parent_path()) << "relative paths must hold";
    scratch.Replace("profile_version = 1\n", "[measured]\n");
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "site.toml"));
  EXPECT_EQ("profile_version = 1\n\n[measured]\n", ProfileText((folder / "there" / "site.toml").string()));
  EXPECT_EQ(2, std::distance(std::filesystem::directory_iterator(folder), {})) << "scratch files stayed";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sl::tools
