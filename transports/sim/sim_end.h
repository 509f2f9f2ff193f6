// One rank's end of a SimNetwork; the work is done there.
#ifndef GRADWIRE_TRANSPORTS_SIM_SIM_END_H_
#define GRADWIRE_TRANSPORTS_SIM_SIM_END_H_

#include <memory>
#include <string>

#include "transports/sim/sim_network.h"

namespace gradwire {

class SimEnd final : public Transport {
 public:
  SimEnd(std::shared_ptr<SimNetwork> network, int rank, int world_size, const TransportCaps& caps);
  ~SimEnd() override;

  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override;
  Status Connect(std::span<const std::string> addresses) override;
  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override;
  int Progress(Sink* sink) override;
  Status Wait(int64_t timeout_ns) override;
  void Wake() override {}
  void Cancel(uint32_t op_seq) override;

 private:
  std::string AddressOf(int rank) const;

  const std::shared_ptr<SimNetwork> network_;
  const int rank_, world_size_;
  const TransportCaps caps_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_SIM_SIM_END_H_
