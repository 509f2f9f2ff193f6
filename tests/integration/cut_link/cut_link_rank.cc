// A rank of a job in a test network: TRANSPORT VICTIM. The victim takes its own interface down in
// mid-operation; all say when and how their operation ended, as "EVENT NANOSECONDS TEXT".
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gradwire/gradwire.h"

namespace {

// About half a second of a 1 Gbit/s link.
constexpr size_t kElems = 12'000'000;
constexpr auto kIntoTheOperation = std::chrono::milliseconds(100);

// The same clock in all namespaces of a host.
void Say(const char* event, const std::string& text) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%s %lld %s\n", event, now.tv_sec * 1'000'000'000LL + now.tv_nsec, text.c_str());
  std::fflush(stdout);
}

void CutLink() {
  std::this_thread::sleep_for(kIntoTheOperation);
  // The moment before, so that what is measured is never too short.
  Say("cut", "");
  const std::string interface = std::getenv("GRADWIRE_INTERFACE");
  if (std::system(("ip link set " + interface + " down").c_str()) != 0) Say("broken", "ip link");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  const std::string settings =
      std::string(
          "debug=none; heartbeat_ms=200; heartbeat_timeout_ms=1000; abort_timeout_ms=1000; "
          "transport=") +
      argv[1];
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  if (gwCommInitEnv(&comm, &config) != gwSuccess) {
    Say("broken", gwGetLastError(nullptr));
    return 1;
  }
  int rank = -1;
  if (gwCommUserRank(comm, &rank) != gwSuccess || gwBarrier(comm, nullptr) != gwSuccess) {
    Say("broken", gwGetLastError(comm));
    return 1;
  }
  std::thread cutter;
  if (rank == std::atoi(argv[2])) cutter = std::thread(CutLink);
  std::vector<float> data(kElems, 1.0f);
  const gwResult_t result =
      gwAllReduce(data.data(), data.data(), kElems, gwFloat32, gwSum, comm, nullptr);
  Say(result == gwSuccess ? "complete" : "failed", gwGetLastError(comm));
  if (cutter.joinable()) cutter.join();
  const gwResult_t destroyed = gwCommDestroy(comm);
  Say(destroyed == gwSuccess ? "left" : "broken", "");
  return 0;
}
