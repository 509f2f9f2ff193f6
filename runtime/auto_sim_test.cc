// Spec `auto` with the engine that runs everywhere, over the simulated network in virtual time:
// there `none`'s time is known, and what `auto` costs can be told exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "compress/registry.h"
#include "runtime/sim_job.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kForEver = INT64_MAX / 2;
constexpr int kWarmUp = 60;
constexpr int kSteps = 500;
constexpr int kLastSteps = 100;

struct World {
  uint64_t seed = 1;
  int world_size = 2;
  double gbit_per_s = 1;
  int64_t latency_ns = 20 * kNsPerUs;
  double codec_ns_per_elem = 1;
  int64_t compute_ns = 0;
  double noise = 0;  // of computing: standard deviation of its logarithm
  int64_t slice_elems = 32 * 1024;
  std::vector<int64_t> elems;
};

// A codec that takes its rank so long; without it virtual time would not see what it costs.
class SlowCodec final : public PayloadCodec {
 public:
  SlowCodec(std::shared_ptr<const PayloadCodec> codec, double ns_per_elem, RankClock* clock)
      : codec_(std::move(codec)), ns_per_elem_(ns_per_elem), clock_(clock) {}

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
    clock_->Work(static_cast<int64_t>(ns_per_elem_ * static_cast<double>(elems)));
  }

  const std::shared_ptr<const PayloadCodec> codec_;
  const double ns_per_elem_;
  RankClock* const clock_;
};

// What all tensors travel as; kAutomatic: as the controller chooses.
constexpr int kAutomatic = -1;

std::shared_ptr<const AutoSpec> SlowAuto(const World& world, RankClock* clock) {
  AutoSpec spec = *MakeAutoSpec("auto");
  for (Rung& rung : spec.ladder) {
    if (rung.codec.payload == nullptr || rung.codec.payload->traits().lossless) continue;
    rung.codec.payload =
        std::make_shared<SlowCodec>(rung.codec.payload, world.codec_ns_per_elem, clock);
  }
  return std::make_shared<const AutoSpec>(std::move(spec));
}

// One rank's training: computes, submits each gradient when it is there, waits, ends the step.
class Trainer {
 public:
  Trainer(const World& world, SimJob* job, int rank, int rung)
      : world_(world), job_(job), rank_(rank), noise_(world.seed) {
    std::mt19937_64 random(world.seed * 100 + rank);
    std::normal_distribution<float> normal;
    for (size_t t = 0; t < world.elems.size(); ++t) {
      TensorState* tensor =
          me().Register("t" + std::to_string(t), world.elems[t], DType::kFloat32, "none");
      const std::shared_ptr<const AutoSpec> spec = SlowAuto(world, &clock());
      if (rung == kAutomatic) {
        me().SetAutomatic(tensor, spec);
      } else if (ExemptionFrom(spec->ladder[rung].codec, *tensor).empty()) {
        tensor->SetCodec(spec->ladder[rung].codec);
      }
      tensors_.push_back(tensor);
      gradients_.emplace_back(world.elems[t]);
      sums_.emplace_back(world.elems[t]);
      for (float& g : gradients_.back()) g = normal(random);
    }
  }

  // Its state, of the rank of the training that is taken up.
  void Load(const std::string& state) {
    std::string knowledge;
    EXPECT_TRUE(
        me().tensors().Load(TextBytes(state), rank_, world_.world_size, true, &knowledge).ok());
    me().controller()->Load(std::move(knowledge));
  }
  std::string Save() {
    return me().tensors().Save(rank_, world_.world_size, me().controller()->Save());
  }

  // The last step has ended too: nothing of it is under way when the job goes.
  bool finished() const { return begun_all() && state_ == State::kBegin; }
  int64_t next_ns() const { return state_ == State::kCompute ? wake_ns_ : INT64_MAX; }

  // True: it did something.
  bool Work() {
    switch (state_) {
      case State::kBegin: return Begin();
      case State::kCompute: return clock().NowNs() >= wake_ns_ && Submit();
      case State::kWait: return End();
      case State::kAwait: return Await();
    }
    return false;
  }

