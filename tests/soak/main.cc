// The long test: ranks that die, simulated jobs and configurations drawn at random, for as long as
// one likes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/soak/campaign.h"

namespace gradwire {
namespace {

constexpr int64_t kMaxCount = 1'000'000'000;

int Summarise(const char* name, const CampaignOptions& options, const CampaignResult& result) {
  std::printf("%s: %lld trials, %lld failures, %lld hangs; %s; seed %llu\n", name,
              static_cast<long long>(result.trials), static_cast<long long>(result.failures),
              static_cast<long long>(result.hangs), result.details.c_str(),
              static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  return result.trials > 0 && result.failures == 0 && result.hangs == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Kills ranks, simulates jobs and trainings, tries random configurations; one line for each."};
  CampaignOptions options;
  app.footer("./run soak also takes --fuzz SECONDS, for each fuzz target; default 30, 0: none");
  int64_t kills = 1000, seeds = 100'000, oracles = 20, safety = 20, timings = 10'000;
  int64_t configurations = 200;
  const auto add_count = [&app](const char* name, int64_t* count, const char* doc) {
    app.add_option(name, *count, doc)->check(CLI::Range(int64_t{0}, kMaxCount));
  };
  add_count("--kills", &kills, "trials in which a rank is killed, stopped or aborted");
  add_count("--seeds", &seeds, "jobs in virtual time, with faults");
  add_count("--oracles", &oracles, "trainings with auto in virtual time, against every plan");
  add_count("--safety", &safety, "longer ones with auto in virtual time, against none");
  add_count("--timings", &timings, "jobs in virtual time, with delays and without");
  add_count("--configurations", &configurations, "jobs of random settings and operations");
  add_count("--seconds", &options.seconds, "at most, for each campaign; 0: no limit");
  app.add_option("--seed", options.seed, "the same seed draws the same trials");
  CLI11_PARSE(app, argc, argv);
  int status = 0;
  options.trials = kills;
  if (kills > 0) status |= Summarise("kills", options, RunKills(options));
  options.trials = seeds;
  if (seeds > 0) status |= Summarise("seeds", options, RunSeeds(options));
  options.trials = oracles;
  if (oracles > 0) status |= Summarise("oracles", options, RunOracles(options));
  options.trials = safety;
  if (safety > 0) status |= Summarise("safety", options, RunSafety(options));
  options.trials = timings;
  if (timings > 0) status |= Summarise("timings", options, RunTimings(options));
  options.trials = configurations;
  if (configurations > 0)
    status |= Summarise("configurations", options, RunConfigurations(options));
  return status;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
