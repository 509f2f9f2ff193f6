// For tests: a start over real sockets whose ranks are threads.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_JOB_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_JOB_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/unique_id.h"

namespace gradwire {

// Starts ranks against one listener on loopback and collects how each ended.
class BootstrapJob {
 public:
  explicit BootstrapJob(int world_size) : world_size_(world_size) {
    const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
    contents_ = *ParseUniqueId(*id);
    listener_ = std::move(*ClaimListener(contents_));
  }
  ~BootstrapJob() { Join(); }

  BootstrapOptions Options(int rank) {
    BootstrapOptions options{.rank = rank,
                             .world_size = world_size_,
                             .root = contents_.root,
                             .secret = contents_.secret,
                             .job = contents_.job,
                             .blob = "blob of " + std::to_string(rank)};
    if (rank == 0) options.listener = std::move(listener_);
    return options;
  }

  using Change = std::function<void(BootstrapOptions*)>;
  void Start(int rank, const Change& change = {}) { StartAs(rank, rank, change); }
  // The result goes to `slot`, for ranks that exist twice.
  void StartAs(int rank, int slot, const Change& change = {}) {
    auto options = std::make_shared<BootstrapOptions>(Options(rank));
    if (change) change(options.get());
    auto* result = &results_[slot];
    threads_[slot] =
        std::thread([result, options] { result->emplace(Bootstrap(std::move(*options))); });
  }
  void StartAll(const Change& change = {}) {
    for (int r = 0; r < world_size_; ++r) Start(r, change);
  }
  void Join(int slot) { threads_.extract(slot).mapped().join(); }
  void Join() {
    for (auto& [slot, thread] : threads_) thread.join();
    threads_.clear();
  }
  StatusOr<BootstrapResult>& result(int slot) { return *results_[slot]; }
  Status status(int slot) { return results_[slot]->status(); }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const StatusOr<SocketAddress> address = ResolveHost(contents_.root);
    EXPECT_EQ(connect(fd.get(), address->get(), address->bytes()), 0);
    return fd;
  }
  const UniqueIdContents& contents() const { return contents_; }

 private:
  int world_size_;
  UniqueIdContents contents_;
  UniqueFd listener_;
  std::map<int, std::optional<StatusOr<BootstrapResult>>> results_;  // by slot; never moves
  std::map<int, std::thread> threads_;
};

inline void ExpectStarted(BootstrapJob* job, int world_size) {
  for (int r = 0; r < world_size; ++r) {
    ASSERT_TRUE(job->result(r).ok()) << "rank " << r << ": " << job->status(r).ToString();
    const BootstrapResult& got = *job->result(r);
    ASSERT_EQ(got.roster.blobs.size(), static_cast<size_t>(world_size));
    for (int i = 0; i < world_size; ++i) {
      EXPECT_EQ(got.roster.blobs[i], "blob of " + std::to_string(i));
    }
    EXPECT_EQ(got.links.size(), r == 0 ? static_cast<size_t>(world_size - 1) : 1u);
  }
}

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_JOB_H_
