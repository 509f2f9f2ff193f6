#include "tests/conformance/transport_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "transports/frame/frame.h"

namespace gradwire::conformance {
namespace {

constexpr int64_t kPatience = 30 * kNsPerSecond;
constexpr int64_t kMaxMessageBytes = int64_t{64} << 20;

// Random bytes to take contents from; a prime length, so that no offset repeats the start of
// another.
const std::vector<std::byte>& Noise() {
  static const std::vector<std::byte> noise = [] {
    std::vector<std::byte> bytes(65521);
    RandomStream random(2026);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    return bytes;
  }();
  return noise;
}

// What message `name` from src to dst holds from `offset` on: calls use(part of noise, its bytes).
template <typename Use>
void ForContent(int src, int dst, MessageName name, int64_t offset, int64_t bytes, Use use) {
  const std::vector<std::byte>& noise = Noise();
  const uint64_t start = Hasher().Add(src).Add(dst).Add(name.op_seq).Add(name.message).digest();
  int64_t at = static_cast<int64_t>((start + offset) % noise.size());
  while (bytes > 0) {
    const int64_t part = std::min<int64_t>(bytes, noise.size() - at);
    use(noise.data() + at, part);
    bytes -= part;
    at = 0;
  }
}

}  // namespace

Rank::Rank(Transport* transport, int rank, int world_size, uint64_t job)
    : transport_(transport),
      rank_(rank),
      world_size_(world_size),
      job_(job),
      next_token_(uint64_t(rank) << 32) {}

void Rank::Send(int peer, MessageName name, int64_t bytes) {
  auto data = std::make_shared<std::vector<std::byte>>(bytes);
  FillContent(peer, name, {.data = data->data(), .size = bytes});
  queued_.push_back({.peer = peer, .name = name, .data = std::move(data)});
}

void Rank::FillContent(int peer, MessageName name, Bytes out) const {
  std::byte* at = out.data;
  ForContent(rank_, peer, name, 0, out.size, [&](const std::byte* part, int64_t part_bytes) {
    std::memcpy(at, part, part_bytes);
    at += part_bytes;
  });
}

FrameHeader Rank::Header(MessageName name, int64_t bytes) const {
  FrameHeader header;
  header.src = static_cast<uint16_t>(rank_);
  header.job = job_;
  header.op_seq = name.op_seq;
  header.message = name.message;
  header.message_bytes = static_cast<uint32_t>(bytes);
  return header;
}

SendOutcome Rank::Offer(Outgoing* out) {
  const int64_t whole = static_cast<int64_t>(out->data->size());
  const int64_t bytes =
      std::min<int64_t>(whole - out->offset, transport_->caps().max_fragment_bytes);
  const ConstBytes fragment(out->data->data() + out->offset, bytes);
  FrameHeader header = Header(out->name, whole);
  header.offset = static_cast<uint32_t>(out->offset);
  header.fragment_bytes = static_cast<uint32_t>(bytes);
  SealFrame(&header, fragment);
  const SendOutcome outcome = transport_->TrySend(out->peer, header, fragment, next_token_);
  if (outcome == SendOutcome::kAccepted) {
    outstanding_[next_token_++] = {out->data, out->offset, bytes};
    out->offset += bytes;
  }
  return outcome;
}

bool Rank::Pump() {
  bool accepted = false;
  std::vector<bool> refused(world_size_, false);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < queued_.size(); ++i) {
      Outgoing& out = queued_[i];
      if (refused[out.peer]) continue;
      const SendOutcome outcome = Offer(&out);
      const bool done = out.offset == static_cast<int64_t>(out.data->size());
      if (outcome == SendOutcome::kAccepted) accepted = more = true;
      if (outcome == SendOutcome::kFull) refused[out.peer] = true;
      if (outcome == SendOutcome::kFull) ++refusals_;
      if (outcome == SendOutcome::kLost || (outcome == SendOutcome::kAccepted && done)) {
        queued_.erase(queued_.begin() + static_cast<ptrdiff_t>(i--));
      }
    }
  }
  return accepted;
}

