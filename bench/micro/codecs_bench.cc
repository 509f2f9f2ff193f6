// Speed of the payload codecs on one core: GB/s of float32 input, and the ratio to memcpy of the
// same elements, measured in turn within every iteration. Cold: all buffers are flushed before each
// timed call (64 MiB of elements); hot: 128 KiB stay in the second-level cache.
// encode_feedback writes the next residual over the last, encode_staged to a slot of its own, as in
// a step that may be retried; there the skeleton is still the one in place.
//
//   bazel run -c opt //bench/micro:codecs_bench -- --benchmark_filter=cold
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"
#include "bench/micro/timing.h"
#include "compress/kernels/dispatch.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

enum class Op { kEncode, kEncodeFeedback, kEncodeStaged, kDecode, kDecodeAdd };

const char* Name(Op op) {
  switch (op) {
    case Op::kEncode: return "encode";
    case Op::kEncodeFeedback: return "encode_feedback";
    case Op::kEncodeStaged: return "encode_staged";
    case Op::kDecode: return "decode";
    case Op::kDecodeAdd: return "decode_add";
  }
  return "unknown";
}

// Buffers of one benchmark; the residuals and the copy start 1 KiB off, so that streams do not
// collide in the sets of a cache.
struct Buffers {
  AlignedBuffer grad, residual, payload, copy, staged, workspace;
  int64_t elems;

  Buffers(const PayloadCodec& codec, int64_t n) : elems(n) {
    Allocate(&grad, 4 * n);
    Allocate(&residual, 4 * n + 1024);
    Allocate(&copy, 4 * n + 2048);
    Allocate(&staged, 4 * n + 3072);
    Allocate(&payload, codec.MaxBytes(n));
    Allocate(&workspace, codec.WorkspaceBytes(n));
    RandomStream random(1);
    for (int64_t i = 0; i < n; ++i) grad.as<float>()[i] = static_cast<float>(random.Unit()) - 0.5f;
  }

  float* e() { return residual.as<float>() + 256; }
  float* next_e() { return staged.as<float>() + 768; }
  float* destination() { return copy.as<float>() + 512; }
  void FlushAll() {
    for (const AlignedBuffer* b : {&grad, &residual, &payload, &copy, &staged}) Flush(*b);
  }
};

Status RunOp(Op op, const PayloadCodec& codec, Buffers* b, EncodeStats* stats) {
  EncodeArgs args{.grad = FloatView(b->grad.as<const float>(), b->elems),
                  .out = b->payload.bytes(),
                  .workspace = b->workspace.bytes(),
                  .stats = stats};
  switch (op) {
    case Op::kEncode: return codec.Encode(args);
    case Op::kEncodeFeedback:
      args.e_out = FloatView(b->e(), b->elems);
      args.e_in = args.e_out;
      return codec.Encode(args);
    case Op::kEncodeStaged:
      args.e_in = FloatView(b->e(), b->elems);
      args.e_out = FloatView(b->next_e(), b->elems);
      return codec.Encode(args);
    case Op::kDecode:
      return codec.Decode(b->payload.bytes(), FloatView(b->destination(), b->elems), 1.0f, nullptr);
    case Op::kDecodeAdd:
      return codec.DecodeAdd(b->payload.bytes(), FloatView(b->destination(), b->elems), nullptr);
  }
  return Status(gwInternalError, "unknown operation");
}

struct Setting {
  std::string spec, target;
  Op op;
  bool cold;
};

void RunSetting(benchmark::State& state, const Setting& setting) {
  const StatusOr<Codec> codec = MakeCodec(setting.spec);
  if (!codec.ok() || !ForceTargetForTest(setting.target)) return state.SkipWithError("no codec");
  Buffers buffers(*codec->payload, setting.cold ? int64_t{16} << 20 : int64_t{32} << 10);
  EncodeStats stats;
  if (!RunOp(Op::kEncode, *codec->payload, &buffers, &stats).ok()) state.SkipWithError("encode");
  const auto bytes = static_cast<size_t>(4 * buffers.elems);
  std::vector<double> times, to_memcpy, to_skeleton;
  const StatusOr<Codec> none = MakeCodec("none");
  const ConstBytes raw(buffers.grad.data(), static_cast<int64_t>(bytes));
  for (auto _ : state) {
    if (setting.cold) buffers.FlushAll();
    const double copy =
        Seconds([&] { std::memcpy(buffers.destination(), buffers.grad.data(), bytes); });
    if (setting.cold) buffers.FlushAll();
    const double skeleton = Seconds([&] {
      // As a payload of `none` the gradient is added to an array: the skeleton.
      const View sum = FloatView(buffers.destination(), buffers.elems);
      if (!none->payload->DecodeAdd(raw, sum, nullptr).ok()) state.SkipWithError("skeleton");
    });
    if (setting.cold) buffers.FlushAll();
    const double time = Seconds([&] {
      const Status status = RunOp(setting.op, *codec->payload, &buffers, &stats);
      if (!status.ok()) state.SkipWithError("failed");
    });
    state.SetIterationTime(time);
    times.push_back(time);
    to_memcpy.push_back(copy / time);
    to_skeleton.push_back(skeleton / time);
  }
  if (!times.empty()) {
    state.counters["GBps"] = static_cast<double>(bytes) / Median(times) * 1e-9;
    state.counters["x_memcpy"] = Median(to_memcpy);
    state.counters["x_skeleton"] = Median(to_skeleton);
  }
  ForceTargetForTest("");
}

void RegisterAll() {
  for (const char* spec :
       {"none", "bf16", "fp16", "qsgd(8)", "qsgd(4)", "qsgd(8,feedback=on)", "qsgd(4,feedback=on)",
        "qsgd(7,feedback=on)", "efsign", "topk(0.01,agreement=owners)"}) {
    for (Op op :
         {Op::kEncode, Op::kEncodeFeedback, Op::kEncodeStaged, Op::kDecode, Op::kDecodeAdd}) {
      for (SimdTarget target : SupportedTargets()) {
        if (target == SimdTarget::kScalar) continue;
        for (bool cold : {true, false}) {
          const Setting s = {spec, std::string(Name(target)), op, cold};
          const std::string name =
              s.spec + "/" + Name(op) + "/" + s.target + (cold ? "/cold" : "/hot");
          auto* b = benchmark::RegisterBenchmark(
              name.c_str(), [s](benchmark::State& state) { RunSetting(state, s); });
          b->UseManualTime()->Unit(cold ? benchmark::kMillisecond : benchmark::kMicrosecond);
          if (cold) b->Iterations(15);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::RegisterAll();
  return gradwire::RunBenchmarks(argc, argv);
}
