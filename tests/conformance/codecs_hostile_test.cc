// Payloads from nowhere and wrong arguments: an error or data, never a byte outside the views, and
// the same verdict on every SIMD target.
#include <cstring>

#include "base/view.h"
#include "base/workspace.h"
#include "compress/kernels/dispatch.h"
#include "tests/conformance/codec_world.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

struct Verdict {
  gwResult_t code = gwSuccess;
  std::vector<std::byte> out;  // where code is gwSuccess
  bool operator==(const Verdict&) const = default;
};

class CodecsHostileTest : public CodecTest {
 protected:
  Verdict Decode(const std::vector<std::byte>& payload, int64_t elems, DType dtype) {
    const GuardedBuffer in(static_cast<int64_t>(payload.size()));
    const GuardedBuffer out(elems * SizeOf(dtype));
    if (!payload.empty()) std::memcpy(in.data(), payload.data(), payload.size());
    Verdict verdict;
    const ConstBytes bytes(in.data(), in.size());
    const View view{out.data(), elems, dtype};
    verdict.code = codec().Decode(bytes, view, 0.5f, nullptr).code();
    EXPECT_TRUE(verdict.code == gwSuccess || verdict.code == gwDataCorrupt);
    EXPECT_TRUE(out.intact());
    if (verdict.code == gwSuccess) verdict.out.assign(out.data(), out.data() + out.size());
    if (dtype == DType::kFloat32) {
      EXPECT_EQ(codec().DecodeAdd(bytes, view, nullptr).code(), verdict.code);
      EXPECT_TRUE(out.intact());
    }
    return verdict;
  }

  // Decodes, and compares with the reference.
  Verdict DecodeLikeReference(const std::vector<std::byte>& payload, int64_t elems) {
    const DType dtype = kGradTypes[random().Below(3)];
    const Verdict verdict = Decode(payload, elems, dtype);
    EXPECT_TRUE(ForceTargetForTest("scalar"));
    EXPECT_EQ(Decode(payload, elems, dtype), verdict);
    EXPECT_TRUE(ForceTargetForTest(GetParam().target));
    return verdict;
  }

  std::vector<std::byte> Payload(Kind kind, int64_t elems) {
    return RunEncode(codec(), NewCase(kind, elems, DType::kFloat32, ResidualMode::kNone)).payload;
  }

  std::byte RandomByte() { return static_cast<std::byte>(random().Below(256)); }

  // Arguments that pass, to be spoilt by the tests.
  struct Arguments {
    GuardedBuffer grad{4 * 600}, e_in{4 * 600}, e_out{4 * 600}, out, workspace;
    EncodeArgs args;
  };
  std::unique_ptr<Arguments> GoodArguments() {
    auto a = std::unique_ptr<Arguments>(
        new Arguments{.out = GuardedBuffer(codec().MaxBytes(600)),
                      .workspace = GuardedBuffer(AlignUp(codec().WorkspaceBytes(600)))});
    std::memset(a->grad.data(), 0, 4 * 600);
    std::memset(a->e_in.data(), 0, 4 * 600);
    a->args = {.grad = {a->grad.data(), 600, DType::kFloat32},
               .e_in = {a->e_in.data(), 600, DType::kFloat32},
               .e_out = {a->e_out.data(), 600, DType::kFloat32},
               .out = {a->out.data(), a->out.size()},
               .workspace = {a->workspace.data(), codec().WorkspaceBytes(600)}};
    return a;
  }

  void ExpectRefused(void (*spoil)(Arguments*), const char* what) {
    const auto a = GoodArguments();
    spoil(a.get());
    const std::vector<std::byte> before(a->out.data(), a->out.data() + a->out.size());
    EXPECT_EQ(codec().Encode(a->args).code(), gwInvalidArgument) << what;
    EXPECT_EQ(before, std::vector<std::byte>(a->out.data(), a->out.data() + a->out.size())) << what;
  }
};

TEST_P(CodecsHostileTest, SurvivesBitFlips) {
  for (int64_t elems : {1, 17, 256, 257, 1000}) {
    for (Kind kind : {Kind::kGaussian, Kind::kNonFinite, Kind::kZeros}) {
      const std::vector<std::byte> good = Payload(kind, elems);
      for (int flip = 0; flip < 200; ++flip) {
        std::vector<std::byte> bad = good;
        const uint64_t bit = random().Below(8 * bad.size());
        bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        DecodeLikeReference(bad, elems);
        ASSERT_FALSE(HasFailure()) << elems << " elements, bit " << bit;
      }
    }
  }
}

