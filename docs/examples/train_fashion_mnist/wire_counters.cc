#include "docs/examples/train_fashion_mnist/wire_counters.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace example {
namespace {

// Ethernet 14, IPv4 20, TCP 20 and its time stamps 12. Checksums and preambles are not counted by
// the kernel.
constexpr double kHeaderBytesPerPacket = 66;

double ReadCounter(const std::string& interface, const char* name) {
  const std::string path = "/sys/class/net/" + interface + "/statistics/" + name;
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) throw std::runtime_error(path + ": cannot read it");
  return value;
}

}  // namespace

WireBytes ReadWireBytes(const Communicator& comm, const std::string& interface) {
  WireBytes bytes;
  const auto stats = nlohmann::json::parse(comm.Stats());
  for (const char* part : {"sent_bytes", "framing_bytes", "control_bytes"}) {
    bytes.transport += stats.at(part).get<double>();
  }
  if (!interface.empty()) {
    bytes.interface = ReadCounter(interface, "tx_bytes") -
                      kHeaderBytesPerPacket * ReadCounter(interface, "tx_packets");
  }
  return bytes;
}

WireBytes operator-(const WireBytes& a, const WireBytes& b) {
  return {.transport = a.transport - b.transport, .interface = a.interface - b.interface};
}

WireBytes operator+(const WireBytes& a, const WireBytes& b) {
  return {.transport = a.transport + b.transport, .interface = a.interface + b.interface};
}

}  // namespace example
