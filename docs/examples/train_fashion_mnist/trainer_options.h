// What the command line of train_fashion_mnist sets.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_OPTIONS_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace example {

enum class SubmitTime : uint8_t {
  kAsap,  // each layer's gradient as soon as back-propagation has it
  kEnd,   // all of them after back-propagation
};

struct TrainerOptions {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::vector<int> hidden = {256, 128};
  std::string spec = "none";
  double epochs = 2;
  int64_t steps = 0;  // wins over epochs unless 0
  int batch = 32;     // per rank
  double lr = 0.15;
  double momentum = 0.5;
  uint64_t seed = 1;
  double target = 86;  // per cent of test accuracy
  int64_t eval_every = 39;
  double max_seconds = 0;  // of training, without evaluation; 0: no bound
  SubmitTime submit = SubmitTime::kAsap;
  // Of the communicator; empty and 0: the library chooses.
  std::string algorithm, transport;
  int64_t slice = 0;  // elements
  int threads = 0;    // ranks as threads of this process; 0: a launcher has started this rank
  std::string json;   // file that rank 0 writes; empty: none
};

// Nothing: the program is done (--help) or the arguments are wrong; *exit_code says which.
std::optional<TrainerOptions> ParseTrainerOptions(int argc, char** argv, int* exit_code);

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_OPTIONS_H_
