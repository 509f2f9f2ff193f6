#include "transports/bootstrap/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

using testing::HasSubstr;

struct GoodCase {
  const char* name;
  Environment environment;
  LaunchInfo expected;  // job is not compared; root.port 0: any derived port
};

const std::vector<GoodCase>& GoodCases() {
  static const std::vector<GoodCase> cases = {
      {"own",
       {{"GRADWIRE_RANK", "2"},
        {"GRADWIRE_WORLD_SIZE", "4"},
        {"GRADWIRE_ROOT", "10.0.0.1:4000"},
        {"GRADWIRE_SECRET", "s"},
        {"GRADWIRE_INSECURE", "1"}},
       {.launcher = "gradwire",
        .rank = 2,
        .world_size = 4,
        .root = {"10.0.0.1", 4000},
        .secret = "s",
        .insecure = true}},
      {"own wins over others",
       {{"GRADWIRE_RANK", "1"},
        {"GRADWIRE_WORLD_SIZE", "2"},
        {"GRADWIRE_ROOT", "[::1]:7"},
        {"RANK", "7"},
        {"WORLD_SIZE", "9"},
        {"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "8"}},
       {.launcher = "gradwire", .rank = 1, .world_size = 2, .root = {"::1", 7}}},
      {"own, root and port apart",
       {{"GRADWIRE_RANK", "1"},
        {"GRADWIRE_WORLD_SIZE", "2"},
        {"GRADWIRE_ROOT", "node7"},
        {"GRADWIRE_PORT", "123"}},
       {.launcher = "gradwire", .rank = 1, .world_size = 2, .root = {"node7", 123}}},
      {"own, with a port that is no choice",
       {{"GRADWIRE_RANK", "1"},
        {"GRADWIRE_WORLD_SIZE", "2"},
        {"GRADWIRE_ROOT", "node7:5"},
        {"GRADWIRE_PORT", "0"},
        {"GRADWIRE_INSECURE", "Off"}},
       {.launcher = "gradwire", .rank = 1, .world_size = 2, .root = {"node7", 5}}},
      {"own on one host without a root",
       {{"GRADWIRE_RANK", "1"},
        {"GRADWIRE_WORLD_SIZE", "2"},
        {"GRADWIRE_LOCAL_RANK", "1"},
        {"GRADWIRE_LOCAL_WORLD_SIZE", "2"}},
       {.launcher = "gradwire",
        .rank = 1,
        .world_size = 2,
        .local_rank = 1,
        .local_size = 2,
        .root = {"127.0.0.1", 0}}},
      {"alone",
       {{"GRADWIRE_RANK", "0"}, {"GRADWIRE_WORLD_SIZE", "1"}},
       {.launcher = "gradwire", .rank = 0, .world_size = 1}},
      {"torchrun on two hosts",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_RUN_ID", "abc"}},
       {.launcher = "torchrun",
        .rank = 5,
        .world_size = 8,
        .local_rank = 1,
        .local_size = 4,
        .root = {"node0", 29501}}},
      {"torchrun on one host listens on loopback",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"}},
       {.launcher = "torchrun",
        .rank = 1,
        .world_size = 2,
        .local_rank = 1,
        .local_size = 2,
        .root = {"127.0.0.1", 29501}}},
      {"torchrun with our port, last of all ports",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"},
        {"GRADWIRE_PORT", "65535"}},
       {.launcher = "torchrun", .rank = 1, .world_size = 2, .root = {"node0", 65535}}},
      {"torchrun at the last port",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "65535"}},
       {.launcher = "torchrun", .rank = 1, .world_size = 2, .root = {"node0", 65534}}},
      {"torchrun under mpirun, one per host",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_RUN_ID", "abc"},
        {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"}},
       {.launcher = "torchrun", .rank = 5, .world_size = 8, .root = {"node0", 29501}}},
      {"open mpi on one host",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_NAMESPACE", "152240129"},
        {"PMIX_RANK", "1"}},
       {.launcher = "open mpi",
        .rank = 1,
        .world_size = 2,
        .local_rank = 1,
        .local_size = 2,
        .root = {"127.0.0.1", 0}}},
      {"open mpi with half of torch's names in the environment",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"WORLD_SIZE", "16"},
        {"GRADWIRE_ROOT", "node0:9000"}},
       {.launcher = "open mpi", .rank = 1, .world_size = 2, .root = {"node0", 9000}}},
      {"hydra on one host",
       {{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"},
        {"PMI_FD", "8"}},
       {.launcher = "mpich",
        .rank = 1,
        .world_size = 2,
        .local_rank = 1,
        .local_size = 2,
        .root = {"127.0.0.1", 0}}},
      {"slurm on several hosts",
       {{"SLURM_PROCID", "3"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_STEP_NUM_NODES", "2"},
        {"SLURM_STEP_NODELIST", "gpu[04-05]"},
        {"SLURM_JOB_NODELIST", "gpu[01-05]"},
        {"SLURM_JOB_ID", "77"},
        {"SLURM_STEP_ID", "0"}},
       {.launcher = "slurm", .rank = 3, .world_size = 8, .local_rank = 0, .root = {"gpu04", 0}}},
      {"slurm on one host",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_STEP_NUM_NODES", "1"},
        {"SLURM_JOB_NODELIST", "gpu04"},
        {"SLURM_JOB_ID", "77"}},
       {.launcher = "slurm",
        .rank = 1,
        .world_size = 2,
        .local_rank = 1,
        .root = {"127.0.0.1", 0}}},
      {"mpirun inside a slurm job",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"},
        {"GRADWIRE_ROOT", "a:1"}},
       {.launcher = "open mpi", .rank = 1, .world_size = 2, .root = {"a", 1}}},
  };
  return cases;
}

