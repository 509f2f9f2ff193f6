// Split: groups of a communicator's ranks become communicators of their own.
#ifndef GRADWIRE_RUNTIME_START_COMM_SPLIT_H_
#define GRADWIRE_RUNTIME_START_COMM_SPLIT_H_

#include <memory>
#include <optional>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/communicator/communicator.h"

namespace gradwire {

// What one rank brings to a split.
struct SplitPart {
  std::optional<int> color;            // none: this rank joins no group
  int key = 0;                         // the order in the group, ties by the rank in the parent
  Status refused;                      // why this rank cannot take part: then nobody does
  const Settings* settings = nullptr;  // of the new communicator; used during the call only
};

// Collective over `parent`: all its ranks succeed or all fail, each within the parent's bounds and
// init_timeout_ms. Where the parent itself fails in the last exchange, those that were through have
// a communicator whose other ranks have aborted theirs: it fails at its next use. Null for a rank
// without a color. The parent stays as usable as it was, and the new communicator is independent of
// it.
StatusOr<std::unique_ptr<Communicator>> Split(Communicator& parent, const SplitPart& mine);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_COMM_SPLIT_H_
