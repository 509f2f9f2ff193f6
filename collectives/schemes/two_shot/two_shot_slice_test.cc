// The scheme's cuts and its law: what the ranks put in is what comes out plus what they keep.
#include "collectives/schemes/two_shot/two_shot_slice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"
#include "collectives/schemes/slice_world.h"
#include "compress/registry.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

constexpr int64_t kSliceElems = 8192;

const char* const kSpecs[] = {"qsgd(bits=4)", "qsgd(bits=8,block=768)",  "bf16", "fp16",
                              "efsign",       "qsgd(bits=2,feedback=on)"};

struct Tensor {
  Codec codec;
  std::vector<float> grad, out, e_in, e_out;
  bool in_place = false;  // e_in becomes e_out
  bool in_gradient_units = false;
};

// `out` has the result of an all-reduce or, of a reduce-scatter, one shard.
TensorPart PartOf(Tensor* t, uint64_t id) {
  const auto elems = static_cast<int64_t>(t->grad.size());
  TensorPart part = {.grad = FloatView(std::as_const(t->grad).data(), elems),
                     .out = FloatView(t->out.data(), static_cast<int64_t>(t->out.size())),
                     .tensor_id = id,
                     .codec = t->codec.payload.get(),
                     .in_gradient_units = t->in_gradient_units};
  if (t->e_in.empty()) return part;
  part.e_in = FloatView(std::as_const(t->e_in).data(), elems);
  if (t->codec.feedback == Feedback::kOff) return part;  // of an earlier codec
  part.e_out = FloatView(t->in_place ? t->e_in.data() : t->e_out.data(), elems);
  return part;
}

struct Rank {
  std::vector<Tensor> tensors;
  std::vector<TensorPart> parts;
};

// All ranks' tensors and one operation over them.
class World {
 public:
  World(int n, const std::vector<std::pair<int64_t, std::string>>& tensors, uint64_t seed,
        Collective collective = Collective::kAllReduce)
      : seed_(seed), collective_(collective), ranks_(n) {
    RandomStream random(seed);
    for (Rank& rank : ranks_) {
      for (const auto& [elems, spec] : tensors) {
        Tensor t = {.codec = *MakeCodec(spec)};
        for (int64_t i = 0; i < elems; ++i) {
          t.grad.push_back(static_cast<float>(random.Unit() - 0.5));
          if (t.codec.feedback == Feedback::kOn)
            t.e_in.push_back(static_cast<float>(random.Unit() - 0.5) * 0.1f);
        }
        t.out.resize(scatters() ? elems / n : elems, -7);
        t.e_out.resize(t.e_in.size(), -7);
        rank.tensors.push_back(std::move(t));
      }
    }
  }

