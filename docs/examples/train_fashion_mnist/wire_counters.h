// Bytes a rank has sent: as gradwire's transport counts them and as the network interface does.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_WIRE_COUNTERS_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_WIRE_COUNTERS_H_

#include <string>

#include "docs/examples/train_fashion_mnist/gradient_exchange.h"

namespace example {

struct WireBytes {
  double transport = 0;  // frame headers included
  double interface = 0;  // without Ethernet, IP and TCP headers; 0 where no interface is asked
};

// `interface`: "e0", or empty. Throws where it does not exist.
WireBytes ReadWireBytes(const Communicator& comm, const std::string& interface);

WireBytes operator-(const WireBytes& a, const WireBytes& b);
WireBytes operator+(const WireBytes& a, const WireBytes& b);

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_WIRE_COUNTERS_H_
