// Decode of one codec's specs on any bytes: [spec, how, elements (2 bytes), payload]. With how & 1
// the payload is cut or filled up to the right size first, so that what lies behind that check is
// reached; how / 2 chooses the type of the output, how / 6 its scale. Every SIMD target must give
// the reference's verdict and, scaled, rounded and added, the floats that the reference decodes;
// buffers are of exactly their size.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/float16.h"
#include "base/view.h"
#include "base/workspace.h"
#include "compress/kernels/dispatch.h"
#include "compress/registry.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

constexpr size_t kHeadBytes = 4;
constexpr int64_t kMaxElems = 8400;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
// The last brings most numbers to the subnormal ones of float16.
constexpr float kScales[] = {1.0f, 0.25f, 1.0f / 3, 0x1p-20f};

// What the build says: the codec of this target, and all that have one.
constexpr std::string_view kCodec = GRADWIRE_FUZZED_CODEC;
constexpr std::string_view kDecodedCodecs = GRADWIRE_DECODED_CODECS;

bool HasTarget(const std::string& codec) {
  const std::string all = "," + std::string(kDecodedCodecs) + ",";
  return all.find("," + codec + ",") != all.npos;
}

// Of each of its specs.
const std::vector<std::shared_ptr<const PayloadCodec>>& AllCodecs() {
  static const auto codecs = [] {
    std::vector<std::shared_ptr<const PayloadCodec>> all;
    for (const CodecRow& row : Codecs()) {
      for (const std::string& spec : row.conformance_specs) {
        const StatusOr<Codec> codec = MakeCodec(spec);
        FUZZ_CHECK(codec.ok());
        if (codec->payload == nullptr) continue;
        FUZZ_CHECK(HasTarget(row.name));
        if (row.name == kCodec) all.push_back(codec->payload);
      }
    }
    return all;
  }();
  return codecs;
}

// Where it decodes to.
struct Output {
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
  float scale = 1;
};

struct Verdict {
  gwResult_t code = gwSuccess;
  Input stored, added;  // empty after an error
  bool operator==(const Verdict&) const = default;
};

// What DecodeAdd adds to: no zeros, which are added to by leaving them alone.
float Summand(int64_t i) { return static_cast<float>(i % 7) - 3.25f; }

Input Summands(int64_t elems) {
  Input floats(static_cast<size_t>(4 * elems));
  for (int64_t i = 0; i < elems; ++i) {
    const float summand = Summand(i);
    std::memcpy(&floats[static_cast<size_t>(4 * i)], &summand, sizeof summand);
  }
  return floats;
}

// Runs `decode` over `result`, in a block of exactly its size; empties it on an error.
template <typename Decode>
gwResult_t Over(Input* result, Decode decode) {
  const size_t size = result->size();
  const std::unique_ptr<std::byte[]> out(new std::byte[size]);
  if (size > 0) std::memcpy(out.get(), result->data(), size);
  const Status status = decode(out.get());
  FUZZ_CHECK(status.ok() || status.code() == gwDataCorrupt);
  if (!status.ok()) {
    result->clear();
  } else if (size > 0) {
    std::memcpy(result->data(), out.get(), size);
  }
  return status.code();
}

gwResult_t Decode(const PayloadCodec& codec, ConstBytes payload, const Output& to, Input* result) {
  result->assign(static_cast<size_t>(to.elems * SizeOf(to.dtype)), 0);
  return Over(result, [&](std::byte* out) {
    return codec.Decode(payload, {out, to.elems, to.dtype}, to.scale, nullptr);
  });
}

Verdict DecodeOn(SimdTarget target, const PayloadCodec& codec, ConstBytes payload,
                 const Output& to) {
  FUZZ_CHECK(ForceTargetForTest(Name(target)));
  Verdict verdict;
  verdict.code = Decode(codec, payload, to, &verdict.stored);
  verdict.added = Summands(to.elems);
  const gwResult_t added = Over(&verdict.added, [&](std::byte* out) {
    return codec.DecodeAdd(payload, {out, to.elems, DType::kFloat32}, nullptr);
  });
  FUZZ_CHECK(added == verdict.code);
  return verdict;
}

