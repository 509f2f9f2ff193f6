// Which transport a communicator uses. Only the roster tells where the other ranks are and what
// they can use; so each rank makes an end of every kind it could need and publishes their
// addresses, rank 0 chooses one kind for all, and the other ends are dropped.
#ifndef GRADWIRE_RUNTIME_START_TRANSPORT_CHOICE_H_
#define GRADWIRE_RUNTIME_START_TRANSPORT_CHOICE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/engine/operation.h"
#include "transports/transport.h"

namespace gradwire {

// What one rank could use.
class TransportOffer {
 public:
  // `spec`: the setting `transport`. With "auto" there is an end of every transport that reaches
  // other hosts, and of the first that works here of those within a host; else those of that
  // transport. An end that cannot be made is offered with its error. gwInvalidArgument: no such
  // transport.
  static StatusOr<TransportOffer> Make(const std::string& spec, TransportOptions options);

  // Makes ends that could not be made for the value of a setting say where that came from.
  void Explain(const Settings& settings);

  // One line an end: its address, or why there is none, and then perhaps one more that says that it
  // is not installed.
  OpText Text() const;

  // Connects the end of the kind that rank 0 chose; `offers` are all ranks' texts.
  StatusOr<std::unique_ptr<Transport>> Take(const std::string& chosen,
                                            std::span<const OpText> offers) &&;

 private:
  struct End {
    std::string kind;
    std::unique_ptr<Transport> transport;  // null: `error` has the reason
    Status error;
    bool installed = true;
  };
  // False: it is offered with its error.
  bool AddEnd(const TransportRow& row, const std::string& spec, const TransportOptions& options);

  std::vector<End> ends_;
};

// Rank 0: the first kind of its own that all ranks have offered, and that reaches them all. Warns
// of each transport before it that a rank has installed and cannot use. gwTransportUnavailable:
// there is none; the text names a rank and its reason.
StatusOr<std::string> ChooseTransport(std::span<const OpText> offers, bool one_host);

// "ucx" of the kind "ucx host".
std::string TransportName(const std::string& kind);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_TRANSPORT_CHOICE_H_
