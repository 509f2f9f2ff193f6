// Decode of one codec's specs on any bytes: [spec, how, elements (2 bytes), payload]. With how & 1
// the payload is cut or filled up to the right size first, so that what lies behind that check is
// reached. Every SIMD target must give the reference's verdict and bytes; buffers are of exactly
// their size.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

struct Verdict {
  gwResult_t code = gwSuccess;
  Input stored, added;
  bool operator==(const Verdict&) const = default;
};

// Runs `decode` into a block of exactly `bytes` zeros; empties the result on an error.
template <typename Decode>
gwResult_t Into(int64_t bytes, Input* result, Decode decode) {
  const auto size = static_cast<size_t>(bytes);
  const std::unique_ptr<std::byte[]> out(new std::byte[size]());
  const Status status = decode(out.get());
  FUZZ_CHECK(status.ok() || status.code() == gwDataCorrupt);
  result->assign(status.ok() ? size : 0, 0);
  if (!result->empty()) std::memcpy(result->data(), out.get(), size);
  return status.code();
}

Verdict DecodeOn(SimdTarget target, const PayloadCodec& codec, ConstBytes payload, View shape) {
  FUZZ_CHECK(ForceTargetForTest(Name(target)));
  Verdict verdict;
  verdict.code = Into(shape.bytes(), &verdict.stored, [&](std::byte* out) {
    return codec.Decode(payload, {out, shape.elems, shape.dtype}, 0.25f, nullptr);
  });
  const gwResult_t added = Into(4 * shape.elems, &verdict.added, [&](std::byte* out) {
    return codec.DecodeAdd(payload, {out, shape.elems, DType::kFloat32}, nullptr);
  });
  FUZZ_CHECK(added == verdict.code);
  return verdict;
}

// Any spec.
Input MakeSeed(size_t codec_index, int64_t elems) {
  const PayloadCodec& codec = *AllCodecs()[codec_index];
  std::vector<float> grad(static_cast<size_t>(elems));
  for (size_t i = 0; i < grad.size(); ++i) grad[i] = 0.5f - static_cast<float>(i * 37 % 101) / 101;
  const auto bytes = static_cast<size_t>(codec.MaxBytes(elems));
  Input input(kHeadBytes + bytes);
  input[0] = static_cast<uint8_t>(codec_index);
  input[1] = static_cast<uint8_t>(elems % 2);
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
    for (const int64_t elems : {int64_t{1}, block, 2 * block, block + 44})
      seeds.push_back(MakeSeed(codec, elems));
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  const PayloadCodec& codec = *AllCodecs()[data[0] % AllCodecs().size()];
  View shape;
  shape.elems = (data[2] | data[3] << 8) % kMaxElems;
  shape.dtype = kTypes[(data[1] >> 1) % 3];
  const bool resize = (data[1] & 1) != 0;
  const size_t given = size - kHeadBytes;
  const size_t wanted = resize ? static_cast<size_t>(codec.MaxBytes(shape.elems)) : given;
  const std::unique_ptr<std::byte[]> payload(new std::byte[wanted]());
  if (wanted > 0 && given > 0) {
    std::memcpy(payload.get(), data + kHeadBytes, std::min(wanted, given));
  }
  const ConstBytes bytes(payload.get(), static_cast<int64_t>(wanted));
  const Verdict reference = DecodeOn(SimdTarget::kScalar, codec, bytes, shape);
  for (SimdTarget target : SupportedTargets()) {
    FUZZ_CHECK(DecodeOn(target, codec, bytes, shape) == reference);
  }
  return 0;
}
