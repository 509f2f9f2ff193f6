// Round 0, a sum of words in which each rank fills its own:
//
//   word 0                    how many ranks have an element that is not finite
//   then a slot per speaker   its list of `quota` indices, compress/kernels/index_list
//
// Round 1, a sum of floats: p at the union of the lists, which lies in agreed scratch.
#include "compress/codecs/topk/topk_speakers.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/workspace.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/sparse_carrier.h"
#include "compress/codecs/topk/index_union.h"
#include "compress/kernels/index_list/index_list.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/topk/topk.h"

namespace gradwire {
namespace {

// So that lists do not grow with the ranks: speakers that agree name k elements each.
constexpr int kMaxSpeakers = 8;
constexpr int64_t kWordBytes = 4;

// Replicated state. Turns are counted here, and not by the number of the training step: that may
// skip, so that some ranks would never speak, and a step that is done again must find the same
// speakers.
struct State {
  uint32_t quota = 0;          // of one speaker; zero before the first step
  uint32_t first_speaker = 0;  // rank; those that follow it speak too
};

State StateOf(ConstBytes replicated) {
  State state;
  if (!replicated.empty()) std::memcpy(&state, replicated.data, sizeof(state));
  return state;
}

// What follows from tensor, ranks and replicated state.
struct Selection {
  int64_t elems = 0;
  int64_t k = 0;  // to be selected by all speakers together
  int64_t speakers = 1;
  int64_t first_speaker = 0;
  int64_t quota = 0;

  int64_t LeastQuota() const { return (k + speakers - 1) / speakers; }
  // What quotas settle near, before there is one: as measured with ranks that are correlated by 0
  // to .7, docs/algorithms.md.
  int64_t ExpectedQuota() const { return LeastQuota() + k / kMaxSpeakers; }
  int64_t SlotWords() const { return IndexListBytes(elems, quota) / kWordBytes; }
  int64_t MaxUnion() const { return std::min(speakers * k, elems); }  // with any quota

