#include "cli/advise/codec_trials.h"

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/workspace.h"
#include "cli/measure/comm_calls.h"
#include "cli/train/gradient_noise.h"

namespace gradwire {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kTries = 5;
constexpr int64_t kElemBytes = sizeof(float);

// Of one candidate, on this rank.
struct Trial {
  double us = 0, elems = 0;  // over whole tensors
  double relative_error = 0;

  void Add(const ProbeReport& report, int64_t tensor_elems) {
    us += report.codec_us_per_elem * static_cast<double>(tensor_elems);
    elems += static_cast<double>(tensor_elems);
    relative_error = std::max(relative_error, report.relative_error);
  }
};

class RankTrials {
 public:
  RankTrials(const JobFacts& job, const AutoSpec& automatic, int rank, const Clock& clock)
      : job_(job),
        automatic_(automatic),
        noise_(kSeed, rank),
        prober_(&clock),
        trials_(job.candidates.size()) {}

  // Every codec but `none`, on a piece of tensor number `number`.
  Status TryTensor(int number, const TensorShape& shape) {
    const std::optional<ProbePiece> piece = PieceToProbe(shape.lengths, kElemBytes, 0);
    if (!piece) return Status::Ok();
    GW_RETURN_IF_ERROR(gradient_.EnsureBytes(piece->elems * kElemBytes));
    noise_.Fill(number, 0, {gradient_.as<float>(), static_cast<size_t>(piece->elems)});
    const std::vector<JobRung>& ladder = job_.tensors[static_cast<size_t>(number)].ladder;
    for (size_t rung = kBf16Rung; rung < ladder.size(); ++rung) {
      if (!ladder[rung].usable()) continue;
      const StatusOr<ProbeReport> report = Try(automatic_.ladder[rung].codec, *piece);
      // A codec that refuses the piece does so on all ranks, and stays unknown.
      if (report.ok()) trials_[ladder[rung].candidate].Add(*report, shape.elems());
    }
    return Status::Ok();
  }

  const std::vector<Trial>& trials() const { return trials_; }

 private:
  // The fastest of some: the first allocates, and what else the machine does only adds.
  StatusOr<ProbeReport> Try(const Codec& codec, const ProbePiece& piece) {
    const ConstView gradient = {gradient_.data(), piece.elems, DType::kFloat32};
    std::optional<ProbeReport> fastest;
    for (int i = 0; i < kTries; ++i) {
      const auto report = prober_.Probe(codec, gradient, piece.shape, job_.world_size);
      if (!report.ok()) return report.status();
      if (!fastest || report->codec_us_per_elem < fastest->codec_us_per_elem) fastest = *report;
    }
    return *fastest;
  }

  const JobFacts& job_;
  const AutoSpec& automatic_;
  const GradientNoise noise_;
  Prober prober_;
  AlignedBuffer gradient_;
  std::vector<Trial> trials_;
};

}  // namespace

StatusOr<std::vector<std::optional<ProbeReport>>> TryCodecs(gwComm_t comm, const JobFacts& job,
                                                            const ModelShapes& model,
                                                            const AutoSpec& automatic,
                                                            const Clock& clock,
                                                            Progress* progress) {
  int rank = 0;
  GW_RETURN_IF_ERROR(CheckedResult(comm, gwCommUserRank(comm, &rank)));
  RankTrials ours(job, automatic, rank, clock);
  // Together: the ranks of one host share its processors.
  GW_RETURN_IF_ERROR(CheckedResult(comm, gwBarrier(comm, nullptr)));
  progress->Begin("codecs on tensor");
  const auto tensors = static_cast<int>(model.tensors.size());
  for (int t = 0; t < tensors; ++t) {
    progress->Count(t, tensors);
    GW_RETURN_IF_ERROR(ours.TryTensor(t, model.tensors[static_cast<size_t>(t)]));
  }

  std::vector<double> worst;
  for (const Trial& trial : ours.trials()) {
    const double untried = trial.elems > 0 ? 0 : 1;
    worst.insert(worst.end(),
                 {trial.us / std::max(trial.elems, 1.0), trial.relative_error, untried});
  }
  GW_RETURN_IF_ERROR(AllReduceValues(comm, worst, gwMax));
  std::vector<std::optional<ProbeReport>> reports;
  for (size_t c = 0; c < ours.trials().size(); ++c) {
    const double* const of_codec = &worst[3 * c];
    const bool tried_by_all = of_codec[2] == 0;
    reports.push_back(tried_by_all ? std::optional(ProbeReport{of_codec[0], of_codec[1]})
                                   : std::nullopt);
  }
  return reports;
}

}  // namespace gradwire
