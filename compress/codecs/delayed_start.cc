#include "compress/codecs/delayed_start.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/kernels/input/input_kernels.h"

namespace gradwire {
namespace {

using Count = uint32_t;
constexpr int64_t kCountBytes = sizeof(Count);
// What is looked at and then written stays in the first-level cache.
constexpr int64_t kCachedElems = 4096;

Count CountIn(ConstBytes replicated) {
  Count count;
  std::memcpy(&count, replicated.data, sizeof count);
  return count;
}

ConstBytes StateOf(ConstBytes replicated) {
  return replicated.Sub(kCountBytes, replicated.size - kCountBytes);
}

class DelayedStart final : public CarrierMethod {
 public:
  DelayedStart(Count steps, std::shared_ptr<const CarrierMethod> method)
      : steps_(steps), method_(std::move(method)) {}

  const CodecTraits& traits() const override { return method_->traits(); }
  int rounds() const override { return method_->rounds(); }
  CarrierUnit unit() const override { return method_->unit(); }
  Status Check(const TensorMeta& meta, int world_size) const override {
    return method_->Check(meta, world_size);
  }
  std::string Note(const TensorMeta& meta) const override { return method_->Note(meta); }
  int64_t QuantumElems(const TensorMeta& meta, int world_size) const override {
    return method_->QuantumElems(meta, world_size);
  }
  int64_t AgreedBytes(const TensorMeta& meta, int world_size) const override {
    return method_->AgreedBytes(meta, world_size);
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    return method_->WorkspaceBytes(meta, world_size);
  }
  int64_t ReplicatedBytes(const TensorMeta& meta, int world_size) const override {
    return kCountBytes + method_->ReplicatedBytes(meta, world_size);
  }

  bool SizesDependOnData() const override { return method_->SizesDependOnData(); }

  // Before the start all is in the last round, and the others have nothing to sum.
  RoundSpec Round(int round, const TensorMeta& meta, int world_size, ConstBytes agreed,
                  ConstBytes replicated) const override {
    if (replicated.empty()) return method_->Round(round, meta, world_size, agreed, {});
    if (HasStarted(replicated))
      return method_->Round(round, meta, world_size, agreed, StateOf(replicated));
    RoundSpec spec = method_->Round(round, meta, world_size, {}, {});
    spec.elems = IsLast(round) ? meta.elems : 0;
    return spec;
  }

  Status Fill(int round, const StepView& view, View carrier, ExecContext* context) const override {
    if (HasStarted(view.replicated_in)) return method_->Fill(round, Inner(view), carrier, context);
    if (IsLast(round)) FillExactly(view, carrier);
    return Status();
  }

  Status Absorb(int round, ConstView reduced, const StepView& view,
                ExecContext* context) const override {
    if (HasStarted(view.replicated_in)) {
      StoreCount(view, CountIn(view.replicated_in));
      return method_->Absorb(round, reduced, Inner(view), context);
    }
    if (IsLast(round)) AbsorbExactly(reduced, view);
    return Status();
  }

 private:
  bool IsLast(int round) const { return round + 1 == rounds(); }
  bool HasStarted(ConstBytes replicated) const { return CountIn(replicated) >= steps_; }

  static StepView Inner(StepView view) {
    view.replicated_in = StateOf(view.replicated_in);
    view.replicated_out = view.replicated_out.Sub(kCountBytes, view.replicated_in.size);
    return view;
  }

  static void StoreCount(const StepView& view, Count count) {
    std::memcpy(view.replicated_out.data, &count, sizeof count);
  }

  // What is not finite is so in the sum, whatever the other ranks have.
  static void FillExactly(const StepView& view, View carrier) {
    InputJob input = InputJobOf(view);
    input.e_out = carrier.as<float>();
    view.stats->bytes += carrier.bytes();
    AddCounted(StatsOfInput(input), view.stats);
  }

  static void AbsorbExactly(ConstView reduced, const StepView& view) {
    std::memcpy(view.replicated_out.data, view.replicated_in.data,
                static_cast<size_t>(view.replicated_out.size));
    if (!ScaleFinite(reduced, view.out_scale, view.out)) {
      KeepResidual(view);
      return Spoil(DecodeJobOf(view, reduced));
    }
    StoreCount(view, CountIn(view.replicated_in) + 1);
    if (!view.e_out.empty()) std::memset(view.e_out.data, 0, view.e_out.bytes());
  }

  // False where an element is not finite; `out` is then to be written again.
  static bool ScaleFinite(ConstView in, float scale, View out) {
    for (int64_t first = 0; first < in.elems; first += kCachedElems) {
      const ConstView piece = in.Sub(first, std::min(kCachedElems, in.elems - first));
      if (CountNonFinite(piece) > 0) return false;
      ScaleInto(piece, scale, out.Sub(first, piece.elems));
    }
    return true;
  }

  const Count steps_;
  const std::shared_ptr<const CarrierMethod> method_;
};

}  // namespace

std::shared_ptr<const CarrierMethod> StartAfter(int64_t steps,
                                                std::shared_ptr<const CarrierMethod> method) {
  if (steps == 0) return method;
  return std::make_shared<DelayedStart>(static_cast<Count>(steps), std::move(method));
}

}  // namespace gradwire