  // The quota that would have made a union of k, had it grown in proportion.
  uint32_t NextQuota(int64_t union_elems) const {
    if (union_elems == 0) return static_cast<uint32_t>(quota);
    const auto size = static_cast<uint64_t>(union_elems);
    const uint64_t next =
        (static_cast<uint64_t>(quota) * static_cast<uint64_t>(k) + size / 2) / size;
    return static_cast<uint32_t>(std::clamp(static_cast<int64_t>(next), LeastQuota(), k));
  }
};

// Where so many speakers that name one element each, or a few, name notably more than k.
std::string NoteOfLeastQuota(const Selection& selection) {
  const int64_t least = selection.LeastQuota();
  const int64_t most = std::min(selection.speakers * least, selection.elems);
  if (most <= selection.k + selection.k / 10) return {};
  return "up to " + std::to_string(most) + " elements are sent, as each of up to " +
         std::to_string(selection.speakers) + " speakers names " + std::to_string(least) +
         " at least";
}

// Agreed scratch. The indices follow.
struct Agreed {
  uint32_t nonfinite_ranks = 0;
  uint32_t count = 0;  // of indices, ascending
};

Agreed AgreedOf(ConstBytes bytes) {
  Agreed agreed;
  std::memcpy(&agreed, bytes.data, sizeof(agreed));
  return agreed;
}

uint32_t* IndicesIn(Bytes agreed) {
  return reinterpret_cast<uint32_t*>(agreed.data + sizeof(Agreed));
}

std::span<const uint32_t> UnionOf(const StepView& view) {
  return {IndicesIn(view.agreed), AgreedOf(view.agreed).count};
}

// Workspace: what selects the indices of one speaker or joins them with the others', these indices,
// and the sum of the squares of p.
int64_t ToolBytes(const Selection& selection) {
  return AlignUp(std::max(TopkWorkspaceBytes(selection.elems, selection.k),
                          IndexUnion::BytesFor(selection.elems)));
}

std::span<uint32_t> ListIn(const StepView& view, const Selection& selection, int64_t count) {
  return {reinterpret_cast<uint32_t*>(view.workspace.data + ToolBytes(selection)),
          static_cast<size_t>(count)};
}

double& EnergyIn(const StepView& view, const Selection& selection) {
  std::byte* place = view.workspace.data + ToolBytes(selection) + AlignUp(kWordBytes * selection.k);
  return *reinterpret_cast<double*>(place);
}

// This rank's slot in this step; it speaks where there is one.
int64_t SlotOf(const StepView& view, const Selection& selection) {
  return (int64_t{view.dither.rank} - selection.first_speaker + view.world_size) % view.world_size;
}

// The indices in all slots.
Status JoinLists(ConstView slots, const Selection& selection, std::span<uint32_t> list,
                 IndexUnion* all) {
  for (int64_t slot = 0; slot < selection.speakers; ++slot) {
    const ConstView words = slots.Sub(slot * selection.SlotWords(), selection.SlotWords());
    GW_RETURN_IF_ERROR(DecodeIndexList(words.AsBytes(), selection.elems, list));
    all->Add(list);
  }
  return Status();
}

class TopkSpeakers final : public CarrierMethod {
 public:
  explicit TopkSpeakers(double density) : density_(density) {}

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.contractive = true};
    return kTraits;
  }
  int rounds() const override { return 2; }
  CarrierUnit unit() const override { return CarrierUnit::kTensor; }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }
  std::string Note(const TensorMeta& meta) const override {
    const std::string rounding = NoteOfSelection(density_, meta);
    const std::string floor = NoteOfLeastQuota(SelectionOf(meta, kMaxSpeakers, {}));
    return rounding + (rounding.empty() || floor.empty() ? "" : "; ") + floor;
  }
  Status Check(const TensorMeta& meta, int) const override {
    return CheckSelection(density_, meta);
  }
  int64_t AgreedBytes(const TensorMeta& meta, int world_size) const override {
    return static_cast<int64_t>(sizeof(Agreed)) +
           kWordBytes * SelectionOf(meta, world_size, {}).MaxUnion();
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    const Selection selection = SelectionOf(meta, world_size, {});
    return ToolBytes(selection) + AlignUp(kWordBytes * selection.k) +
           static_cast<int64_t>(sizeof(double));
  }
  int64_t ReplicatedBytes(const TensorMeta&, int) const override { return sizeof(State); }

  // The values of the second round are at the indices that the first one has gathered.
  bool SizesDependOnData() const override { return true; }
  RoundSpec Round(int round, const TensorMeta& meta, int world_size, ConstBytes agreed,
                  ConstBytes replicated) const override {
    if (round == 0) {
      const Selection selection = SelectionOf(meta, world_size, replicated);
      return {.dtype = DType::kUint32,
              .op = ReduceOp::kSum,
              .elems = 1 + selection.speakers * selection.SlotWords()};
    }
    return {.dtype = DType::kFloat32,
            .op = ReduceOp::kSum,
            .elems = agreed.empty() ? SelectedElems(density_, meta.elems) : AgreedOf(agreed).count};
  }

  Status Fill(int round, const StepView& view, View carrier, ExecContext*) const override {
    view.stats->bytes += carrier.bytes();
    if (round == 0) {
      Speak(view, carrier);
    } else {
      FillValues(view, carrier);
    }
    return Status();
  }

  Status Absorb(int round, ConstView reduced, const StepView& view, ExecContext*) const override {
    if (round == 0) return Listen(view, reduced);
    const Selection selection = SelectionOf(view);
    const bool finite = AgreedOf(view.agreed).nonfinite_ranks == 0;
    const std::span<const uint32_t> indices = UnionOf(view);
    if (finite) {
      Scatter(DecodeJobOf(view, reduced), indices, reduced.data);
    } else {
      Spoil(DecodeJobOf(view, reduced));
    }
    const State next = {.quota = finite ? selection.NextQuota(static_cast<int64_t>(indices.size()))
                                        : static_cast<uint32_t>(selection.quota),
                        .first_speaker = static_cast<uint32_t>(
                            (selection.first_speaker + selection.speakers) % view.world_size)};
    std::memcpy(view.replicated_out.data, &next, sizeof(next));
    return Status();
  }

 private:
  Selection SelectionOf(const TensorMeta& meta, int world_size, ConstBytes replicated) const {
    Selection selection = {.elems = meta.elems,
                           .k = SelectedElems(density_, meta.elems),
                           .speakers = std::min(world_size, kMaxSpeakers)};
    const State state = StateOf(replicated);
    const int64_t quota = replicated.empty() ? selection.ExpectedQuota() : int64_t{state.quota};
    // Within their ranges also where the number of ranks has changed.
    selection.quota = std::clamp(quota, selection.LeastQuota(), selection.k);
    selection.first_speaker = state.first_speaker % world_size;
    return selection;
  }
  Selection SelectionOf(const StepView& view) const {
    return SelectionOf(view.meta, view.world_size, view.replicated_in);
  }

  void Speak(const StepView& view, View carrier) const {
    const Selection selection = SelectionOf(view);
    std::memset(carrier.data, 0, static_cast<size_t>(carrier.bytes()));
    const int64_t slot = SlotOf(view, selection);
    const View words = slot < selection.speakers
                           ? carrier.Sub(1 + slot * selection.SlotWords(), selection.SlotWords())
                           : View();
    const EncodeStats stats = ReadInput(view, selection, words);
    carrier.as<uint32_t>()[0] = stats.nonfinite == 0 ? 0 : 1;
    EnergyIn(view, selection) = stats.sum_p2;
    view.stats->absmax = std::max(view.stats->absmax, stats.absmax);
    view.stats->nonfinite += stats.nonfinite;
  }

  // The one pass over gradient and residual. A speaker's fills its slot; others have none.
  static EncodeStats ReadInput(const StepView& view, const Selection& selection, View slot) {
    InputJob input = InputJobOf(view);
    if (!StagesInput(view)) input.e_out = nullptr;
    if (slot.empty()) return StatsOfInput(input);
    EncodeStats stats;
    input.stats = &stats;
    const std::span<uint32_t> list = ListIn(view, selection, selection.quota);
    SelectTopk(input, view.workspace, list);
    EncodeIndexList(list, selection.elems, slot.data);
    return stats;
  }

  Status Listen(const StepView& view, ConstView reduced) const {
    const Selection selection = SelectionOf(view);
    Agreed agreed;
    std::memcpy(view.agreed.data, &agreed, sizeof(agreed));  // nothing, after an error
    const uint32_t nonfinite_ranks = reduced.as<uint32_t>()[0];
    if (nonfinite_ranks > static_cast<uint32_t>(view.world_size)) {
      return CorruptCarrier("more ranks are said not to be finite than there are");
    }
    IndexUnion all(view.workspace, selection.elems);
    GW_RETURN_IF_ERROR(JoinLists(reduced.Sub(1, reduced.elems - 1), selection,
                                 ListIn(view, selection, selection.quota), &all));
    agreed = {.nonfinite_ranks = nonfinite_ranks, .count = all.ListInto(IndicesIn(view.agreed))};
    std::memcpy(view.agreed.data, &agreed, sizeof(agreed));
    return Status();
  }

  // Values at the union, and a residual without them: it is known now whether all are finite. Where
  // one is not nothing is lost of this rank's, so that its energy does not count either.
  void FillValues(const StepView& view, View carrier) const {
    if (AgreedOf(view.agreed).nonfinite_ranks > 0) {
      std::memset(carrier.data, 0, static_cast<size_t>(carrier.bytes()));
      return KeepResidual(view);
    }
    auto* values = carrier.as<float>();
    if (StagesInput(view)) {
      TakeStaged(UnionOf(view), view.e_out.as<float>(), values);
    } else {
      InputJob input = InputJobOf(view);
      input.stats = nullptr;  // counted in round 0
      SplitInput(input, UnionOf(view), 1, values);
    }
    const double energy = EnergyIn(view, SelectionOf(view));
    view.stats->sum_p2 += energy;
    view.stats->sum_err2 += std::max(energy - EnergyOf(values, carrier.elems), 0.0);
  }

  static void TakeStaged(std::span<const uint32_t> indices, float* p, float* values) {
    for (uint32_t index : indices) *values++ = std::exchange(p[index], 0.0f);
  }

  const double density_;
};

}  // namespace

std::shared_ptr<const CarrierMethod> MakeTopkSpeakers(double density) {
  return std::make_shared<TopkSpeakers>(density);
}

}  // namespace gradwire
