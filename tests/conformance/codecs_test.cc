// Laws every payload codec keeps, on every SIMD target: bytes equal to the reference's,
// conservation, contraction, special values, sizes, statistics. codecs_random_test.cc has the laws
// of chance, codecs_hostile_test.cc damaged bytes and wrong arguments.
#include <cfloat>
#include <cmath>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/codec_world.h"

namespace gradwire {
namespace {

// Everything a codec says about one case.
struct Outcome {
  Encoded encoded;
  std::vector<std::vector<std::byte>> decoded;  // by kGradTypes
  std::vector<float> added;
};

Outcome RunAll(const PayloadCodec& codec, const EncodeCase& c) {
  Outcome out;
  out.encoded = RunEncode(codec, c);
  for (DType dtype : kGradTypes) {
    out.decoded.push_back(RunDecode(codec, out.encoded.payload, c.elems(), dtype, 0.375f));
  }
  const std::vector<float> acc(static_cast<size_t>(c.elems()), 1.25f);
  out.added = RunDecodeAdd(codec, out.encoded.payload, acc);
  return out;
}

class CodecsTest : public CodecTest {
 protected:
  // `expected` is the reference's outcome.
  void ExpectSameAs(const Outcome& expected, const Outcome& actual) {
    EXPECT_EQ(expected.encoded.payload, actual.encoded.payload);
    EXPECT_TRUE(SameBits(expected.encoded.e_out, actual.encoded.e_out));
    EXPECT_EQ(expected.decoded, actual.decoded);
    EXPECT_TRUE(SameBits(expected.added, actual.added));
    const EncodeStats& a = expected.encoded.stats;
    const EncodeStats& b = actual.encoded.stats;
    EXPECT_EQ(a.nonfinite, b.nonfinite);
    EXPECT_EQ(BitsOf(a.absmax), BitsOf(b.absmax));
    EXPECT_NEAR(a.sum_p2, b.sum_p2, 1e-5 * a.sum_p2);
    EXPECT_NEAR(a.sum_err2, b.sum_err2, 1e-4 * a.sum_err2);
  }

  void CheckReference(const EncodeCase& c) {
    ASSERT_TRUE(ForceTargetForTest("scalar"));
    const Outcome expected = RunAll(codec(), c);
    ASSERT_TRUE(ForceTargetForTest(GetParam().target));
    ExpectSameAs(expected, RunAll(codec(), c));
  }

  // e_out = fl(p - decoded) where the block is finite, e_out = e_in elsewhere.
  void CheckConservation(const EncodeCase& c) {
    const Encoded encoded = RunEncode(codec(), c);
    const std::vector<float> p = c.Input();
    const std::vector<float> decoded = RunDecodeFloat(codec(), encoded.payload, c.elems());
    for (size_t i = 0; i < p.size(); ++i) {
      const bool finite = std::isfinite(decoded[i]);
      const bool may_be = encoded.stats.nonfinite > 0;
      ASSERT_TRUE(finite || may_be) << "element " << i;
      ASSERT_TRUE(std::isfinite(p[i]) || !finite) << "element " << i;
      const float expected = finite ? p[i] - decoded[i] : c.e_in[i];
      ASSERT_EQ(BitsOf(encoded.e_out[i]), BitsOf(expected)) << "element " << i;
    }
  }

  // |p - decoded|^2 <= (1 - delta) |p|^2 for each quantum, with delta = 1 / quantum; subnormal
  // values may be lost, hence the slack.
  void CheckContraction(const EncodeCase& c) {
    const Encoded encoded = RunEncode(codec(), c);
    if (encoded.stats.nonfinite != 0) return;
    const std::vector<float> p = c.Input();
    const std::vector<float> decoded = RunDecodeFloat(codec(), encoded.payload, c.elems());
    const double keep = 1 - 0.99 / static_cast<double>(quantum());
    for (int64_t first = 0; first < c.elems(); first += quantum()) {
      double p2 = 0, error2 = 0;
      const int64_t end = std::min(c.elems(), first + quantum());
      for (int64_t i = first; i < end; ++i) {
        const double error = static_cast<double>(p[i]) - decoded[i];
        p2 += static_cast<double>(p[i]) * p[i];
        error2 += error * error;
      }
      const double slack = static_cast<double>(end - first) * FLT_MIN * FLT_MIN;
      ASSERT_LE(error2, keep * p2 + slack) << "quantum at " << first;
    }
  }

