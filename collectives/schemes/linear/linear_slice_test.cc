// Carrier methods of the registry over any all-reduce: exact where the method is, with residuals
// sent on and groups of tensors in one array.
#include "collectives/schemes/linear/linear_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "collectives/schemes/slice_world.h"
#include "compress/registry.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

// Small integers: sums are exact in every order.
struct Tensor {
  std::vector<float> grad, out;
  std::vector<float> e_in, e_out, local_in, local_out;
  std::vector<std::byte> replicated_in, replicated_out;
};

struct Case {
  std::string algorithm;
  int n = 1;
  std::vector<int64_t> sizes;
  bool residual = false;
  float out_scale = 1.0f;
  int64_t slice_elems = 4096;
  std::string spec = "none";
  int64_t run_bytes = 1 << 21;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), codec_(*MakeCodec(c.spec)), ranks_(c.n) {
    RandomStream random(c.n);
    for (auto& tensors : ranks_) {
      for (int64_t elems : c.sizes) {
        Tensor t;
        for (int64_t i = 0; i < elems; ++i) {
          t.grad.push_back(static_cast<float>(random.Below(2000)) - 1000.0f);
          t.e_in.push_back(static_cast<float>(random.Below(64)) / 8);
        }
        t.out.resize(elems, -7);
        t.e_out.resize(elems, -7);
        t.local_in.resize(codec_.carrier->KeepsLocal() ? elems : 0);
        t.local_out.resize(t.local_in.size(), -7);
        t.replicated_in.resize(codec_.carrier->ReplicatedBytes({.elems = elems}, c.n));
        t.replicated_out.resize(t.replicated_in.size());
        tensors.push_back(std::move(t));
      }
    }
  }

  void Run() {
    const auto schedules =
        PrepareAll(**FindAlgorithm(Collective::kAllReduce, case_.algorithm), case_.n);
    std::vector<std::vector<TensorPart>> parts(case_.n);
    for (int r = 0; r < case_.n; ++r) {
      for (Tensor& t : ranks_[r]) parts[r].push_back(PartOf(&t));
    }
    const auto cuts = CutIntoSlices(parts[0], case_.slice_elems);
    for (size_t index = 0; index < cuts.size(); ++index) {
      std::vector<std::unique_ptr<SliceOp>> slices;
      for (int r = 0; r < case_.n; ++r) {
        const PartContext context = {.rank = r,
                                     .world_size = case_.n,
                                     .out_scale = case_.out_scale,
                                     .clock = &SteadyClock()};
        slices.push_back(std::make_unique<LinearSlice>(parts[r], context, cuts[index],
                                                       schedules[r].get(), case_.run_bytes));
      }
      const Status status = RunSlices(slices, index);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  void Check() {
    for (size_t t = 0; t < case_.sizes.size(); ++t) {
      for (int64_t i = 0; i < case_.sizes[t]; ++i) {
        float sum = 0;
        for (auto& tensors : ranks_) {
          sum += tensors[t].grad[i] + (case_.residual ? tensors[t].e_in[i] : 0.0f);
        }
        for (int r = 0; r < case_.n; ++r) {
          ASSERT_EQ(ranks_[r][t].out[i], sum * case_.out_scale)
              << "rank " << r << " tensor " << t << " at " << i;
        }
      }
    }
  }

  // The same, to run by another algorithm.
  World By(const std::string& algorithm) const {
    World other = *this;
    other.case_.algorithm = algorithm;
    return other;
  }

  // The next step begins with what this one has kept, and other gradients.
  void TakeStep() {
    ++step_;
    for (auto& tensors : ranks_) {
      for (Tensor& t : tensors) {
        std::rotate(t.grad.begin(), t.grad.begin() + std::min<size_t>(1, t.grad.size()),
                    t.grad.end());
        t.e_in = t.e_out;
        t.local_in = t.local_out;
        t.replicated_in = t.replicated_out;
      }
    }
  }

  const Tensor& At(int rank, size_t tensor) const { return ranks_[rank][tensor]; }
  const std::vector<float>& out(int rank, size_t tensor) const { return At(rank, tensor).out; }

 private:
  TensorPart PartOf(Tensor* t) {
    const auto elems = static_cast<int64_t>(t->grad.size());
    const auto bytes = static_cast<int64_t>(t->replicated_in.size());
    TensorPart part = {.grad = FloatView(std::as_const(t->grad).data(), elems),
                       .out = FloatView(t->out.data(), elems),
                       .replicated_in = {t->replicated_in.data(), bytes},
                       .replicated_out = {t->replicated_out.data(), bytes},
                       .dither_step = step_,
                       .method = codec_.carrier.get(),
                       .quantum_elems = codec_.carrier->QuantumElems({}, case_.n),
                       .has_residual = case_.residual};
    if (case_.residual) {
      part.e_in = FloatView(std::as_const(t->e_in).data(), elems);
      part.e_out = FloatView(t->e_out.data(), elems);
    }
    if (codec_.carrier->KeepsLocal()) {
      part.local_in = FloatView(std::as_const(t->local_in).data(), elems);
      part.local_out = FloatView(t->local_out.data(), elems);
    }
    return part;
  }

  Case case_;
  Codec codec_;
  std::vector<std::vector<Tensor>> ranks_;
  uint32_t step_ = 0;
};

void Check(const Case& c) {
  SCOPED_TRACE(c.algorithm + ", " + std::to_string(c.n) + " ranks");
  World world(c);
  ASSERT_NO_FATAL_FAILURE(world.Run());
  world.Check();
}

TEST(LinearSlice, SumsGroupsExactlyByEveryAlgorithm) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.encoded || row.collective != Collective::kAllReduce) continue;
    for (int n : {1, 2, 3, 5}) Check({.algorithm = row.name, .n = n, .sizes = {300, 0, 9001, 1}});
  }
}

