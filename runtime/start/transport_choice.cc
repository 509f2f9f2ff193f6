#include "runtime/start/transport_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/one_line.h"
#include "runtime/hex_text.h"

namespace gradwire {
namespace {

// Keys of an offer; values are an end's kind, a bar, and its address, why there is none, or
// nothing.
const std::string kAddress = "end", kMissing = "no-end", kNotInstalled = "not-installed";
// A kind is the transport's spec and how far the end reaches.
const std::string kHost = " host", kAnywhere = " anywhere";

// The two sides of the bar.
std::pair<std::string, std::string> Split(const std::string& value) {
  const size_t bar = value.find('|');
  return {value.substr(0, bar), bar == std::string::npos ? "" : value.substr(bar + 1)};
}

// What `offer` says of `kind` under `key`.
std::optional<std::string> Find(const OpText& offer, const std::string& key,
                                const std::string& kind) {
  for (const auto& [name, value] : offer) {
    const auto [its_kind, rest] = Split(value);
    if (name == key && its_kind == kind) return rest;
  }
  return std::nullopt;
}

bool AllOffer(std::span<const OpText> offers, const std::string& kind) {
  return std::all_of(offers.begin(), offers.end(),
                     [&](const OpText& offer) { return Find(offer, kAddress, kind).has_value(); });
}

bool AnyLacks(std::span<const OpText> offers, const std::string& kind) {
  return std::any_of(offers.begin(), offers.end(),
                     [&](const OpText& offer) { return Find(offer, kMissing, kind).has_value(); });
}

// The first rank that lacks an end, and why; empty: none does.
std::string FirstLack(std::span<const OpText> offers) {
  for (int rank = 0; rank < static_cast<int>(offers.size()); ++rank) {
    const std::string missing = FindInOpText(offers[rank], kMissing);
    if (missing.empty()) continue;
    const auto [kind, why] = Split(missing);
    return fmt::format("rank {} lacks {}: {}", rank, TransportName(kind), why);
  }
  return "";
}

Status NoCommonTransport(std::span<const OpText> offers) {
  if (const std::string lack = FirstLack(offers); !lack.empty()) {
    return Status(gwTransportUnavailable, "no transport reaches all ranks: " + lack,
                  "Run `gradwire doctor` on that machine")
        .WithSetting("transport");
  }
  const std::string kind = Split(FindInOpText(offers[0], kAddress)).first;
  return Status(gwTransportUnavailable,
                fmt::format("transport {} stays within a host, and the ranks are on several",
                            TransportName(kind)),
                "Set transport=auto, or one that reaches other hosts: see `gradwire info`")
      .WithSetting("transport");
}

// The first rank on which `kind` is installed and yet has no end, and why; empty: none.
std::string FirstBroken(std::span<const OpText> offers, const std::string& kind) {
  for (int rank = 0; rank < static_cast<int>(offers.size()); ++rank) {
    const std::optional<std::string> why = Find(offers[rank], kMissing, kind);
    if (!why || Find(offers[rank], kNotInstalled, kind)) continue;
    return fmt::format("rank {}: {}", rank, *why);
  }
  return "";
}

// Whoever has installed a transport expects it to be used. What is not installed is not missed.
void WarnOfPassedOver(std::span<const OpText> offers, const std::string& chosen, bool one_host) {
  const std::string taken = TransportName(chosen);
  std::string told;  // the ends of a transport follow each other
  for (const auto& [key, value] : offers[0]) {
    const std::string kind = Split(value).first, name = TransportName(kind);
    if (kind == chosen) return;
    if (name == taken || name == told || (kind.ends_with(kHost) && !one_host)) continue;
    const std::string broken = FirstBroken(offers, kind);
    if (broken.empty()) continue;
    GW_LOG(kWarn, kInit, "transport=auto takes {} and passes over {}: {}", taken, name, broken);
    told = name;
  }
}

// What an offer says of an end that could not be made. Its reader knows that there is none.
std::string ReasonOf(const Status& error) {
  const ErrorDetail& d = error.detail();
  if (error.code() != gwTransportUnavailable) return error.ToString();
  return d.hint.empty() ? d.message : fmt::format("{}. {}", d.message, d.hint);
}

}  // namespace

StatusOr<TransportOffer> TransportOffer::Make(const std::string& spec, TransportOptions options) {
  TransportOffer offer;
  const bool automatic = spec == "auto";
  std::vector<std::string> specs = {spec};
  if (automatic && options.world_size == 1) specs = {"loopback"};
  if (automatic && options.world_size > 1) specs = ProcessTransports();
  bool within_host = false;  // an end for that is there
  for (const std::string& one : specs) {
    StatusOr<const TransportRow*> row = RowOfSpec(one);
    if (!row.ok()) return row.status();
    if ((*row)->within_host && !(automatic && within_host)) {
      options.all_ranks_on_host = true;
      within_host = offer.AddEnd(**row, one, options);
    }
    if ((*row)->between_hosts) {
      options.all_ranks_on_host = false;
      offer.AddEnd(**row, one, options);
    }
  }
  return offer;
}

bool TransportOffer::AddEnd(const TransportRow& row, const std::string& spec,
                            const TransportOptions& options) {
  StatusOr<std::unique_ptr<Transport>> made = MakeTransport(spec, options);
  End& end = ends_.emplace_back();
  end.kind = spec + (options.all_ranks_on_host ? kHost : kAnywhere);
  end.error = made.status();
  if (made.ok()) {
    end.transport = std::move(*made);
  } else {
    end.installed = row.installed == nullptr || row.installed();
    GW_LOG(kInfo, kInit, "no {} here: {}", end.kind, end.error.ToString());
  }
  return made.ok();
}

void TransportOffer::Explain(const Settings& settings) {
  for (End& end : ends_) end.error = settings.Explain(std::move(end.error));
}

OpText TransportOffer::Text() const {
  OpText text;
  for (const End& end : ends_) {
    if (end.transport) {
      text.emplace_back(kAddress, end.kind + "|" + ToHex(end.transport->address()));
    } else {
      text.emplace_back(kMissing, end.kind + "|" + OneLine(ReasonOf(end.error)));
      if (!end.installed) text.emplace_back(kNotInstalled, end.kind + "|");
    }
  }
  return text;
}

StatusOr<std::unique_ptr<Transport>> TransportOffer::Take(const std::string& chosen,
                                                          std::span<const OpText> offers) && {
  const auto end = std::find_if(ends_.begin(), ends_.end(),
                                [&](const End& each) { return each.kind == chosen; });
  if (end == ends_.end() || !end->transport) {
    return Status(gwInternalError, fmt::format("rank 0 chose the transport '{}'", chosen));
  }
  std::vector<std::string> addresses;
  for (const OpText& offer : offers) {
    std::optional<std::string> address = FromHex(Find(offer, kAddress, chosen).value_or(""));
    if (!address) return Status(gwDataCorrupt, "a rank's address is not hexadecimal");
    addresses.push_back(std::move(*address));
  }
  std::unique_ptr<Transport> transport = std::move(end->transport);
  ends_.clear();
  GW_RETURN_IF_ERROR(transport->Connect(addresses));
  return transport;
}

StatusOr<std::string> ChooseTransport(std::span<const OpText> offers, bool one_host) {
  for (const auto& [key, value] : offers[0]) {
    if (key != kAddress) continue;
    const std::string kind = Split(value).first;
    const bool within_host = kind.ends_with(kHost);
    if (within_host && !one_host) continue;
    // A transport that has an end for one host is not replaced by its other one in silence.
    if (!within_host && one_host && AnyLacks(offers, TransportName(kind) + kHost)) continue;
    if (!AllOffer(offers, kind)) continue;
    WarnOfPassedOver(offers, kind, one_host);
    return kind;
  }
  return NoCommonTransport(offers);
}

std::string TransportName(const std::string& kind) { return kind.substr(0, kind.rfind(' ')); }

}  // namespace gradwire