void StoreRounded(float value, DType dtype, uint8_t* to) {
  const float v = std::isnan(value) ? std::bit_cast<float>(0x7FC00000u) : value;
  if (dtype == DType::kFloat32) {
    std::memcpy(to, &v, sizeof v);
  } else {
    const uint16_t half = dtype == DType::kFloat16 ? Fp16FromFloat(v) : Bf16FromFloat(v);
    std::memcpy(to, &half, sizeof half);
  }
}

// What PayloadCodec promises, from the floats that the reference decodes.
Verdict Promised(const PayloadCodec& codec, ConstBytes payload, const Output& to) {
  FUZZ_CHECK(ForceTargetForTest(Name(SimdTarget::kScalar)));
  Verdict verdict;
  Input floats;
  verdict.code = Decode(codec, payload, {.elems = to.elems}, &floats);
  if (verdict.code != gwSuccess) return verdict;
  verdict.stored.resize(static_cast<size_t>(to.elems * SizeOf(to.dtype)));
  verdict.added.resize(floats.size());
  for (int64_t i = 0; i < to.elems; ++i) {
    float decoded;
    std::memcpy(&decoded, floats.data() + 4 * i, sizeof decoded);
    StoreRounded(decoded * to.scale, to.dtype, verdict.stored.data() + i * SizeOf(to.dtype));
    StoreRounded(Summand(i) + decoded, DType::kFloat32, verdict.added.data() + 4 * i);
  }
  return verdict;
}

// Any spec, decoded in any way.
Input MakeSeed(size_t codec_index, int64_t elems, size_t how) {
  const PayloadCodec& codec = *AllCodecs()[codec_index];
  std::vector<float> grad(static_cast<size_t>(elems));
  for (size_t i = 0; i < grad.size(); ++i) grad[i] = 0.5f - static_cast<float>(i * 37 % 101) / 101;
  const auto bytes = static_cast<size_t>(codec.MaxBytes(elems));
  Input input(kHeadBytes + bytes);
  input[0] = static_cast<uint8_t>(codec_index);
  input[1] = static_cast<uint8_t>(how);
  input[2] = static_cast<uint8_t>(elems);
  input[3] = static_cast<uint8_t>(elems >> 8);
  AlignedBuffer workspace;
  FUZZ_CHECK(workspace.EnsureBytes(codec.WorkspaceBytes(elems)).ok());
  const EncodeArgs args{
      .grad = FloatView(static_cast<const float*>(grad.data()), elems),
      .out = {reinterpret_cast<std::byte*>(input.data()) + kHeadBytes, static_cast<int64_t>(bytes)},
      .workspace = workspace.bytes()};
  FUZZ_CHECK(codec.Encode(args).ok());
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (size_t codec = 0; codec < AllCodecs().size(); ++codec) {
    // One element, whole blocks, blocks and a tail.
    const int64_t block = std::max(AllCodecs()[codec]->traits().quantum_elems, kBlockElems);
    for (const int64_t elems : {int64_t{1}, block, 2 * block, block + 44}) {
      // To each type, with each scale.
      for (size_t to = 0; to < std::size(kTypes); ++to) {
        seeds.push_back(MakeSeed(codec, elems, elems % 2 + 2 * (to + 3 * (seeds.size() % 4))));
      }
    }
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  const PayloadCodec& codec = *AllCodecs()[data[0] % AllCodecs().size()];
  const Output to = {.elems = (data[2] | data[3] << 8) % kMaxElems,
                     .dtype = kTypes[data[1] / 2 % std::size(kTypes)],
                     .scale = kScales[data[1] / 6 % std::size(kScales)]};
  const bool resize = (data[1] & 1) != 0;
  const size_t given = size - kHeadBytes;
  const size_t wanted = resize ? static_cast<size_t>(codec.MaxBytes(to.elems)) : given;
  const std::unique_ptr<std::byte[]> payload(new std::byte[wanted]());
  if (wanted > 0 && given > 0) {
    std::memcpy(payload.get(), data + kHeadBytes, std::min(wanted, given));
  }
  const ConstBytes bytes(payload.get(), static_cast<int64_t>(wanted));
  const Verdict promised = Promised(codec, bytes, to);
  for (SimdTarget target : SupportedTargets()) {
    FUZZ_CHECK(DecodeOn(target, codec, bytes, to) == promised);
  }
  return 0;
}
