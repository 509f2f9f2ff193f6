#include "compress/codecs/none/exact_rider.h"

#include <utility>

#include "compress/codecs/none/none_carrier.h"

namespace gradwire {
namespace {

// `none` behind rounds in which it does nothing.
class ExactRider final : public CarrierMethod {
 public:
  explicit ExactRider(std::vector<RoundSpec> rounds) : rounds_(std::move(rounds)) {}

  const CodecTraits& traits() const override { return none_->traits(); }
  int rounds() const override { return static_cast<int>(rounds_.size()); }
  CarrierUnit unit() const override { return none_->unit(); }
  int64_t QuantumElems(const TensorMeta& meta, int world_size) const override {
    return none_->QuantumElems(meta, world_size);
  }
  RoundSpec Round(int round, const TensorMeta& meta, int, ConstBytes, ConstBytes) const override {
    RoundSpec spec = rounds_[static_cast<size_t>(round)];
    spec.elems = IsLast(round) ? meta.elems : 0;
    return spec;
  }
  Status Fill(int round, const StepView& view, View carrier, ExecContext* context) const override {
    return IsLast(round) ? none_->Fill(0, InFloats(view), carrier, context) : Status();
  }
  Status Absorb(int round, ConstView reduced, const StepView& view,
                ExecContext* context) const override {
    return IsLast(round) ? none_->Absorb(0, reduced, InFloats(view), context) : Status();
  }

 private:
  bool IsLast(int round) const { return round + 1 == rounds(); }
  // As it sums a tensor with a residual, whatever the tensor's type.
  static StepView InFloats(StepView view) {
    view.meta.has_residual = true;
    return view;
  }

  const std::vector<RoundSpec> rounds_;
  const std::shared_ptr<const CarrierMethod> none_ = MakeNoneCarrier();
};

}  // namespace

bool TakesRiders(const std::vector<RoundSpec>& rounds) {
  return !rounds.empty() && rounds.back().dtype == DType::kFloat32 &&
         rounds.back().op == ReduceOp::kSum;
}

std::shared_ptr<const CarrierMethod> MakeExactRider(std::vector<RoundSpec> rounds) {
  return std::make_shared<ExactRider>(std::move(rounds));
}

}  // namespace gradwire
