// The JSON text of a run, collected from all ranks.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINING_REPORT_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINING_REPORT_H_

#include <cstdint>
#include <string>

#include "docs/examples/train_fashion_mnist/trainer.h"

namespace example {

struct ReportInputs {
  const TrainerOptions& options;
  const TrainingResult& result;
  uint64_t digest = 0;         // of this rank's weights
  std::string netlab;          // GRADWIRE_NETLAB: rate of the test network, empty without one
  bool has_interface = false;  // the interface's bytes were counted
};

struct TrainingReport {
  std::string json;  // the same on all ranks, except the ledger, which is this rank's
  bool digests_equal = false;
};

// Collective.
TrainingReport MakeReport(Communicator* comm, const ReportInputs& inputs);

// "9f3a...", 16 digits.
std::string DigestText(uint64_t digest);

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINING_REPORT_H_
