// All this program asks of gradwire, in one place: the C API with a little C++ around it. A call
// that fails throws std::runtime_error with gwGetLastError's text.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_GRADIENT_EXCHANGE_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/gradwire.h"

namespace example {

// The ranks of this job. One thread at a time.
class Communicator {
 public:
  // Joins through the launcher's environment; `gradwire run` sets it. settings: as gwConfig_t's.
  explicit Communicator(const std::string& settings);
  // Joins as rank `rank` of `ranks` that all have this id, from gwGetUniqueId.
  Communicator(const std::string& settings, const gwUniqueId& id, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  gwComm_t get() const { return comm_.get(); }

  // Rank 0's values, everywhere.
  void Broadcast(std::span<float> values);
  // Exact, element by element, the same on all ranks.
  void AllReduce(std::span<double> values, gwRedOp_t op);
  // One value of each rank, by rank.
  std::vector<double> AllGather(double value);
  std::vector<uint64_t> AllGather(uint64_t value);
  // Until all ranks are here.
  void Barrier();

  // JSON texts.
  std::string Stats() const;
  std::string Ledger() const;

  // Throws unless `result` is gwSuccess; `what` is the call that gave it.
  void Check(gwResult_t result, const char* what) const;

 private:
  struct Destroy {
    void operator()(gwComm_t comm) const { gwCommDestroy(comm); }
  };
  // Throws unless `result` is gwSuccess; else owns `comm`.
  void Own(gwResult_t result, gwComm_t comm, const char* what);
  std::string TextOf(gwResult_t (*get)(gwComm_t, char*, size_t*), const char* what) const;

  std::unique_ptr<gwComm, Destroy> comm_;
  int rank_ = 0;
  int ranks_ = 0;
};

// Averages the layers' gradients over the ranks, one registered tensor per layer. A training step
// is Begin, one Submit per layer in the same order on all ranks, Wait, End.
class GradientExchange {
 public:
  // `comm` outlives this object. spec: "none", "qsgd(bits=4)", ...
  GradientExchange(Communicator* comm, std::string spec);
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  ~GradientExchange();

  // Adds the next layer: `gradient` stays where it is and is averaged in place.
  // A matrix, row by row: low-rank codecs need to know its shape.
  void Register(const std::string& name, std::span<float> gradient, int64_t columns);

  void Begin(uint64_t step);
  // Returns at once; the gradient must not be touched before Wait.
  void Submit(int layer);
  void Wait();
  gwStepOutcome_t End();

 private:
  struct Tensor {
    gwTensor_t handle = nullptr;  // owned by the communicator
    std::span<float> gradient;
  };

  Communicator* comm_;  // outlives us, see the constructor
  std::string spec_;
  std::vector<Tensor> tensors_;
  std::deque<gwRequest_t> requests_;  // under way, oldest first
};

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_GRADIENT_EXCHANGE_H_
