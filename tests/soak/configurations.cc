#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "tests/fault/rank_processes.h"
#include "tests/soak/campaign.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int64_t kJobNs = 60'000'000'000;

template <typename T, size_t n>
const T& Pick(RandomStream* random, const T (&values)[n]) {
  return values[random->Below(n)];
}

// One job, a function of its seed alone: every rank draws the same.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : seed_(seed), random_(seed) {
    constexpr const char* kAlgorithms[] = {"auto", "ring", "direct", "tree"};
    const std::vector<std::string> transports = ProcessTransports();
    std::string transport = transports[random_.Below(transports.size())];
    if (random_.Below(2) == 0) {
      transport = fmt::format("faulty({},delay=0.2,late_sent=0.2,full=0.2)", transport);
    }
    constexpr int64_t kSlices[] = {256, 1024, 65536};
    world_size_ = 1 + static_cast<int>(random_.Below(5));
    settings_ = fmt::format(
        "debug=none; op_timeout_ms=20000; transport={}; algorithm={}; slice_elems={}; window={}; "
        "transaction={}",
        transport, Pick(&random_, kAlgorithms), Pick(&random_, kSlices), 1 + random_.Below(8),
        random_.Below(2) == 0 ? "on" : "off");
  }
  int world_size() const { return world_size_; }
  std::string Describe() const {
    return fmt::format("seed {}, {} ranks, {}", seed_, world_size_, settings_);
  }

  // A rank's whole life. Empty: all was right.
  std::string Run(RankSide* side) {
    gwUniqueId id;
    if (!side->ExchangeId(&id)) return "no id";
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = settings_.c_str();
    if (gwCommInitRankConfig(&comm_, world_size_, id, side->rank, &config) != gwSuccess)
      return gwGetLastError(nullptr);
    rank_ = side->rank;
    std::string wrong;
    const uint64_t operations = 10 + random_.Below(30);
    for (uint64_t i = 0; i < operations && wrong.empty(); ++i) {
      wrong = random_.Below(3) == 0 ? TrainStep(i) : Exact();
    }
    if (wrong.empty() && gwCommFinalize(comm_) != gwSuccess) wrong = gwGetLastError(comm_);
    if (gwCommDestroy(comm_) != gwSuccess && wrong.empty()) wrong = "gwCommDestroy";
    return wrong;
  }

 private:
  int64_t RandomCount() {
    return static_cast<int64_t>(random_.Below(uint64_t{1} << random_.Below(18)));
  }

  std::string Exact() {
    const int64_t count = RandomCount();
    const uint64_t salt = random_.Below(1000);
    std::vector<int64_t> data(count);
    for (int64_t i = 0; i < count; ++i) data[i] = static_cast<int64_t>(salt) * i + rank_;
    if (gwAllReduce(data.data(), data.data(), count, gwInt64, gwSum, comm_, nullptr) != gwSuccess)
      return gwGetLastError(comm_);
    const int64_t ranks = world_size_ * (world_size_ - 1) / 2;
    for (int64_t i = 0; i < count; ++i) {
      if (data[i] != static_cast<int64_t>(salt) * i * world_size_ + ranks)
        return fmt::format("element {} of {} is {}", i, count, data[i]);
    }
    return "";
  }

  // A tensor of constants: what any codec keeps of them is close.
  std::string TrainStep(uint64_t step) {
    constexpr const char* kSpecs[] = {"none", "bf16", "fp16", "qsgd(bits=8)",
                                      "qsgd(bits=4,feedback=on)"};
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = Pick(&random_, kSpecs);
    const int64_t shape[] = {1 + RandomCount()};
    const std::string name = fmt::format("w{}", step);
    gwTensor_t tensor = nullptr;
    if (gwTensorRegister(comm_, name.c_str(), shape, 1, gwFloat32, &config, &tensor) != gwSuccess)
      return gwGetLastError(comm_);
    std::vector<float> grad(shape[0], static_cast<float>(rank_ + 1)), out(shape[0]);
    gwRequest_t request = nullptr;
    gwStepOutcome_t outcome = gwStepAborted;
    bool good = gwStepBegin(comm_, step) == gwSuccess;
    good = good && gwAllReduceTensor(tensor, grad.data(), out.data(), gwAvg, nullptr, &request) ==
                       gwSuccess;
    good = good && gwRequestWait(request, -1) == gwSuccess;
    good = gwRequestFree(request) == gwSuccess && good;
    good = good && gwStepEnd(comm_, &outcome) == gwSuccess && outcome == gwStepCommitted;
    if (!good) return gwGetLastError(comm_);
    const float mean = static_cast<float>(world_size_ + 1) / 2;
    for (float value : out) {
      if (!(std::fabs(value - mean) <= 0.5f * mean))
        return fmt::format("{}: {} instead of {}", config.spec, value, mean);
    }
    return gwTensorDeregister(tensor) == gwSuccess ? "" : gwGetLastError(comm_);
  }

  const uint64_t seed_;
  RandomStream random_;
  int world_size_ = 1, rank_ = 0;
  std::string settings_;
  gwComm_t comm_ = nullptr;
};

// Empty: all ranks were content.
std::string RunJob(const RandomJob& job, bool* hung) {
  RankProcesses ranks(job.world_size(), [&](RankSide& side) {
    RandomJob mine = job;
    const std::string wrong = mine.Run(&side);
    side.Tell(wrong.empty() ? ReportKind::kDone : ReportKind::kFailed, 0, wrong);
  });
  const int64_t deadline_ns = NowNs() + kJobNs;
  std::string complaint;
  int done = 0;
  while (!ranks.all_gone() && NowNs() < deadline_ns) {
    const std::optional<Report> report = ranks.Next(deadline_ns);
    if (!report) continue;
    done += report->kind == ReportKind::kDone ? 1 : 0;
    if (report->kind != ReportKind::kDone)
      complaint += fmt::format("  rank {}: {}\n", report->rank, report->text);
  }
  *hung = !ranks.all_gone();
  if (done != job.world_size() && complaint.empty())
    complaint = fmt::format("  {} of {} ranks came to the end\n", done, job.world_size());
  return complaint;
}

}  // namespace

CampaignResult RunConfigurations(const CampaignOptions& options) {
  CampaignResult result;
  int64_t ranks = 0;
  const int64_t begin_ns = NowNs();
  for (; result.trials < options.trials; ++result.trials) {
    if (options.seconds > 0 && NowNs() - begin_ns > options.seconds * 1'000'000'000) break;
    const RandomJob job(
        Hasher().Add(options.seed).Add(static_cast<uint64_t>(result.trials)).digest());
    ranks += job.world_size();
    bool hung = false;
    const std::string complaint = RunJob(job, &hung);
    result.hangs += hung ? 1 : 0;
    if (complaint.empty()) continue;
    ++result.failures;
    std::fprintf(stderr, "%s:\n%s", job.Describe().c_str(), complaint.c_str());
  }
  result.details = fmt::format("{} ranks in all", ranks);
  return result;
}

}  // namespace gradwire
