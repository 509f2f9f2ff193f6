#include "tests/conformance/codec_world.h"

#include <bit>
#include <cctype>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>

#include "base/float16.h"
#include "compress/kernels/dispatch.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

// Bell-shaped, of variance 1: the sum of the four 16-bit parts of one draw.
float Gaussian(RandomStream* random) {
  uint64_t bits = (*random)();
  double sum = -2;
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<double>(bits & 0xFFFF) * 0x1p-16;
  return static_cast<float>(sum * std::sqrt(3.0));
}

float ValueOf(Kind kind, int64_t i, int64_t elems, RandomStream* random) {
  const float g = Gaussian(random);
  switch (kind) {
    case Kind::kGaussian: return g;
    case Kind::kZeros: return 0.0f;
    case Kind::kNegative: return -std::fabs(g) - 0.125f;
    case Kind::kOneHot: return i == elems / 2 ? -3.5f : 0.0f;
    case Kind::kHuge: return g * 1e30f;
    case Kind::kTiny: return g * 1e-38f;
    case Kind::kSubnormal: return g * 0x1p-140f;
    case Kind::kSparse: return random->Below(100) == 0 ? g : 0.0f;
    case Kind::kConstant: return -0.7f;
    case Kind::kSorted: return static_cast<float>(i) / static_cast<float>(elems) - 0.25f;
    case Kind::kMaximum: return (i & 1) != 0 ? FLT_MAX : -FLT_MAX * 0.75f;
    case Kind::kMixedSign:
      return (i & 1) != 0 ? -0.0f : std::ldexp(g, static_cast<int>(random->Below(60)) - 30);
    case Kind::kNonFinite:
      if (i % 700 == 3) return std::numeric_limits<float>::quiet_NaN();
      return i % 700 == 300 ? -std::numeric_limits<float>::infinity() : g;
  }
  return 0;
}

void Append(std::vector<std::byte>* out, DType dtype, float v) {
  std::byte bytes[4];
  if (dtype == DType::kFloat32) {
    std::memcpy(bytes, &v, 4);
  } else {
    const uint16_t half = dtype == DType::kFloat16 ? Fp16FromFloat(v) : Bf16FromFloat(v);
    std::memcpy(bytes, &half, 2);
  }
  out->insert(out->end(), bytes, bytes + SizeOf(dtype));
}

std::vector<std::byte> BytesOf(const GuardedBuffer& buffer) {
  EXPECT_TRUE(buffer.intact()) << "a byte before a buffer was written";
  return {buffer.data(), buffer.data() + buffer.size()};
}

std::vector<float> FloatsOf(const GuardedBuffer& buffer) {
  EXPECT_TRUE(buffer.intact()) << "a byte before a buffer was written";
  std::vector<float> out(static_cast<size_t>(buffer.size() / 4));
  if (!out.empty()) std::memcpy(out.data(), buffer.data(), static_cast<size_t>(buffer.size()));
  return out;
}

void Fill(const GuardedBuffer& buffer, const void* from) {
  if (buffer.size() > 0) std::memcpy(buffer.data(), from, static_cast<size_t>(buffer.size()));
}

}  // namespace

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kGaussian: return "gaussian";
    case Kind::kZeros: return "zeros";
    case Kind::kNegative: return "negative";
    case Kind::kOneHot: return "one-hot";
    case Kind::kHuge: return "huge";
    case Kind::kTiny: return "tiny";
    case Kind::kSubnormal: return "subnormal";
    case Kind::kSparse: return "sparse";
    case Kind::kConstant: return "constant";
    case Kind::kSorted: return "sorted";
    case Kind::kMaximum: return "maximum";
    case Kind::kMixedSign: return "mixed-sign";
    case Kind::kNonFinite: return "non-finite";
  }
  return "unknown";
}

std::vector<std::byte> MakeGrad(Kind kind, int64_t elems, DType dtype, RandomStream* random) {
  std::vector<std::byte> out;
  out.reserve(static_cast<size_t>(elems * SizeOf(dtype)));
  for (int64_t i = 0; i < elems; ++i) Append(&out, dtype, ValueOf(kind, i, elems, random));
  return out;
}

std::vector<float> MakeResidual(int64_t elems, RandomStream* random) {
  std::vector<float> out(static_cast<size_t>(elems));
  for (float& v : out) v = 0.25f * Gaussian(random);
  return out;
}

float GradAt(const std::vector<std::byte>& grad, DType dtype, int64_t i) {
  if (dtype == DType::kFloat32) {
    float v;
    std::memcpy(&v, grad.data() + 4 * i, 4);
    return v;
  }
  uint16_t half;
  std::memcpy(&half, grad.data() + 2 * i, 2);
  return dtype == DType::kFloat16 ? FloatFromFp16(half) : FloatFromBf16(half);
}

std::vector<float> EncodeCase::Input() const {
  std::vector<float> p(static_cast<size_t>(elems()));
  for (size_t i = 0; i < p.size(); ++i) {
    const float scaled = GradAt(grad, dtype, static_cast<int64_t>(i)) * in_scale;
    p[i] = HasResidual(mode) ? scaled + e_in[i] : scaled;
  }
  return p;
}

std::span<const ResidualMode> ModesOf(Feedback feedback) {
  static constexpr ResidualMode kKeeping[] = {ResidualMode::kNone, ResidualMode::kSeparate,
                                              ResidualMode::kInPlace};
  static constexpr ResidualMode kLosing[] = {ResidualMode::kNone, ResidualMode::kSent};
  if (feedback == Feedback::kOn) return kKeeping;
  return kLosing;
}

std::vector<std::vector<float>> InputsOf(const std::vector<EncodeCase>& cases) {
  std::vector<std::vector<float>> inputs;
  for (const EncodeCase& c : cases) inputs.push_back(c.Input());
  return inputs;
}

Encoded RunEncode(const PayloadCodec& codec, const EncodeCase& c) {
  const int64_t elems = c.elems();
  const int64_t residual_bytes = HasResidual(c.mode) ? 4 * elems : 0;
  const GuardedBuffer grad(static_cast<int64_t>(c.grad.size()));
  const GuardedBuffer e_in(residual_bytes);
  const GuardedBuffer e_out(c.mode == ResidualMode::kSeparate ? residual_bytes : 0);
  const GuardedBuffer out(codec.MaxBytes(elems));
  const GuardedBuffer workspace((codec.WorkspaceBytes(elems) + 63) / 64 * 64);
  Fill(grad, c.grad.data());
  Fill(e_in, c.e_in.data());
  const GuardedBuffer& written = c.mode == ResidualMode::kSeparate ? e_out : e_in;
  Encoded result;
  EncodeArgs args{.grad = {grad.data(), elems, c.dtype},
                  .out = {out.data(), out.size()},
                  .workspace = {workspace.data(), workspace.size()},
                  .in_scale = c.in_scale,
                  .stats = &result.stats,
                  .dither = c.dither,
                  .tensor_elems = c.tensor_elems};
  if (HasResidual(c.mode)) args.e_in = {e_in.data(), elems, DType::kFloat32};
  if (KeepsBack(c.mode)) args.e_out = {written.data(), elems, DType::kFloat32};
  const Status status = codec.Encode(args);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(grad.intact() && workspace.intact());
  result.payload = BytesOf(out);
  EXPECT_EQ(result.stats.bytes, out.size());
  result.payload.resize(static_cast<size_t>(result.stats.bytes));
  if (KeepsBack(c.mode)) result.e_out = FloatsOf(written);
  return result;
}

std::vector<std::byte> RunDecode(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                 int64_t elems, DType dtype, float out_scale) {
  const GuardedBuffer in(static_cast<int64_t>(payload.size()));
  const GuardedBuffer out(elems * SizeOf(dtype));
  Fill(in, payload.data());
  const Status status =
      codec.Decode({in.data(), in.size()}, {out.data(), elems, dtype}, out_scale, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return BytesOf(out);
}

std::vector<float> RunDecodeFloat(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                  int64_t elems) {
  const std::vector<std::byte> bytes = RunDecode(codec, payload, elems, DType::kFloat32);
  std::vector<float> out(static_cast<size_t>(elems));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<float> RunDecodeAdd(const PayloadCodec& codec, const std::vector<std::byte>& payload,
                                const std::vector<float>& acc) {
  const GuardedBuffer in(static_cast<int64_t>(payload.size()));
  const GuardedBuffer out(static_cast<int64_t>(4 * acc.size()));
  Fill(in, payload.data());
  Fill(out, acc.data());
  const View view{out.data(), static_cast<int64_t>(acc.size()), DType::kFloat32};
  const Status status = codec.DecodeAdd({in.data(), in.size()}, view, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return FloatsOf(out);
}

uint32_t BitsOf(float v) { return std::bit_cast<uint32_t>(v); }

::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (BitsOf(a[i]) == BitsOf(b[i])) continue;
    return ::testing::AssertionFailure()
           << "element " << i << " of " << a.size() << ": " << a[i] << " and " << b[i];
  }
  return ::testing::AssertionSuccess();
}

std::vector<CodecOnTarget> AllCodecsOnTargets() {
  std::vector<CodecOnTarget> all;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const StatusOr<Codec> codec = MakeCodec(spec);
      if (codec.ok() && codec->payload == nullptr) continue;
      for (SimdTarget target : SupportedTargets()) {
        all.push_back({spec, std::string(Name(target))});
      }
    }
  }
  return all;
}

void PrintTo(const CodecOnTarget& c, std::ostream* out) { *out << c.spec << " on " << c.target; }

std::string TestName(const ::testing::TestParamInfo<CodecOnTarget>& info) {
  std::string name;
  for (char c : info.param.spec + "_" + info.param.target) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

CodecTest::CodecTest()
    : codec_(*MakeCodec(GetParam().spec)),
      random_(TestSeed()),
      trace_(__FILE__, __LINE__, TestSeedText()) {
  EXPECT_TRUE(ForceTargetForTest(GetParam().target));
}

CodecTest::~CodecTest() { ForceTargetForTest(""); }

std::vector<int64_t> CodecTest::SmallSizes() const {
  std::set<int64_t> sizes(std::begin(kSmallSizes), std::end(kSmallSizes));
  sizes.insert({quantum() - 1, quantum(), quantum() + 1});
  return {sizes.begin(), sizes.end()};
}

Dither CodecTest::NewDither() {
  return {.seed = static_cast<uint32_t>(random_()),
          .purpose = DitherPurpose::kWorker,
          .tensor = random_(),
          .step = static_cast<uint32_t>(random_()),
          .rank = static_cast<uint32_t>(random_.Below(1u << 16)),
          .first_elem = static_cast<int64_t>(random_.Below(1u << 20)) * quantum()};
}

EncodeCase CodecTest::NewCase(Kind kind, int64_t elems, DType dtype, ResidualMode mode) {
  EncodeCase c{.dtype = dtype, .mode = mode, .dither = NewDither()};
  c.grad = MakeGrad(kind, elems, dtype, &random_);
  c.e_in = MakeResidual(elems, &random_);
  return c;
}

}  // namespace gradwire
