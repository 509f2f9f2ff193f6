// The rendezvous of rank 0 and of a joining rank on any bytes: [role, then records of connection (1
// byte), size (2 bytes), text]. Nonces are fixed, so that the proofs in the seeds are right and
// what lies behind them is reached. Checksums are made right where role & 2.

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/crc.h"
#include "tests/fuzz/fuzz_target.h"
#include "transports/bootstrap/rendezvous_guest.h"
#include "transports/bootstrap/rendezvous_host.h"

namespace gradwire::fuzz {
namespace {

constexpr uint8_t kGuestRole = 1, kSeal = 2;  // of `role`
constexpr int kWorldSize = 3;

Status NoEntropy(Bytes out) {
  std::memset(out.data, 0x11, static_cast<size_t>(out.size));
  return {};
}

RendezvousIdentity Identity(int rank) {
  // Of one version for ever: kept inputs hold proofs of it.
  return {
      .rank = rank, .world_size = kWorldSize, .job = 7, .secret = "secret", .library_version = 100};
}

RendezvousGuest MakeGuest(int rank) {
  return RendezvousGuest(
      {.me = Identity(rank), .blob = "blob", .entropy = NoEntropy, .host = "host"});
}

struct Host : HostWires {
  Host() : core({.me = Identity(0), .blob = "zero", .entropy = NoEntropy}, this) {}
  void Send(int conn, std::string bytes) override { sent[conn] += bytes; }
  void Close(int conn) override { closed.insert(conn); }
  RendezvousHost core;
  std::map<int, std::string> sent;
  std::set<int> closed;
};

struct Record {
  int conn;
  std::string text;
};

std::vector<Record> Split(const uint8_t* data, size_t size) {
  std::vector<Record> records;
  while (size >= 3) {
    const size_t wanted = data[1] | size_t{data[2]} << 8;
    const size_t bytes = std::min(wanted, size - 3);
    records.push_back({data[0] % 8, {reinterpret_cast<const char*>(data + 3), bytes}});
    data += 3 + bytes;
    size -= 3 + bytes;
  }
  return records;
}

// One message per record: the common case.
void Seal(std::string* text) {
  if (text->size() < kControlHeadBytes) return;
  const uint32_t body_crc = Crc32c(text->data() + kControlHeadBytes,
                                   static_cast<int64_t>(text->size()) - kControlHeadBytes);
  std::memcpy(text->data() + 248, &body_crc, 4);
  const uint32_t head_crc = Crc32c(text->data(), 252);
  std::memcpy(text->data() + 252, &head_crc, 4);
}

void PlayToHost(const std::vector<Record>& records) {
  Host host;
  std::set<int> open;
  int64_t now = 0;
  for (const Record& r : records) {
    if (host.closed.contains(r.conn)) continue;
    if (open.insert(r.conn).second) host.core.OnConnect(r.conn, "peer", now);
    if (r.text.empty()) {
      host.core.OnClosed(r.conn);
      host.closed.insert(r.conn);
    } else {
      host.core.OnBytes(r.conn, TextBytes(r.text), now);
    }
    host.core.Tick(now += 1'000'000);
  }
  if (!host.core.done() || !host.core.status().ok()) return;
  // Only with the right proofs, of all ranks.
  for (int r = 1; r < kWorldSize; ++r) FUZZ_CHECK(host.core.conn_of(r) >= 0);
}

void PlayToGuest(const std::vector<Record>& records) {
  RendezvousGuest guest = MakeGuest(1);
  for (const Record& r : records) {
    if (r.text.empty()) guest.OnClosed();
    guest.OnBytes(TextBytes(r.text), 0);
    (void)guest.TakeOutput();
  }
  if (guest.outcome() == RendezvousGuest::Outcome::kDone) {
    FUZZ_CHECK(guest.roster().blobs.size() == kWorldSize);
  }
  FUZZ_CHECK((guest.outcome() == RendezvousGuest::Outcome::kFailed) == !guest.status().ok());
}

void Append(int conn, const std::string& text, Input* input) {
  if (text.empty()) return;
  input->push_back(static_cast<uint8_t>(conn));
  input->push_back(static_cast<uint8_t>(text.size() & 255));
  input->push_back(static_cast<uint8_t>(text.size() >> 8));
  input->insert(input->end(), text.begin(), text.end());
}

}  // namespace

// A start of three ranks, once as rank 0 hears it and once as rank 1 does.
std::vector<Input> Seeds() {
  Host host;
  std::vector<RendezvousGuest> guests;
  for (const int rank : {1, 2}) {
    guests.push_back(MakeGuest(rank));
    host.core.OnConnect(rank, "peer", 0);
  }
  Input to_host = {0}, to_guest = {kGuestRole};
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 2; ++i) {
      const std::string out = guests[i].TakeOutput();
      Append(i + 1, out, &to_host);
      host.core.OnBytes(i + 1, TextBytes(out), 0);
    }
    for (int i = 0; i < 2; ++i) {
      const std::string in = std::exchange(host.sent[i + 1], {});
      if (i == 0) Append(0, in, &to_guest);
      guests[i].OnBytes(TextBytes(in), 0);
    }
  }
  FUZZ_CHECK(host.core.done() && host.core.status().ok());
  std::vector<Input> seeds = {to_host, to_guest};
  for (Input sealed : {to_host, to_guest}) {
    sealed[0] |= kSeal;
    seeds.push_back(sealed);
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire::fuzz;
  if (size == 0) return 0;
  std::vector<Record> records = Split(data + 1, size - 1);
  for (Record& r : records) {
    if (data[0] & kSeal) Seal(&r.text);
  }
  if (data[0] & kGuestRole) {
    PlayToGuest(records);
  } else {
    PlayToHost(records);
  }
  return 0;
}
