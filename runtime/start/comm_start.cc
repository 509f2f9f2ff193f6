#include "runtime/start/comm_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "runtime/engine/operation.h"
#include "runtime/file_claim.h"
#include "runtime/start/agreed_text.h"
#include "runtime/start/host_facts.h"
#include "runtime/start/transport_choice.h"
#include "runtime/start/usable_cores.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/handshake.h"
#include "transports/control/control_plane.h"

namespace gradwire {
namespace {

// An idle poll takes about 100 ns.
constexpr int64_t kPollNs = 100;
// When ranks and their callers outnumber the cores, spinning takes the core from who has the work.
// Within a host that may be the rank that is waited for. What comes over a wire takes longer than a
// thread takes to wake: yields would fill the time of all cores and win none.
constexpr int kCrowdedSpins = 20, kCrowdedYields = 500, kCrowdedWireYields = 5, kYields = 100;

struct Identity {
  int rank = 0;
  int world_size = 1;
  HostPort root;
  UniqueFd listener;
  std::string secret;
  bool insecure = false;
  uint64_t job = 0;           // names the rendezvous
  bool root_listens = false;  // as BootstrapOptions has it
  std::string launch_board;
  bool is_group = false;                           // of a split: its files have names of their own
  uint64_t seed_salt = 0;                          // of a group
  const std::atomic<bool>* interrupted = nullptr;  // ends the start early
};

// Opening a transport of many ranks on few cores takes seconds.
constexpr int64_t kLeastStartSilenceNs = 5 * kNsPerSecond;

LivenessOptions LivenessOf(const Settings& settings) {
  return {.period_ns = settings.DurationNs("heartbeat_ms"),
          .bound_ns = settings.DurationNs("heartbeat_timeout_ms")};
}

// Names one communicator among all there ever are. What launchers tell is the same for all those of
// a job, and of the next one.
StatusOr<uint64_t> DrawJob() {
  uint64_t job = 0;
  GW_RETURN_IF_ERROR(SystemEntropy({reinterpret_cast<std::byte*>(&job), sizeof job}));
  return job;
}

// Rank 0: refuses where the ranks' settings differ, and chooses what depends on all of them.
StatusOr<std::string> ChooseForAll(const std::vector<std::string>& blobs, const OpText& mine) {
  std::vector<std::string> texts;
  std::vector<OpText> offers;
  bool one_host = true;
  const OpText first = DecodeOpText(blobs[0]);
  for (const std::string& blob : blobs) {
    const OpText& theirs = offers.emplace_back(DecodeOpText(blob));
    one_host &= FindInOpText(theirs, "host") == FindInOpText(first, "host");
    OpText agreed;
    for (const auto& [name, value] : mine) agreed.emplace_back(name, FindInOpText(theirs, name));
    texts.push_back(EncodeOpText(agreed));
  }
  Status same = WithDifference(Status(gwMismatch, "the ranks have different settings",
                                      "Set the same value on all ranks: see `gradwire info -c`"),
                               texts);
  if (!same.detail().field.empty()) return same;
  StatusOr<std::string> transport = ChooseTransport(offers, one_host);
  if (!transport.ok()) return transport.status();
  OpText chosen = mine;
  chosen.emplace_back("one_host", one_host ? "1" : "0");
  chosen.emplace_back("end", *transport);
  StatusOr<uint64_t> job = DrawJob();
  if (!job.ok()) return job.status();
  chosen.emplace_back("job", std::to_string(*job));
  return EncodeOpText(chosen);
}

// Empty where its name cannot be resolved yet: the start will wait for that.
std::string RootOf(const Identity& me) {
  if (me.world_size == 1) return {};
  const StatusOr<SocketAddress> root =
      me.listener.valid() ? BoundAddress(me.listener.get()) : ResolveRoot(me.root);
  return root.ok() ? root->ToString() : "";
}

StatusOr<TransportOffer> MakeOffer(const Identity& me, const std::string& root,
                                   const Settings& settings) {
  // Who is alone meets nobody, and may start several communicators by one environment.
  const StatusOr<uint64_t> job = me.world_size > 1 ? StatusOr<uint64_t>(me.job) : DrawJob();
  if (!job.ok()) return job.status();
  const TransportOptions options = {
      .rank = me.rank,
      .world_size = me.world_size,
      .job = *job,
      .interface = settings.Text("interface"),
      .root = root,
      .fragment_bytes = static_cast<int32_t>(settings.Bytes("fragment_bytes")),
      .death_timeout_ns = settings.DurationNs("heartbeat_timeout_ms")};
  StatusOr<TransportOffer> offer = TransportOffer::Make(settings.Text("transport"), options);
  if (offer.ok()) offer->Explain(settings);
  return offer;
}

std::vector<OpText> OffersOf(const Roster& roster) {
  std::vector<OpText> offers;
  for (const std::string& blob : roster.blobs) offers.push_back(DecodeOpText(blob));
  return offers;
}

// Whether there are more ranks on this machine than cores that they may use. A rank that waits
// occupies one core: its engine's thread rests meanwhile.
bool IsCrowded(const Roster& roster) {
  const std::string boot = BootId();
  std::vector<std::string> cores;
  for (const OpText& offer : OffersOf(roster)) {
    if (FindInOpText(offer, "boot") == boot) cores.push_back(FindInOpText(offer, "cores"));
  }
  const int usable = CountCores(cores);
  // 0: the system does not tell.
  return std::ssize(cores) > (usable > 0 ? usable : std::thread::hardware_concurrency());
}

IdlePolicy ChooseIdle(const Settings& settings, const Roster& roster, const TransportCaps& caps) {
  const bool crowded = IsCrowded(roster);
  const int crowded_yields = caps.within_host ? kCrowdedYields : kCrowdedWireYields;
  const bool few_spins = crowded && !settings.is_set("spin_us");
  return {.spins = few_spins ? kCrowdedSpins
                             : static_cast<int>(settings.DurationNs("spin_us") / kPollNs),
          .yields = crowded ? crowded_yields : kYields};
}

std::string BlobOf(const Settings& settings, const TransportOffer& offer, const OpText& agreed) {
  OpText blob = agreed;
  blob.emplace_back("host", settings.is_set("host_id") ? settings.Text("host_id") : HostId());
  blob.emplace_back("boot", BootId());
  blob.emplace_back("cores", EncodeCores(UsableCores()));
  for (auto& line : offer.Text()) blob.push_back(std::move(line));
  return EncodeOpText(blob);
}

// A job does not fail for its recorder's file: without one it records in memory.
StatusOr<std::unique_ptr<Recorder>> OpenRecorder(const Identity& me, uint64_t job,
                                                 const std::string& dir) {
  RecorderOptions options = {.dir = dir,
                             .job = job,
                             .rank = me.rank,
                             .world_size = me.world_size,
                             .host = HostName(),
                             .start_wall_ns = WallNs(),
                             .start_time_ns = SteadyClock().NowNs()};
  StatusOr<std::unique_ptr<Recorder>> recorder = Recorder::Open(options);
  if (recorder.ok() || dir.empty()) return recorder;
  GW_LOG(kWarn, kInit, "the flight recorder has no file: {}", recorder.status().ToString());
  options.dir.clear();
  return Recorder::Open(options);
}

// What the ranks have come to together.
struct Meeting {
  std::string root;  // empty: not known, or an interface is named
  BootstrapResult joined;
  std::unique_ptr<Transport> transport;  // connected
};

StatusOr<Meeting> Meet(Identity* me, const Settings& settings) {
  const OpText agreed = AgreedText(settings);
  const bool is_by_root = settings.Text("interface").empty();
  std::string root = is_by_root ? RootOf(*me) : "";
  StatusOr<TransportOffer> offer = MakeOffer(*me, root, settings);
  if (!offer.ok()) return offer.status();
  BootstrapOptions bootstrap = {.rank = me->rank,
                                .world_size = me->world_size,
                                .root = me->root,
                                .root_listens = me->root_listens,
                                .listener = std::move(me->listener),
                                .secret = me->secret,
                                .insecure = me->insecure,
                                .job = me->job,
                                .blob = BlobOf(settings, *offer, agreed),
                                .timeout_ns = settings.DurationNs("init_timeout_ms"),
                                .liveness = LivenessOf(settings),
                                .cancelled = me->interrupted,
                                .launch_board = me->launch_board};
  // While a rank opens its transport it says nothing.
  bootstrap.liveness.bound_ns = std::max(bootstrap.liveness.bound_ns, kLeastStartSilenceNs);
  bootstrap.choose_settings = [&](const std::vector<std::string>& blobs) {
    StatusOr<std::string> chosen = ChooseForAll(blobs, agreed);
    return chosen.ok() ? chosen : settings.Explain(chosen.status());
  };
  // Before any rank is through its start: one that is may leave, and could not be reached any more.
  std::unique_ptr<Transport> transport;
  bootstrap.use_roster = [&](const Roster& roster) -> Status {
    const std::string end = FindInOpText(DecodeOpText(roster.settings), "end");
    StatusOr<std::unique_ptr<Transport>> taken = std::move(*offer).Take(end, OffersOf(roster));
    if (!taken.ok()) return settings.Explain(taken.status());
    transport = std::move(*taken);
    return Status::Ok();
  };
  StatusOr<BootstrapResult> joined = Bootstrap(std::move(bootstrap));
  if (!joined.ok()) return joined.status();
  if (is_by_root && root.empty()) root = RootOf(*me);  // it has been reached, so it has a name
  return Meeting{std::move(root), std::move(*joined), std::move(transport)};
}

// Of the job that rank 0 has named.
StatusOr<CommParts> DescribeParts(const Identity& me, const Settings& settings,
                                  const Meeting& meeting) {
  const Roster& roster = meeting.joined.roster;
  const OpText chosen = DecodeOpText(roster.settings);
  const StatusOr<uint64_t> job = NumberIn(chosen, "job", 0, UINT64_MAX);
  if (!job.ok()) return job.status();
  StatusOr<AgreedSettings> agreed = ParseAgreed(chosen);
  if (!agreed.ok()) return agreed.status();
  if (me.is_group)
    agreed->seed = static_cast<uint32_t>(Hasher().Add(agreed->seed).Add(me.seed_salt).digest());
  const auto file = [&](const std::string& name) {
    return name.empty() || !me.is_group ? name : fmt::format("{}-{:016x}", name, *job);
  };
  const auto file_of_rank = [&](const std::string& name) {
    return name.empty() ? name : fmt::format("{}.{}", ClaimFile(file(name), *job), me.rank);
  };
  return CommParts{.rank = me.rank,
                   .world_size = me.world_size,
                   .job = *job,
                   .root = meeting.root,
                   .agreed = std::move(*agreed),
                   .idle = ChooseIdle(settings, roster, meeting.transport->caps()),
                   .op_timeout_ns = settings.DurationNs("op_timeout_ms"),
                   .abort_timeout_ns = settings.DurationNs("abort_timeout_ms"),
                   .silence_ns = LivenessOf(settings).bound_ns,
                   .record_path = file_of_rank(settings.Text("record_messages")),
                   .timeline_path = file_of_rank(settings.Text("record_timeline")),
                   .plan_log = file(settings.Text("plan_log")),
                   .wake_target = std::make_shared<std::atomic<Engine*>>(nullptr)};
}

StatusOr<std::unique_ptr<ControlPlane>> StartControl(const CommParts& parts,
                                                     const Settings& settings,
                                                     std::vector<StarLink> links) {
  return ControlPlane::Start({.node = {.rank = parts.rank,
                                       .world_size = parts.world_size,
                                       .job = parts.job,
                                       .liveness = LivenessOf(settings)},
                              .on_arrival =
                                  [target = parts.wake_target] {
                                    if (Engine* engine = target->load()) engine->Wake();
                                  }},
                             std::move(links));
}

StatusOr<std::unique_ptr<Communicator>> Start(Identity me, const Settings& settings) {
  StatusOr<Meeting> meeting = Meet(&me, settings);
  if (!meeting.ok()) return meeting.status();
  // An error of what rank 0 has chosen is the same on all ranks.
  StatusOr<CommParts> parts = DescribeParts(me, settings, *meeting);
  if (!parts.ok()) return parts.status();
  StatusOr<std::unique_ptr<ControlPlane>> control =
      StartControl(*parts, settings, std::move(meeting->joined.links));
  if (!control.ok()) return control.status();
  StatusOr<std::unique_ptr<Recorder>> recorder =
      OpenRecorder(me, parts->job, settings.Text("recorder_dir"));
  if (!recorder.ok()) {
    (*control)->LeaveWith(Status(recorder.status()).WithRank(me.rank));
    return recorder.status();
  }
  parts->recorder = std::move(*recorder);
  parts->transport = std::move(meeting->transport);
  parts->control = std::move(*control);
  GW_LOG(kInfo, kInit, "rank {} of {} is ready: transport {}, slices of at most {} elements",
         me.rank, me.world_size, parts->agreed.transport, parts->agreed.slice.elems);
  return Communicator::Create(std::move(*parts));
}

// Of a rank that joins by unique id.
StatusOr<Identity> IdentityFrom(const UniqueId& id, int rank, int world_size) {
  StatusOr<UniqueIdContents> contents = ParseUniqueId(id);
  if (!contents.ok()) return contents.status();
  Identity me = {.rank = rank,
                 .world_size = world_size,
                 .root = contents->root,
                 .secret = contents->secret,
                 .job = contents->job};
  if (rank == 0) {
    StatusOr<UniqueFd> listener = ClaimListener(*contents);
    if (!listener.ok()) return listener.status();
    if (world_size > 1) me.listener = std::move(*listener);  // alone it waits for nobody
  }
  return me;
}

// A number below `least` asks the launcher's own variables.
void PutNumber(const char* name, int64_t number, int64_t least, Environment* environment) {
  environment->erase(name);
  if (number >= least) environment->emplace(name, std::to_string(number));
}

// The environment as the launcher's detection reads it, with what the API and gradwire.toml say
// about the rendezvous. The settings have sorted out who wins.
Environment WithRendezvousSettings(Environment environment, const Settings& settings) {
  if (settings.is_set("root")) environment["GRADWIRE_ROOT"] = settings.Text("root");
  if (settings.is_set("port")) environment["GRADWIRE_PORT"] = std::to_string(settings.Int("port"));
  if (settings.is_set("secret")) environment["GRADWIRE_SECRET"] = settings.Text("secret");
  if (settings.is_set("insecure")) {
    environment["GRADWIRE_INSECURE"] = std::string(settings.Bool("insecure") ? "1" : "0");
  }
  if (settings.is_set("rank")) PutNumber("GRADWIRE_RANK", settings.Int("rank"), 0, &environment);
  if (settings.is_set("world_size"))
    PutNumber("GRADWIRE_WORLD_SIZE", settings.Int("world_size"), 1, &environment);
  return environment;
}

}  // namespace

StatusOr<std::unique_ptr<Communicator>> StartByUniqueId(const UniqueId& id, int rank,
                                                        int world_size, const Settings& settings) {
  StatusOr<Identity> me = IdentityFrom(id, rank, world_size);
  if (!me.ok()) return me.status();
  me->root_listens = true;
  return Start(std::move(*me), settings);
}

StatusOr<std::unique_ptr<Communicator>> StartGroup(const GroupPlace& place,
                                                   const Settings& settings,
                                                   const std::atomic<bool>* interrupted) {
  StatusOr<Identity> me = IdentityFrom(place.id, place.rank, place.world_size);
  if (!me.ok()) return me.status();
  me->is_group = true;
  me->seed_salt = place.seed_salt;
  me->interrupted = interrupted;
  return Start(std::move(*me), settings);
}

StatusOr<std::unique_ptr<Communicator>> StartByEnvironment(const Environment& environment,
                                                           const Settings& settings) {
  const Environment complete = WithRendezvousSettings(environment, settings);
  if (!HasLauncher(complete)) return Start(Identity{}, settings);
  StatusOr<LaunchInfo> launch = DetectLauncher(complete);
  if (!launch.ok()) return launch.status();
  return Start({.rank = launch->rank,
                .world_size = launch->world_size,
                .root = launch->root,
                .secret = launch->secret,
                .insecure = launch->insecure,
                .job = launch->job,
                .launch_board = launch->board},
               settings);
}

}  // namespace gradwire
