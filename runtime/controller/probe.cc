#include "runtime/controller/probe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/dtype.h"

namespace gradwire {
namespace {

// A row longer than this is no piece any more.
constexpr int64_t kMaxProbeBytes = 4 * kProbeBytes;

double UsPerElem(int64_t ns, int64_t elems) {
  return static_cast<double>(ns) / kNsPerUs / static_cast<double>(std::max<int64_t>(elems, 1));
}

Status MakeZeros(AlignedBuffer* buffer, int64_t bytes) {
  GW_RETURN_IF_ERROR(buffer->EnsureBytes(bytes));
  std::fill_n(buffer->data(), bytes, std::byte{0});
  return Status();
}

// gwNonFinite: a piece of zeros, or one with a NaN, tells nothing of the codec.
StatusOr<ProbeReport> ReportOf(double codec_us_per_elem, const EncodeStats& stats) {
  const double error = stats.sum_err2 / stats.sum_p2;
  if (stats.nonfinite > 0 || !std::isfinite(error))
    return Status(gwNonFinite, "the piece has no energy, or no finite one");
  return ProbeReport{codec_us_per_elem, error};
}

}  // namespace

std::optional<ProbePiece> PieceToProbe(std::span<const int64_t> shape, int64_t elem_bytes,
                                       int64_t number) {
  const auto product = [](std::span<const int64_t> lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
  };
  if (shape.empty() || product(shape) == 0) return std::nullopt;
  const int64_t row = product(shape.subspan(1)), rows = shape[0];
  const int64_t taken = std::clamp(kProbeBytes / elem_bytes / row, int64_t{1}, rows);
  if (taken * row * elem_bytes > kMaxProbeBytes) return std::nullopt;
  ProbePiece piece = {.first_elem = number % (rows / taken) * taken * row,
                      .shape = {shape.begin(), shape.end()},
                      .elems = taken * row};
  piece.shape[0] = taken;
  return piece;
}

StatusOr<ProbeReport> Prober::Probe(const Codec& codec, ConstView grad,
                                    std::span<const int64_t> shape, int world_size) {
  if (codec.payload != nullptr) return ProbePayload(*codec.payload, grad, world_size);
  return ProbeCarrier(*codec.carrier, grad, shape);
}

// In two_shot a rank encodes every element once, as a contribution or as the owner's sum, and
// decodes n - 1 contributions to its own part and the n - 1 parts of others.
StatusOr<ProbeReport> Prober::ProbePayload(const PayloadCodec& codec, ConstView grad,
                                           int world_size) {
  const double n = world_size;
  GW_RETURN_IF_ERROR(payload_.EnsureBytes(codec.MaxBytes(grad.elems)));
  GW_RETURN_IF_ERROR(workspace_.EnsureBytes(codec.WorkspaceBytes(grad.elems)));
  GW_RETURN_IF_ERROR(decoded_.EnsureBytes(grad.elems * SizeOf(DType::kFloat32)));
  EncodeStats stats;
  const int64_t begin_ns = clock_->NowNs();
  GW_RETURN_IF_ERROR(codec.Encode(
      {.grad = grad, .out = payload_.bytes(), .workspace = workspace_.bytes(), .stats = &stats}));
  const int64_t encoded_ns = clock_->NowNs();
  GW_RETURN_IF_ERROR(codec.Decode({payload_.data(), stats.bytes},
                                  {decoded_.data(), grad.elems, DType::kFloat32}, 1.0f, nullptr));
  const int64_t decoded_ns = clock_->NowNs();
  return ReportOf(UsPerElem(encoded_ns - begin_ns, grad.elems) +
                      2 * (n - 1) / n * UsPerElem(decoded_ns - encoded_ns, grad.elems),
                  stats);
}

// The sum of one rank's carrier is the carrier.
StatusOr<ProbeReport> Prober::ProbeCarrier(const CarrierMethod& method, ConstView grad,
                                           std::span<const int64_t> shape) {
  constexpr int kAlone = 1;
  const TensorMeta meta = {.shape = shape, .elems = grad.elems, .dtype = grad.dtype};
  GW_RETURN_IF_ERROR(method.Check(meta, kAlone));
  GW_RETURN_IF_ERROR(workspace_.EnsureBytes(method.WorkspaceBytes(meta, kAlone)));
  GW_RETURN_IF_ERROR(agreed_.EnsureBytes(method.AgreedBytes(meta, kAlone)));
  GW_RETURN_IF_ERROR(MakeZeros(&replicated_in_, method.ReplicatedBytes(meta, kAlone)));
  GW_RETURN_IF_ERROR(replicated_out_.EnsureBytes(method.ReplicatedBytes(meta, kAlone)));
  GW_RETURN_IF_ERROR(decoded_.EnsureBytes(grad.bytes()));
  GW_RETURN_IF_ERROR(e_out_.EnsureBytes(grad.elems * SizeOf(DType::kFloat32)));
  EncodeStats stats;
  StepView view = {.meta = meta,
                   .world_size = kAlone,
                   .grad = grad,
                   .e_out = {e_out_.data(), grad.elems, DType::kFloat32},
                   .replicated_in = replicated_in_.bytes(),
                   .replicated_out = replicated_out_.bytes(),
                   .out = {decoded_.data(), grad.elems, grad.dtype},
                   .agreed = agreed_.bytes(),
                   .workspace = workspace_.bytes()};
  const int64_t begin_ns = clock_->NowNs();
  for (int round = 0; round < method.rounds(); ++round) {
    const RoundSpec spec =
        method.Round(round, meta, kAlone, agreed_.bytes(), replicated_in_.bytes());
    GW_RETURN_IF_ERROR(payload_.EnsureBytes(spec.elems * SizeOf(spec.dtype)));
    const View carrier = {payload_.data(), spec.elems, spec.dtype};
    view.stats = &stats;
    GW_RETURN_IF_ERROR(method.Fill(round, view, carrier, nullptr));
    view.stats = nullptr;
    GW_RETURN_IF_ERROR(method.Absorb(round, carrier, view, nullptr));
  }
  return ReportOf(UsPerElem(clock_->NowNs() - begin_ns, grad.elems), stats);
}

}  // namespace gradwire
