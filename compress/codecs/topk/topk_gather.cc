// The one round, an all-gather of words:
//
//   word 0      1 where the rank has an element that is not finite, else 0
//   then        its list of k indices, compress/kernels/index_list
//   then        their k values, float32
//
// Whether all are finite is known in Absorb only. Residual and momentum are made there, or, where
// both have arrays of their own to go to, in Fill, and taken back there.
#include "compress/codecs/topk/topk_gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "base/numeric.h"
#include "base/workspace.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/sparse_carrier.h"
#include "compress/codecs/topk/index_union.h"
#include "compress/kernels/index_list/index_list.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/topk/topk.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr int64_t kWordBytes = 4;
// The densities of the warm-up fall by this.
constexpr double kWarmupFactor = 4;
// What is made of several arrays stays in the first-level cache.
constexpr int64_t kCachedElems = 2048;

// Replicated state.
using Steps = uint32_t;

Steps StepsIn(ConstBytes replicated) {
  Steps steps = 0;
  if (!replicated.empty()) std::memcpy(&steps, replicated.data, sizeof steps);
  return steps;
}

// What a rank sends of a tensor.
struct Selection {
  int64_t elems = 0;
  int64_t k = 0;

  int64_t ListWords() const { return IndexListBytes(elems, k) / kWordBytes; }
  int64_t Words() const { return 1 + ListWords() + k; }
  int64_t MaxUnion(int ranks) const { return std::min(ranks * k, elems); }
};

// An all-gather of it moves no more than a ring does that sums all elements.
bool IsWorthGathering(const Selection& selection, const TensorMeta& meta, int world_size) {
  return world_size * selection.Words() * kWordBytes <= 2 * meta.elems * SizeOf(meta.dtype);
}

// One rank's part of what was gathered.
struct Payload {
  uint32_t nonfinite = 0;
  ConstBytes list;
  const float* values = nullptr;
};

Payload PayloadOf(ConstView gathered, const Selection& selection, int64_t rank) {
  const ConstView words = gathered.Sub(rank * selection.Words(), selection.Words());
  return {.nonfinite = words.as<uint32_t>()[0],
          .list = words.Sub(1, selection.ListWords()).AsBytes(),
          .values = words.as<float>() + 1 + selection.ListWords()};
}

// The workspace of a step.
struct Scratch {
  Bytes tools;                // of the selection, then of the union
  std::span<uint32_t> sent;   // indices this rank selected
  std::span<uint32_t> list;   // another rank's
  uint32_t* all = nullptr;    // indices of all
  float* sums = nullptr;      // at these
  float* velocity = nullptr;  // elems, with momentum; written where that is not staged

  static int64_t ToolBytes(const Selection& selection) {
    return AlignUp(std::max(TopkWorkspaceBytes(selection.elems, selection.k),
                            IndexUnion::BytesFor(selection.elems)));
  }
  static int64_t TotalBytes(const Selection& selection, int ranks, bool momentum) {
    return ToolBytes(selection) + kWordBytes * (2 * selection.k + 2 * selection.MaxUnion(ranks) +
                                                (momentum ? selection.elems : 0));
  }

  Scratch(const StepView& view, const Selection& selection)
      : tools(view.workspace.Sub(0, ToolBytes(selection))) {
    auto* words = reinterpret_cast<uint32_t*>(tools.data + tools.size);
    const auto k = static_cast<size_t>(selection.k);
    const int64_t most = selection.MaxUnion(view.world_size);
    sent = {words, k};
    list = {words + k, k};
    all = words + 2 * k;
    sums = reinterpret_cast<float*>(all + most);
    velocity = sums + most;
  }
};

bool AreFinite(const float* values, int64_t count) {
  return std::all_of(values, values + count, [](float v) { return std::isfinite(v); });
}