  Tensor& At(int rank, int tensor) { return ranks_[rank].tensors[tensor]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool scatters() const { return collective_ == Collective::kReduceScatter; }

  // `sent_p2`: of what all ranks have encoded of their own and of sums; may be null.
  void Run(float out_scale = 1.0f, float in_scale = 1.0f, double* sent_p2 = nullptr) {
    for (Rank& rank : ranks_) {
      rank.parts.clear();
      for (size_t t = 0; t < rank.tensors.size(); ++t)
        rank.parts.push_back(PartOf(&rank.tensors[t], t + 1));
    }
    const auto schedules = PrepareAll(**FindAlgorithm(collective_, "two_shot", true), size());
    const auto cuts = scatters() ? CutShardsIntoSlices(ranks_[0].parts[0], size(), kSliceElems)
                                 : CutIntoSlices(ranks_[0].parts, kSliceElems);
    for (size_t index = 0; index < cuts.size(); ++index) {
      std::vector<std::unique_ptr<SliceOp>> slices;
      for (int r = 0; r < size(); ++r) {
        const PartContext context = {.rank = r,
                                     .world_size = size(),
                                     .in_scale = in_scale,
                                     .out_scale = out_scale,
                                     .seed = 5,
                                     .clock = &SteadyClock()};
        slices.push_back(std::make_unique<TwoShotSlice>(ranks_[r].parts, context, cuts[index],
                                                        schedules[r].get()));
      }
      const Status status = RunSlices(slices, seed_ + index);
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (const std::unique_ptr<SliceOp>& slice : slices) {
        if (sent_p2 != nullptr) *sent_p2 += slice->stats().sum_p2;
      }
    }
  }

  // sum(g + e), out + sum e' and the sum of magnitudes at one element.
  struct Balance {
    double in = 0, out = 0, size = 0;
  };
  Balance At(int tensor, int64_t i) {
    const int64_t shard = static_cast<int64_t>(ranks_[0].tensors[tensor].out.size());
    Balance b = {.out = ranks_[i / shard].tensors[tensor].out[i % shard]};
    for (Rank& rank : ranks_) {
      const Tensor& t = rank.tensors[tensor];
      b.in += static_cast<double>(t.grad[i]) + (t.e_in.empty() ? 0 : t.e_in[i]);
      b.out += t.e_out.empty() ? 0 : t.e_out[i];
      b.size += std::abs(t.grad[i]) + (t.e_in.empty() ? 0 : std::abs(t.e_in[i]));
    }
    return b;
  }

 private:
  const uint64_t seed_;
  const Collective collective_;
  std::vector<Rank> ranks_;
};

std::vector<std::pair<int64_t, std::string>> RandomTensors(RandomStream* random) {
  std::vector<std::pair<int64_t, std::string>> tensors(1 + random->Below(5));
  for (auto& [elems, spec] : tensors) {
    elems = static_cast<int64_t>(random->Below(random->Below(3) == 0 ? 200'000 : 4000));
    spec = kSpecs[random->Below(std::size(kSpecs))];
  }
  return tensors;
}

TEST(CutIntoShards, CoversEveryElementOnceAtCutsWithEvenPayloads) {
  RandomStream random(3);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const int n = static_cast<int>(2 + random.Below(7));
    std::vector<TensorPart> parts;
    std::vector<Codec> codecs;
    for (const char* spec : kSpecs) codecs.push_back(*MakeCodec(spec));
    std::vector<Piece> slice;
    int64_t total = 0, largest_cut = 0;
    for (int p = 0; p < static_cast<int>(1 + random.Below(5)); ++p) {
      const auto elems = static_cast<int64_t>(1 + random.Below(random.Below(3) ? 4000 : 300'000));
      parts.push_back({.grad = {nullptr, elems, DType::kFloat32},
                       .codec = codecs[random.Below(codecs.size())].payload.get()});
      slice.push_back({.part = p, .first = 0, .elems = elems});
      total += parts[p].codec->MaxBytes(elems);
      largest_cut = std::max(largest_cut, parts[p].codec->MaxBytes(CutElemsOf(parts[p])));
    }
    const std::vector<ShardPlan> shards = CutIntoShards(slice, parts, n);
    ASSERT_EQ(shards.size(), static_cast<size_t>(n));
    size_t part = 0;
    int64_t at = 0, payload_bytes = 0;
    for (const ShardPlan& shard : shards) {
      int64_t row = 0, offset = 0;
      for (const Piece& piece : shard.pieces) {
        if (at == parts[part].grad.elems) ++part, at = 0;
        ASSERT_EQ(piece.part, static_cast<int>(part));
        ASSERT_EQ(piece.first, at);
        ASSERT_EQ(piece.first % CutElemsOf(parts[part]), 0);
        ASSERT_LE(piece.elems, kPieceElems);
        ASSERT_EQ(piece.row, row);
        ASSERT_EQ(piece.payload_offset, offset);
        ASSERT_EQ(piece.payload_bytes, parts[part].codec->MaxBytes(piece.elems));
        at += piece.elems, row += piece.elems, offset += piece.payload_bytes;
      }
      ASSERT_EQ(shard.elems, row);
      ASSERT_EQ(shard.payload_bytes, offset);
      ASSERT_LE(offset, total / n + 2 * largest_cut);
      payload_bytes += offset;
    }
    ASSERT_EQ(part, parts.size() - 1);
    ASSERT_EQ(at, parts[part].grad.elems);
    ASSERT_EQ(payload_bytes, total) << "cuts change the length of a payload";
  }
}

TEST(TwoShotSlice, ConservesWhatIsPutIn) {
  RandomStream random(4);
  for (uint64_t seed = 0; seed < (kSanitized ? 10 : 40); ++seed) {
    SCOPED_TRACE(seed);
    const auto tensors = RandomTensors(&random);
    World world(static_cast<int>(2 + random.Below(4)), tensors, seed);
    ASSERT_NO_FATAL_FAILURE(world.Run());
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
      for (int r = 1; r < world.size(); ++r) ASSERT_EQ(world.At(r, t).out, world.At(0, t).out);
      if (world.At(0, t).codec.feedback == Feedback::kOff) continue;
      for (int64_t i = 0; i < tensors[t].first; ++i) {
        const World::Balance b = world.At(t, i);
        ASSERT_NEAR(b.in, b.out, 4e-6 * (b.size + 1)) << tensors[t].second << " at " << i;
      }
    }
  }
}

TEST(TwoShotSlice, OneRankKeepsItsInput) {
  World world(1, {{1000, "qsgd(bits=4,feedback=on)"}}, 5);
  world.At(0, 0).e_in.clear();
  ASSERT_NO_FATAL_FAILURE(world.Run(0.5f));
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(world.At(0, 0).out[i], world.At(0, 0).grad[i] * 0.5f);
  }
}

TEST(TwoShotSlice, ScalesOnceAtTheOutput) {
  World plain(3, {{3000, "bf16(feedback=on)"}}, 6), scaled(3, {{3000, "bf16(feedback=on)"}}, 6);
  ASSERT_NO_FATAL_FAILURE(plain.Run());
  ASSERT_NO_FATAL_FAILURE(scaled.Run(1.0f / 3.0f));
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(scaled.At(1, 0).out[i], plain.At(1, 0).out[i] * (1.0f / 3.0f));
    ASSERT_EQ(scaled.At(1, 0).e_out[i], plain.At(1, 0).e_out[i]);
  }
}

// Gradients that a scale has lifted into the type's range, and what an earlier codec has kept in
// units of the sum, on one rank only.
TEST(TwoShotSlice, TakesResidualsAlongInTheUnitsOfGradients) {
  constexpr float kLossScale = 0x1p16f, kKept = 0x1p-26f;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    SCOPED_TRACE(Name(collective));
    World world(3, {{3000, "fp16"}}, 11, collective);
    for (int r = 0; r < 3; ++r) {
      world.At(r, 0).in_gradient_units = true;
      for (float& g : world.At(r, 0).grad) g *= 0x1p-10f;
    }
    world.At(1, 0).e_in.assign(3000, kKept);
    ASSERT_NO_FATAL_FAILURE(world.Run(/*out_scale=*/kLossScale, /*in_scale=*/1 / kLossScale));
    for (int64_t i = 0; i < 3000; ++i) {
      const World::Balance b = world.At(0, i);
      const double expected = b.in + kKept * (kLossScale - 1);
      // Rounded twice, of which a part may be below the normal numbers.
      ASSERT_NEAR(b.out, expected, 0x1p-10 * (b.size + kKept * kLossScale) + 0x1p-22) << i;
    }
  }
}

