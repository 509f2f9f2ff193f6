#include "runtime/sim/sim_training.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "base/byte_stream.h"
#include "collectives/schedule.h"
#include "compress/registry.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

constexpr int64_t kForEver = INT64_MAX / 2;
constexpr double kDriftSteps = 150;  // from fast to slow and back
constexpr int kFlipSteps = 50;       // that a state lasts on average

// A codec that takes its rank so long; without it virtual time would not see what it costs.
class SlowCodec final : public PayloadCodec {
 public:
  // What the rank's codecs cost, of which `ns` is so far the sum.
  struct Cost {
    double ns_per_elem = 0;
    double slowdown = 1;
    int64_t ns = 0;
    RankClock* clock = nullptr;
  };

  SlowCodec(std::shared_ptr<const PayloadCodec> codec, Cost* cost)
      : codec_(std::move(codec)), cost_(cost) {}

  const CodecTraits& traits() const override { return codec_->traits(); }
  int64_t MaxBytes(int64_t elems) const override { return codec_->MaxBytes(elems); }
  int64_t WorkspaceBytes(int64_t elems) const override { return codec_->WorkspaceBytes(elems); }
  Status Encode(const EncodeArgs& args) const override {
    Work(args.grad.elems);
    return codec_->Encode(args);
  }
  Status Decode(ConstBytes payload, View out, float out_scale,
                ExecContext* context) const override {
    Work(out.elems);
    return codec_->Decode(payload, out, out_scale, context);
  }
  Status DecodeAdd(ConstBytes payload, View acc, ExecContext* context) const override {
    Work(acc.elems);
    return codec_->DecodeAdd(payload, acc, context);
  }

 private:
  void Work(int64_t elems) const {
    const auto ns =
        static_cast<int64_t>(cost_->ns_per_elem * cost_->slowdown * static_cast<double>(elems));
    cost_->ns += ns;
    cost_->clock->Work(ns);
  }

  const std::shared_ptr<const PayloadCodec> codec_;
  Cost* const cost_;  // the rank's; nothing is encoded when that has gone
};

std::shared_ptr<const AutoSpec> SlowAuto(const SimWorld& world, SlowCodec::Cost* cost) {
  AutoSpec spec = *MakeAutoSpec("auto");
  std::vector<Rung> ladder;
  for (const int rung : world.rungs) {
    ladder.push_back(spec.ladder[rung]);
    std::shared_ptr<const PayloadCodec>& codec = ladder.back().codec.payload;
    if (codec == nullptr || codec->traits().lossless) continue;
    codec = std::make_shared<SlowCodec>(codec, cost);
  }
  spec.ladder = std::move(ladder);
  return std::make_shared<const AutoSpec>(std::move(spec));
}

// How much slower than usual steps are, the same on all ranks.
class Weather {
 public:
  explicit Weather(const SimWorld& world)
      : world_(world), random_(world.seed), states_(world.seed + 1) {}

  struct Slowdown {
    double machine = 1, compute = 1, wire = 1;
  };
  Slowdown Next() {
    if (std::uniform_int_distribution<int>(1, kFlipSteps)(states_) == 1) flipped_ = !flipped_;
    const double phase = 2 * std::numbers::pi * static_cast<double>(step_++) / kDriftSteps;
    const double machine =
        (1 + world_.drift * (1 - std::cos(phase)) / 2) * (flipped_ ? 1 + world_.flip : 1);
    const double compute = machine * std::exp(world_.compute_noise * normal_(random_));
    return {machine, compute, machine * std::exp(world_.wire_noise * normal_(random_))};
  }

 private:
  const SimWorld world_;
  std::mt19937_64 random_, states_;
  std::normal_distribution<double> normal_;
  int step_ = 0;
  bool flipped_ = false;
};

// One rank's training: computes, submits each gradient when it is there, waits, ends the step.
class Trainer {
 public:
  // `plans` by step, empty: as the controller chooses.
  Trainer(const SimWorld& world, SimJob* job, int rank, const std::vector<Plan>& plans)
      : world_(world),
        job_(job),
        rank_(rank),
        plans_(plans),
        steps_(plans.empty() ? world.steps : static_cast<int>(plans.size())),
        weather_(world),
        cost_{.ns_per_elem = world.codec_ns_per_elem, .clock = &job->clock(rank)},
        spec_(SlowAuto(world, &cost_)) {
    std::mt19937_64 random(world.seed * 100 + rank);
    std::normal_distribution<float> normal;
    for (size_t t = 0; t < world.elems.size(); ++t) {
      TensorState* tensor =
          me().Register("t" + std::to_string(t), world.elems[t], DType::kFloat32, "none");
      if (plans.empty()) me().SetAutomatic(tensor, spec_);
      tensors_.push_back(tensor);
      gradients_.emplace_back(world.elems[t]);
      sums_.emplace_back(world.elems[t]);
      for (float& g : gradients_.back()) g = normal(random);
    }
  }

