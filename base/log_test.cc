#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace gradwire {
namespace {

struct Line {
  gwLogLevel_t level;
  std::string text;
};

// Collects lines through the callback. The log may refer to one until the process ends, so all are
// static.
struct Collector {
  std::mutex mu;
  std::vector<Line> lines;

  static void Collect(void* user, gwLogLevel_t level, const char* line) {
    auto* const self = static_cast<Collector*>(user);
    const std::lock_guard lock(self->mu);
    self->lines.push_back({level, line});
  }
};

class LogTest : public testing::Test {
 protected:
  void Configure(LogLevel level, uint32_t subsystems = kAllLogSubsys) {
    const Status status =
        ConfigureLog({.level = level, .subsystems = subsystems, .file = {}, .host = "node7"});
    ASSERT_TRUE(status.ok()) << status.ToString();
    SetLogCallback(Collector::Collect, &log_);
    log_.lines.clear();
  }
  void TearDown() override {
    SetLogCallback(nullptr, nullptr);
    ASSERT_TRUE(ConfigureLog({}).ok());
  }

  static inline Collector log_;
  static inline Collector other_log_;
};

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_F(LogTest, LineHasHostProcessThreadRankAndLevel) {
  Configure(LogLevel::kInfo);
  GW_LOG(kInfo, kInit, "world of {} ranks", 4);
  ASSERT_EQ(log_.lines.size(), 1u);
  const std::string want = "node7:" + std::to_string(getpid()) + ":" + std::to_string(gettid()) +
                           " [-] GRADWIRE INFO world of 4 ranks";
  EXPECT_EQ(log_.lines[0].text, want);
  EXPECT_EQ(log_.lines[0].level, gwLogInfo);
}

TEST_F(LogTest, RankBelongsToTheThreadAndNests) {
  Configure(LogLevel::kWarn);
  {
    const ScopedLogRank outer(3);
    GW_LOG(kWarn, kNet, "a");
    {
      const ScopedLogRank inner(4);
      GW_LOG(kWarn, kNet, "b");
    }
    std::thread([] { GW_LOG(kWarn, kNet, "c"); }).join();
    GW_LOG(kWarn, kNet, "d");
  }
  GW_LOG(kWarn, kNet, "e");
  std::vector<std::string> tails;
  for (const Line& line : log_.lines) tails.push_back(line.text.substr(line.text.find('[')));
  EXPECT_EQ(tails, (std::vector<std::string>{"[3] GRADWIRE WARN a", "[4] GRADWIRE WARN b",
                                             "[-] GRADWIRE WARN c", "[3] GRADWIRE WARN d",
                                             "[-] GRADWIRE WARN e"}));
}

TEST_F(LogTest, EachLevelIncludesThoseBefore) {
  for (int level = 0; level <= static_cast<int>(LogLevel::kTrace); ++level) {
    Configure(static_cast<LogLevel>(level));
    GW_LOG(kVersion, kInit, "v");
    GW_LOG(kError, kInit, "e");
    GW_LOG(kWarn, kInit, "w");
    GW_LOG(kInfo, kInit, "i");
    GW_LOG(kTrace, kInit, "t");
    EXPECT_EQ(log_.lines.size(), static_cast<size_t>(level));
  }
}

TEST_F(LogTest, SubsystemsFilterInfoButNotWarnings) {
  Configure(LogLevel::kTrace, static_cast<uint32_t>(LogSubsys::kNet));
  GW_LOG(kInfo, kNet, "shown");
  GW_LOG(kInfo, kPlan, "hidden");
  GW_LOG(kTrace, kPlan, "hidden");
  GW_LOG(kWarn, kPlan, "shown");
  EXPECT_EQ(log_.lines.size(), 2u);
}

TEST_F(LogTest, ArgumentsOfAnOffLineAreNotEvaluated) {
  Configure(LogLevel::kWarn);
  int evaluated = 0;
  GW_LOG(kInfo, kInit, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  GW_LOG(kError, kInit, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, ForeignTextCannotForgeALine) {
  Configure(LogLevel::kWarn);
  GW_LOG(kWarn, kNet, "name '{}'", "x\nnode1:1:1 [0] GRADWIRE ERROR\r\x1b[2J");
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_TRUE(std::none_of(log_.lines[0].text.begin(), log_.lines[0].text.end(),
                           [](char c) { return c < 0x20; }));
}

TEST_F(LogTest, KeepsErrno) {
  Configure(LogLevel::kWarn);
  errno = ENOENT;
  GW_LOG(kWarn, kNet, "x");
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(LogTest, CallbackMayThrow) {
  SetLogCallback([](void*, gwLogLevel_t, const char*) { throw 1; }, nullptr);
  EXPECT_NO_THROW(GW_LOG(kWarn, kNet, "x"));
}

TEST_F(LogTest, LinesGoToTheFileAgainWithoutACallback) {
  const std::string path = testing::TempDir() + "/log_again";
  ASSERT_TRUE(ConfigureLog({.file = path}).ok());
  SetLogCallback(Collector::Collect, &log_);
  GW_LOG(kWarn, kNet, "one");
  SetLogCallback(nullptr, nullptr);
  GW_LOG(kWarn, kNet, "two");
  ASSERT_EQ(LinesOf(path).size(), 1u);
  EXPECT_TRUE(LinesOf(path)[0].ends_with("two"));
}

TEST_F(LogTest, FileNameTakesHostAndProcess) {
  const std::string folder = testing::TempDir();
  ASSERT_TRUE(ConfigureLog({.file = folder + "/log_%h_%p_100%%", .host = "node7"}).ok());
  GW_LOG(kWarn, kNet, "one");
  GW_LOG(kWarn, kNet, "two");
  const auto lines = LinesOf(folder + "/log_node7_" + std::to_string(getpid()) + "_100%");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].ends_with("GRADWIRE WARN two")) << lines[1];
}

TEST_F(LogTest, BadFileKeepsTheOldConfiguration) {
  Configure(LogLevel::kWarn);
  EXPECT_EQ(ConfigureLog({.file = "/nonexistent/folder/file", .host = {}}).code(), gwSystemError);
  EXPECT_EQ(ConfigureLog({.file = "/tmp/%q", .host = {}}).code(), gwInvalidArgument);
  EXPECT_EQ(ConfigureLog({.file = "/tmp/%", .host = {}}).code(), gwInvalidArgument);
  GW_LOG(kWarn, kNet, "still here");
  EXPECT_EQ(log_.lines.size(), 1u);
}

TEST_F(LogTest, LinesOfManyThreadsDoNotMix) {
  const std::string path = testing::TempDir() + "/log_threads";
  unlink(path.c_str());
  ASSERT_TRUE(ConfigureLog({.level = LogLevel::kInfo, .file = path, .host = "h"}).ok());
  constexpr int kThreads = 8, kLines = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      const ScopedLogRank rank(t);
      for (int i = 0; i < kLines; ++i)
        GW_LOG(kInfo, kColl, "line {} of {}", i, std::string(50, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = LinesOf(path);
  EXPECT_EQ(lines.size(), static_cast<size_t>(kThreads * kLines));
  for (const std::string& line : lines) {
    ASSERT_TRUE(line.starts_with("h:")) << line;
    ASSERT_TRUE(line.ends_with(" of " + std::string(50, 'x'))) << line;
    ASSERT_EQ(std::count(line.begin(), line.end(), 'x'), 50) << line;
  }
}

// Standard error as a pipe that has room for two pages: one that holds anything counts as full. The
// parameter: whether it blocks then, as most do.
class PipedError : public LogTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    alarm(kWithinSeconds);
    ASSERT_TRUE(ConfigureLog({.file = {}, .host = "h"}).ok());
    Pipe pipe;
    ASSERT_TRUE(pipe.Open().ok());
    const int write_end = pipe.write_end.get();
    ASSERT_EQ(fcntl(write_end, F_SETFL, GetParam() ? 0 : O_NONBLOCK), 0);
    room_ = fcntl(write_end, F_SETPIPE_SZ, 2 * getpagesize());
    ASSERT_GT(room_, 0);
    error_.reset(dup(STDERR_FILENO));
    ASSERT_EQ(dup2(write_end, STDERR_FILENO), STDERR_FILENO);
    read_end_ = std::move(pipe.read_end);
  }
  void TearDown() override {
    Restore();
    LogTest::TearDown();
    alarm(0);
  }
  void Restore() {
    if (!error_.valid()) return;
    dup2(error_.get(), STDERR_FILENO);
    error_.reset();
  }
  // What the pipe holds, at least a byte.
  std::string ReadSome() const {
    std::string text(room_, ' ');
    text.resize(std::max<ssize_t>(read(read_end_.get(), text.data(), text.size()), 0));
    return text;
  }
  std::string ReadToTheEnd() const {
    std::string text;
    for (std::string more = ReadSome(); !more.empty(); more = ReadSome()) text += more;
    return text;
  }

  // Ends a test whose logging waits for ever.
  static constexpr unsigned kWithinSeconds = 30;
  UniqueFd read_end_, error_;
  int room_ = 0;
};

TEST_P(PipedError, WaitsForASlowReader) {
  const std::string text(5 * room_, 'x');
  std::string seen;
  std::thread reader([&] { seen = ReadToTheEnd(); });
  GW_LOG(kWarn, kNet, "{}", text);
  Restore();  // closes the pipe
  reader.join();
  EXPECT_TRUE(seen.ends_with("WARN " + text + "\n")) << seen.size();
}

TEST_P(PipedError, BeginsALineAfterOneThatWasCutOff) {
  GW_LOG(kWarn, kNet, "{}", std::string(5 * room_, 'x'));
  const std::string cut = ReadSome();
  EXPECT_EQ(cut.size(), static_cast<size_t>(room_));
  EXPECT_TRUE(cut.ends_with("xx"));
  GW_LOG(kWarn, kNet, "next");
  GW_LOG(kWarn, kNet, "and next");
  Restore();
  const std::string rest = ReadToTheEnd();
  EXPECT_TRUE(rest.starts_with("\nh:")) << rest;
  EXPECT_NE(rest.find("WARN next\nh:"), rest.npos) << rest;
  EXPECT_TRUE(rest.ends_with("WARN and next\n")) << rest;
}

TEST_P(PipedError, WithoutAReaderTheProcessGoesOn) {
  const auto before = std::signal(SIGPIPE, SIG_DFL);  // which ends it
  read_end_.reset();
  GW_LOG(kWarn, kNet, "for nobody");
  sigset_t pending;
  ASSERT_EQ(sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  std::signal(SIGPIPE, before);
}

INSTANTIATE_TEST_SUITE_P(Blocks, PipedError, testing::Bool());

// No line is lost or doubled, whichever configuration it meets.
TEST_F(LogTest, MayBeReconfiguredWhileOthersLog) {
  constexpr size_t kLines = 5000;
  Configure(LogLevel::kWarn);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (size_t i = 0; i < kLines; ++i) GW_LOG(kWarn, kNet, "line {}", i);
    done = true;
  });
  for (int i = 0; !done; ++i) {
    SetLogCallback(Collector::Collect, i % 2 == 0 ? &other_log_ : &log_);
    ASSERT_TRUE(ConfigureLog({.host = i % 2 == 0 ? "g" : "h"}).ok());
  }
  writer.join();
  EXPECT_EQ(log_.lines.size() + other_log_.lines.size(), kLines);
}

TEST(ParseLogLevel, TakesNamesInAnyCase) {
  EXPECT_EQ(*ParseLogLevel("warn"), LogLevel::kWarn);
  EXPECT_EQ(*ParseLogLevel("TRACE"), LogLevel::kTrace);
  const Status status = ParseLogLevel("warning").status();
  EXPECT_EQ(status.code(), gwInvalidArgument);
  EXPECT_EQ(status.detail().hint, "Did you mean 'WARN'?");
  EXPECT_EQ(ParseLogLevel("high").status().ToString(),
            "invalid argument: 'high' is no log level; accepted: NONE, VERSION, ERROR, WARN, INFO, "
            "TRACE");
}

uint32_t Bits(std::initializer_list<LogSubsys> list) {
  uint32_t bits = 0;
  for (const LogSubsys subsys : list) bits |= static_cast<uint32_t>(subsys);
  return bits;
}

TEST(ParseLogSubsystems, ListsAndExclusions) {
  EXPECT_EQ(*ParseLogSubsystems("ALL"), kAllLogSubsys);
  EXPECT_EQ(*ParseLogSubsystems(""), 0u);
  EXPECT_EQ(*ParseLogSubsystems("init,NET"), Bits({LogSubsys::kInit, LogSubsys::kNet}));
  const uint32_t without = kAllLogSubsys & ~Bits({LogSubsys::kNet, LogSubsys::kEnv});
  EXPECT_EQ(*ParseLogSubsystems("^NET,ENV"), without);
  EXPECT_EQ(*ParseLogSubsystems("^NET,^ENV"), without);
  EXPECT_EQ(*ParseLogSubsystems("ALL,^NET,^ENV"), without);
}

TEST(ParseLogSubsystems, UnknownNameSuggestsTheNearest) {
  const Status status = ParseLogSubsystems("INIT,CODECS").status();
  EXPECT_EQ(status.code(), gwInvalidArgument);
  EXPECT_EQ(status.detail().hint, "Did you mean 'CODEC'?");
  EXPECT_NE(status.detail().message.find("INIT, COLL, NET"), std::string::npos);
}

TEST(LogRateLimit, AllowsSoManyPerIntervalAndCountsTheRest) {
  ManualClock clock(1000);
  LogRateLimit limit(clock, 2, 100);
  int64_t left_out = -1;
  EXPECT_TRUE(limit.Allow(&left_out));
  EXPECT_EQ(left_out, 0);
  EXPECT_TRUE(limit.Allow(&left_out));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.Allow(&left_out));
  clock.Advance(99);
  EXPECT_FALSE(limit.Allow(&left_out));
  clock.Advance(1);
  EXPECT_TRUE(limit.Allow(&left_out));
  EXPECT_EQ(left_out, 6);
  EXPECT_TRUE(limit.Allow(&left_out));
  EXPECT_EQ(left_out, 0);
}

}  // namespace
}  // namespace gradwire