TEST(Launcher, ReadsEachOne) {
  for (const GoodCase& c : GoodCases()) {
    SCOPED_TRACE(c.name);
    const StatusOr<LaunchInfo> got = DetectLauncher(c.environment);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(got->launcher, c.expected.launcher);
    EXPECT_EQ(got->rank, c.expected.rank);
    EXPECT_EQ(got->world_size, c.expected.world_size);
    EXPECT_EQ(got->local_rank, c.expected.local_rank);
    EXPECT_EQ(got->local_size, c.expected.local_size);
    EXPECT_EQ(got->secret, c.expected.secret);
    EXPECT_EQ(got->insecure, c.expected.insecure);
    EXPECT_EQ(got->root.host, c.expected.root.host);
    if (c.expected.root.port != 0 || c.expected.world_size == 1) {
      EXPECT_EQ(got->root.port, c.expected.root.port);
    } else {
      EXPECT_GE(got->root.port, 20000);
      EXPECT_LT(got->root.port, 30000);
    }
  }
}

struct BadCase {
  const char* name;
  Environment environment;
  std::vector<const char*> named;  // all of it is in the error text
};

const std::vector<BadCase>& BadCases() {
  static const std::vector<BadCase> cases = {
      {"nothing",
       {},
       {"GRADWIRE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}},
      {"half of ours",
       {{"GRADWIRE_RANK", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}},
       {"GRADWIRE_RANK is set", "GRADWIRE_WORLD_SIZE is not",
        "Set GRADWIRE_WORLD_SIZE too, or unset GRADWIRE_RANK"}},
      {"half of theirs",
       {{"WORLD_SIZE", "2"}},
       {"WORLD_SIZE is set but RANK is not", "gradwire run, torchrun, mpirun or srun",
        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT all"}},
      {"rank beyond size",
       {{"RANK", "2"}, {"WORLD_SIZE", "2"}},
       {"RANK=2 contradicts WORLD_SIZE=2"}},
      {"local beyond all",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}},
       {"LOCAL_WORLD_SIZE=3 contradicts WORLD_SIZE=2"}},
      {"local rank beyond local size",
       {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}},
       {"LOCAL_RANK=2 contradicts LOCAL_WORLD_SIZE=2"}},
      {"no number", {{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {"RANK=one is not a number"}},
      {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK=-1 is not a number"}},
      {"torch by hand under mpirun",
       {{"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"}},
       {"RANK=0 contradicts OMPI_COMM_WORLD_RANK=3"}},
      {"two MPIs",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"PMI_RANK", "0"},
        {"PMI_SIZE", "2"}},
       {"OMPI_COMM_WORLD_SIZE=4 contradicts PMI_SIZE=2"}},
      {"no master",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}},
       {"MASTER_ADDR is not set", "GRADWIRE_ROOT=host:port"}},
      {"several hosts, no root",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}},
       {"GRADWIRE_ROOT is not set"}},
      {"no port",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}},
       {"MASTER_PORT", "not a port"}},
      {"root without port",
       {{"GRADWIRE_RANK", "0"}, {"GRADWIRE_WORLD_SIZE", "2"}, {"GRADWIRE_ROOT", "node0"}},
       {"GRADWIRE_ROOT", "host:port", "by GRADWIRE_PORT"}},
      {"two ports",
       {{"GRADWIRE_RANK", "0"},
        {"GRADWIRE_WORLD_SIZE", "2"},
        {"GRADWIRE_ROOT", "node0:1"},
        {"GRADWIRE_PORT", "2"}},
       {"GRADWIRE_ROOT=node0:1 contradicts GRADWIRE_PORT=2"}},
      {"insecure maybe",
       {{"GRADWIRE_RANK", "0"}, {"GRADWIRE_WORLD_SIZE", "1"}, {"GRADWIRE_INSECURE", "maybe"}},
       {"GRADWIRE_INSECURE=maybe"}},
      {"broken node list",
       {{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_NNODES", "2"},
        {"SLURM_JOB_NODELIST", "gpu[01"}},
       {"SLURM_JOB_NODELIST", "gpu[01"}},
  };
  return cases;
}

