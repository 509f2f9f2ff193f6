// What every carrier method of the registry is run through: the ranks of one step in one thread,
// and the sum of their carriers as any all-reduce would make it.
#ifndef GRADWIRE_TESTS_CONFORMANCE_CARRIER_WORLD_H_
#define GRADWIRE_TESTS_CONFORMANCE_CARRIER_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "compress/carrier_method.h"
#include "tests/conformance/codec_world.h"

namespace gradwire {

// What one rank ends a step with.
struct CarrierRank {
  std::vector<std::vector<std::byte>> filled;  // by round
  std::vector<std::byte> out;                  // of the gradient's type
  std::vector<float> e_out;                    // empty where the case keeps nothing back
  std::vector<std::byte> replicated;           // for the next step
  std::vector<float> local;                    // likewise; empty where the method keeps none
  EncodeStats stats;
  Status absorbed;  // the first error of Absorb
};

// In which order the carriers of the ranks are added; a permutation.
using SumOrder = std::vector<int>;
SumOrder InOrder(int ranks);

// Called on the reduced carrier of each round before the ranks absorb it.
using Damage = std::function<void(int round, std::vector<std::byte>*)>;

// One step of cases[r] on rank r, all of one size and type; dither.rank is filled in. Everything
// lies in guarded memory.
std::vector<CarrierRank> RunCarriers(const CarrierMethod& method,
                                     const std::vector<EncodeCase>& cases, const SumOrder& order,
                                     float out_scale = 1.0f, const Damage& damage = nullptr);
// The next step of cases[r], after this one was committed with results[r]: what rank r keeps goes
// on, a residual that was sent is gone. Gradients stay.
void TakeStep(const std::vector<CarrierRank>& results, std::vector<EncodeCase>* cases);

// RunCarriers for one rank alone; `add` is the all-reduce, or where the method gathers the
// all-gather.
using AddCarriers =
    std::function<std::vector<std::byte>(const RoundSpec&, const std::vector<std::byte>& mine)>;
CarrierRank RunCarrier(const CarrierMethod& method, const EncodeCase& c, int rank, int world_size,
                       const AddCarriers& add);

// The same bits, and statistics up to their last bits.
void CheckSame(const std::vector<CarrierRank>& expected, const std::vector<CarrierRank>& actual);

// Every carrier method of the registry with every SIMD target of this machine.
std::vector<CodecOnTarget> AllCarriersOnTargets();

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_CARRIER_WORLD_H_