  // Its state, of the rank of the training that is taken up.
  void Load(const std::string& state) {
    std::string knowledge;
    if (!me().tensors().Load(TextBytes(state), rank_, world_.world_size, true, &knowledge).ok())
      std::abort();
    me().controller()->Load(std::move(knowledge));
  }
  std::string Save() {
    return me().tensors().Save(rank_, world_.world_size, me().controller()->Save());
  }

  // The last step has ended too: nothing of it is under way when the job goes.
  bool finished() const { return begun_all() && state_ == State::kBegin; }
  int64_t next_ns() const { return state_ == State::kCompute ? wake_ns() : INT64_MAX; }

  // True: it did something.
  bool Work() {
    switch (state_) {
      case State::kBegin: return Begin();
      case State::kCompute: return clock().NowNs() >= wake_ns() && Submit();
      case State::kWait: return End();
      case State::kAwait: return Await();
    }
    return false;
  }

  std::vector<int64_t> StepTimes() const {
    std::vector<int64_t> times(begins_ns_.size());
    std::adjacent_difference(begins_ns_.begin(), begins_ns_.end(), times.begin());
    times.erase(times.begin());
    return times;
  }
  const std::vector<Plan>& followed() const { return followed_; }
  std::string codec(size_t tensor) const { return tensors_[tensor]->codec.spec; }

 private:
  enum class State { kBegin, kCompute, kWait, kAwait };

  JobRank& me() { return (*job_)[rank_]; }
  RankClock& clock() { return job_->clock(rank_); }
  // One more, so that the last one's time is known.
  bool begun_all() const { return static_cast<int>(begins_ns_.size()) > steps_; }

  bool Begin() {
    if (begun_all()) return false;
    FollowPlan();
    context_ = {.number = begins_ns_.size(), .turn = me().turn()};
    begins_ns_.push_back(clock().NowNs());
    me().BeginStep(context_);
    const Weather::Slowdown slowdown = weather_.Next();
    if (rank_ == 0) job_->network().SlowDown(slowdown.wire);
    cost_.slowdown = slowdown.machine;
    cost_.ns = 0;
    compute_ns_ = static_cast<int64_t>(static_cast<double>(world_.compute_ns) * slowdown.compute);
    const bool is_late = rank_ == world_.world_size - 1 && context_.number >= world_.late_from_step;
    if (is_late) compute_ns_ += world_.late_ns;
    operations_.clear();
    followed_.emplace_back();
    state_ = State::kCompute;
    return true;
  }

  void FollowPlan() {
    if (plans_.empty()) return;
    const Plan& plan = plans_[std::min(begins_ns_.size(), plans_.size() - 1)];
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const Codec& codec = spec_->ladder[plan[t]].codec;
      const bool can = ExemptionFrom(codec, *tensors_[t]).empty();
      tensors_[t]->TakeRung(can ? codec : spec_->ladder[0].codec, world_.world_size);
    }
  }

  // The next gradient is there. A third of the computing comes before the first one.
  int64_t wake_ns() const {
    const auto all = static_cast<int64_t>(tensors_.size());
    const auto submitted = static_cast<int64_t>(operations_.size());
    const double shared_ns = world_.shared_cores * static_cast<double>(cost_.ns);
    return begins_ns_.back() + compute_ns_ * (all + 2 * (submitted + 1)) / (3 * all) +
           static_cast<int64_t>(shared_ns);
  }

  bool Submit() {
    const size_t t = operations_.size();
    const SubmittedTensor submitted = {tensors_[t],
                                       reinterpret_cast<const std::byte*>(gradients_[t].data()),
                                       reinterpret_cast<std::byte*>(sums_[t].data())};
    for (auto& o : me().SubmitTensors({&submitted, 1}, ReduceOp::kAvg, context_))
      operations_.push_back(std::move(o));
    followed_.back().push_back(RungOf(*tensors_[t]));
    if (operations_.size() < tensors_.size()) return true;
    waits_since_ns_ = clock().NowNs();
    state_ = State::kWait;
    return true;
  }

  uint8_t RungOf(const TensorState& tensor) const {
    uint8_t rung = 0;
    while (spec_->ladder[rung].codec.spec != tensor.codec.spec) ++rung;
    return rung;
  }

  bool End() {
    for (const auto& operation : operations_) {
      if (!operation->done.load()) return false;
    }
    me().EndStep(context_);
    state_ = State::kAwait;
    return true;
  }

  bool Await() {
    if (me().turn() == context_.turn) return false;
    me().controller()->NoteBlocked(clock().NowNs() - waits_since_ns_);
    me().LeaveStep();
    state_ = State::kBegin;
    return true;
  }

  const SimWorld world_;
  SimJob* const job_;
  const int rank_;
  const std::vector<Plan> plans_;
  const int steps_;
  Weather weather_;
  SlowCodec::Cost cost_;
  const std::shared_ptr<const AutoSpec> spec_;
  std::vector<TensorState*> tensors_;
  std::vector<std::vector<float>> gradients_, sums_;
  State state_ = State::kBegin;
  StepContext context_;
  Operations operations_;
  int64_t compute_ns_ = 0, waits_since_ns_ = 0;
  std::vector<int64_t> begins_ns_;
  std::vector<Plan> followed_;  // by step
};

