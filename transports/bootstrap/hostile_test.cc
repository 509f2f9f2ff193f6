// Ten thousand strangers at the port of a start that goes on meanwhile.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/rendezvous.h"

namespace gradwire {
namespace {

constexpr int kStrangers = 10000;
constexpr int kWorldSize = 3;
constexpr size_t kHeldOpen = 200;

// Sanitizers keep freed memory back.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kMaxGrowthBytes = int64_t{1} << 30;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int64_t kMaxGrowthBytes = int64_t{1} << 30;
#else
constexpr int64_t kMaxGrowthBytes = int64_t{16} << 20;
#endif
#else
constexpr int64_t kMaxGrowthBytes = int64_t{16} << 20;
#endif

int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

std::string HelloOf(int rank) {
  return EncodeControl(
      *MakeHello({.rank = rank, .world_size = kWorldSize, .job = 9}, SystemEntropy));
}

// One of five ways to be a stranger.
std::string Greeting(int i) {
  switch (i % 5) {
    case 0: return {};  // a port scan
    case 1: return std::string(1 + i % 700, static_cast<char>(i));
    case 2: {  // for a rank that is there already, or for the one to come
      const uint16_t rank = i % 2 == 0 ? 1 : 2;
      return HelloOf(rank) + EncodeControl({.src = rank, .job = 9, .fields = ProofFields{}});
    }
    case 3: return HelloOf(2).substr(0, 255);  // never finishes
    default: return "GET / HTTP/1.1\r\n\r\n" + std::string(400, ' ');
  }
}

class Strangers {
 public:
  explicit Strangers(const SocketAddress& address) : address_(address) {}

  // False once nobody listens any more.
  bool Send(int i) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), address_.get(), address_.bytes()) != 0) return false;
    const std::string text = Greeting(i);
    (void)send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (i % 2 == 0) held_.push_back(std::move(fd));
    if (held_.size() > kHeldOpen) held_.pop_front();
    return true;
  }

 private:
  SocketAddress address_;
  std::deque<UniqueFd> held_;  // says no more, but stays
};

TEST(HostileConnections, ChangeNothing) {
  UniqueFd listener = std::move(*Listen(*ResolveHost({"127.0.0.1", 0})));
  const SocketAddress address = *BoundAddress(listener.get());
  std::vector<std::optional<StatusOr<BootstrapResult>>> results(kWorldSize);
  std::vector<std::thread> ranks;
  auto start = [&](int rank) {
    ranks.emplace_back([&, rank] {
      BootstrapOptions options{.rank = rank,
                               .world_size = kWorldSize,
                               .root = {"127.0.0.1", address.port()},
                               .secret = "known to ranks only",
                               .job = 9};
      if (rank == 0) options.listener = std::move(listener);
      results[rank].emplace(Bootstrap(std::move(options)));
    });
  };
  start(0);
  start(1);
  const int64_t resident_before = ResidentBytes();
  Strangers strangers(address);
  for (int i = 0; i < kStrangers; ++i) ASSERT_TRUE(strangers.Send(i)) << i;
  const int64_t resident_after = ResidentBytes();
  const int64_t begin = SteadyClock().NowNs();
  start(2);
  for (std::thread& rank : ranks) rank.join();
  const int64_t joined_ns = SteadyClock().NowNs() - begin;

  for (const auto& result : results) ASSERT_TRUE(result->ok()) << result->status().ToString();
  EXPECT_GT((*results[0])->strangers_rejected, kStrangers * 9 / 10);
  EXPECT_LT(joined_ns, 5 * kNsPerSecond);
  EXPECT_LT(resident_after - resident_before, kMaxGrowthBytes);
  printf("%d strangers: resident memory grew by %.1f MiB, the last rank joined in %.1f ms\n",
         kStrangers, static_cast<double>(resident_after - resident_before) / (1 << 20),
         static_cast<double>(joined_ns) / 1e6);
}

}  // namespace
}  // namespace gradwire
