#include "compress/codecs/signsgd/signsgd_codec.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "compress/codecs/carrier_jobs.h"
#include "compress/kernels/lanes/sign_lanes.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class SignsgdCarrier final : public CarrierMethod {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.estimates_sum = false};
    return kTraits;
  }
  int rounds() const override { return 1; }
  CarrierUnit unit() const override { return CarrierUnit::kElementwise; }
  int64_t QuantumElems(const TensorMeta&, int world_size) const override {
    return MakeSignLanes(world_size).lanes.block;
  }
  RoundSpec Round(int, const TensorMeta& meta, int world_size, ConstBytes,
                  ConstBytes) const override {
    return {.dtype = DType::kUint32,
            .op = ReduceOp::kSum,
            .elems = MakeSignLanes(world_size).lanes.words(meta.elems)};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    EncodeJob job = EncodeJobOf(view, carrier);
    job.e_out = nullptr;  // until it is known which blocks are finite on all ranks
    view.stats->bytes += carrier.bytes();
    ActiveSignLaneKernels().encode(MakeSignLanes(view.world_size), job);
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const SignLanes shape = MakeSignLanes(view.world_size);
    if (!ActiveSignLaneKernels().decode(shape, DecodeJobOf(view, reduced))) {
      return Status(gwDataCorrupt, "a sum of votes is larger than all ranks together can make it",
                    "check that all ranks run the same version and the same spec");
    }
    if (!view.e_out.empty()) SettleResidual(shape.lanes, reduced, view);
    return Status();
  }

 private:
  // A residual of an earlier codec has been voted on, and is then gone; but for blocks that are not
  // finite, where it stays.
  static void SettleResidual(const LaneShape& lanes, ConstView reduced, const StepView& view) {
    const auto* words = reduced.as<uint32_t>();
    for (int64_t first = 0; first < view.e_out.elems; first += lanes.block) {
      const int64_t elems = std::min(lanes.block, view.e_out.elems - first);
      const View e_out = view.e_out.Sub(first, elems);
      const bool stays = words[lanes.words(first)] > 0 && !view.e_in.empty();
      if (stays) {
        std::memmove(e_out.data, view.e_in.Sub(first, elems).data, e_out.bytes());
      } else {
        std::memset(e_out.data, 0, e_out.bytes());
      }
    }
  }
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    return Status(gwInvalidArgument, "signsgd does not accept feedback=on",
                  "a majority leaves no error to feed back; efsign is the sign with feedback");
  }
  if (!args.status().ok()) return args.status();
  return Codec{.spec = spec.name, .carrier = std::make_shared<SignsgdCarrier>()};
}

}  // namespace

CodecRow SignsgdRow() {
  return {.name = "signsgd",
          .doc =
              "majority of signs, not an estimate of the sum: needs a learning rate of its own, "
              "ceil(log2(2 ranks + 1)) bits per element; signSGD, Bernstein et al. 2018",
          .keys = {},
          .conformance_specs = {"signsgd"},
          .advice = {.momentum = false,
                     .adam = false,
                     .note = "steps of one size: a learning rate of its own, and decay"},
          .make = Make};
}

}  // namespace gradwire
