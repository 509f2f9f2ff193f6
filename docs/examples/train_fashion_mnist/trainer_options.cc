#include "docs/examples/train_fashion_mnist/trainer_options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace example {

std::optional<TrainerOptions> ParseTrainerOptions(int argc, char** argv, int* exit_code) {
  TrainerOptions options;
  CLI::App app(
      "Trains a multi-layer perceptron on Fashion-MNIST over all ranks of a gradwire job.\n"
      "Start it with: gradwire run -n 4 -- train_fashion_mnist");
  const auto positive = CLI::PositiveNumber;
  app.add_option("--spec", options.spec, "codec of the gradients: none, bf16, qsgd(bits=4), ...")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training images")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "training steps; wins over --epochs")->check(positive);
  app.add_option("--batch", options.batch, "images per rank and step")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--lr", options.lr, "learning rate")->check(positive)->capture_default_str();
  app.add_option("--momentum", options.momentum, "of SGD")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights, order of images and random rounding")
      ->check(CLI::Range(uint64_t{0}, uint64_t{0xFFFFFFFF}))
      ->capture_default_str();
  app.add_option("--target", options.target, "test accuracy to reach, in per cent")
      ->capture_default_str();
  app.add_option("--eval-every", options.eval_every, "training steps between two evaluations")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--max-seconds", options.max_seconds,
                 "of training after which to stop, evaluation not counted");
  app.add_option("--hidden", options.hidden, "widths of the hidden layers")
      ->check(positive)
      ->capture_default_str();
  const std::map<std::string, SubmitTime> submit{{"asap", SubmitTime::kAsap},
                                                 {"end", SubmitTime::kEnd}};
  app.add_option("--submit", options.submit,
                 "asap: each gradient as soon as back-propagation has it; end: all at its end")
      ->transform(CLI::CheckedTransformer(submit));
  app.add_option("--algorithm", options.algorithm, "of exact sums; see gradwire info");
  app.add_option("--slice", options.slice, "elements of a slice")->check(positive);
  app.add_option("--transport", options.transport, "see gradwire info");
  app.add_option("--threads", options.threads,
                 "ranks as threads of this process, over loopback; without gradwire run")
      ->check(CLI::Range(1, 64));
  app.add_option("--data", options.data, "folder of the four idx-ubyte.gz files")
      ->capture_default_str();
  app.add_option("--json", options.json, "file for points and summary, written by rank 0");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error);
    return std::nullopt;
  }
  return options;
}

}  // namespace example