// What the library takes for long tensors, whose place the simulation's short ones take.
const AlgorithmRow* LongExactSums(int world_size) {
  constexpr int64_t kLongBytes = 1 << 20;
  const StatusOr<const AlgorithmRow*> row = ChooseAlgorithm(
      {.collective = Collective::kAllReduce, .world_size = world_size, .bytes = kLongBytes});
  if (!row.ok()) std::abort();
  return *row;
}

SimTrained Train(const SimWorld& world, const std::vector<Plan>& plans,
                 const std::vector<std::string>& states) {
  constexpr double kBitsPerByte = 8;
  SimJob job({.world_size = world.world_size,
              .slice_elems = world.slice_elems,
              .window = world.window,
              .exact = LongExactSums(world.world_size),
              .network = {.seed = world.seed,
                          .alpha_ns = world.latency_ns,
                          .beta_ns_per_byte = kBitsPerByte / world.gbit_per_s},
              .idle_ranks_rest = true});
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int r = 0; r < world.world_size; ++r)
    trainers.push_back(std::make_unique<Trainer>(world, &job, r, plans));
  for (size_t r = 0; r < states.size(); ++r) trainers[r]->Load(states[r]);
  const auto done = [&] {
    return std::all_of(trainers.begin(), trainers.end(), [](auto& t) { return t->finished(); });
  };
  const auto next_ns = [&] {
    int64_t next = INT64_MAX;
    for (const auto& trainer : trainers) {
      const int64_t wake_ns = trainer->next_ns();
      if (wake_ns > job.now_ns()) next = std::min(next, wake_ns);
    }
    return next;
  };
  const auto work = [&](int rank) { return trainers[rank]->Work(); };
  // Whoever hangs is a failure of engine_sim_test.
  if (!job.RunUntil(done, kForEver, {.work = work, .next_ns = next_ns})) std::abort();
  SimTrained trained = {.step_ns = trainers[0]->StepTimes(),
                        .plans = trainers[0]->followed(),
                        .decisions = job[0].controller()->Json()};
  trained.plans.resize(trained.step_ns.size());
  for (size_t t = 0; t < world.elems.size(); ++t) trained.codecs.push_back(trainers[0]->codec(t));
  for (auto& trainer : trainers) trained.states.push_back(trainer->Save());
  return trained;
}

}  // namespace

double SimTrained::Ns(size_t begin, size_t end) const {
  const auto at = [&](size_t step) { return step_ns.begin() + static_cast<std::ptrdiff_t>(step); };
  return std::accumulate(at(begin), at(end), 0.0);
}

SimTrained TrainAuto(const SimWorld& world, const std::vector<std::string>& states) {
  return Train(world, {}, states);
}

SimTrained TrainOn(const SimWorld& world, const std::vector<Plan>& plans) {
  return Train(world, plans, {});
}

SimTrained TrainOn(const SimWorld& world, int rung) {
  return TrainOn(
      world, std::vector<Plan>(world.steps, Plan(world.elems.size(), static_cast<uint8_t>(rung))));
}

std::map<Plan, double> CalmNs(const SimWorld& world, const std::vector<Plan>& plans, int rounds) {
  SimWorld calm = world;
  calm.compute_noise = calm.wire_noise = calm.drift = calm.flip = 0;
  std::vector<Plan> steps = {plans[0]};  // the first one is shorter: no rank is late for it
  for (int round = 0; round < rounds; ++round)
    steps.insert(steps.end(), plans.begin(), plans.end());
  const SimTrained trained = TrainOn(calm, steps);
  std::map<Plan, double> times;
  for (size_t i = 1; i < steps.size(); ++i)
    times[steps[i]] += static_cast<double>(trained.step_ns[i]) / rounds;
  return times;
}

}  // namespace gradwire
