// What every codec of the registry is run through: inputs, one encode and decode in guarded memory,
// and the list of (spec, SIMD target).
#ifndef GRADWIRE_TESTS_CONFORMANCE_CODEC_WORLD_H_
#define GRADWIRE_TESTS_CONFORMANCE_CODEC_WORLD_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "compress/payload_codec.h"
#include "compress/registry.h"

namespace gradwire {

// Sizes around SIMD widths, words, runs and blocks, and primes.
inline constexpr int64_t kSmallSizes[] = {0,   1,   7,   15,  16,  17,  33,  255, 256,
                                          257, 511, 512, 513, 767, 768, 997, 3331};
inline constexpr DType kGradTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// Kinds of gradients.
enum class Kind {
  kGaussian,
  kZeros,
  kNegative,
  kOneHot,
  kHuge,
  kTiny,
  kSubnormal,
  kSparse,
  kConstant,
  kSorted,
  kMaximum,
  kMixedSign,
  kNonFinite,
};
inline constexpr Kind kKinds[] = {
    Kind::kGaussian, Kind::kZeros,     Kind::kNegative, Kind::kOneHot,   Kind::kHuge,
    Kind::kTiny,     Kind::kSubnormal, Kind::kSparse,   Kind::kConstant, Kind::kSorted,
    Kind::kMaximum,  Kind::kMixedSign, Kind::kNonFinite};
const char* Name(Kind kind);

// A gradient of `elems` elements of `dtype`, as bytes; values that do not fit become what
// conversion makes of them.
std::vector<std::byte> MakeGrad(Kind kind, int64_t elems, DType dtype, RandomStream* random);
// A residual of the size of small gradients.
std::vector<float> MakeResidual(int64_t elems, RandomStream* random);
// Element i as float.
float GradAt(const std::vector<std::byte>& grad, DType dtype, int64_t i);

// kSent: what a codec before has kept back goes along, and nothing is kept.
enum class ResidualMode { kNone, kSeparate, kInPlace, kSent };
inline constexpr ResidualMode kResidualModes[] = {ResidualMode::kNone, ResidualMode::kSeparate,
                                                  ResidualMode::kInPlace, ResidualMode::kSent};
// Those of a carrier's steps: without feedback nothing is kept back.
std::span<const ResidualMode> ModesOf(Feedback feedback);
inline bool HasResidual(ResidualMode mode) { return mode != ResidualMode::kNone; }
inline bool KeepsBack(ResidualMode mode) {
  return mode == ResidualMode::kSeparate || mode == ResidualMode::kInPlace;
}

struct EncodeCase {
  std::vector<std::byte> grad;
  DType dtype = DType::kFloat32;
  std::vector<float> e_in;  // used where the mode has a residual
  ResidualMode mode = ResidualMode::kNone;
  float in_scale = 1.0f;
  Dither dither;
  int64_t tensor_elems = 0;           // of payload codecs: what EncodeArgs says
  std::vector<int64_t> shape;         // for carriers of whole tensors
  bool out_over_grad = false;         // of carriers: the output takes the gradient's place
  std::vector<std::byte> replicated;  // their state; empty: before the first step
  std::vector<float> local;           // likewise, of a method that keeps it
  bool local_in_place = false;        // the next takes its place

  int64_t elems() const { return static_cast<int64_t>(grad.size()) / SizeOf(dtype); }
  // The codec's input: fl(grad * in_scale) + e_in.
  std::vector<float> Input() const;
};

// Input() of each.
std::vector<std::vector<float>> InputsOf(const std::vector<EncodeCase>& cases);

struct Encoded {
  std::vector<std::byte> payload;
  std::vector<float> e_out;  // empty where the mode keeps nothing back
  EncodeStats stats;
};

// One call each, in guarded memory; fails the test on an error or a byte out of place.
Encoded RunEncode(const PayloadCodec& codec, const EncodeCase& c);
std::vector<std::byte> RunDecode(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                 int64_t elems, DType dtype, float out_scale = 1.0f);
std::vector<float> RunDecodeFloat(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                  int64_t elems);
std::vector<float> RunDecodeAdd(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                const std::vector<float>& acc);

uint32_t BitsOf(float v);
// Bitwise; names the first difference.
::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b);

// Every payload codec of the registry with every SIMD target of this machine.
struct CodecOnTarget {
  std::string spec;
  std::string target;
};
std::vector<CodecOnTarget> AllCodecsOnTargets();
void PrintTo(const CodecOnTarget& c, std::ostream* out);
std::string TestName(const ::testing::TestParamInfo<CodecOnTarget>& info);

// A test that runs once per CodecOnTarget, with a fresh random stream.
class CodecTest : public ::testing::TestWithParam<CodecOnTarget> {
 protected:
  CodecTest();
  ~CodecTest() override;

  const PayloadCodec& codec() const { return *codec_.payload; }
  const CodecTraits& traits() const { return codec_.payload->traits(); }
  int64_t quantum() const { return codec_.payload->traits().quantum_elems; }
  // kSmallSizes and the sizes around the codec's quantum.
  std::vector<int64_t> SmallSizes() const;
  RandomStream& random() { return random_; }
  Dither NewDither();
  EncodeCase NewCase(Kind kind, int64_t elems, DType dtype, ResidualMode mode);

 private:
  Codec codec_;
  RandomStream random_;
  ::testing::ScopedTrace trace_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_CODEC_WORLD_H_
