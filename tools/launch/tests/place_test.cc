// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/place.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace sl::launch {
namespace {

constexpr const char* kNames[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_RUN_ID",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "PMIX_NAMESPACE",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "PMI_FD",
                                  "MPI_LOCALNRANKS",
                                  "MPI_LOCALRANKID",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "SLURM_STEPID",
                                  "SLURM_STEP_NUM_NODES",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_STEP_NODELIST"};

using Variables = std::map<std::string, std::string>;

class PlaceTest : public testing::Test {
 protected:
  PlaceTest() { Clear(); }
  ~PlaceTest() override { Clear(); }

  static void Clear() {
    for (const char* name : kNames) unsetenv(name);
  }
  static std::optional<Place> Find(const Variables& variables) {
    Clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return FindPlace();
  }
  static std::string Refusal(const Variables& variables) {
    try {
      Find(variables);
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "";
  }
};

const Variables kTorch = {{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_PORT", "29500"},
                          {"MASTER_ADDR", "10.0.0.1"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "4711"}};
const Variables kSlurm = {{"SLURM_PROCID", "2"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_STEP_ID", "7"},
                          {"SLURM_JOB_ID", "12"},
                          {"SLURM_STEP_NODELIST", "node[08-09]"}};

Variables With(Variables first, const Variables& more) {
  for (const auto& [name, value] : more) first[name] = value;
  return first;
}

TEST_F(PlaceTest, IsNoneWithoutALauncher) { EXPECT_FALSE(Find({})); }

TEST_F(PlaceTest, IsReadFromTorchrun) {
  const auto place = Find(kTorch);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Place::Launcher::kTorchrun);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_FALSE(place->one_host);
  EXPECT_EQ(place->master, "10.0.0.1");
  EXPECT_EQ(place->port, 29500);
}

TEST_F(PlaceTest, LeavesTheAgentOfTorchrunItsPort) {
  EXPECT_EQ(Find(With(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->port, 29501);
}

TEST_F(PlaceTest, IsReadFromMpirun) {
  const auto place = Find(kOpenMpi);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Place::Launcher::kOpenMpi);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_TRUE(place->one_host);
  EXPECT_EQ(place->key, "ompi-4711");
}

TEST_F(PlaceTest, IsReadFromMpiexec) {
  const auto place = Find({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "0"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Place::Launcher::kHydra);
  EXPECT_FALSE(place->one_host);
  EXPECT_EQ(place->key.find("p" + std::to_string(getppid()) + "-"), 0u) << place->key;
}

TEST_F(PlaceTest, KnowsTheProxyOfMpiexecThroughAScript) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);  // as its proxy makes it
  const auto place = Find({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"PMI_FD", std::to_string(ends[1])}});
  EXPECT_EQ(place->key.find("p" + std::to_string(getpid()) + "-"), 0u) << place->key;
  EXPECT_EQ(place->pmi_fd, ends[1]);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(PlaceTest, IsReadFromSrun) {
  const auto place = Find(kSlurm);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Place::Launcher::kSlurm);
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->size, 3);
  EXPECT_FALSE(place->one_host);
  EXPECT_EQ(place->job, "slurm-12-7");
  EXPECT_EQ(place->master, "node08");
  EXPECT_GE(place->port, 20000);
  EXPECT_LT(place->port, 30000);
  EXPECT_EQ(Find(With(kSlurm, {{"MASTER_ADDR", "x"}, {"MASTER_PORT", "1234"}}))->port, 1234);
  EXPECT_TRUE(Find(With(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}))->one_host);
}

TEST_F(PlaceTest, IsNotThatOfABatchScript) { EXPECT_FALSE(Find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})); }

TEST_F(PlaceTest, IsThatOfTheInnermostLauncher) {
  EXPECT_EQ(Find(With(kSlurm, kTorch))->launcher, Place::Launcher::kTorchrun);
  EXPECT_EQ(Find(With(kOpenMpi, kTorch))->launcher, Place::Launcher::kTorchrun);
  EXPECT_EQ(Find(With(kSlurm, kOpenMpi))->launcher, Place::Launcher::kOpenMpi);
  EXPECT_EQ(Find(With(kSlurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}))->launcher, Place::Launcher::kSlurm);
  EXPECT_EQ(Find(With(kSlurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "6"}}))->launcher, Place::Launcher::kHydra);
}

TEST_F(PlaceTest, RefusesNonsenseByName) {
  EXPECT_NE(Refusal(With(kTorch, {{"RANK", "one"}})).find("RANK is 'one' where a number from 0 to 3"),
            std::string::npos);
  EXPECT_NE(Refusal(With(kTorch, {{"RANK", "4"}})).find("RANK is '4'"), std::string::npos);
  EXPECT_NE(Refusal(With(kTorch, {{"WORLD_SIZE", "0"}})).find("WORLD_SIZE is '0'"), std::string::npos);
  EXPECT_NE(Refusal(With(kTorch, {{"LOCAL_RANK", "2"}})).find("LOCAL_RANK is '2'"), std::string::npos);
  EXPECT_NE(Refusal(With(kTorch, {{"LOCAL_WORLD_SIZE", "5"}})).find("LOCAL_WORLD_SIZE is '5'"), std::string::npos);
  EXPECT_NE(Refusal(With(kTorch, {{"MASTER_PORT", "65535"}})).find("MASTER_PORT is '65535'"), std::string::npos);
  EXPECT_NE(Refusal({{"RANK", "1"}}).find("RANK is set and WORLD_SIZE is not"), std::string::npos);
  EXPECT_NE(Refusal({{"PMI_SIZE", "1"}}).find("PMI_SIZE is set and PMI_RANK is not"), std::string::npos);
}

TEST_F(PlaceTest, RefusesVariablesThatContradictEachOther) {
  const Variables left_over = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const std::string words = Refusal(With(kOpenMpi, left_over));
  EXPECT_NE(words.find("RANK 0 of WORLD_SIZE 1 contradicts OMPI_COMM_WORLD_RANK 1"), std::string::npos) << words;
  EXPECT_NE(Refusal(With(kSlurm, left_over)).find("contradicts SLURM_PROCID 2"), std::string::npos);
  // A script's copy says the same.
  EXPECT_EQ(Find(With(kOpenMpi, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}))->launcher, Place::Launcher::kOpenMpi);
}

TEST(FirstHost, ReadsSlurmsLists) {
  EXPECT_EQ(FirstHost("node1"), "node1");
  EXPECT_EQ(FirstHost("node1,node2"), "node1");
  EXPECT_EQ(FirstHost("node[08-11,14],x1"), "node08");
  EXPECT_EQ(FirstHost("node[3,5]"), "node3");
  EXPECT_EQ(FirstHost("rack[1-2]-eth,x"), "rack1-eth");
  EXPECT_EQ(FirstHost(""), "");
}

}  // namespace
}  // namespace sl::launch
