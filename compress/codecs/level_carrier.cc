#include "compress/codecs/level_carrier.h"

#include <cstring>
#include <limits>
#include <string>

#include "compress/codecs/carrier_jobs.h"

namespace gradwire {
namespace {

const uint32_t* AgreedOf(const StepView& view) {
  return reinterpret_cast<const uint32_t*>(view.agreed.data);
}

}  // namespace

LevelCarrier::LevelCarrier(const Options& options) : options_(options) {
  traits_.stochastic = options.rounding == Rounding::kStochastic;
  traits_.unbiased = traits_.stochastic && options.clip == 0;
  traits_.contractive = !traits_.stochastic && options.clip == 0;
}

Status LevelCarrier::Check(const TensorMeta&, int world_size) const {
  const int64_t most = std::numeric_limits<int32_t>::max() / (2 * Shape(1).bias());
  if (world_size <= most) return Status();
  return Status(gwInvalidArgument,
                "levels of " + std::to_string(options_.bits) + " bits can be added over at most " +
                    std::to_string(most) + " ranks",
                "Use fewer bits");
}

int64_t LevelCarrier::QuantumElems(const TensorMeta&, int world_size) const {
  return Shape(world_size).lanes.block;
}

int64_t LevelCarrier::AgreedBytes(const TensorMeta& meta, int world_size) const {
  return 4 * Shape(world_size).lanes.blocks(meta.elems);
}

RoundSpec LevelCarrier::Round(int round, const TensorMeta& meta, int world_size, ConstBytes,
                              ConstBytes) const {
  const LaneShape lanes = Shape(world_size).lanes;
  if (round == 0)
    return {.dtype = DType::kUint32, .op = ReduceOp::kMax, .elems = lanes.blocks(meta.elems)};
  return {.dtype = DType::kUint32, .op = ReduceOp::kSum, .elems = lanes.words(meta.elems)};
}

Status LevelCarrier::Fill(int round, const StepView& view, View carrier, ExecContext*) const {
  const LevelLanes shape = Shape(view.world_size);
  const EncodeJob job = EncodeJobOf(view, carrier);
  view.stats->bytes += carrier.bytes();
  if (round == 0) {
    ActiveLevelLaneKernels().magnitudes(shape, job, carrier.as<uint32_t>());
  } else {
    ActiveLevelLaneKernels().encode(shape, job, AgreedOf(view));
  }
  return Status();
}

Status LevelCarrier::Absorb(int round, ConstView reduced, const StepView& view,
                            ExecContext*) const {
  if (round == 0) {
    std::memcpy(view.agreed.data, reduced.data, static_cast<size_t>(reduced.bytes()));
    return Status();
  }
  if (ActiveLevelLaneKernels().decode(Shape(view.world_size), DecodeJobOf(view, reduced),
                                      AgreedOf(view))) {
    return Status();
  }
  return CorruptCarrier("a sum of levels is no such sum as all ranks together can make");
}

}  // namespace gradwire