  // Of the last steps.
  int64_t TimeOf(int steps) const { return begins_ns_.back() - begins_ns_.end()[-1 - steps]; }
  int64_t WarmUpTime() const { return begins_ns_[kWarmUp] - begins_ns_[0]; }
  std::string codec(size_t tensor) const { return tensors_[tensor]->codec.spec; }

 private:
  enum class State { kBegin, kCompute, kWait, kAwait };

  JobRank& me() { return (*job_)[rank_]; }
  RankClock& clock() { return job_->clock(rank_); }
  bool begun_all() const { return begins_ns_.size() > kWarmUp + kSteps; }

  bool Begin() {
    if (begun_all()) return false;
    context_ = {.number = begins_ns_.size(), .turn = me().turn()};
    begins_ns_.push_back(clock().NowNs());
    me().BeginStep(context_);
    // The same on all ranks and whatever the plan.
    compute_ns_ = static_cast<int64_t>(static_cast<double>(world_.compute_ns) *
                                       std::exp(world_.noise * normal_(noise_)));
    operations_.clear();
    ComputeNext();
    return true;
  }

  // A third of the computing comes before the first gradient.
  void ComputeNext() {
    const auto all = static_cast<int64_t>(tensors_.size());
    const auto submitted = static_cast<int64_t>(operations_.size());
    state_ = State::kCompute;
    wake_ns_ = begins_ns_.back() + compute_ns_ * (all + 2 * (submitted + 1)) / (3 * all);
  }

  bool Submit() {
    const size_t t = operations_.size();
    const SubmittedTensor submitted = {tensors_[t],
                                       reinterpret_cast<const std::byte*>(gradients_[t].data()),
                                       reinterpret_cast<std::byte*>(sums_[t].data())};
    for (auto& o : me().SubmitTensors({&submitted, 1}, ReduceOp::kAvg, context_))
      operations_.push_back(std::move(o));
    if (operations_.size() < tensors_.size()) {
      ComputeNext();
    } else {
      blocked_.emplace(me().controller());
      state_ = State::kWait;
    }
    return true;
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
    blocked_.reset();
    state_ = State::kBegin;
    return true;
  }

  const World world_;
  SimJob* const job_;
  const int rank_;
  std::mt19937_64 noise_;
  std::normal_distribution<double> normal_;
  std::vector<TensorState*> tensors_;
  std::vector<std::vector<float>> gradients_, sums_;
  State state_ = State::kBegin;
  StepContext context_;
  Operations operations_;
  std::optional<Controller::Blocked> blocked_;
  int64_t compute_ns_ = 0, wake_ns_ = 0;
  std::vector<int64_t> begins_ns_;
};

struct Outcome {
  double warm_up_ns = 0;
  double steady_ns = 0;  // of the steps after the warm-up, at rank 0
  double last_ns = 0;    // of the last 100
  std::vector<std::string> codecs;
  std::string decisions;
  std::vector<std::string> states;  // by rank, at the end
};

// From the states that another training has left.
Outcome Train(const World& world, int rung, const std::vector<std::string>& states = {}) {
  constexpr double kBitsPerByte = 8;
  SimJob job({.world_size = world.world_size,
              .slice_elems = world.slice_elems,
              .network = {.seed = world.seed,
                          .alpha_ns = world.latency_ns,
                          .beta_ns_per_byte = kBitsPerByte / world.gbit_per_s}});
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int r = 0; r < world.world_size; ++r)
    trainers.push_back(std::make_unique<Trainer>(world, &job, r, rung));
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
  EXPECT_TRUE(job.RunUntil(done, kForEver, {.work = work, .next_ns = next_ns}));
  Outcome run = {.warm_up_ns = static_cast<double>(trainers[0]->WarmUpTime()),
                 .steady_ns = static_cast<double>(trainers[0]->TimeOf(kSteps)),
                 .last_ns = static_cast<double>(trainers[0]->TimeOf(kLastSteps)),
                 .decisions = job[0].controller()->Json()};
  for (size_t t = 0; t < world.elems.size(); ++t) run.codecs.push_back(trainers[0]->codec(t));
  for (auto& trainer : trainers) run.states.push_back(trainer->Save());
  return run;
}

const std::vector<int64_t> kModel = {8 * 1024, 48 * 1024, 24 * 1024, 2 * 1024};