  void CheckStats(const EncodeCase& c) {
    const Encoded encoded = RunEncode(codec(), c);
    if (encoded.stats.nonfinite != 0) return;
    const std::vector<float> p = c.Input();
    const std::vector<float> decoded = RunDecodeFloat(codec(), encoded.payload, c.elems());
    double p2 = 0, error2 = 0;
    float absmax = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      p2 += static_cast<double>(p[i]) * p[i];
      error2 += std::pow(static_cast<double>(p[i] - decoded[i]), 2);
      absmax = std::max(absmax, std::fabs(p[i]));
    }
    EXPECT_NEAR(encoded.stats.sum_p2, p2, 1e-5 * p2);
    EXPECT_NEAR(encoded.stats.sum_err2, error2, 1e-4 * error2);
    EXPECT_EQ(encoded.stats.absmax, absmax);
  }

  template <typename Check>
  void ForEachCase(Check check) {
    for (int64_t elems : kSmallSizes) {
      for (DType dtype : kGradTypes) {
        for (Kind kind : kKinds) {
          SCOPED_TRACE(::testing::Message() << elems << " " << Name(dtype) << " " << Name(kind));
          check(kind, elems, dtype);
          if (HasFatalFailure() || HasNonfatalFailure()) return;
        }
      }
    }
  }
};

TEST_P(CodecsTest, GivesTheReferencesBytes) {
  ForEachCase([&](Kind kind, int64_t elems, DType dtype) {
    for (ResidualMode mode : kResidualModes) CheckReference(NewCase(kind, elems, dtype, mode));
  });
  EXPECT_FALSE(HasFailure());
}

TEST_P(CodecsTest, GivesTheReferencesBytesForALargeTensor) {
  for (DType dtype : kGradTypes) {
    CheckReference(NewCase(Kind::kGaussian, (int64_t{1} << 20) + 1, dtype, ResidualMode::kInPlace));
  }
  CheckReference(NewCase(Kind::kNonFinite, 100003, DType::kFloat32, ResidualMode::kSeparate));
  EXPECT_FALSE(HasFailure());
}

TEST_P(CodecsTest, ConservesTheInput) {
  ForEachCase([&](Kind kind, int64_t elems, DType dtype) {
    CheckConservation(NewCase(kind, elems, dtype, ResidualMode::kSeparate));
    CheckConservation(NewCase(kind, elems, dtype, ResidualMode::kInPlace));
  });
  EXPECT_FALSE(HasFailure());
}

TEST_P(CodecsTest, ContractsIfItSaysSo) {
  if (!traits().contractive) return;
  ForEachCase([&](Kind kind, int64_t elems, DType dtype) {
    CheckContraction(NewCase(kind, elems, dtype, ResidualMode::kNone));
    CheckContraction(NewCase(kind, elems, dtype, ResidualMode::kSeparate));
  });
  EXPECT_FALSE(HasFailure());
}

TEST_P(CodecsTest, IsExactIfItSaysSo) {
  if (!traits().lossless) return;
  const EncodeCase c = NewCase(Kind::kMixedSign, 997, DType::kFloat32, ResidualMode::kSeparate);
  const Encoded encoded = RunEncode(codec(), c);
  EXPECT_TRUE(SameBits(c.Input(), RunDecodeFloat(codec(), encoded.payload, 997)));
  EXPECT_EQ(encoded.stats.sum_err2, 0);
}

TEST_P(CodecsTest, CountsWhatItDid) {
  ForEachCase([&](Kind kind, int64_t elems, DType dtype) {
    CheckStats(NewCase(kind, elems, dtype, ResidualMode::kNone));
    CheckStats(NewCase(kind, elems, dtype, ResidualMode::kInPlace));
  });
  EXPECT_FALSE(HasFailure());
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
  if (!traits().fixed_size) return;
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
