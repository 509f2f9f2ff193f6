#include "runtime/controller/controlled.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "runtime/controller/bounds.h"
#include "runtime/controller/observation.h"
#include "runtime/operations/tensor_traffic.h"

namespace gradwire {
namespace {

int CandidateIndex(const Rung& rung, std::vector<Candidate>* candidates) {
  const Candidate candidate = {rung.codec.spec, rung.codec.feedback == Feedback::kOn, rung.bound,
                               ErrorSumOf(rung.codec)};
  const auto it = std::find(candidates->begin(), candidates->end(), candidate);
  if (it != candidates->end()) return static_cast<int>(it - candidates->begin());
  candidates->push_back(candidate);
  return static_cast<int>(candidates->size()) - 1;
}

}  // namespace

std::vector<TensorState*> Controlled(std::span<TensorState* const> tensors) {
  std::vector<TensorState*> chosen;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(chosen),
               [](const TensorState* tensor) { return tensor->automatic != nullptr; });
  if (chosen.size() > kMaxObservedTensors) {
    std::sort(chosen.begin(), chosen.end(), [](const TensorState* a, const TensorState* b) {
      return std::pair(-a->elems, a->id) < std::pair(-b->elems, b->id);
    });
    chosen.resize(kMaxObservedTensors);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const TensorState* a, const TensorState* b) { return a->id < b->id; });
  return chosen;
}

int64_t CountAutomatic(std::span<TensorState* const> tensors) {
  return std::count_if(tensors.begin(), tensors.end(),
                       [](const TensorState* tensor) { return tensor->automatic != nullptr; });
}

uint64_t DigestOf(std::span<TensorState* const> controlled) {
  Hasher hasher;
  for (const TensorState* tensor : controlled) {
    hasher.Add(tensor->id).Add(tensor->dtype).Add(HashString(tensor->automatic->spec));
    hasher.Add(tensor->automatic_since);  // no earlier order is for it
    for (const int64_t length : tensor->shape) hasher.Add(length);
  }
  return hasher.digest();
}

JobTensor JobTensorOf(const TensorState& tensor, const AlgorithmRule& algorithms,
                      std::vector<Candidate>* candidates) {
  JobTensor job = {.id = tensor.id, .name = tensor.name, .elems = tensor.elems};
  const std::vector<Rung>& ladder = tensor.automatic->ladder;
  for (int rung = 0; rung < std::ssize(ladder); ++rung) {
    JobRung& of_job = job.ladder.emplace_back();
    if (!tensor.CanUse(rung)) continue;
    const TensorTraffic traffic = TrafficOf(ladder[rung].codec, MetaOf(tensor), algorithms);
    of_job = {CandidateIndex(ladder[rung], candidates), traffic.bytes, traffic.messages};
  }
  return job;
}

bool IsAnyFree(const JobFacts& job) {
  return std::any_of(job.tensors.begin(), job.tensors.end(), [](const JobTensor& tensor) {
    return std::any_of(tensor.ladder.begin() + 1, tensor.ladder.end(),
                       [](const JobRung& rung) { return rung.usable(); });
  });
}

std::string ScopeOf(const JobFacts& job, int64_t automatic) {
  if (!IsAnyFree(job)) {
    return fmt::format(
        "nothing is controlled: of {} automatic tensors each is exempt from compression, by "
        "min_numel or exclude of its spec",
        automatic);
  }
  const int64_t controlled = std::ssize(job.tensors);
  if (controlled == automatic) return {};
  return fmt::format("the largest {} of {} automatic tensors are controlled, others travel as none",
                     controlled, automatic);
}

}  // namespace gradwire
