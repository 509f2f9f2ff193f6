#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "collectives/schedule.h"
#include "compress/registry.h"
#include "tests/fault/rank_processes.h"
#include "tests/soak/campaign.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int64_t kJobNs = 60 * kNsPerSecond;

template <typename T, size_t n>
const T& Pick(RandomStream* random, const T (&values)[n]) {
  return values[random->Below(n)];
}

// The specs that people use, of every codec.
std::vector<std::string> ShownSpecs() {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    specs.insert(specs.end(), row.ShownSpecs().begin(), row.ShownSpecs().end());
  }
  return specs;
}

// Of an all-reduce; first what leaves the choice to the library.
std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names = {"auto"};
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.collective == Collective::kAllReduce && !row.encoded) names.emplace_back(row.name);
  }
  return names;
}

// One job, a function of its seed alone: every rank draws the same, with delays and without.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : seed_(seed), random_(seed) {
    constexpr int64_t kSlices[] = {256, 1024, 65536};
    const std::vector<std::string> transports = ProcessTransports();
    transport_ = transports[random_.Below(transports.size())];
    delays_ = random_.Below(2) == 0;
    world_size_ = 1 + static_cast<int>(random_.Below(5));
    const std::vector<std::string> algorithms = AlgorithmNames();
    settings_ = fmt::format(
        "debug=none; op_timeout_ms=20000; algorithm={}; slice_elems={}; window={}; transaction={}",
        algorithms[random_.Below(algorithms.size())], Pick(&random_, kSlices), 1 + random_.Below(8),
        random_.Below(2) == 0 ? "on" : "off");
  }
  int world_size() const { return world_size_; }
  bool delays() const { return delays_; }
  std::string Describe() const {
    return fmt::format("seed {}, {} ranks, {}{}, {}", seed_, world_size_, transport_,
                       delays_ ? " with delays" : "", settings_);
  }

  // A rank's whole life. Empty: all was right.
  std::string Run(RankSide* side, bool delays) {
    gwUniqueId id;
    if (!side->ExchangeId(&id)) return "no id";
    const std::string settings =
        fmt::format("{}; transport={}", settings_,
                    delays ? fmt::format("faulty({},delay=0.2,late_sent=0.2,full=0.2)", transport_)
                           : transport_);
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = settings.c_str();
    if (gwCommInitRankConfig(&comm_, world_size_, id, side->rank, &config) != gwSuccess)
      return gwGetLastError(nullptr);
    rank_ = side->rank;
    std::string wrong = RegisterTensors();
    const uint64_t operations = 10 + random_.Below(30);
    for (uint64_t i = 0; i < operations && wrong.empty(); ++i) {
      wrong = random_.Below(3) == 0 ? TrainStep(i) : Exact();
    }
    if (wrong.empty() && gwCommFinalize(comm_) != gwSuccess) wrong = gwGetLastError(comm_);
    if (gwCommDestroy(comm_) != gwSuccess && wrong.empty()) wrong = "gwCommDestroy";
    return wrong;
  }
  // Of all that compressed sums gave this rank.
  uint64_t digest() const { return results_.digest(); }

 private:
  struct Tensor {
    gwTensor_t handle = nullptr;
    std::vector<float> grad, out;
  };

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

  // Codecs that refuse so many ranks or such a shape leave the tensor exact.
  std::string RegisterTensors() {
    const std::vector<std::string> specs = ShownSpecs();
    for (auto left = 1 + random_.Below(4); left > 0; --left) {
      const std::string name = fmt::format("w{}", left);
      const std::string& spec = specs[random_.Below(specs.size())];
      const int64_t shape[] = {1 + RandomCount() / 64, 64};
      gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
      config.spec = spec.c_str();
      Tensor tensor;
      gwResult_t made =
          gwTensorRegister(comm_, name.c_str(), shape, 2, gwFloat32, &config, &tensor.handle);
      config.spec = "none";
      if (made == gwInvalidArgument)
        made = gwTensorRegister(comm_, name.c_str(), shape, 2, gwFloat32, &config, &tensor.handle);
      if (made != gwSuccess) return gwGetLastError(comm_);
      tensor.grad.resize(shape[0] * shape[1]);
      tensor.out.resize(tensor.grad.size());
      tensors_.push_back(std::move(tensor));
    }
    return "";
  }

  // All tensors in one group, with gradients of this rank and step.
  std::string TrainStep(uint64_t step) {
    RandomStream values(seed_, step * world_size_ + rank_);
    std::vector<gwTensor_t> handles;
    std::vector<const void*> send;
    std::vector<void*> recv;
    for (Tensor& tensor : tensors_) {
      for (float& value : tensor.grad) value = static_cast<float>(values.Unit() - 0.5);
      handles.push_back(tensor.handle);
      send.push_back(tensor.grad.data());
      recv.push_back(tensor.out.data());
    }
    gwRequest_t request = nullptr;
    gwStepOutcome_t outcome = gwStepAborted;
    bool good = gwStepBegin(comm_, step) == gwSuccess;
    good = good && gwAllReduceTensors(static_cast<int>(handles.size()), handles.data(), send.data(),
                                      recv.data(), gwAvg, nullptr, &request) == gwSuccess;
    good = good && gwRequestWait(request, -1) == gwSuccess;
    good = gwRequestFree(request) == gwSuccess && good;
    good = good && gwStepEnd(comm_, &outcome) == gwSuccess && outcome == gwStepCommitted;
    if (!good) return gwGetLastError(comm_);
    for (const Tensor& tensor : tensors_) {
      const auto elems = static_cast<int64_t>(tensor.out.size());
      results_.Add(HashBytes(FloatView(tensor.out.data(), elems).AsBytes()));
    }
    return "";
  }

  const uint64_t seed_;
  RandomStream random_;
  std::string transport_, settings_;
  bool delays_ = false;
  int world_size_ = 1, rank_ = 0;
  gwComm_t comm_ = nullptr;
  std::vector<Tensor> tensors_;
  Hasher results_;
};

