#include "collectives/cost/cost.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "collectives/verify/symbolic.h"
#include "collectives/verify/world.h"

namespace gradwire {
namespace {

// Something that takes one thing at a time.
class Resource {
 public:
  // When it is through with something that comes at `now` and takes `duration`.
  double Use(double now, double duration) {
    free_ = std::max(free_, now) + duration;
    return free_;
  }

 private:
  double free_ = 0;
};

struct Event {
  enum class Kind { kReady, kArrives, kReceived, kComplete };
  double time;
  GlobalStep at;
  Kind kind;
  // For a queue whose top is the earliest.
  bool operator<(const Event& other) const {
    return std::tie(time, at.rank, at.step, kind) >
           std::tie(other.time, other.at.rank, other.at.step, other.kind);
  }
};

class Simulation {
 public:
  Simulation(const World& world, const ShardBytes& bytes, const CostParameters& parameters)
      : world_(world), bytes_(bytes), p_(parameters), ranks_(world.size()), steps_(world.steps()) {
    cost_.rank_ns.resize(world.size());
    cost_.rank_bytes.resize(world.size());
  }

  StatusOr<Cost> Run();

 private:
  struct Rank {
    Resource out, in, processor;
    std::vector<std::vector<int32_t>> successors;
  };
  struct StepState {
    int32_t missing = 0;
    bool ready = false, received = false;
  };

  void Prepare();
  void Handle(const Event& event);
  void Start(double now, GlobalStep at);
  void Send(double now, GlobalStep at);
  void FinishReceive(double now, GlobalStep at);
  void Complete(double now, GlobalStep at);
  double LocalTime(const Schedule& schedule, const Step& step) const;
  int64_t Bytes(GlobalStep at, const Region& region) const {
    return RegionBytes(world_.schedules()[at.rank], region, bytes_);
  }
  StepState& State(GlobalStep at) { return steps_[world_.Index(at)]; }

  const World& world_;
  const ShardBytes& bytes_;
  const CostParameters& p_;
  std::vector<Rank> ranks_;
  std::vector<StepState> steps_;
  std::priority_queue<Event> events_;
  int64_t complete_ = 0;
  Cost cost_;
};

void Simulation::Prepare() {
  for (const Schedule& schedule : world_.schedules()) {
    Rank& rank = ranks_[schedule.rank];
    rank.successors.resize(schedule.steps.size());
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      const GlobalStep at = {schedule.rank, i};
      const std::span<const int32_t> deps = schedule.DepsOf(schedule.steps[i]);
      State(at).missing = static_cast<int32_t>(deps.size());
      for (int32_t dep : deps) rank.successors[dep].push_back(i);
      if (deps.empty()) events_.push({0, at, Event::Kind::kReady});
    }
  }
}

double Simulation::LocalTime(const Schedule& schedule, const Step& step) const {
  // In raw bytes: of the source where something is encoded, else of the destination.
  const Region& raw = step.kind == StepKind::kEncode ? step.src : step.dst;
  const auto bytes = static_cast<double>(RegionBytes(schedule, raw, bytes_));
  switch (step.kind) {
    case StepKind::kEncode: return bytes * p_.encode_ns_per_byte;
    case StepKind::kDecode: return bytes * p_.decode_ns_per_byte;
    case StepKind::kDecodeAdd: return bytes * (p_.decode_ns_per_byte + p_.gamma_ns_per_byte);
    case StepKind::kCopy: return bytes * p_.copy_ns_per_byte;
    case StepKind::kReduce:
    case StepKind::kRecvReduce: return bytes * p_.gamma_ns_per_byte;
    case StepKind::kSend:
    case StepKind::kRecv: return 0;
  }
  return 0;
}

void Simulation::Send(double now, GlobalStep at) {
  const int64_t bytes = Bytes(at, world_.At(at).src);
  const double wire = static_cast<double>(bytes) * p_.beta_ns_per_byte;
  const double sent = ranks_[at.rank].out.Use(now, wire);
  cost_.rank_bytes[at.rank] += bytes;
  events_.push({sent, at, Event::Kind::kComplete});
  events_.push({sent - wire + p_.alpha_ns, world_.PeerOf(at), Event::Kind::kArrives});
}

void Simulation::FinishReceive(double now, GlobalStep at) {
  if (!State(at).ready || !State(at).received) return;
  double done = now;
  if (world_.At(at).kind == StepKind::kRecvReduce) {
    done =
        ranks_[at.rank].processor.Use(now, LocalTime(world_.schedules()[at.rank], world_.At(at)));
  }
  events_.push({done, at, Event::Kind::kComplete});
}

void Simulation::Start(double now, GlobalStep at) {
  const Step& step = world_.At(at);
  State(at).ready = true;
  if (step.kind == StepKind::kSend) return Send(now, at);
  if (IsRecv(step.kind)) return FinishReceive(now, at);
  const double work = LocalTime(world_.schedules()[at.rank], step);
  events_.push({ranks_[at.rank].processor.Use(now, work), at, Event::Kind::kComplete});
}

void Simulation::Complete(double now, GlobalStep at) {
  ++complete_;
  cost_.rank_ns[at.rank] = std::max(cost_.rank_ns[at.rank], now);
  for (int32_t next : ranks_[at.rank].successors[at.step]) {
    if (--State({at.rank, next}).missing == 0) {
      events_.push({now, {at.rank, next}, Event::Kind::kReady});
    }
  }
}

void Simulation::Handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReady: return Start(event.time, event.at);
    case Event::Kind::kArrives: {
      const auto bytes = static_cast<double>(Bytes(event.at, world_.At(event.at).dst));
      const double received = ranks_[event.at.rank].in.Use(event.time, bytes * p_.beta_ns_per_byte);
      return events_.push({received, event.at, Event::Kind::kReceived});
    }
    case Event::Kind::kReceived:
      State(event.at).received = true;
      return FinishReceive(event.time, event.at);
    case Event::Kind::kComplete: return Complete(event.time, event.at);
  }
}

StatusOr<Cost> Simulation::Run() {
  Prepare();
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    Handle(event);
  }
  if (complete_ != world_.steps()) {
    return Status(gwInternalError, "the ranks wait for each other in a circle");
  }
  for (double ns : cost_.rank_ns) cost_.total_ns = std::max(cost_.total_ns, ns);
  return std::move(cost_);
}

}  // namespace

StatusOr<Cost> EstimateCost(std::span<const Schedule> schedules, const ShardBytes& bytes,
                            const CostParameters& parameters) {
  StatusOr<World> world = World::Make(schedules);
  if (!world.ok()) return world.status();
  return Simulation(*world, bytes, parameters).Run();
}

StatusOr<int> EncodesPerElem(std::span<const Schedule> schedules) {
  StatusOr<World> world = World::Make(schedules);
  if (!world.ok()) return world.status();
  StatusOr<SymbolicMemory> memory = RunSymbolically(*world, Placement::kApart);
  if (!memory.ok()) return memory.status();
  int most = 0;
  for (const Schedule& schedule : schedules) {
    for (size_t b = 0; b < schedule.buffers.size(); ++b) {
      if (schedule.buffers[b].role != BufferRole::kOutput) continue;
      for (const SymbolicValue& value : (*memory)[schedule.rank][b]) {
        most = std::max(most, value.encodes);
      }
    }
  }
  return most;
}

StatusOr<int> EncodesPerElem(const AlgorithmRow& row, int world_size) {
  return EncodesPerElem(MakeAll(row, std::min(world_size, kRanksOfAllRoles)));
}

}  // namespace gradwire
