// Which specs of a comparison share a communicator.
#ifndef GRADWIRE_CLI_TRAIN_LANES_H_
#define GRADWIRE_CLI_TRAIN_LANES_H_

#include <span>
#include <string>
#include <vector>

namespace gradwire {

struct Lanes {
  int count = 0;             // of communicators
  std::vector<int> of_spec;  // which one it uses

  // Ascending, at least one.
  std::vector<int> SpecsOf(int lane) const;
};

// A controller counts the steps of its communicator and needs many of them: each `auto` has a
// communicator of its own, which is idle while others have their turns. The rest share one.
Lanes LanesOf(std::span<const std::string> specs);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_LANES_H_
