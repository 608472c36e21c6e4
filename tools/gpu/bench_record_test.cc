// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

Conditions TwoLibraries() {
  return {"A processor",
          "A GPU",
          13000,
          4,
          3,
          "half",
          "sum",
          0,
          {{"A", "1"}},
          {{22809, "00112233aabbccdd"}, {22809, "ffeeddccbbaa0099"}}};
}

Row RowOf(size_t bytes, double us = 4.25) {
  return {PointOf("all_reduce", "graph", "plain", bytes), {{us, us + 0.1, us + 1.0 / 3}, {9, 8.5, 8.7}}, true};
}

class BenchRecord : public testing::Test {
 protected:
  BenchRecord() {
    char pattern[] = "/tmp/bench_record_test.XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~BenchRecord() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  void Put(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text; }
  // A file with rows of 8 and 32 bytes.
  std::string Written() const {
    Record record(TwoLibraries(), {"ours.so", "theirs.so"});
    record.Add(RowOf(8));
    record.Add(RowOf(32));
    record.Write(Path("record.json"));
    return Path("record.json");
  }
  // What resuming from `name` under `conditions` says; "" when it is taken.
  std::string Refusal(const std::string& name, const Conditions& conditions = TwoLibraries()) const {
    try {
      Record(conditions, {}).Resume(Path(name));
    } catch (const tools::CommandError& error) {
      EXPECT_EQ(error.exit_code(), tools::kExitFailure);
      EXPECT_NE(std::string(error.what()).find(Path(name)), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(BenchRecord, GivesBackTheRowsThatWereWritten) {
  Record record(TwoLibraries(), {"elsewhere.so", "theirs.so"});  // paths do not matter
  Row wrong = RowOf(128);
  wrong.point = PointOf("alltoallv", "eager", "symmetric", 128);
  wrong.is_right = false;
  Record before(TwoLibraries(), {"ours.so", "theirs.so"});
  before.Add(RowOf(8));
  before.Add(wrong);
  before.Write(Path("record.json"));
  record.Resume(Path("record.json"));
  EXPECT_EQ(record.rows(), before.rows());
  EXPECT_FALSE(std::filesystem::exists(Path("record.json.new")));
}

TEST_F(BenchRecord, KeepsBudgetsAndWhoRefusedThem) {
  Record before(TwoLibraries(), {});
  for (const int ctas : {0, 4}) {
    Row row = RowOf(8);
    row.point.ctas = ctas;
    if (ctas == 0) row.us[1].clear();
    before.Add(row);
  }
  before.Add(RowOf(8));
  before.Write(Path("budgets.json"));
  Record after(TwoLibraries(), {});
  after.Resume(Path("budgets.json"));
  EXPECT_EQ(after.rows(), before.rows());
}

TEST_F(BenchRecord, LacksWhatTheFileDoesNotHold) {
  Record record(TwoLibraries(), {});
  record.Resume(Written());
  GridOptions options{{"all_reduce"}, {"eager", "graph"}, {"plain"}, {}, 8, 64};
  std::vector<Point> missing = record.Missing(GridOf(options));
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_EQ(missing[0], PointOf("all_reduce", "eager", "plain", 8));
  EXPECT_EQ(missing[3], PointOf("all_reduce", "graph", "plain", 64));
}

TEST_F(BenchRecord, GathersTheSlicesOfAGrid) {
  GridOptions options{{"all_reduce", "broadcast"}, {"eager"}, {"plain"}, {}, 8, 2048};
  options.slices = 3;
  for (options.slice = 0; options.slice < 3; ++options.slice) {
    Record record(TwoLibraries(), {});
    record.Resume(Path("grid.json"));
    for (const Point& point : record.Missing(GridOf(options))) record.Add({point, RowOf(8).us, true});
    record.Write(Path("grid.json"));
  }
  Record all(TwoLibraries(), {});
  all.Resume(Path("grid.json"));
  options.slice = 0;
  options.slices = 1;
  EXPECT_TRUE(all.Missing(GridOf(options)).empty());
  EXPECT_EQ(all.rows().size(), GridOf(options).size());
}

TEST_F(BenchRecord, BeginsEmptyWhereThereIsNoFile) {
  Record record(TwoLibraries(), {});
  record.Resume(Path("none.json"));
  EXPECT_TRUE(record.rows().empty());
}

TEST_F(BenchRecord, RefusesHalfAFile) {
  Written();
  const std::string whole = Text("record.json");
  for (size_t part = 0; part < whole.size() - 2; part += 7) {  // the last two end the document and its line
    Put("half.json", whole.substr(0, part));
    EXPECT_NE(Refusal("half.json").find("--resume"), std::string::npos) << part;
  }
}

TEST_F(BenchRecord, RefusesAForeignFile) {
  Put("foreign.json", R"({"points": [], "conditions": {}})");
  EXPECT_NE(Refusal("foreign.json").find("no record of gpu-bench"), std::string::npos);
  std::filesystem::create_directory(Path("folder.json"));
  EXPECT_NE(Refusal("folder.json"), "");
  Put("list.json", "[1, 2]");
  EXPECT_NE(Refusal("list.json"), "");
  Put("newer.json", R"({"starling_gpu_bench": 2, "points": [], "conditions": {}})");
  EXPECT_NE(Refusal("newer.json").find("is not 1"), std::string::npos);
}

TEST_F(BenchRecord, RefusesAPointThatIsThereTwice) {
  Written();
  std::string text = Text("record.json");
  const size_t row = text.find("\n  {");
  text.insert(row, text.substr(row, text.find("},", row) + 2 - row));
  Put("twice.json", text);
  EXPECT_NE(Refusal("twice.json").find("all_reduce of 8 bytes, graph, plain buffers is there twice"),
            std::string::npos);
}

TEST_F(BenchRecord, RefusesTimesThatAreNone) {
  Written();
  const std::string text = Text("record.json");
  for (const char* times :
       {"[[1,2,3]]", "[[1,2],[1,2,3]]", "[[1,0,3],[1,2,3]]", "[[1,-2,3],[1,2,3]]", "[[1,null,3],[1,2,3]]", "[]", "7"}) {
    const size_t begin = text.find("\"us\":") + 5;
    std::string changed = text;
    changed.replace(begin, text.find("]]", begin) + 2 - begin, times);
    Put("times.json", changed);
    EXPECT_NE(Refusal("times.json"), "") << times;
  }
}

TEST_F(BenchRecord, NamesWhatWasOtherWhenItWasMeasured) {
  Written();
  const std::pair<std::function<void(Conditions*)>, const char*> kChanges[] = {
      {[](Conditions* c) { c->processor = "Another"; }, "processor is \"A processor\" there and \"Another\" here"},
      {[](Conditions* c) { c->gpu = "Another"; }, "gpu is \"A GPU\" there and \"Another\" here"},
      {[](Conditions* c) { c->cuda_driver = 12080; }, "cuda_driver is 13000 there and 12080 here"},
      {[](Conditions* c) { c->gpus = 8; }, "gpus is 4 there and 8 here"},
      {[](Conditions* c) { c->rounds = 5; }, "rounds is 3 there and 5 here"},
      {[](Conditions* c) { c->datatype = "float"; }, "datatype is \"half\" there and \"float\" here"},
      {[](Conditions* c) { c->op = "max"; }, "op is \"sum\" there and \"max\" here"},
      {[](Conditions* c) { c->more_elements = 1; }, "more_elements is 0 there and 1 here"},
      {[](Conditions* c) { c->environment["B"] = "2"; }, "environment/B is null there and \"2\" here"},
      {[](Conditions* c) { c->environment.clear(); }, "environment"},
      {[](Conditions* c) { c->libraries[1].version = 22703; }, "libraries/1/version is 22809 there and 22703 here"},
      {[](Conditions* c) { c->libraries[0].fingerprint = "other"; },
       "libraries/0/fingerprint is \"00112233aabbccdd\" there and \"other\" here"},
      {[](Conditions* c) { c->libraries.pop_back(); }, "libraries/1/fingerprint"},
  };
  for (const auto& [change, words] : kChanges) {
    Conditions conditions = TwoLibraries();
    change(&conditions);
    EXPECT_NE(Refusal("record.json", conditions).find(words), std::string::npos) << words;
  }
  EXPECT_EQ(Refusal("record.json"), "");
}

TEST_F(BenchRecord, LeavesTheOldFileWhenItCannotBeWritten) {
  Written();
  const std::string before = Text("record.json");
  std::filesystem::create_directory(Path("record.json.new"));  // so that what is written first cannot be
  EXPECT_THROW(Record(TwoLibraries(), {}).Write(Path("record.json")), tools::CommandError);
  EXPECT_EQ(Text("record.json"), before);
  EXPECT_THROW(Record(TwoLibraries(), {}).Write(Path("no/folder/record.json")), tools::CommandError);
}

TEST_F(BenchRecord, RefusesToAddAPointTwice) {
  Record record(TwoLibraries(), {});
  record.Add(RowOf(8));
  EXPECT_THROW(record.Add(RowOf(8, 7)), tools::CommandError);
  EXPECT_EQ(record.rows().size(), 1u);
}

TEST_F(BenchRecord, FingerprintsChangeWithTheFileTheRuntimeAndItsModules) {
  std::filesystem::create_directories(Path("starling/nccl"));
  // As built, as installed.
  for (const char* library : {"lib.so", "starling/nccl/lib.so"}) {
    for (const char* other : {"libstarling.so", "starling/module.so"}) std::filesystem::remove(Path(other));
    Put(library, "one");
    const std::string alone = FingerprintOf(Path(library));
    EXPECT_EQ(alone.size(), 16u);
    EXPECT_EQ(FingerprintOf(Path(library)), alone);
    std::string last = alone;
    for (const auto& [name, text] :
         {std::pair("libstarling.so", "a"), std::pair("libstarling.so", "b"), std::pair("starling/module.so", "a"),
          std::pair("starling/module.so", "b"), std::pair(library, "two")}) {
      Put(name, text);
      const std::string changed = FingerprintOf(Path(library));
      EXPECT_NE(changed, last) << library << ", " << name;
      last = changed;
    }
  }
  EXPECT_THROW(FingerprintOf(Path("none.so")), tools::CommandError);
}

}  // namespace
}  // namespace sl::bench
