#include "runtime/sim/sim_scenario.h"

#include <cstring>
#include <span>

#include "base/float16.h"
#include "base/rng.h"

namespace gradwire {
namespace {

const char* const kSpecs[] = {"none",
                              "none",
                              "bf16",
                              "fp16",
                              "qsgd(bits=4)",
                              "qsgd(bits=8,block=512)",
                              "efsign",
                              "qsgd(bits=4,feedback=on)",
                              "qsgd(bits=2,block=768,feedback=on)",
                              "bf16(feedback=on)",
                              "topk(0.1)",
                              "acp(rank=2)"};
constexpr int kWindows[] = {0, 1, 2, 3, 4, 8, 16};
constexpr DType kGradTypes[] = {DType::kFloat32, DType::kFloat32, DType::kFloat16,
                                DType::kBfloat16};
constexpr DType kRawTypes[] = {DType::kInt8, DType::kInt32, DType::kFloat32, DType::kFloat64,
                               DType::kBfloat16};
constexpr ReduceOp kRawOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};

template <typename T, size_t n>
const T& Pick(RandomStream& random, const T (&from)[n]) {
  return from[random.Below(n)];
}

ScenarioOp DrawRaw(RandomStream& random, int world_size) {
  const std::span<const AlgorithmRow> rows = Algorithms();
  ScenarioOp op;
  do {
    op.row = &rows[random.Below(rows.size())];
  } while (op.row->encoded);
  op.op = Pick(random, kRawOps);
  op.dtype = Pick(random, kRawTypes);
  const bool rooted =
      op.row->collective == Collective::kReduce || op.row->collective == Collective::kBroadcast;
  op.root = rooted ? static_cast<int>(random.Below(world_size)) : 0;
  if (op.row->collective != Collective::kBarrier)
    op.count = static_cast<int64_t>(random.Below(random.Below(4) == 0 ? 3000 : 200));
  return op;
}

// Each tensor at most once, in groups and order drawn anew for every step.
std::vector<ScenarioOp> DrawOps(RandomStream& random, int tensors, int world_size) {
  std::vector<int> left;
  for (int t = 0; t < tensors; ++t) {
    if (random.Below(8) != 0) left.push_back(t);
  }
  std::vector<ScenarioOp> ops;
  while (!left.empty()) {
    ScenarioOp group = {.op = random.Below(3) == 0 ? ReduceOp::kAvg : ReduceOp::kSum};
    for (auto size = 1 + random.Below(left.size()); size > 0; --size) {
      const auto at = left.begin() + static_cast<std::ptrdiff_t>(random.Below(left.size()));
      group.tensors.push_back(*at);
      left.erase(at);
    }
    ops.push_back(group);
    if (random.Below(3) == 0) ops.push_back(DrawRaw(random, world_size));
  }
  if (ops.empty() || random.Below(3) == 0) ops.push_back(DrawRaw(random, world_size));
  return ops;
}

ScenarioStep DrawStep(RandomStream& random, const Scenario& s) {
  ScenarioStep step = {.number = s.steps.size() * 3 + 100};
  for (size_t t = 0; t < s.tensors.size(); ++t) {
    const bool keep = !s.steps.empty() && random.Below(3) != 0;
    step.specs.push_back(keep ? s.steps.back().specs[t] : Pick(random, kSpecs));
  }
  step.ops = DrawOps(random, static_cast<int>(s.tensors.size()), s.job.world_size);
  step.no_wait = s.job.nonfinite != NonFinitePolicy::kSkip && random.Below(8) == 0;
  if (random.Below(12) == 0) step.infinite_rank = static_cast<int>(random.Below(s.job.world_size));
  return step;
}

void DrawFault(RandomStream& random, Scenario* s) {
  s->fault = static_cast<FaultKind>(random.Below(8));
  s->fault_rank = static_cast<int>(random.Below(s->job.world_size));
  s->fault_step = static_cast<int>(random.Below(s->steps.size()));
  s->fault_op = static_cast<int>(random.Below(s->steps[s->fault_step].ops.size()));
  if (s->fault == FaultKind::kCorrupt) {
    for (auto count = 1 + random.Below(3); count > 0; --count)
      s->fault_frames.push_back(static_cast<int64_t>(random.Below(300)));
  }
  if (s->fault == FaultKind::kStall) {
    s->job.op_timeout_ns = 20 * kNsPerMs;
    s->fault_ns = static_cast<int64_t>(30 + random.Below(100)) * kNsPerMs;
  }
  if (s->fault == FaultKind::kKill) s->fault_ns = static_cast<int64_t>(random.Below(3 * kNsPerMs));
}

// From a stream of its own: seeds that failed once keep their other choices.
void DrawRareSettings(Scenario* s) {
  RandomStream random(s->seed, /*stream=*/18);
  if (random.Below(3) == 0) s->job.nonfinite = NonFinitePolicy::kError;
  s->job.transaction = random.Below(4) != 0;
  // The numbers of operations wrap, most often in the first step.
  if (random.Below(4) == 0) s->job.first_op_seq = static_cast<uint32_t>(-1 - random.Below(6));
}

// Likewise. Of short sums the library takes few of its algorithms.
void DrawAlgorithm(Scenario* s) {
  RandomStream random(s->seed, /*stream=*/20);
  if (random.Below(2) == 0) return;
  const std::span<const AlgorithmRow> rows = Algorithms();
  const AlgorithmRow* row = nullptr;
  do {
    row = &rows[random.Below(rows.size())];
  } while (row->encoded || row->collective != Collective::kAllReduce);
  s->job.exact = row;
}

// From a stream of its own, too.
void DrawScatters(Scenario* s) {
  RandomStream random(s->seed, /*stream=*/19);
  for (ScenarioStep& step : s->steps) {
    for (ScenarioOp& op : step.ops) op.scatter = op.tensors.size() == 1 && random.Below(2) == 0;
  }
}

}  // namespace

