#include "compress/codecs/randk/randk_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/sparse_carrier.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class RandkCarrier final : public CarrierMethod {
 public:
  RandkCarrier(double density, Feedback feedback)
      : density_(density),
        traits_{.unbiased = feedback == Feedback::kOff,
                .contractive = feedback == Feedback::kOn,
                .stochastic = true} {}

  const CodecTraits& traits() const override { return traits_; }
  int rounds() const override { return 1; }
  CarrierUnit unit() const override { return CarrierUnit::kTensor; }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }
  std::string Note(const TensorMeta& meta) const override {
    return NoteOfSelection(density_, meta);
  }
  Status Check(const TensorMeta& meta, int) const override {
    return CheckSelection(density_, meta);
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int) const override {
    return 4 * Selected(meta);  // the indices
  }

  // The selected elements, and one that is zero unless a rank is not finite.
  RoundSpec Round(int, const TensorMeta& meta, int, ConstBytes, ConstBytes) const override {
    return {.dtype = DType::kFloat32, .op = ReduceOp::kSum, .elems = Selected(meta) + 1};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    const std::span<uint32_t> indices = IndicesIn(view);
    DrawIndices(view.dither, view.meta.elems, indices);
    InputJob input = InputJobOf(view);
    if (!StagesInput(view)) input.e_out = nullptr;  // until it is known whether all are finite
    auto* values = carrier.as<float>();
    const bool finite = SplitInput(input, indices, Sent(view.meta), values);
    values[indices.size()] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    view.stats->bytes += carrier.bytes();
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const std::span<const uint32_t> indices = IndicesIn(view);
    const float flag = reduced.as<float>()[indices.size()];
    DecodeJob job = DecodeJobOf(view, reduced);
    if (std::isnan(flag)) {
      KeepResidual(view);
      Spoil(job);
      return Status();
    }
    if (flag != 0) {
      return CorruptCarrier("a flag is not what ranks of randk send");
    }
    // First: the output may lie over the gradient.
    if (!StagesInput(view)) KeepUnsent(view, indices);
    job.out_scale *= Sent(view.meta);
    Scatter(job, indices, reduced.data);
    return Status();
  }

 private:
  static void KeepUnsent(const StepView& view, std::span<const uint32_t> indices) {
    if (view.e_out.empty()) return;  // feedback=off
    LoadContribution(view.grad, view.in_scale, view.e_in, view.e_out);
    float* e_out = view.e_out.as<float>();
    for (uint32_t index : indices) e_out[index] = 0;
  }
  int64_t Selected(const TensorMeta& meta) const { return SelectedElems(density_, meta.elems); }
  // What an element that is sent counts for.
  float Sent(const TensorMeta& meta) const {
    if (!traits_.unbiased || meta.elems == 0) return 1;
    return static_cast<float>(static_cast<double>(meta.elems) /
                              static_cast<double>(Selected(meta)));
  }
  std::span<uint32_t> IndicesIn(const StepView& view) const {
    return {reinterpret_cast<uint32_t*>(view.workspace.data),
            static_cast<size_t>(Selected(view.meta))};
  }

  const double density_;
  const CodecTraits traits_;
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const double density = args.Real("density", kDefaultDensity, kMinDensity, kMaxDensity);
  const Feedback feedback = args.ReadFeedback(Feedback::kOn);
  if (!args.status().ok()) return args.status();
  return Codec{.spec = args.canonical(),
               .feedback = feedback,
               .carrier = std::make_shared<RandkCarrier>(density, feedback),
               .min_numel = kMinNumelOfTensors};
}

}  // namespace

void DrawIndices(const Dither& dither, int64_t elems, std::span<uint32_t> indices) {
  Dither shared = dither;
  shared.purpose = DitherPurpose::kShared;
  shared.rank = 0;
  const auto d = static_cast<uint64_t>(elems);
  const uint64_t k = indices.size();
  std::array<uint32_t, 4> words = Philox(DitherInput(shared, 0));
  const unsigned __int128 place = uint64_t{words[1]} << 32 | words[0];
  const auto begin = static_cast<uint64_t>(place * d >> 64);
  uint64_t within = k;  // parts whose index does not lie past the tensor's end
  for (uint64_t j = 0; j < k; ++j) {
    if (j % 4 == 0) words = Philox(DitherInput(shared, static_cast<int64_t>(1 + j / 4)));
    const uint64_t first = j * d / k, size = (j + 1) * d / k - first;
    uint64_t index = begin + first + (words[j % 4] * size >> 32);
    if (index >= d) {
      index -= d;
      within = std::min(within, j);
    }
    indices[j] = static_cast<uint32_t>(index);
  }
  std::rotate(indices.begin(), indices.begin() + static_cast<int64_t>(within), indices.end());
}

CodecRow RandkRow() {
  return {
      .name = "randk",
      .doc =
          "the same density * elements random ones on all ranks, 32 density bits per element; "
          "error feedback, or unbiased with variance (1 / density - 1) x^2; sparsified SGD, "
          "Stich et al. 2018",
      .keys = {"density"},
      .conformance_specs = {"randk(density=0.1)", "randk(density=0.5,feedback=off)"},
      .shown_specs = {"randk(0.01)", "randk(0.1)", "randk(0.5,feedback=off)"},
      .advice = {.momentum = false,
                 .adam = false,
                 .note = "densities of 0.1 and more, a smaller learning rate and no momentum: 0.01 "
                         "diverges with momentum, and loses 4 to 5 points without"},
      .make = Make};
}

}  // namespace gradwire
