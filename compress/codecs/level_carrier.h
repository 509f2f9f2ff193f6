// LevelCarrier: levels under block scales that all ranks share. Round 0 agrees on the scales by a
// maximum, round 1 adds the levels, exactly. What `qsgd(sum=carrier)` and `terngrad` are made of.
#ifndef GRADWIRE_COMPRESS_CODECS_LEVEL_CARRIER_H_
#define GRADWIRE_COMPRESS_CODECS_LEVEL_CARRIER_H_

#include "compress/carrier_method.h"
#include "compress/kernels/lanes/level_lanes.h"

namespace gradwire {

class LevelCarrier final : public CarrierMethod {
 public:
  struct Options {
    int bits = 8;
    Rounding rounding = Rounding::kStochastic;
    float clip = 0;  // see LevelLanes
  };
  explicit LevelCarrier(const Options& options);

  const CodecTraits& traits() const override { return traits_; }
  int rounds() const override { return 2; }
  CarrierUnit unit() const override { return CarrierUnit::kElementwise; }
  Status Check(const TensorMeta& meta, int world_size) const override;
  int64_t QuantumElems(const TensorMeta& meta, int world_size) const override;
  int64_t AgreedBytes(const TensorMeta& meta, int world_size) const override;
  RoundSpec Round(int round, const TensorMeta& meta, int world_size, ConstBytes,
                  ConstBytes) const override;
  Status Fill(int round, const StepView& view, View carrier, ExecContext*) const override;
  Status Absorb(int round, ConstView reduced, const StepView& view, ExecContext*) const override;

 private:
  LevelLanes Shape(int world_size) const {
    return MakeLevelLanes(options_.bits, options_.rounding, world_size, options_.clip);
  }

  const Options options_;
  CodecTraits traits_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_LEVEL_CARRIER_H_