std::string ToString(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone: return "nothing goes wrong";
    case FaultKind::kCorrupt: return "damaged fragments";
    case FaultKind::kOtherOp: return "another operation";
    case FaultKind::kFewerOps: return "an operation too few";
    case FaultKind::kMoreOps: return "an operation too many";
    case FaultKind::kOtherStep: return "another step";
    case FaultKind::kStall: return "a stall";
    case FaultKind::kKill: return "a death";
  }
  return "?";
}

Scenario DrawScenario(uint64_t seed) {
  RandomStream random(seed, /*stream=*/17);
  Scenario s = {.seed = seed};
  s.job.world_size = static_cast<int>(2 + random.Below(5));
  s.job.slice_elems = 256 << random.Below(3);
  s.job.window = Pick(random, kWindows);
  s.job.seed = static_cast<uint32_t>(seed);
  s.job.nonfinite = static_cast<NonFinitePolicy>(random.Below(2));
  s.job.network = {.seed = seed,
                   .alpha_ns = static_cast<int64_t>(1 + random.Below(20)) * kNsPerUs,
                   .jitter_ns = static_cast<int64_t>(random.Below(3) * 40) * kNsPerUs,
                   .fragment_bytes = 64 << random.Below(6),
                   .slots = static_cast<int32_t>(1 + random.Below(8))};
  s.longest_pause_ns = static_cast<int64_t>(random.Below(3) * 150) * kNsPerUs;
  for (auto tensors = 1 + random.Below(4); tensors > 0; --tensors) {
    s.tensors.push_back({.name = "w" + std::to_string(tensors),
                         .elems = static_cast<int64_t>(random.Below(random.Below(3) ? 700 : 2500)),
                         .dtype = Pick(random, kGradTypes)});
  }
  for (auto steps = 1 + random.Below(4); steps > 0; --steps) {
    s.steps.push_back(DrawStep(random, s));
  }
  DrawFault(random, &s);
  DrawRareSettings(&s);
  DrawAlgorithm(&s);
  DrawScatters(&s);
  return s;
}

Scenario WithoutTrouble(Scenario scenario) {
  scenario.fault = FaultKind::kNone;
  scenario.fault_frames.clear();
  scenario.longest_pause_ns = 0;
  scenario.job.op_timeout_ns = 0;
  scenario.job.network.jitter_ns = 0;
  return scenario;
}

std::vector<std::byte> DrawValues(uint64_t seed, int64_t elems, DType dtype) {
  std::vector<std::byte> bytes(elems * SizeOf(dtype));
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < elems; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    const float value = static_cast<float>(static_cast<int64_t>(x >> 40) - (1 << 23)) * 0x1p-20f;
    const uint16_t half = dtype == DType::kFloat16 ? Fp16FromFloat(value) : Bf16FromFloat(value);
    const auto wide = static_cast<double>(value);
    const auto integer = static_cast<int64_t>(x >> 60);
    const void* from = &integer;
    if (dtype == DType::kFloat32) from = &value;
    if (dtype == DType::kFloat64) from = &wide;
    if (dtype == DType::kFloat16 || dtype == DType::kBfloat16) from = &half;
    std::memcpy(bytes.data() + i * SizeOf(dtype), from, SizeOf(dtype));
  }
  return bytes;
}

}  // namespace gradwire
