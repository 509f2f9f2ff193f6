// Trains a small network on Fashion-MNIST over all ranks of a gradwire job; see README.md.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
  std::printf("step %lld/%lld, epoch %.2f, ", static_cast<long long>(point.step),
              static_cast<long long>(total_steps), point.epoch);
  if (point.loss) std::printf("loss %.3f, ", *point.loss);
  std::printf("accuracy %.2f %%", point.accuracy);
  // Before the first step there is no speed.
  if (point.step > 0)
    std::printf(", %.0f images/s, %.0f s left", point.images_per_second, point.seconds_left);
  std::printf("\n");
  std::fflush(stdout);
}

// What the communicator is told; the rest it chooses itself.
std::string Settings(const TrainerOptions& options) {
  std::string settings = "seed=" + std::to_string(options.seed);
  if (!options.algorithm.empty()) settings += "; algorithm=" + options.algorithm;
  if (!options.transport.empty()) settings += "; transport=" + options.transport;
  if (options.slice > 0) settings += "; slice_elems=" + std::to_string(options.slice);
  return settings;
}

// One rank, from its first weights to its last; an exit code.
int Train(const TrainerOptions& options, Communicator comm) {
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

int TrainReporting(const std::function<int()>& train) {
  try {
    return train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_fashion_mnist: %s\n", error.what());
    return 1;
  }
}

// All ranks in this process, which needs no launcher.
int TrainOnThreads(TrainerOptions options) {
  if (options.transport.empty()) options.transport = "loopback";
  gwUniqueId id;
  if (const gwResult_t result = gwGetUniqueId(&id); result != gwSuccess) {
    throw std::runtime_error(std::string("gwGetUniqueId: ") + gwGetErrorString(result));
  }
  std::vector<int> exit_codes(options.threads);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.threads; ++rank) {
    threads.emplace_back([&, rank] {
      exit_codes[rank] = TrainReporting([&] {
        return Train(options, Communicator(Settings(options), id, rank, options.threads));
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(exit_codes.begin(), exit_codes.end());
}

int TrainAsOptionsSay(const TrainerOptions& options) {
  if (options.threads > 0) return TrainOnThreads(options);
  return Train(options, Communicator(Settings(options)));
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = example::ParseTrainerOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  return example::TrainReporting([&] { return example::TrainAsOptionsSay(*options); });
}
