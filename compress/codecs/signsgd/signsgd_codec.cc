#include "compress/codecs/signsgd/signsgd_codec.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/kernels/lanes/sign_lanes.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class SignsgdCarrier final : public CarrierMethod {
 public:
  // 0: each step's gradient votes by itself, and nothing is kept.
  explicit SignsgdCarrier(float momentum) : momentum_(momentum) {}

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.estimates_sum = false};
    return kTraits;
  }
  int rounds() const override { return 1; }
  CarrierUnit unit() const override { return CarrierUnit::kElementwise; }
  int64_t QuantumElems(const TensorMeta&, int world_size) const override {
    return MakeSignLanes(world_size).lanes.block;
  }
  bool KeepsLocal() const override { return momentum_ > 0; }
  RoundSpec Round(int, const TensorMeta& meta, int world_size, ConstBytes,
                  ConstBytes) const override {
    return {.dtype = DType::kUint32,
            .op = ReduceOp::kSum,
            .elems = MakeSignLanes(world_size).lanes.words(meta.elems)};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    EncodeJob job = EncodeJobOf(view, carrier);
    job.e_out = nullptr;  // a vote leaves no error
    view.stats->bytes += carrier.bytes();
    const SignLanes shape = MakeSignLanes(view.world_size);
    if (momentum_ > 0) {
      VoteByAverage(shape, view, job);
    } else {
      ActiveSignLaneKernels().encode(shape, job);
    }
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const SignLanes shape = MakeSignLanes(view.world_size);
    // First: the output may lie over the gradient.
    if (momentum_ > 0) SettleAverage(shape.lanes, reduced, view);
    DecodeJob job = DecodeJobOf(view, reduced);
    job.out_scale *= view.rest_scale;
    if (!ActiveSignLaneKernels().decode(shape, job)) {
      return CorruptCarrier("a sum of votes is no such sum as all ranks together can make");
    }
    return Status();
  }

 private:
  // m' = beta m + (1 - beta) p of a block that begins at element `first`. Fill leaves it where the
  // next average goes, and Absorb takes back what is not to stay; in place Absorb makes it again.
  void MakeAverage(const StepView& view, int64_t first, View average) const {
    const ConstView e_in = view.e_in.empty() ? view.e_in : view.e_in.Sub(first, average.elems);
    LoadContribution(view.grad.Sub(first, average.elems), view.in_scale, e_in, average);
    AddDecayed(view.local_in.Sub(first, average.elems), momentum_, 1 - momentum_, average);
  }

  void VoteByAverage(const SignLanes& shape, const StepView& view, const EncodeJob& job) const {
    alignas(64) float scratch[kMaxLaneBlock];
    for (int64_t b = 0; b < shape.lanes.blocks(job.elems); ++b) {
      EncodeJob block = BlockOf(shape.lanes, job, b);
      const int64_t first = b * shape.lanes.block;
      const View average = StagesLocal(view) ? view.local_out.Sub(first, block.elems)
                                             : FloatView(scratch, block.elems);
      MakeAverage(view, first, average);
      block.grad = average.data;
      block.dtype = DType::kFloat32;
      block.in_scale = 1;
      block.e_in = nullptr;
      ActiveSignLaneKernels().encode(shape, block);
    }
  }

  // Blocks that are not finite on some rank keep their average.
  void SettleAverage(const LaneShape& lanes, ConstView reduced, const StepView& view) const {
    const auto* words = reduced.as<uint32_t>();
    alignas(64) float average[kMaxLaneBlock];
    for (int64_t first = 0; first < view.local_out.elems; first += lanes.block) {
      const View to =
          view.local_out.Sub(first, std::min(lanes.block, view.local_out.elems - first));
      if (words[lanes.words(first)] > 0) {
        std::memmove(to.data, view.local_in.Sub(first, to.elems).data, to.bytes());
      } else if (!StagesLocal(view)) {
        MakeAverage(view, first, FloatView(average, to.elems));
        std::memcpy(to.data, average, to.bytes());
      }
    }
  }

  const float momentum_;
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const double momentum = args.Real("momentum", 0, 0, kMaxMomentum);
  const std::string canonical = momentum > 0 ? args.canonical() : spec.name;
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    return Status(gwInvalidArgument, "signsgd does not accept feedback=on",
                  "A majority leaves no error to feed back; efsign is the sign with feedback");
  }
  if (!args.status().ok()) return args.status();
  return Codec{.spec = canonical,
               .carrier = std::make_shared<SignsgdCarrier>(static_cast<float>(momentum)),
               .min_numel = kMinNumelOfTensors};
}

}  // namespace

CodecRow SignsgdRow() {
  return {.name = "signsgd",
          .doc =
              "majority of signs, of gradients or of their averages with momentum (Signum), not an "
              "estimate of the sum: needs a learning rate of its own, ceil(log2(2 ranks + 1)) bits "
              "per element; signSGD, Bernstein et al. 2018",
          .keys = {"momentum"},
          .conformance_specs = {"signsgd", "signsgd(momentum=0.9)"},
          .advice = {.momentum = false,
                     .adam = false,
                     .note = "steps of one size: a learning rate of its own, and decay"},
          .make = Make};
}

}  // namespace gradwire
