#include "compress/codecs/none/none_carrier.h"

#include <cstring>

#include "base/numeric.h"

namespace gradwire {
namespace {

class NoneCarrier final : public CarrierMethod {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {
        .unbiased = true, .contractive = true, .lossless = true};
    return kTraits;
  }
  int rounds() const override { return 1; }
  CarrierUnit unit() const override { return CarrierUnit::kElementwise; }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }

  RoundSpec Round(int, const TensorMeta& meta, int, ConstBytes, ConstBytes) const override {
    return {.dtype = meta.has_residual ? DType::kFloat32 : meta.dtype, .elems = meta.elems};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    if (view.meta.has_residual) {
      LoadContribution(view.grad, view.in_scale, view.e_in, carrier);
    } else {
      std::memcpy(carrier.data, view.grad.data, view.grad.bytes());
    }
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    ScaleInto(reduced, view.meta.has_residual ? view.out_scale : view.in_scale * view.out_scale,
              view.out);
    return Status();
  }
};

}  // namespace

std::shared_ptr<const CarrierMethod> MakeNoneCarrier() { return std::make_shared<NoneCarrier>(); }

}  // namespace gradwire