TEST_P(CodecsHostileTest, SurvivesRandomBytes) {
  for (int round = 0; round < (kSanitized ? 100 : 300); ++round) {
    const auto elems = static_cast<int64_t>(random().Below(1100));
    std::vector<std::byte> bytes = Payload(Kind::kGaussian, elems);
    // All of it, or a stretch, so that scales often stay valid.
    const uint64_t first = round % 3 == 0 || bytes.empty() ? 0 : random().Below(bytes.size());
    for (uint64_t i = first; i < bytes.size(); ++i) bytes[i] = RandomByte();
    DecodeLikeReference(bytes, elems);
    ASSERT_FALSE(HasFailure()) << elems << " elements";
  }
}

TEST_P(CodecsHostileTest, RefusesOtherSizes) {
  for (int64_t elems : {0, 1, 256, 600}) {
    const std::vector<std::byte> good = Payload(Kind::kGaussian, elems);
    EXPECT_EQ(Decode(good, elems, DType::kFloat32).code, gwSuccess);
    for (size_t size : {size_t{0}, good.size() / 2, good.size() - 1, good.size() + 1}) {
      if (size == good.size() || size > good.size() + 1) continue;
      std::vector<std::byte> bad = good;
      bad.resize(size);
      EXPECT_EQ(Decode(bad, elems, DType::kFloat32).code, gwDataCorrupt) << size;
    }
  }
}

TEST_P(CodecsHostileTest, RefusesWrongArguments) {
  ASSERT_TRUE(codec().Encode(GoodArguments()->args).ok());
  ExpectRefused([](Arguments* a) { a->args.grad.dtype = DType::kInt32; }, "type of grad");
  ExpectRefused([](Arguments* a) { a->args.grad.memory = MemoryKind::kCuda; }, "device memory");
  ExpectRefused([](Arguments* a) { a->args.grad.elems = -1; }, "negative size");
  ExpectRefused([](Arguments* a) { a->args.e_in.elems = 599; }, "size of e_in");
  ExpectRefused([](Arguments* a) { a->args.e_out.dtype = DType::kBfloat16; }, "type of e_out");
  ExpectRefused([](Arguments* a) { a->args.e_out.data = a->e_in.data() + 4; }, "partial overlap");
  ExpectRefused([](Arguments* a) { --a->args.out.size; }, "small out");
  ExpectRefused([](Arguments* a) { a->args.in_scale = 3.0f; }, "in_scale");
  ExpectRefused([](Arguments* a) { a->args.in_scale = 0.0f; }, "in_scale");
  ExpectRefused([](Arguments* a) { a->args.dither.first_elem = -256; }, "negative first_elem");
  ExpectRefused([](Arguments* a) { a->args.dither.first_elem = kDitherMaxElems; }, "first_elem");
  if (quantum() > 1) ExpectRefused([](Arguments* a) { ++a->args.dither.first_elem; }, "quantum");
  if (codec().WorkspaceBytes(600) == 0) return;
  ExpectRefused([](Arguments* a) { --a->args.workspace.size; }, "small workspace");
  ExpectRefused([](Arguments* a) { a->args.workspace.data -= 4; }, "alignment of the workspace");
}

TEST_P(CodecsHostileTest, RefusesWrongOutputs) {
  const std::vector<std::byte> payload = Payload(Kind::kGaussian, 600);
  const ConstBytes bytes(payload.data(), static_cast<int64_t>(payload.size()));
  const GuardedBuffer out(8 * 600);
  View view{out.data(), 600, DType::kInt32};
  EXPECT_EQ(codec().Decode(bytes, view, 1.0f, nullptr).code(), gwInvalidArgument);
  view.dtype = DType::kBfloat16;
  EXPECT_EQ(codec().DecodeAdd(bytes, view, nullptr).code(), gwInvalidArgument);
  view.dtype = DType::kFloat32;
  view.memory = MemoryKind::kCuda;
  EXPECT_EQ(codec().Decode(bytes, view, 1.0f, nullptr).code(), gwInvalidArgument);
  view.memory = MemoryKind::kHost;
  view.elems = -1;
  EXPECT_EQ(codec().DecodeAdd(bytes, view, nullptr).code(), gwInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, CodecsHostileTest, ::testing::ValuesIn(AllCodecsOnTargets()),
                         TestName);

}  // namespace
}  // namespace gradwire