TEST(AutoOverTheEngine, CompressesOnASlowLink) {
  const World world = {.gbit_per_s = 0.1, .compute_ns = 2 * kNsPerMs, .elems = kModel};
  const Outcome none = Train(world, kNoneRung), automatic = Train(world, kAutomatic);
  EXPECT_LT(automatic.steady_ns, 0.25 * none.steady_ns) << automatic.decisions;
  // The last tensor is too small to be probed; that keeps nobody from probing the others.
  EXPECT_TRUE(automatic.codecs[1].starts_with("qsgd(bits=4")) << automatic.codecs[1];
}

TEST(AutoOverTheEngine, LeavesAloneWhatHidesBehindComputing) {
  const World world = {.gbit_per_s = 100, .compute_ns = 20 * kNsPerMs, .elems = kModel};
  const Outcome none = Train(world, kNoneRung), automatic = Train(world, kAutomatic);
  EXPECT_GE(none.steady_ns, 0.98 * automatic.steady_ns) << automatic.decisions;
  for (const std::string& codec : automatic.codecs) EXPECT_EQ(codec, "none");
}

TEST(AutoOverTheEngine, GoesOnFromASavedStateWithoutAWarmUp) {
  const World world = {.gbit_per_s = 0.1, .compute_ns = 2 * kNsPerMs, .elems = kModel};
  const Outcome first = Train(world, kAutomatic);
  const Outcome resumed = Train(world, kAutomatic, first.states);
  EXPECT_THAT(resumed.decisions, HasSubstr("resumed from a saved state"));
  EXPECT_THAT(resumed.decisions, Not(HasSubstr("warm-up")));
  EXPECT_EQ(resumed.codecs, first.codecs);
  EXPECT_LT(resumed.warm_up_ns, 0.6 * first.warm_up_ns);
  EXPECT_LT(resumed.steady_ns, 1.02 * first.steady_ns);
}

TEST(AutoOverTheEngine, WarmsUpWhereTheSavedStateIsOfOtherSettings) {
  const World world = {.gbit_per_s = 0.1, .compute_ns = 2 * kNsPerMs, .elems = kModel};
  World other = world;
  other.slice_elems = 2 * world.slice_elems;
  const Outcome resumed = Train(other, kAutomatic, Train(world, kAutomatic).states);
  EXPECT_THAT(resumed.decisions, HasSubstr("the saved controller is of other tensors or settings"));
  EXPECT_THAT(resumed.decisions, HasSubstr("warm-up: none is measured"));
}

World DrawWorld(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>()(random));
  };
  World world = {.seed = seed,
                 .world_size = 2 + static_cast<int>(random() % 3),
                 .gbit_per_s = between(0.1, 100),
                 .latency_ns = static_cast<int64_t>(between(5e3, 5e5)),
                 .codec_ns_per_elem = between(0.1, 4),
                 .noise = between(0.03, 0.1),
                 .elems = kModel};
  const double bytes = 4.0 * static_cast<double>(std::reduce(kModel.begin(), kModel.end()));
  world.compute_ns = static_cast<int64_t>(bytes * 8 / world.gbit_per_s * between(0.1, 5));
  return world;
}

TEST(AutoOverTheEngine, IsNeverMuchSlowerThanNone) {
  constexpr uint64_t kSeeds = kSanitized ? 2 : 8;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const World world = DrawWorld(seed);
    const Outcome none = Train(world, kNoneRung), automatic = Train(world, kAutomatic);
    EXPECT_GE(none.steady_ns, 0.98 * automatic.steady_ns)
        << "seed " << seed << " " << automatic.decisions;
  }
}

TEST(AutoOverTheEngine, FindsTheBestFixedCodec) {
  constexpr int kRungs = 5;
  constexpr uint64_t kSeeds = kSanitized ? 1 : 3;
  for (uint64_t seed = 3; seed < 3 + kSeeds; ++seed) {
    const World world = DrawWorld(seed);
    const Outcome automatic = Train(world, kAutomatic);
    for (int rung = 0; rung < kRungs; ++rung) {
      EXPECT_LE(automatic.last_ns, 1.05 * Train(world, rung).last_ns)
          << "seed " << seed << " rung " << rung << " " << automatic.decisions;
    }
  }
}

}  // namespace
}  // namespace gradwire
