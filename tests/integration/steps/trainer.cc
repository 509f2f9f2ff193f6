#include "tests/integration/steps/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace gradwire {
namespace {

// In (-1, 1), of very different magnitudes.
float GradientAt(int rank, uint64_t step, size_t tensor, int64_t i) {
  const uint64_t h = Hasher()
                         .Add(static_cast<uint64_t>(rank))
                         .Add(step)
                         .Add(static_cast<uint64_t>(tensor))
                         .Add(static_cast<uint64_t>(i))
                         .digest();
  const float value = static_cast<float>(static_cast<int32_t>(h >> 32)) / 2147483648.0f;
  return value * value * value;
}

std::vector<std::vector<float>> Empty(const std::vector<TrainedTensor>& tensors) {
  std::vector<std::vector<float>> out;
  for (const TrainedTensor& tensor : tensors) out.emplace_back(tensor.elems);
  return out;
}

}  // namespace

std::vector<TrainedTensor> SomeTensors() {
  return {{"exact", "none", 1000},
          {"cast", "bf16", 777},
          {"kept", "qsgd(bits=4,feedback=on)", 3001},
          {"rounded", "qsgd(bits=8)", 1500},
          {"sign", "efsign", 300}};
}

Trainer::Trainer(gwComm_t comm, int rank, std::vector<TrainedTensor> tensors)
    : comm_(comm), rank_(rank), tensors_(std::move(tensors)) {
  for (const TrainedTensor& tensor : tensors_) {
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = tensor.spec.empty() ? nullptr : tensor.spec.c_str();
    gwTensor_t handle = nullptr;
    EXPECT_EQ(
        gwTensorRegister(comm, tensor.name.c_str(), &tensor.elems, 1, gwFloat32, &config, &handle),
        gwSuccess)
        << gwGetLastError(comm);
    handles_.push_back(handle);
  }
}

std::vector<std::vector<float>> Trainer::Gradients(uint64_t step) const {
  std::vector<std::vector<float>> grads = Empty(tensors_);
  for (size_t t = 0; t < grads.size(); ++t) {
    for (size_t i = 0; i < grads[t].size(); ++i) {
      grads[t][i] = loss_scale * GradientAt(rank_, step, t, static_cast<int64_t>(i));
    }
  }
  if (change) change(step, &grads);
  return grads;
}

gwResult_t Trainer::SubmitAndWait(const std::vector<std::vector<float>>& grads,
                                  std::vector<std::vector<float>>* out) {
  std::vector<gwRequest_t> requests;
  gwResult_t result = gwSuccess;
  const size_t last = handles_.size() - (handles_.size() > 2 ? 2 : 0);
  for (size_t t = 0; t < handles_.size() && result == gwSuccess;) {
    const size_t count = t < last ? 1 : handles_.size() - t;
    std::vector<const void*> send;
    std::vector<void*> recv;
    for (size_t i = t; i < t + count; ++i) {
      send.push_back(grads[i].data());
      recv.push_back((*out)[i].data());
    }
    gwRequest_t request = nullptr;
    result = gwAllReduceTensors(static_cast<int>(count), &handles_[t], send.data(), recv.data(),
                                gwSum, nullptr, &request);
    if (request != nullptr) requests.push_back(request);
    t += count;
  }
  for (gwRequest_t request : requests) {
    const gwResult_t waited = gwRequestWait(request, -1);
    if (result == gwSuccess) result = waited;
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
  }
  return result;
}

StepResult Trainer::Step(uint64_t step) {
  StepResult result = {.out = Empty(tensors_)};
  const std::vector<std::vector<float>> grads = Gradients(step);
  result.code = gwStepBegin(comm_, step);
  if (result.code != gwSuccess) {
    result.text = gwGetLastError(comm_);
    return result;
  }
  if (loss_scale != 1.0f) result.code = gwStepSetLossScale(comm_, loss_scale);
  if (result.code == gwSuccess) result.code = SubmitAndWait(grads, &result.out);
  const gwResult_t ended = gives_up
                               ? gwStepAbort(comm_, "out of memory")
                               : gwStepEnd(comm_, wait_for_outcome ? &result.outcome : nullptr);
  if (result.code == gwSuccess || ended != gwSuccess) result.code = ended;
  if (!wait_for_outcome && result.code == gwSuccess) result.outcome = gwStepCommitted;
  if (result.outcome != gwStepCommitted) result.text = gwGetLastError(comm_);
  return result;
}

StepResult Trainer::StepUntilCommitted(uint64_t step, std::vector<std::string>* aborts) {
  constexpr int kMostTries = 200;
  StepResult result;
  for (int i = 0; i < kMostTries; ++i) {
    result = Step(step);
    if (result.outcome == gwStepCommitted) return result;
    aborts->push_back(result.text);
  }
  ADD_FAILURE() << "step " << step << " was never committed: " << result.text;
  return result;
}

StepResult Trainer::OutsideSteps(uint64_t step) {
  StepResult result = {.out = Empty(tensors_)};
  result.code = SubmitAndWait(Gradients(step), &result.out);
  if (result.code != gwSuccess) result.text = gwGetLastError(comm_);
  return result;
}

bool SameBits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const std::vector<float>& x, const std::vector<float>& y) {
                      return x.size() == y.size() &&
                             std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
                    });
}

bool AllFinite(const std::vector<std::vector<float>>& values) {
  return std::all_of(values.begin(), values.end(), [](const std::vector<float>& array) {
    return std::all_of(array.begin(), array.end(), [](float x) { return std::isfinite(x); });
  });
}

}  // namespace gradwire