bool Rank::PollOnly() {
  in_progress_ = true;
  const int reports = transport_->Progress(this);
  in_progress_ = false;
  return reports > 0;
}

bool Rank::Poll() {
  const bool pumped = Pump();
  return PollOnly() || pumped;
}

bool Rank::Received(int peer, MessageName name) const { return whole_.contains({peer, name}); }

void Rank::OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) {
  if (!in_progress_) return Fail("OnFragment outside Progress");
  const FrameExpectation expected = {
      .job = job_, .world_size = world_size_, .max_message_bytes = kMaxMessageBytes};
  Status why;
  if (CheckFrame(header, fragment, expected, &why) != FrameVerdict::kValid) {
    return Fail("a frame is not valid: " + why.ToString());
  }
  if (header.src != peer)
    return Fail(fmt::format("rank {}'s frame came as {}'s", header.src, peer));
  if (std::count(lost_.begin(), lost_.end(), peer)) return Fail("a fragment came after the loss");
  const MessageName name = {header.op_seq, header.message};
  if (whole_.contains({peer, name})) return Fail("a fragment came after the end of its message");
  int64_t& next = next_offset_[{peer, name}];
  if (next != header.offset) {
    return Fail(fmt::format("offset {} instead of {}", header.offset, next));
  }
  const std::byte* at = fragment.data;
  ForContent(peer, rank_, name, header.offset, fragment.size,
             [&](const std::byte* part, int64_t n) {
               if (std::memcmp(at, part, n) != 0) Fail("a fragment has another one's content");
               at += n;
             });
  next += fragment.size;
  if (next != header.message_bytes) return;
  whole_[{peer, name}] = true;
  next_offset_.erase({peer, name});
  ++received_;
}

void Rank::OnSent(SendToken token) {
  if (!in_progress_) return Fail("OnSent outside Progress");
  const auto found = outstanding_.find(token);
  if (found == outstanding_.end())
    return Fail(fmt::format("token {:#x} is not outstanding", token));
  const Source& source = found->second;
  if (source.bytes > 0) std::memset(source.data->data() + source.offset, 0xEE, source.bytes);
  outstanding_.erase(found);
}

void Rank::OnPeerLost(int peer, const Status& cause) {
  if (!in_progress_) return Fail("OnPeerLost outside Progress");
  if (cause.ok()) Fail("OnPeerLost without a cause");
  if (std::count(lost_.begin(), lost_.end(), peer)) Fail("a peer was lost twice");
  lost_.push_back(peer);
}

void Rank::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = fmt::format("rank {}: {}", rank_, what);
}

bool World::RunUntil(const std::function<bool()>& done) {
  const Deadline deadline = Deadline::After(SteadyClock(), kPatience);
  while (!done()) {
    bool busy = false;
    for (auto& rank : ranks) busy |= rank != nullptr && rank->Poll();
    if (!failure().empty()) return false;
    if (!busy && !idle()) return done();
    if (deadline.Expired(SteadyClock())) return false;
  }
  return true;
}

void World::Settle(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    bool busy = false;
    for (auto& rank : ranks) busy |= rank != nullptr && rank->Poll();
    if (!busy) idle();
  }
}

std::string World::failure() const {
  for (const auto& rank : ranks) {
    if (rank != nullptr && !rank->failure().empty()) return rank->failure();
  }
  return {};
}

void World::Destroy(int rank) {
  ends[rank].reset();
  ranks[rank].reset();
}

namespace {

using Ends = std::vector<std::unique_ptr<Transport>>;

// Contract or not, none of these faults may show: refusals, delays, late OnSent.
constexpr const char* kHarmlessFaults = "seed=7,delay=0.2,delay_polls=5,full=0.2,late_sent=0.2";

StatusOr<Ends> MakeBySpec(const std::string& spec, TransportOptions options, World* world) {
  options.death_timeout_ns = kNsPerSecond / 2;
  Ends ends;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    auto end = MakeTransport(spec, options);
    if (!end.ok()) return end.status();
    ends.push_back(std::move(*end));
  }
  world->idle = [] {
    std::this_thread::yield();
    return true;
  };
  return ends;
}

