// Trains a small network on Fashion-MNIST over all ranks of a gradwire job; see README.md.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "docs/examples/train_fashion_mnist/trainer.h"
#include "docs/examples/train_fashion_mnist/training_report.h"

namespace example {
namespace {

// What `gradwire run --netlab` calls the interface of each rank's network namespace.
constexpr char kNetlabInterface[] = "e0";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void PrintPoint(const EvalPoint& point, int64_t total_steps) {
  std::printf(
      "step %lld/%lld, epoch %.2f, loss %.3f, accuracy %.2f %%, %.0f images/s, %.0f s left\n",
      static_cast<long long>(point.step), static_cast<long long>(total_steps), point.epoch,
      point.loss, point.accuracy, point.images_per_second, point.seconds_left);
  std::fflush(stdout);
}

int Train(const TrainerOptions& options) {
  Communicator comm("seed=" + std::to_string(options.seed));
  const std::string netlab = Environment("GRADWIRE_NETLAB");
  const std::string interface = netlab.empty() ? "" : kNetlabInterface;
  Trainer trainer(options, &comm, interface);
  const TrainingResult result = trainer.Run([&](const EvalPoint& point) {
    if (comm.rank() == 0) PrintPoint(point, trainer.total_steps());
  });
  const uint64_t digest = trainer.WeightsDigest();
  const TrainingReport report = MakeReport(&comm, {.options = options,
                                                   .result = result,
                                                   .digest = digest,
                                                   .netlab = netlab,
                                                   .has_interface = !interface.empty()});
  if (comm.rank() == 0 && !options.json.empty()) {
    std::ofstream file(options.json);
    file << report.json;
    if (!file.flush()) throw std::runtime_error(options.json + ": cannot write it");
  }
  comm.Check(gwCommFinalize(comm.get()), "gwCommFinalize");
  if (!report.digests_equal) {
    std::fprintf(stderr, "rank %d: the ranks' weights differ; mine are %s\n", comm.rank(),
                 DigestText(digest).c_str());
    return 1;
  }
  if (comm.rank() == 0) std::printf("weights %s on all ranks\n", DigestText(digest).c_str());
  return 0;
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = example::ParseTrainerOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  try {
    return example::Train(*options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_fashion_mnist: %s\n", error.what());
    return 1;
  }
}