struct JobEnd {
  std::string complaint;  // empty: all ranks were content
  std::set<std::string> digests;
  bool hung = false;
};

JobEnd RunJob(const RandomJob& job, bool delays) {
  RankProcesses ranks(job.world_size(), [&](RankSide& side) {
    RandomJob mine = job;
    const std::string wrong = mine.Run(&side, delays);
    side.Tell(wrong.empty() ? ReportKind::kDone : ReportKind::kFailed, 0,
              wrong.empty() ? fmt::format("{:016x}", mine.digest()) : wrong);
  });
  JobEnd end;
  int done = 0;
  end.hung = !ranks.TakeAll(NowNs() + kJobNs, [&](const RankReport& report) {
    if (report.kind == ReportKind::kDone) {
      ++done;
      end.digests.insert(report.text);
    } else {
      end.complaint += fmt::format("  rank {}: {}\n", report.rank, report.text);
    }
  });
  if (done != job.world_size() && end.complaint.empty())
    end.complaint = fmt::format("  {} of {} ranks came to the end\n", done, job.world_size());
  return end;
}

// The job, and where it has delays the same without.
JobEnd RunBothWays(const RandomJob& job) {
  JobEnd end = RunJob(job, job.delays());
  if (job.delays() && end.complaint.empty() && !end.hung) {
    const JobEnd calm = RunJob(job, false);
    end.complaint = calm.complaint;
    end.hung = calm.hung;
    end.digests.insert(calm.digests.begin(), calm.digests.end());
  }
  if (end.complaint.empty() && end.digests.size() > 1)
    end.complaint = fmt::format("  results differ: {}\n", fmt::join(end.digests, ", "));
  return end;
}

}  // namespace

CampaignResult RunConfigurations(const CampaignOptions& options) {
  CampaignResult result;
  int64_t ranks = 0;
  const Deadline until = EndOf(options);
  for (; GoesOn(options, result, until); ++result.trials) {
    const RandomJob job(
        Hasher().Add(options.seed).Add(static_cast<uint64_t>(result.trials)).digest());
    ranks += job.world_size();
    const JobEnd end = RunBothWays(job);
    result.hangs += end.hung ? 1 : 0;
    if (end.complaint.empty()) continue;
    ++result.failures;
    std::fprintf(stderr, "%s:\n%s", job.Describe().c_str(), end.complaint.c_str());
  }
  result.details = fmt::format("{} ranks in all", ranks);
  return result;
}

}  // namespace gradwire