StatusOr<Ends> EndsOf(std::shared_ptr<SimNetwork> network, int world_size, World* world) {
  Ends ends;
  for (int rank = 0; rank < world_size; ++rank) {
    auto end = network->MakeEnd(rank);
    if (!end.ok()) return end.status();
    ends.push_back(std::move(*end));
  }
  world->idle = [network] { return network->AdvanceToNextEvent(); };
  return ends;
}

std::string Identifier(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace

TransportKind KindOfSpec(const std::string& name, const std::string& spec, Place place) {
  return {.name = Identifier(name),
          .may_skip = spec.find("loopback") == std::string::npos,  // which works everywhere
          .make_ends = [spec, place](int world_size, uint64_t job, World* world) {
            TransportOptions options = {.world_size = world_size, .job = job};
            options.all_ranks_on_host = place == Place::kOneHost;
            if (place == Place::kManyHosts) options.interface = "lo";
            return MakeBySpec(spec, options, world);
          }};
}

TransportKind KindOfNetwork(const std::string& name, std::shared_ptr<SimNetwork> network) {
  return {.name = name,
          .threads = false,
          .may_skip = false,
          .make_ends = [network](int world_size, uint64_t, World* world) {
            return EndsOf(network, world_size, world);
          }};
}

TransportKind KindOfSim(const std::string& name, const SimOptions& options) {
  return {.name = name,
          .threads = false,
          .may_skip = false,
          .make_ends = [options](int world_size, uint64_t, World* world) -> StatusOr<Ends> {
            SimOptions own = options;
            own.world_size = world_size;
            auto network = SimNetwork::Make(own);
            if (!network.ok()) return network.status();
            return EndsOf(*network, world_size, world);
          }};
}

std::vector<TransportKind> TransportKinds() {
  std::vector<TransportKind> kinds;
  for (const TransportRow& row : Transports()) {
    const std::string faulty = fmt::format("faulty({},{})", row.name, kHarmlessFaults);
    kinds.push_back(KindOfSpec(row.name, row.name, Place::kOneHost));
    if (row.between_hosts) {
      kinds.push_back(KindOfSpec("far_" + row.name, row.name, Place::kManyHosts));
    }
    kinds.push_back(KindOfSpec("faulty_" + row.name, faulty, Place::kOneHost));
  }
  kinds.push_back(KindOfSim("sim", {}));
  kinds.push_back(KindOfSim(
      "sim_jitter", {.seed = 3, .jitter_ns = 200 * kNsPerUs, .fragment_bytes = 4096, .slots = 3}));
  kinds.push_back(KindOfSim("sim_instant", {.alpha_ns = 0, .beta_ns_per_byte = 0, .detect_ns = 0}));
  return kinds;
}

StatusOr<std::unique_ptr<World>> MakeWorld(const TransportKind& kind, int world_size) {
  static std::atomic<uint64_t> worlds = 0;
  const uint64_t job = Hasher().Add(getpid()).Add(++worlds).digest();
  auto world = std::make_unique<World>();
  auto ends = kind.make_ends(world_size, job, world.get());
  if (!ends.ok()) return ends.status();
  world->ends = std::move(*ends);
  std::vector<std::string> addresses;
  for (auto& end : world->ends) addresses.push_back(end->address());
  for (int rank = 0; rank < world_size; ++rank) {
    GW_RETURN_IF_ERROR(world->ends[rank]->Connect(addresses));
    world->ranks.push_back(std::make_unique<Rank>(world->ends[rank].get(), rank, world_size, job));
  }
  return world;
}

}  // namespace gradwire::conformance