// More of them than a run's number counts to; event_driver_test has them on the wire.
TEST(LinearSlice, SumsOneRoundInManyRuns) {
  for (int n : {2, 3}) Check({.algorithm = "ring", .n = n, .sizes = {5000, 300}, .run_bytes = 64});
  Check({.algorithm = "tree", .n = 5, .sizes = {5000}, .run_bytes = 4096});
}

TEST(LinearSlice, SendsWhatWasKeptBack) {
  Check({.algorithm = "ring", .n = 3, .sizes = {5000, 70}, .residual = true});
}

TEST(LinearSlice, ScalesOnceAtTheOutput) {
  Check({.algorithm = "direct", .n = 3, .sizes = {5000}, .out_scale = 1.0f / 3.0f});
}

TEST(LinearSlice, TakesPiecesLongerThanAQuantum) {
  Check({.algorithm = "direct", .n = 2, .sizes = {150'000}, .slice_elems = 1 << 18});
}

// What is done until the first run, or rounds without one: filling and absorbing.
int ComputesBeforeTheFirstRun(ConstBytes replicated) {
  const Codec codec = *MakeCodec("intsgd");
  const std::vector<float> grad(300, 1.0f);
  std::vector<float> out(300);
  std::vector<std::byte> next(replicated.size);
  const std::vector<TensorPart> parts = {{.grad = FloatView(grad.data(), 300),
                                          .out = FloatView(out.data(), 300),
                                          .replicated_in = replicated,
                                          .replicated_out = {next.data(), replicated.size},
                                          .method = codec.carrier.get()}};
  const auto schedules = PrepareAll(**FindAlgorithm(Collective::kAllReduce, "ring"), 2);
  const auto cuts = CutIntoSlices(parts, 4096);
  LinearSlice slice(parts, {.world_size = 2, .clock = &SteadyClock()}, cuts[0], schedules[0].get(),
                    1 << 21);
  int computes = 0;
  while (slice.Next()->kind == SliceAction::Kind::kCompute) {
    ++computes;
    EXPECT_TRUE(*slice.ComputeLocal());
  }
  return computes;
}

// A scale from the past needs no round.
TEST(LinearSlice, RoundsOfNoElementsAreNotRun) {
  const float none = 0, some = 300;
  EXPECT_EQ(ComputesBeforeTheFirstRun({reinterpret_cast<const std::byte*>(&none), 4}), 1);
  EXPECT_EQ(ComputesBeforeTheFirstRun({reinterpret_cast<const std::byte*>(&some), 4}), 3);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Bit for bit on every rank, what it keeps too: in whichever order an algorithm adds, and wherever
// it cuts.
void CheckSame(const Case& c, const World& expected, const World& actual) {
  SCOPED_TRACE(c.spec + " by " + c.algorithm + ", " + std::to_string(c.n) + " ranks");
  for (size_t t = 0; t < c.sizes.size(); ++t) {
    for (int r = 0; r < c.n; ++r) {
      SCOPED_TRACE("rank " + std::to_string(r) + ", tensor " + std::to_string(t));
      const Tensor &kept = expected.At(r, t), &now = actual.At(r, t);
      ASSERT_TRUE(SameBits(now.out, expected.out(0, t)));
      ASSERT_TRUE(SameBits(now.e_out, kept.e_out));
      ASSERT_TRUE(SameBits(now.local_out, kept.local_out));
      ASSERT_EQ(now.replicated_out, expected.At(0, t).replicated_out);
    }
  }
}

// All algorithms take the step that `expected` has taken.
void CheckAlgorithms(const World& before, const World& expected, Case c) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.encoded || row.collective != Collective::kAllReduce) continue;
    c.algorithm = row.name;
    World actual = before.By(row.name);
    ASSERT_NO_FATAL_FAILURE(actual.Run());
    ASSERT_NO_FATAL_FAILURE(CheckSame(c, expected, actual));
  }
}

// In the first step and in one that begins with what that has kept.
TEST(LinearSlice, EveryAlgorithmGivesTheSameIntegerSum) {
  for (const char* spec : {"qsgd(bits=4,sum=carrier)", "qsgd(bits=4,sum=carrier,feedback=on)",
                           "qsgd(bits=8,sum=carrier)", "terngrad", "signsgd",
                           "signsgd(momentum=0.9)", "intsgd", "intsgd(bits=32)"}) {
    for (int n = 2; n <= 16; n += kSanitized ? 7 : 1) {
      const Case c = {
          .algorithm = "direct", .n = n, .sizes = {1500, 70}, .residual = true, .spec = spec};
      World world(c);
      for (int step = 0; step < 2; ++step) {
        const World before = world;
        ASSERT_NO_FATAL_FAILURE(world.Run());
        // Not of nothing: a rank's part of the sum would show.
        EXPECT_GT(std::set<float>(world.out(0, 0).begin(), world.out(0, 0).end()).size(), 1u);
        ASSERT_NO_FATAL_FAILURE(CheckAlgorithms(before, world, c));
        world.TakeStep();
      }
    }
  }
}

// Blocks of 240, 320, 256 and 288 elements: long pieces are filled in parts that hold whole ones.
TEST(LinearSlice, CutsChangeNoIntegerSum) {
  const std::pair<const char*, int> cases[] = {{"qsgd(bits=4,sum=carrier)", 3},
                                               {"terngrad", 2},
                                               {"qsgd(bits=8,sum=carrier)", 5},
                                               {"terngrad", 9}};
  for (const auto& [spec, n] : cases) {
    SCOPED_TRACE(std::string(spec) + ", " + std::to_string(n) + " ranks");
    Case c = {.algorithm = "ring", .n = n, .sizes = {150'000, 70, 1}, .spec = spec};
    World cut(c);
    ASSERT_NO_FATAL_FAILURE(cut.Run());
    c.slice_elems = 1 << 18;
    World whole(c);
    ASSERT_NO_FATAL_FAILURE(whole.Run());
    for (size_t t = 0; t < c.sizes.size(); ++t) {
      EXPECT_EQ(cut.out(0, t), whole.out(0, t)) << "tensor " << t;
      EXPECT_EQ(whole.out(n - 1, t), whole.out(0, t)) << "tensor " << t;
    }
  }
}

}  // namespace
}  // namespace gradwire