class TopkGather final : public CarrierMethod {
 public:
  explicit TopkGather(const TopkGatherOptions& options) : options_(options) {}

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kSum = {.contractive = true};
    static constexpr CodecTraits kMomentum = {.contractive = true, .estimates_sum = false};
    return KeepsLocal() ? kMomentum : kSum;
  }
  int rounds() const override { return 1; }
  bool Gathers() const override { return true; }
  CarrierUnit unit() const override { return CarrierUnit::kTensor; }
  std::string Note(const TensorMeta& meta) const override {
    return NoteOfSelection(options_.density, meta);
  }
  Status Check(const TensorMeta& meta, int world_size) const override {
    GW_RETURN_IF_ERROR(CheckSelection(options_.density, meta));
    const Selection selection = At(options_.density, meta);
    if (world_size == 1 || meta.elems == 0 || IsWorthGathering(selection, meta, world_size)) {
      return Status();
    }
    return RefuseGather(meta, world_size);
  }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    return Scratch::TotalBytes(SelectionOf(meta, world_size, 0), world_size, KeepsLocal());
  }
  int64_t ReplicatedBytes(const TensorMeta&, int) const override {
    return options_.warmup_steps > 0 ? sizeof(Steps) : 0;
  }
  bool KeepsLocal() const override { return options_.momentum > 0; }

  RoundSpec Round(int, const TensorMeta& meta, int world_size, ConstBytes,
                  ConstBytes replicated) const override {
    const Selection selection = replicated.empty()
                                    ? At(options_.density, meta)
                                    : SelectionOf(meta, world_size, StepsIn(replicated));
    return {.dtype = DType::kUint32, .op = ReduceOp::kSum, .elems = selection.Words()};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    view.stats->bytes += carrier.bytes();
    const Selection selection = SelectionOf(view);
    const Scratch scratch(view, selection);
    InputJob input = ReadInput(view, scratch);
    EncodeStats stats;
    input.stats = &stats;
    const bool finite = SelectTopk(input, scratch.tools, scratch.sent);
    carrier.as<uint32_t>()[0] = finite ? 0 : 1;
    EncodeIndexList(scratch.sent, selection.elems, carrier.data + kWordBytes);
    float* values = carrier.as<float>() + 1 + selection.ListWords();
    for (uint32_t index : scratch.sent) *values++ = ref::Input(input, index);
    AddStats(stats, EnergyOf(values - selection.k, selection.k), view.stats);
    return Status();
  }

  Status Absorb(int, ConstView gathered, const StepView& view, ExecContext*) const override {
    const Selection selection = SelectionOf(view);
    const Scratch scratch(view, selection);
    IndexUnion all(scratch.tools, selection.elems);
    bool finite = true;
    for (int rank = 0; rank < view.world_size; ++rank) {
      const Payload payload = PayloadOf(gathered, selection, rank);
      if (payload.nonfinite > 1) return CorruptCarrier("a flag is neither 0 nor 1");
      GW_RETURN_IF_ERROR(DecodeIndexList(payload.list, selection.elems, scratch.list));
      if (payload.nonfinite == 0 && !AreFinite(payload.values, selection.k)) {
        return CorruptCarrier("a rank that is said to be finite sent a value that is not");
      }
      all.Add(scratch.list);
      finite &= payload.nonfinite == 0;
    }
    if (!finite) {
      KeepAll(view);
      Spoil(DecodeJobOf(view, gathered));
      return Status();
    }
    KeepUnsent(view, scratch);
    const std::span<const uint32_t> indices(scratch.all, all.ListInto(scratch.all));
    std::fill_n(scratch.sums, indices.size(), 0.0f);
    GW_RETURN_IF_ERROR(AddPayloads(gathered, view, selection, scratch, all));
    Scatter(DecodeJobOf(view, gathered), indices, reinterpret_cast<const std::byte*>(scratch.sums));
    StoreSteps(view, StepsIn(view.replicated_in) + 1);
    return Status();
  }

 private:
  static Selection At(double density, const TensorMeta& meta) {
    return {.elems = meta.elems, .k = SelectedElems(density, meta.elems)};
  }
  // In the step that follows `steps` committed ones.
  Selection SelectionOf(const TensorMeta& meta, int world_size, Steps steps) const {
    if (options_.warmup_steps == 0) return At(options_.density, meta);
    int64_t left = steps;
    for (double density = 1 / kWarmupFactor; density > options_.density; density /= kWarmupFactor) {
      const Selection selection = At(density, meta);
      if (!IsWorthGathering(selection, meta, world_size)) continue;
      left -= options_.warmup_steps;
      if (left < 0) return selection;
    }
    return At(options_.density, meta);
  }
  Selection SelectionOf(const StepView& view) const {
    return SelectionOf(view.meta, view.world_size, StepsIn(view.replicated_in));
  }

  Status RefuseGather(const TensorMeta& meta, int world_size) const {
    int64_t least = 0, most = At(options_.density, meta).k;
    while (most - least > 1) {  // `least` elements are worth it, `most` are not
      const int64_t middle = least + (most - least) / 2;
      (IsWorthGathering({meta.elems, middle}, meta, world_size) ? least : most) = middle;
    }
    const double accepted = static_cast<double>(least) / static_cast<double>(meta.elems);
    return Status(gwInvalidArgument,
                  "density=" + FormatReal(options_.density) + " of " + std::to_string(meta.elems) +
                      " elements is more to gather from " + std::to_string(world_size) +
                      " ranks than a sum of all elements moves",
                  (least > 0 ? "Accepted with agreement=gather: up to " + FormatReal(accepted)
                             : "With agreement=gather no density of this tensor is accepted") +
                      "; agreement=speakers does not grow with the ranks");
  }

  // u' = m u + g of some elements.
  void MakeMomentum(const StepView& view, int64_t first, View momentum) const {
    LoadContribution(view.grad.Sub(first, momentum.elems), view.in_scale, {}, momentum);
    AddDecayed(view.local_in.Sub(first, momentum.elems), options_.momentum, 1, momentum);
  }

  // Whether Fill leaves residual and momentum of all elements where they go.
  bool Stages(const StepView& view) const {
    return StagesInput(view) && (!KeepsLocal() || StagesLocal(view));
  }

  // What is selected from. With e_out where it is still to be left there.
  InputJob ReadInput(const StepView& view, const Scratch& scratch) const {
    InputJob job = InputJobOf(view);
    const bool stages = Stages(view);
    if (!stages) job.e_out = nullptr;
    if (!KeepsLocal()) return job;
    float* velocity = stages ? job.e_out : scratch.velocity;
    AddMomentum(view, stages ? view.local_out : View(), velocity);
    job.grad = reinterpret_cast<const std::byte*>(velocity);
    job.dtype = DType::kFloat32;
    job.in_scale = 1;
    job.e_in = nullptr;
    job.e_out = nullptr;
    return job;
  }

  // v = e + u'. And u', unless it goes nowhere.
  void AddMomentum(const StepView& view, View momentum, float* velocity) const {
    alignas(64) float scratch[kCachedElems];
    for (int64_t first = 0; first < view.meta.elems; first += kCachedElems) {
      const int64_t elems = std::min(kCachedElems, view.meta.elems - first);
      const View next = momentum.empty() ? FloatView(scratch, elems) : momentum.Sub(first, elems);
      MakeMomentum(view, first, next);
      const ConstView e_in = view.e_in.empty() ? view.e_in : view.e_in.Sub(first, elems);
      LoadContribution(next, 1, e_in, FloatView(velocity + first, elems));
    }
  }

  static void AddStats(const EncodeStats& of_input, double sent_energy, EncodeStats* stats) {
    stats->absmax = std::max(stats->absmax, of_input.absmax);
    stats->nonfinite += of_input.nonfinite;
    stats->sum_p2 += of_input.sum_p2;  // zero where an element is not finite
    if (of_input.nonfinite == 0) {
      stats->sum_err2 += std::max(of_input.sum_p2 - sent_energy, 0.0);
    }
  }

  // A step that is not finite leaves everything as it was.
  static void KeepAll(const StepView& view) {
    KeepResidual(view);
    KeepLocal(view);
    StoreSteps(view, StepsIn(view.replicated_in));
  }

  static void StoreSteps(const StepView& view, Steps steps) {
    if (!view.replicated_out.empty()) std::memcpy(view.replicated_out.data, &steps, sizeof steps);
  }

  // Residual and momentum, both zero where this rank sent.
  void KeepUnsent(const StepView& view, const Scratch& scratch) const {
    if (!Stages(view)) KeepAllOfInput(view, scratch);
    if (KeepsLocal()) Clear(scratch.sent, view.local_out);
    if (!view.e_out.empty()) Clear(scratch.sent, view.e_out);
  }

  void KeepAllOfInput(const StepView& view, const Scratch& scratch) const {
    if (KeepsLocal()) KeepMomentum(view);
    if (view.e_out.empty()) return;
    if (KeepsLocal()) {
      std::memcpy(view.e_out.data, scratch.velocity, static_cast<size_t>(view.e_out.bytes()));
    } else {
      (void)StatsOfInput(InputJobOf(view));  // makes e_out = p
    }
  }

  // The old and the new may be one array.
  void KeepMomentum(const StepView& view) const {
    alignas(64) float momentum[kCachedElems];
    for (int64_t first = 0; first < view.meta.elems; first += kCachedElems) {
      const int64_t elems = std::min(kCachedElems, view.meta.elems - first);
      MakeMomentum(view, first, FloatView(momentum, elems));
      std::copy_n(momentum, elems, view.local_out.as<float>() + first);
    }
  }

  static void Clear(std::span<const uint32_t> indices, View values) {
    for (uint32_t index : indices) values.as<float>()[index] = 0;
  }

  // To the sums, in the order of ranks, so that all have the same bits. `all` has been listed.
  static Status AddPayloads(ConstView gathered, const StepView& view, const Selection& selection,
                            const Scratch& scratch, const IndexUnion& all) {
    for (int rank = 0; rank < view.world_size; ++rank) {
      const Payload payload = PayloadOf(gathered, selection, rank);
      GW_RETURN_IF_ERROR(DecodeIndexList(payload.list, selection.elems, scratch.list));
      for (size_t i = 0; i < scratch.list.size(); ++i) {
        scratch.sums[all.PositionOf(scratch.list[i])] += payload.values[i];
      }
    }
    return Status();
  }

  const TopkGatherOptions options_;
};

}  // namespace

std::shared_ptr<const CarrierMethod> MakeTopkGather(const TopkGatherOptions& options) {
  return std::make_shared<TopkGather>(options);
}

}  // namespace gradwire
