// The unique ids of a job whose ranks are threads.
#ifndef GRADWIRE_CLI_MEASURE_JOB_IDS_H_
#define GRADWIRE_CLI_MEASURE_JOB_IDS_H_

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// One for each communicator. Rank 0 makes each when it comes to it: an id listens, perhaps at a
// port that somebody has chosen, until its communicator has started. Any thread.
class JobIds {
 public:
  // Rank 0: the next one.
  void Give(const gwUniqueId& id);
  // Rank 0: there will be no more.
  void End();
  // The others: number i, once it is given. gwPeerLost: it will not be.
  StatusOr<gwUniqueId> Await(int i);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<gwUniqueId> ids_;  // guarded by mutex_
  bool is_over_ = false;         // guarded by mutex_
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_JOB_IDS_H_
