#include "docs/examples/train_fashion_mnist/gradient_exchange.h"

#include <stdexcept>

namespace example {

Communicator::Communicator(const std::string& settings) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  const gwResult_t result = gwCommInitEnv(&comm, &config);
  Own(result, comm, "gwCommInitEnv");
}

Communicator::Communicator(const std::string& settings, const gwUniqueId& id, int rank, int ranks) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  const gwResult_t result = gwCommInitRankConfig(&comm, ranks, id, rank, &config);
  Own(result, comm, "gwCommInitRankConfig");
}

void Communicator::Own(gwResult_t result, gwComm_t comm, const char* what) {
  Check(result, what);
  comm_.reset(comm);
  Check(gwCommUserRank(comm, &rank_), "gwCommUserRank");
  Check(gwCommCount(comm, &ranks_), "gwCommCount");
}

void Communicator::Check(gwResult_t result, const char* what) const {
  if (result == gwSuccess) return;
  const std::string story = gwGetLastError(get());
  throw std::runtime_error(std::string(what) + ": " +
                           (story.empty() ? gwGetErrorString(result) : story));
}

void Communicator::Broadcast(std::span<float> values) {
  Check(gwBroadcast(values.data(), values.data(), values.size(), gwFloat32, /*root=*/0, get(),
                    /*stream=*/nullptr),
        "gwBroadcast");
}

void Communicator::AllReduce(std::span<double> values, gwRedOp_t op) {
  Check(gwAllReduce(values.data(), values.data(), values.size(), gwFloat64, op, get(), nullptr),
        "gwAllReduce");
}

std::vector<double> Communicator::AllGather(double value) {
  std::vector<double> all(ranks_);
  Check(gwAllGather(&value, all.data(), 1, gwFloat64, get(), nullptr), "gwAllGather");
  return all;
}

std::vector<uint64_t> Communicator::AllGather(uint64_t value) {
  std::vector<uint64_t> all(ranks_);
  Check(gwAllGather(&value, all.data(), 1, gwUint64, get(), nullptr), "gwAllGather");
  return all;
}

void Communicator::Barrier() { Check(gwBarrier(get(), nullptr), "gwBarrier"); }

std::string Communicator::Stats() const { return TextOf(gwCommGetStats, "gwCommGetStats"); }
std::string Communicator::Ledger() const { return TextOf(gwCommGetLedger, "gwCommGetLedger"); }

std::string Communicator::TextOf(gwResult_t (*get_text)(gwComm_t, char*, size_t*),
                                 const char* what) const {
  size_t bytes = 0;
  Check(get_text(get(), nullptr, &bytes), what);
  // Counters go on while we ask, so the text may have grown by a few digits.
  bytes += 256;
  std::string text(bytes, '\0');
  Check(get_text(get(), text.data(), &bytes), what);
  return text.c_str();
}

GradientExchange::GradientExchange(Communicator* comm, std::string spec)
    : comm_(comm), spec_(std::move(spec)) {}

// After an error gradients may still be under way, and their memory is about to go.
GradientExchange::~GradientExchange() {
  if (requests_.empty()) return;
  gwCommAbort(comm_->get());
  for (gwRequest_t request : requests_) {
    gwRequestWait(request, /*timeout_ns=*/-1);
    gwRequestFree(request);
  }
}

void GradientExchange::Register(const std::string& name, std::span<float> gradient,
                                int64_t columns) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec_.c_str();
  const int64_t shape[] = {static_cast<int64_t>(gradient.size()) / columns, columns};
  Tensor tensor{.gradient = gradient};
  comm_->Check(
      gwTensorRegister(comm_->get(), name.c_str(), shape, 2, gwFloat32, &config, &tensor.handle),
      "gwTensorRegister");
  tensors_.push_back(tensor);
}

void GradientExchange::Begin(uint64_t step) {
  comm_->Check(gwStepBegin(comm_->get(), step), "gwStepBegin");
}

void GradientExchange::Submit(int layer) {
  const Tensor& tensor = tensors_[layer];
  gwRequest_t request = nullptr;
  const gwResult_t result =
      gwAllReduceTensor(tensor.handle, tensor.gradient.data(), tensor.gradient.data(), gwAvg,
                        /*stream=*/nullptr, &request);
  // Another rank has given the step up: gwStepEnd tells, and the step is run again.
  if (result == gwAborted) return;
  comm_->Check(result, "gwAllReduceTensor");
  requests_.push_back(request);
}

void GradientExchange::Wait() {
  while (!requests_.empty()) {
    gwRequest_t request = requests_.front();
    const gwResult_t result = gwRequestWait(request, /*timeout_ns=*/-1);
    comm_->Check(gwRequestFree(request), "gwRequestFree");
    requests_.pop_front();
    // Aborted: gwStepEnd tells, and the step is run again.
    if (result != gwAborted) comm_->Check(result, "gwRequestWait");
  }
}

gwStepOutcome_t GradientExchange::End() {
  gwStepOutcome_t outcome = gwStepCommitted;
  comm_->Check(gwStepEnd(comm_->get(), &outcome), "gwStepEnd");
  return outcome;
}

}  // namespace example