// Whoever compares steps compares what no scale has changed.
TEST(TwoShotSlice, CountsEnergyInUnitsOfTheSum) {
  constexpr float kLossScale = 0x1p10f;
  double plain_p2 = 0, scaled_p2 = 0;
  World plain(3, {{3000, "fp16"}}, 12), scaled(3, {{3000, "fp16"}}, 12);
  for (int r = 0; r < 3; ++r) {
    scaled.At(r, 0).in_gradient_units = true;
    for (float& g : scaled.At(r, 0).grad) g *= kLossScale;
  }
  ASSERT_NO_FATAL_FAILURE(plain.Run(1, 1, &plain_p2));
  ASSERT_NO_FATAL_FAILURE(scaled.Run(kLossScale, 1 / kLossScale, &scaled_p2));
  EXPECT_GT(plain_p2, 0);
  EXPECT_NEAR(scaled_p2, plain_p2, 1e-3 * plain_p2);
}

// Shards of any length, so that blocks begin where no block of the tensor does.
TEST(TwoShotSlice, ScattersWhatIsPutIn) {
  RandomStream random(8);
  for (uint64_t seed = 0; seed < (kSanitized ? 15 : 60); ++seed) {
    const int n = static_cast<int>(2 + random.Below(4));
    const char* spec = kSpecs[random.Below(std::size(kSpecs))];
    const auto shard = static_cast<int64_t>(1 + random.Below(random.Below(3) == 0 ? 70'000 : 2000));
    SCOPED_TRACE(std::string(spec) + ", shards of " + std::to_string(shard));
    World world(n, {{n * shard, spec}}, seed, Collective::kReduceScatter);
    ASSERT_NO_FATAL_FAILURE(world.Run());
    const bool has_residual = world.At(0, 0).codec.feedback == Feedback::kOn;
    for (int64_t i = 0; has_residual && i < n * shard; ++i) {
      const World::Balance b = world.At(0, i);
      ASSERT_NEAR(b.in, b.out, 4e-6 * (b.size + 1)) << i;
      const auto owner = static_cast<int>(i / shard);
      ASSERT_EQ(world.At(owner, 0).e_out[i], 0.0f) << "the owner encodes nothing of its own";
    }
  }
}

// A shard is what its owner sums of the others' codes and its own values, whatever lies beside it.
TEST(TwoShotSlice, ScattersShardsAsCodecsMakeThem) {
  constexpr int kRanks = 3;
  constexpr int64_t kShard = 5000;  // more than one slice of 8192 elements over three ranks
  World world(kRanks, {{kRanks * kShard, "bf16"}}, 9, Collective::kReduceScatter);
  ASSERT_NO_FATAL_FAILURE(world.Run(0.5f));
  for (int64_t i = 0; i < kRanks * kShard; ++i) {
    const auto owner = static_cast<int>(i / kShard);
    float sum = 0;
    for (int r = 0; r < kRanks; ++r) {
      const float own = world.At(r, 0).grad[i];
      const float value = r == owner ? own : FloatFromBf16(Bf16FromFloat(own));
      sum = r == 0 ? value : sum + value;
    }
    ASSERT_EQ(world.At(owner, 0).out[i % kShard], 0.5f * sum) << i;
  }
}

// A NaN or infinity spoils its own block only; there every rank keeps the residual it had, and
// everywhere else the law holds. Of a reduce-scatter only owners and those that are not finite
// themselves hear of it.
TEST(TwoShotSlice, BlocksThatAreNotFiniteKeepTheirResiduals) {
  struct Case {
    const char* spec;
    int64_t block;
  };
  constexpr Case kCases[] = {{"qsgd(bits=4,feedback=on)", 256},
                             {"qsgd(bits=4,block=768,feedback=on)", 768},
                             {"efsign", 256},
                             {"bf16(feedback=on)", 1}};
  constexpr int64_t kElems = 6999, kShard = kElems / 3;
  for (const Case& c : kCases) {
    for (int trial = 0; trial < 6; ++trial) {
      const int bad_rank = trial % 3;
      const bool scatters = trial >= 3;
      SCOPED_TRACE(fmt::format("{}, rank {}{}", c.spec, bad_rank, scatters ? ", scattered" : ""));
      World world(3, {{kElems, c.spec}}, 7,
                  scatters ? Collective::kReduceScatter : Collective::kAllReduce);
      const int64_t bad[] = {10, 2999, 6990};  // in three owners' shards
      // Of a reduce-scatter blocks begin at each shard, and a rank's own shard has none.
      const auto block_of = [&](int64_t i) {
        if (scatters && i / kShard == bad_rank) return std::pair(i, int64_t{-1});
        return scatters ? std::pair(i / kShard, i % kShard / c.block)
                        : std::pair(int64_t{0}, i / c.block);
      };
      for (int64_t i : bad) world.At(bad_rank, 0).grad[i] = std::numeric_limits<float>::infinity();
      ASSERT_NO_FATAL_FAILURE(world.Run());
      for (int64_t i = 0; i < kElems; ++i) {
        bool spoilt = false;
        for (int64_t b : bad) spoilt |= block_of(i) == block_of(b);
        const World::Balance balance = world.At(0, i);
        if (!spoilt) {
          ASSERT_NEAR(balance.in, balance.out, 4e-6 * (balance.size + 1)) << i;
          continue;
        }
        ASSERT_FALSE(std::isfinite(balance.out)) << i;
        for (int r = 0; r < 3; ++r) {
          const Tensor& t = world.At(r, 0);
          ASSERT_TRUE(std::isfinite(t.e_out[i])) << i;
          // Others have sent it, and nobody tells them what became of it.
          if (scatters && r != bad_rank && r != i / kShard) continue;
          ASSERT_EQ(t.e_out[i], t.e_in[i]) << "rank " << r << " at " << i;
        }
      }
    }
  }
}

// In place the encodings have written over it by then.
TEST(TwoShotSlice, BlocksThatAreNotFiniteKeepTheirResidualsInPlace) {
  constexpr int64_t kElems = 30'000, kBlock = 256;  // several slices
  constexpr int64_t kBad[] = {10, 2999, 8191, 29'990};
  const std::pair<int64_t, std::string> tensor = {kElems, "qsgd(bits=4,feedback=on)"};
  World apart(3, {tensor, tensor}, 7), in_place(3, {tensor, tensor}, 7);
  for (World* world : {&apart, &in_place}) {
    for (int64_t i : kBad) world->At(1, 0).grad[i] = std::numeric_limits<float>::quiet_NaN();
    for (int r = 0; r < 3; ++r) world->At(r, 0).in_place = world == &in_place;
  }
  std::vector<std::vector<float>> had;
  for (int r = 0; r < 3; ++r) had.push_back(in_place.At(r, 0).e_in);
  ASSERT_NO_FATAL_FAILURE(apart.Run());
  ASSERT_NO_FATAL_FAILURE(in_place.Run());
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(in_place.At(r, 0).e_in, apart.At(r, 0).e_out) << "rank " << r;
    EXPECT_EQ(in_place.At(r, 1).e_out, apart.At(r, 1).e_out) << "the tensor beside it";
    for (int64_t bad : kBad) {
      for (int64_t i = bad / kBlock * kBlock; i < (bad / kBlock + 1) * kBlock && i < kElems; ++i)
        ASSERT_EQ(in_place.At(r, 0).e_in[i], had[r][i]) << "rank " << r << " at " << i;
    }
  }
}

// A finite sum that the codec's type does not hold: all keep what they had, and nothing else of the
// piece does.
TEST(TwoShotSlice, SumsTooLargeForTheTypeKeepResiduals) {
  constexpr int64_t kElems = 3000;
  constexpr int64_t kLarge[] = {10, 2990};  // in both owners' shards
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place ? "in place" : "to another slot");
    World world(2, {{kElems, "bf16(feedback=on)"}}, 7);
    std::vector<std::vector<float>> had;
    for (int r = 0; r < 2; ++r) {
      world.At(r, 0).in_place = in_place;
      for (int64_t i : kLarge) world.At(r, 0).grad[i] = 1.7e38f;
      had.push_back(world.At(r, 0).e_in);
    }
    ASSERT_NO_FATAL_FAILURE(world.Run());
    for (int64_t i : kLarge) {
      for (int r = 0; r < 2; ++r) {
        const Tensor& t = world.At(r, 0);
        const std::vector<float>& kept = in_place ? t.e_in : t.e_out;
        EXPECT_TRUE(std::isinf(t.out[i])) << i;
        EXPECT_EQ(kept[i], had[r][i]) << "rank " << r << " at " << i;
        EXPECT_NE(kept[i + 1], had[r][i + 1]) << "rank " << r << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire
