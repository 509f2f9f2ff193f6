// Laws every payload codec keeps, on every SIMD target: bytes equal to the reference's,
// conservation, contraction, special values, sizes, statistics. codecs_random_test.cc has the laws
// of chance, codecs_hostile_test.cc damaged bytes and wrong arguments.
#include <cfloat>
#include <cmath>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/codec_world.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

// Everything a codec says about one case.
struct Outcome {
  Encoded encoded;
  std::vector<std::vector<std::byte>> decoded;  // by kGradTypes, times 0.375
  std::vector<float> plain;                     // float32, times 1
  std::vector<float> added;                     // to 1.25
};

Outcome RunAll(const PayloadCodec& codec, const EncodeCase& c) {
  Outcome out;
  out.encoded = RunEncode(codec, c);
  for (DType dtype : kGradTypes) {
    out.decoded.push_back(RunDecode(codec, out.encoded.payload, c.elems(), dtype, 0.375f));
  }
  out.plain = RunDecodeFloat(codec, out.encoded.payload, c.elems());
  const std::vector<float> acc(static_cast<size_t>(c.elems()), 1.25f);
  out.added = RunDecodeAdd(codec, out.encoded.payload, acc);
  return out;
}

void CheckSame(const Outcome& expected, const Outcome& actual) {
  EXPECT_EQ(expected.encoded.payload, actual.encoded.payload);
  EXPECT_TRUE(SameBits(expected.encoded.e_out, actual.encoded.e_out));
  EXPECT_EQ(expected.decoded, actual.decoded);
  EXPECT_TRUE(SameBits(expected.plain, actual.plain));
  EXPECT_TRUE(SameBits(expected.added, actual.added));
  const EncodeStats& a = expected.encoded.stats;
  const EncodeStats& b = actual.encoded.stats;
  EXPECT_EQ(a.nonfinite, b.nonfinite);
  EXPECT_EQ(BitsOf(a.absmax), BitsOf(b.absmax));
  EXPECT_NEAR(a.sum_p2, b.sum_p2, 1e-5 * a.sum_p2);
  EXPECT_NEAR(a.sum_err2, b.sum_err2, 1e-4 * a.sum_err2 + 1e-12 * a.sum_p2);
}

// e_out = fl(p - decoded) where the block is finite, e_out = e_in elsewhere.
void CheckConservation(const EncodeCase& c, const Outcome& outcome) {
  const std::vector<float> p = c.Input();
  for (size_t i = 0; i < p.size(); ++i) {
    const bool finite = std::isfinite(outcome.plain[i]);
    const bool may_be = outcome.encoded.stats.nonfinite > 0;
    ASSERT_TRUE(finite || may_be) << "element " << i;
    ASSERT_TRUE(std::isfinite(p[i]) || !finite) << "element " << i;
    if (!KeepsBack(c.mode)) continue;
    const float expected = finite ? p[i] - outcome.plain[i] : c.e_in[i];
    ASSERT_EQ(BitsOf(outcome.encoded.e_out[i]), BitsOf(expected)) << "element " << i;
  }
}

void CheckStats(const EncodeCase& c, const Outcome& outcome) {
  if (outcome.encoded.stats.nonfinite != 0) return;
  const std::vector<float> p = c.Input();
  double p2 = 0, error2 = 0;
  float absmax = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    p2 += static_cast<double>(p[i]) * p[i];
    error2 += std::pow(static_cast<double>(p[i] - outcome.plain[i]), 2);
    absmax = std::max(absmax, std::fabs(p[i]));
  }
  EXPECT_NEAR(outcome.encoded.stats.sum_p2, p2, 1e-5 * p2);
  EXPECT_NEAR(outcome.encoded.stats.sum_err2, error2, 1e-4 * error2 + 1e-12 * p2);
  EXPECT_EQ(outcome.encoded.stats.absmax, absmax);
}

// |p - decoded|^2 <= (1 - delta) |p|^2 for each quantum, with delta = 1 / quantum; subnormal values
// may be lost, hence the slack.
void CheckContraction(const EncodeCase& c, const Outcome& outcome, int64_t quantum) {
  if (outcome.encoded.stats.nonfinite != 0) return;
  const std::vector<float> p = c.Input();
  const double keep = 1 - 0.99 / static_cast<double>(quantum);
  for (int64_t first = 0; first < c.elems(); first += quantum) {
    double p2 = 0, error2 = 0;
    const int64_t end = std::min(c.elems(), first + quantum);
    for (int64_t i = first; i < end; ++i) {
      const double error = static_cast<double>(p[i]) - outcome.plain[i];
      p2 += static_cast<double>(p[i]) * p[i];
      error2 += error * error;
    }
    const double slack = static_cast<double>(end - first) * FLT_MIN * FLT_MIN;
    ASSERT_LE(error2, keep * p2 + slack) << "quantum at " << first;
  }
}

class CodecsTest : public CodecTest {
 protected:
  void CheckLaws(const EncodeCase& c) {
    const Outcome outcome = RunAll(codec(), c);
    CheckConservation(c, outcome);
    CheckStats(c, outcome);
    if (traits().contractive) CheckContraction(c, outcome, quantum());
    if (traits().lossless && outcome.encoded.stats.nonfinite == 0) {
      EXPECT_TRUE(SameBits(c.Input(), outcome.plain));
    }
    if (GetParam().target == "scalar") return;
    ASSERT_TRUE(ForceTargetForTest("scalar"));
    CheckSame(RunAll(codec(), c), outcome);
    ASSERT_TRUE(ForceTargetForTest(GetParam().target));
  }
};

// Conservation, statistics, contraction and exactness where promised, and the reference's bytes.
TEST_P(CodecsTest, KeepsItsLaws) {
  for (int64_t elems : SmallSizes()) {
    for (DType dtype : kGradTypes) {
      for (Kind kind : kKinds) {
        SCOPED_TRACE(::testing::Message() << elems << " " << Name(dtype) << " " << Name(kind));
        for (ResidualMode mode : kResidualModes) {
          if (kSanitized && random().Below(8) != 0) continue;
          CheckLaws(NewCase(kind, elems, dtype, mode));
        }
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(CodecsTest, KeepsItsLawsForALargeTensor) {
  const bool smaller = kSanitized && random().Below(16) != 0;
  const int64_t elems = (int64_t{1} << (smaller ? 15 : 20)) + 1;
  CheckLaws(NewCase(Kind::kGaussian, elems, DType::kFloat32, ResidualMode::kInPlace));
  CheckLaws(NewCase(Kind::kNonFinite, 100003, DType::kBfloat16, ResidualMode::kSeparate));
  EXPECT_FALSE(HasFailure());
}

// Of a part of a large tensor the residual passes the caches by, where its alignment allows it.
TEST_P(CodecsTest, KeepsItsLawsForAPartOfALargeTensor) {
  for (Kind kind : kKinds) {
    for (int64_t elems : {quantum() + 768, quantum() + 784, quantum() + 3331}) {
      for (ResidualMode mode : kResidualModes) {
        if (kSanitized && random().Below(4) != 0) continue;
        SCOPED_TRACE(::testing::Message() << Name(kind) << " " << elems);
        EncodeCase c = NewCase(kind, elems, kGradTypes[random().Below(3)], mode);
        c.tensor_elems = int64_t{1} << 24;
        CheckLaws(c);
      }
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(CodecsTest, MultipliesByTheScalesOnce) {
  EncodeCase scaled = NewCase(Kind::kGaussian, 769, DType::kFloat32, ResidualMode::kSeparate);
  EncodeCase plain = scaled;
  scaled.in_scale = 0x1p-7f;
  for (int64_t i = 0; i < plain.elems(); ++i) {
    const float v = GradAt(plain.grad, DType::kFloat32, i) * 0x1p-7f;
    memcpy(plain.grad.data() + 4 * i, &v, 4);
  }
  const Encoded encoded = RunEncode(codec(), scaled);
  EXPECT_EQ(encoded.payload, RunEncode(codec(), plain).payload);

  const std::vector<float> one = RunDecodeFloat(codec(), encoded.payload, 769);
  const std::vector<std::byte> third =
      RunDecode(codec(), encoded.payload, 769, DType::kFloat32, 1.0f / 3);
  const std::vector<float> sum =
      RunDecodeAdd(codec(), encoded.payload, std::vector<float>(769, 0.1f));
  for (int64_t i = 0; i < 769; ++i) {
    ASSERT_EQ(BitsOf(GradAt(third, DType::kFloat32, i)), BitsOf(one[i] * (1.0f / 3)));
    ASSERT_EQ(BitsOf(sum[i]), BitsOf(0.1f + one[i]));
  }
}

// Executors encode and decode quantum by quantum: the bytes must not depend on where they cut.
TEST_P(CodecsTest, PayloadsOfAdjacentRunsConcatenate) {
  const int64_t cut = 2 * ((300 + quantum()) / quantum()) * quantum();
  const int64_t elems = cut + 333;
  const EncodeCase whole =
      NewCase(Kind::kGaussian, elems, DType::kFloat32, ResidualMode::kSeparate);
  EncodeCase head = whole;
  head.grad.resize(static_cast<size_t>(4 * cut));
  head.e_in.resize(static_cast<size_t>(cut));
  EncodeCase tail = whole;
  tail.grad.erase(tail.grad.begin(), tail.grad.begin() + 4 * cut);
  tail.e_in.erase(tail.e_in.begin(), tail.e_in.begin() + cut);
  tail.dither.first_elem += cut;

  Encoded joined = RunEncode(codec(), head);
  const Encoded second = RunEncode(codec(), tail);
  joined.payload.insert(joined.payload.end(), second.payload.begin(), second.payload.end());
  joined.e_out.insert(joined.e_out.end(), second.e_out.begin(), second.e_out.end());
  const Encoded once = RunEncode(codec(), whole);
  EXPECT_EQ(once.payload, joined.payload);
  EXPECT_TRUE(SameBits(once.e_out, joined.e_out));
}

TEST_P(CodecsTest, NonFiniteElementsStayInTheirBlock) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    EncodeCase c = NewCase(Kind::kGaussian, 3331, DType::kFloat32, ResidualMode::kSeparate);
    const Encoded clean = RunEncode(codec(), c);
    const std::vector<float> clean_out = RunDecodeFloat(codec(), clean.payload, 3331);
    const auto at = static_cast<int64_t>(random().Below(3331));
    memcpy(c.grad.data() + 4 * at, &bad, 4);
    const Encoded hit = RunEncode(codec(), c);
    const std::vector<float> out = RunDecodeFloat(codec(), hit.payload, 3331);
    EXPECT_EQ(hit.stats.nonfinite, 1u);
    for (int64_t i = 0; i < 3331; ++i) {
      const bool same_block = i / quantum() == at / quantum();
      ASSERT_EQ(std::isfinite(out[i]), !same_block) << i << " " << at;
      if (same_block) {
        ASSERT_EQ(BitsOf(hit.e_out[i]), BitsOf(c.e_in[i]));
      } else {
        ASSERT_EQ(BitsOf(out[i]), BitsOf(clean_out[i]));
        ASSERT_EQ(BitsOf(hit.e_out[i]), BitsOf(clean.e_out[i]));
      }
    }
  }
}

TEST_P(CodecsTest, SizesAreClosedForm) {
  EXPECT_EQ(codec().MaxBytes(0), 0);
  int64_t before = 0;
  for (int64_t elems = 1; elems < 2 * quantum() + 70; ++elems) {
    const int64_t bytes = codec().MaxBytes(elems);
    ASSERT_GE(bytes, before) << elems;
    before = bytes;
  }
  const int64_t quanta = int64_t{1} << 30;
  EXPECT_EQ(codec().MaxBytes(quanta * quantum()), quanta * codec().MaxBytes(quantum()));
}

INSTANTIATE_TEST_SUITE_P(All, CodecsTest, ::testing::ValuesIn(AllCodecsOnTargets()), TestName);

}  // namespace
}  // namespace gradwire