// A job within a rank of another one has a root of its own, and inherits that one's variable.
TEST(Launcher, TakesTheBoardOfItsOwnJob) {
  Environment environment = {
      {"GRADWIRE_RANK", "1"}, {"GRADWIRE_WORLD_SIZE", "2"}, {"GRADWIRE_ROOT", "127.0.0.1:2000"}};
  EXPECT_EQ(DetectLauncher(environment)->board, "");
  environment["GRADWIRE_LAUNCH_BOARD"] = "7:99@127.0.0.1:2000";
  EXPECT_EQ(DetectLauncher(environment)->board, "7:99");
  environment["GRADWIRE_ROOT"] = "127.0.0.1:2001";
  EXPECT_EQ(DetectLauncher(environment)->board, "");
}

TEST(Launcher, ErrorsNameTheVariables) {
  for (const BadCase& c : BadCases()) {
    SCOPED_TRACE(c.name);
    const StatusOr<LaunchInfo> got = DetectLauncher(c.environment);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), gwInvalidUsage);
    for (const char* text : c.named) EXPECT_THAT(got.status().ToString(), HasSubstr(text));
  }
}

TEST(Launcher, ALauncherIsKnownByItsMark) {
  for (const GoodCase& c : GoodCases()) EXPECT_TRUE(HasLauncher(c.environment)) << c.name;
  for (const char* mark : {"GRADWIRE_RANK", "GRADWIRE_WORLD_SIZE", "RANK", "WORLD_SIZE",
                           "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    EXPECT_TRUE(HasLauncher({{mark, "1"}})) << mark;
    EXPECT_FALSE(HasLauncher({{mark, ""}})) << mark;
  }
  EXPECT_FALSE(HasLauncher({}));
  EXPECT_FALSE(HasLauncher({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}))
      << "the shell of salloc";
}

TEST(Launcher, ARankIsKnownWhereTheRestIsWrong) {
  EXPECT_EQ(LaunchedRank({{"RANK", "3"}}), 3);
  EXPECT_EQ(LaunchedRank({{"GRADWIRE_RANK", "1"}, {"RANK", "3"}}), 1);
  EXPECT_EQ(LaunchedRank({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), 2);
  for (const char* none : {"", "one", "-2"}) EXPECT_EQ(LaunchedRank({{"RANK", none}}), -1) << none;
  EXPECT_EQ(LaunchedRank({{"WORLD_SIZE", "2"}}), -1);
}

TEST(Launcher, RanksOfAJobAgreeAndJobsDiffer) {
  auto detect = [](const char* rank, const char* job) {
    return *DetectLauncher({{"OMPI_COMM_WORLD_RANK", rank},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", job}});
  };
  EXPECT_EQ(detect("0", "a").job, detect("1", "a").job);
  EXPECT_EQ(detect("0", "a").root, detect("1", "a").root);
  EXPECT_NE(detect("0", "a").job, detect("0", "b").job);
  EXPECT_NE(detect("0", "a").root, detect("0", "b").root);
}

// PMI_ID looks like a job's, and is a process's.
TEST(Launcher, RanksOfMpichAgreeOnTheJob) {
  auto detect = [](const char* rank) {
    return *DetectLauncher({{"PMI_RANK", rank},
                            {"PMI_SIZE", "2"},
                            {"MPI_LOCALRANKID", rank},
                            {"MPI_LOCALNRANKS", "2"},
                            {"PMI_ID", rank},
                            {"USER", "u"}});
  };
  EXPECT_EQ(detect("0").job, detect("1").job);
  EXPECT_EQ(detect("0").root, detect("1").root);
}

TEST(SlurmHosts, FirstOfEachForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu04", "gpu04"},           {"gpu04,gpu05", "gpu04"},       {"gpu[04-05]", "gpu04"},
      {"gpu[7,9-12],cpu1", "gpu7"}, {"n[003-005,9]-ib", "n003-ib"}, {"r[0-1]n[3-4]", "r0n3"},
      {"a.b.c", "a.b.c"},
  };
  for (const auto& [list, first] : cases) {
    const StatusOr<std::string> got = FirstSlurmHost(list);
    ASSERT_TRUE(got.ok()) << list;
    EXPECT_EQ(*got, first);
  }
  for (const char* wrong : {"", ",a", "gpu[", "gpu[]", "gpu[a-b]", "gpu]", "a b", "[,]"}) {
    EXPECT_FALSE(FirstSlurmHost(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace gradwire
