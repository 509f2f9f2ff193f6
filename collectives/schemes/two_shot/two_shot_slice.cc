#include "collectives/schemes/two_shot/two_shot_slice.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numeric.h"

namespace gradwire {
namespace {

ConstView SubOrEmpty(ConstView view, const Piece& piece) {
  return view.empty() ? ConstView() : view.Sub(piece.first, piece.elems);
}
View SubOrEmpty(View view, const Piece& piece) {
  return view.empty() ? View() : view.Sub(piece.first, piece.elems);
}

bool WritesInPlace(const TensorPart& part) {
  return !part.e_in.empty() && part.e_in.data == part.e_out.data;
}

bool ScalesResidual(const TensorPart& part) { return part.in_gradient_units && !part.e_in.empty(); }

// Appends a piece to the shard, in pieces of bounded length.
void Append(ShardPlan* shard, const Piece& whole, const TensorPart& part) {
  const int64_t cut = CutElemsOf(part);
  const int64_t longest = std::max(kPieceElems / cut * cut, kCutElems);
  for (int64_t at = 0; at < whole.elems;) {
    const int64_t take = std::min(whole.elems - at, longest);
    const int64_t bytes = part.codec->MaxBytes(take);
    shard->pieces.push_back(
        {whole.part, whole.first + at, take, shard->payload_bytes, bytes, shard->elems});
    shard->elems += take;
    shard->payload_bytes += bytes;
    at += take;
  }
}

std::vector<ShardPlan> OnePieceEach(std::span<const Piece> slice, std::span<const TensorPart> parts,
                                    int world_size) {
  std::vector<ShardPlan> shards(world_size);
  for (size_t i = 0; i < slice.size(); ++i)
    Append(&shards[i], slice[i], parts[static_cast<size_t>(slice[i].part)]);
  return shards;
}

}  // namespace

std::vector<ShardPlan> CutIntoShards(std::span<const Piece> slice,
                                     std::span<const TensorPart> parts, int world_size) {
  std::vector<ShardPlan> shards(world_size);
  int64_t total = 0;
  for (const Piece& piece : slice) total += parts[piece.part].codec->MaxBytes(piece.elems);
  int64_t done = 0;  // payload bytes already given out
  for (const Piece& piece : slice) {
    const PayloadCodec& codec = *parts[piece.part].codec;
    const int64_t cut = CutElemsOf(parts[piece.part]);
    const int64_t cut_bytes = codec.MaxBytes(cut);
    for (int64_t first = 0; first < piece.elems;) {
      const int64_t shard = std::min<int64_t>(done * world_size / total, world_size - 1);
      const int64_t border = (shard + 1) * total / world_size;  // where the next shard begins
      const int64_t cuts = std::max<int64_t>((border - done + cut_bytes - 1) / cut_bytes, 1);
      const int64_t take = std::min(piece.elems - first, cuts * cut);
      Append(&shards[shard], {.part = piece.part, .first = piece.first + first, .elems = take},
             parts[piece.part]);
      done += codec.MaxBytes(take);
      first += take;
    }
  }
  for (size_t i = 1; i < shards.size(); ++i)
    shards[i].first_elem = shards[i - 1].first_elem + shards[i - 1].elems;
  return shards;
}

TwoShotSlice::TwoShotSlice(std::span<const TensorPart> parts, const PartContext& context,
                           std::span<const Piece> slice, const PreparedSchedule* schedule)
    : parts_(parts),
      context_(context),
      schedule_(schedule),
      shards_(IsScatter() ? OnePieceEach(slice, parts, context.world_size)
                          : CutIntoShards(slice, parts, context.world_size)) {}

StatusOr<SliceAction> TwoShotSlice::Next() {
  if (started_) return SliceAction{};
  started_ = true;
  if (Status s = LayOut(); !s.ok()) return s;
  return SliceAction{SliceAction::Kind::kRun, schedule_};
}

Status TwoShotSlice::LayOut() {
  const std::vector<BufferDecl>& buffers = schedule_->schedule.buffers;
  offset_.resize(buffers.size());
  int64_t bytes = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].role != BufferRole::kScratch && buffers[b].role != BufferRole::kPayload)
      continue;
    for (int32_t logical : buffers[b].shard_ids) {
      offset_[b].push_back(bytes);
      bytes += AlignUp(buffers[b].role == BufferRole::kPayload
                           ? shards_[logical].payload_bytes
                           : shards_[logical].elems * SizeOf(DType::kFloat32));
    }
  }
  GW_RETURN_IF_ERROR(memory_.EnsureBytes(bytes));
  int64_t codecs = 0;
  for (const TensorPart& part : parts_)
    codecs = std::max(codecs, part.codec->WorkspaceBytes(kPieceElems));
  GW_RETURN_IF_ERROR(workspace_.EnsureBytes(codecs));
  if (std::any_of(parts_.begin(), parts_.end(), ScalesResidual)) {
    GW_RETURN_IF_ERROR(scaled_.EnsureBytes(kPieceElems * SizeOf(DType::kFloat32)));
  }
  if (!SavesResiduals()) return Status();
  return saved_.EnsureBytes((shards_.back().first_elem + shards_.back().elems) *
                            SizeOf(DType::kFloat32));
}

Bytes TwoShotSlice::Memory(const Region& region) {
  if (region.count == 0) return {};
  return {memory_.data() + offset_[region.buffer][region.first], MessageBytes(region)};
}

int64_t TwoShotSlice::MessageBytes(const Region& region) const {
  return region.count == 0 ? 0 : PlanOf(region).payload_bytes;
}

void TwoShotSlice::Combine(const Step&, int64_t, ConstBytes) {
}  // encoded schedules have no kRecvReduce

// Where the results of a piece go; of a reduce-scatter, one of the own shard.
View TwoShotSlice::OutOf(const Piece& piece) const {
  const View& out = parts_[piece.part].out;
  const int64_t begin = IsScatter() ? context_.rank * out.elems : 0;
  return out.Sub(piece.first - begin, piece.elems);
}

// Draws of a codec begin at its blocks, and those begin anew at each shard of a reduce-scatter.
int64_t TwoShotSlice::DitherElemOf(const Piece& piece) const {
  if (!IsScatter()) return piece.first;
  const TensorPart& part = parts_[piece.part];
  const int64_t shard = part.out.elems, cut = CutElemsOf(part);
  const int64_t apart = (shard + cut - 1) / cut * cut;
  return piece.first / shard * apart + piece.first % shard;
}

View TwoShotSlice::Row(const Piece& piece) {
  // The accumulator is the schedule's only scratch buffer.
  const std::vector<BufferDecl>& buffers = schedule_->schedule.buffers;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].role != BufferRole::kScratch) continue;
    return View{memory_.data() + offset_[b][0], piece.row + piece.elems, DType::kFloat32}.Sub(
        piece.row, piece.elems);
  }
  return {};
}

StatusOr<bool> TwoShotSlice::Compute(const Step& step, int64_t* cursor) {
  const ShardPlan& shard = PlanOf(step.dst);
  const std::vector<Piece>& pieces = shard.pieces;
  if (*cursor < static_cast<int64_t>(pieces.size())) {
    if (Status s = ComputePiece(step, shard, pieces[*cursor]); !s.ok()) return s;
    ++*cursor;
  }
  return *cursor >= static_cast<int64_t>(pieces.size());
}

Status TwoShotSlice::ComputePiece(const Step& step, const ShardPlan& shard, const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  const int64_t begin_ns = context_.clock->NowNs();
  Status status;
  switch (step.kind) {
    case StepKind::kEncode: {
      const Bytes payload = Memory(step.dst).Sub(piece.payload_offset, piece.payload_bytes);
      SaveResidual(shard, piece);
      status = RoleOf(step.src) == BufferRole::kInput ? EncodeOwn(piece, payload)
                                                      : EncodeSum(piece, payload);
      CountPiece({.encode_ns = CodecTime(context_, SpanKind::kEncode, begin_ns)}, part, &stats_);
      return status;
    }
    case StepKind::kDecode: {
      const ConstBytes payload = Memory(step.src).Sub(piece.payload_offset, piece.payload_bytes);
      const bool final = RoleOf(step.dst) == BufferRole::kOutput;
      status = final ? DecodeResult(shard, piece, payload)
                     : part.codec->Decode(payload, Row(piece), 1.0f, nullptr);
      break;
    }
    case StepKind::kDecodeAdd:
      status = part.codec->DecodeAdd(
          Memory(step.src).Sub(piece.payload_offset, piece.payload_bytes), Row(piece), nullptr);
      break;
    case StepKind::kCopy:
      if (RoleOf(step.dst) == BufferRole::kOutput) {
        RoleOf(step.src) == BufferRole::kInput ? CopyOut(piece) : TakeSum(piece);
      } else {
        LoadContribution(part.grad.Sub(piece.first, piece.elems), InScaleOf(part),
                         ResidualOf(piece), Row(piece));
      }
      break;
    case StepKind::kReduce:
      AddContribution(part.grad.Sub(piece.first, piece.elems), InScaleOf(part), ResidualOf(piece),
                      Row(piece));
      break;
    case StepKind::kSend:
    case StepKind::kRecv:
    case StepKind::kRecvReduce: return Status(gwInternalError, "a step of this kind is not local");
  }
  CountPiece({.decode_ns = CodecTime(context_, SpanKind::kDecode, begin_ns)}, part, &stats_);
  return status;
}

float TwoShotSlice::InScaleOf(const TensorPart& part) const {
  return part.in_gradient_units ? 1.0f : context_.in_scale;
}

float TwoShotSlice::OutScaleOf(const TensorPart& part) const {
  return part.in_gradient_units ? context_.in_scale * context_.out_scale : context_.out_scale;
}

// What goes along with the piece, in the units in which that travels; until the next call.
ConstView TwoShotSlice::ResidualOf(const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  const ConstView kept = SubOrEmpty(part.e_in, piece);
  if (!ScalesResidual(part) || context_.in_scale == 1) return kept;
  const View scaled = {scaled_.data(), piece.elems, DType::kFloat32};
  ScaleInto(kept, 1 / context_.in_scale, scaled);  // a power of two
  return scaled;
}

// One rank: the output is the input.
void TwoShotSlice::CopyOut(const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  const View out = OutOf(piece);
  ScaleInto(part.grad.Sub(piece.first, piece.elems), InScaleOf(part) * OutScaleOf(part), out);
  CountResult(part, out);
}

Status TwoShotSlice::DecodeResult(const ShardPlan& shard, const Piece& piece, ConstBytes payload) {
  const TensorPart& part = parts_[piece.part];
  const View out = OutOf(piece);
  GW_RETURN_IF_ERROR(part.codec->Decode(payload, out, OutScaleOf(part), nullptr));
  if (part.e_out.empty() && !context_.count_nonfinite) return Status();
  const uint64_t nonfinite = CountNonFinite(out);
  if (context_.count_nonfinite) CountPiece({.nonfinite = nonfinite}, part, &stats_);
  if (!part.e_out.empty() && nonfinite > 0) KeepWhatDidNotArrive(shard, piece);
  return Status();
}

// The end of a reduce-scatter: the sum is the result, and all of the owner's own part is in it.
// What is not finite keeps the residual it had.
void TwoShotSlice::TakeSum(const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  const View sum = Row(piece);
  const ConstView e_in = SubOrEmpty(part.e_in, piece);
  const View e_out = SubOrEmpty(part.e_out, piece);
  for (int64_t i = 0; i < e_out.elems; ++i) {
    const bool keep = !e_in.empty() && !std::isfinite(sum.as<float>()[i]);
    e_out.as<float>()[i] = keep ? e_in.as<float>()[i] : 0.0f;
  }
  const View out = OutOf(piece);
  ScaleInto(sum, OutScaleOf(part), out);
  CountResult(part, out);
}

// A finite sum may be too large for the gradients' type.
void TwoShotSlice::CountResult(const TensorPart& part, View out) {
  if (context_.count_nonfinite) CountPiece({.nonfinite = CountNonFinite(out)}, part, &stats_);
}

// A worker's contribution to another owner's shard.
Status TwoShotSlice::EncodeOwn(const Piece& piece, Bytes payload) {
  const TensorPart& part = parts_[piece.part];
  EncodeStats stats;
  const Status status = part.codec->Encode({
      .grad = part.grad.Sub(piece.first, piece.elems),
      .e_in = ResidualOf(piece),
      .e_out = SubOrEmpty(part.e_out, piece),
      .out = payload,
      .workspace = workspace_.bytes(),
      .in_scale = InScaleOf(part),
      .stats = &stats,
      .dither = {.seed = context_.seed,
                 .purpose = DitherPurpose::kWorker,
                 .tensor = part.tensor_id,
                 .step = part.dither_step,
                 .rank = static_cast<uint32_t>(context_.rank),
                 .first_elem = DitherElemOf(piece)},
      .tensor_elems = part.grad.elems,
  });
  CountEncoding(part, stats, 0);
  return status;
}

// The owner's sum, encoded once. Its error goes into the owner's residual, in the shard that it
// never encodes as a worker.
Status TwoShotSlice::EncodeSum(const Piece& piece, Bytes payload) {
  const TensorPart& part = parts_[piece.part];
  EncodeStats stats;
  GW_RETURN_IF_ERROR(part.codec->Encode({
      .grad = Row(piece),
      .e_in = {},
      .e_out = SubOrEmpty(part.e_out, piece),
      .out = payload,
      .workspace = workspace_.bytes(),
      .stats = &stats,
      .dither = {.seed = context_.seed,
                 .purpose = DitherPurpose::kOwner,
                 .tensor = part.tensor_id,
                 .step = part.dither_step,
                 .rank = static_cast<uint32_t>(context_.rank),
                 .first_elem = piece.first},
      // Written over the last residual, which is in the cache, it stays there.
      .tensor_elems = WritesInPlace(part) ? 0 : part.grad.elems,
  }));
  CountEncoding(part, stats, stats.sum_p2);
  return Status();
}

// Of a reduce-scatter nobody but the owner hears what became of a shard, and the owner never
// encodes it.
bool TwoShotSlice::SavesResiduals() const {
  return !IsScatter() && std::any_of(parts_.begin(), parts_.end(), WritesInPlace);
}

View TwoShotSlice::SavedResidual(const ShardPlan& shard, const Piece& piece) {
  const int64_t first = shard.first_elem + piece.row;
  return View{saved_.data(), first + piece.elems, DType::kFloat32}.Sub(first, piece.elems);
}

// Before an encoding writes over it.
void TwoShotSlice::SaveResidual(const ShardPlan& shard, const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  if (IsScatter() || !WritesInPlace(part)) return;
  const ConstView e_in = part.e_in.Sub(piece.first, piece.elems);
  std::memcpy(SavedResidual(shard, piece).data, e_in.data, e_in.bytes());
}

// On every rank, also those whose own part was finite.
void TwoShotSlice::KeepWhatDidNotArrive(const ShardPlan& shard, const Piece& piece) {
  const TensorPart& part = parts_[piece.part];
  KeepWhereNotFinite(
      OutOf(piece),
      WritesInPlace(part) ? ConstView(SavedResidual(shard, piece)) : SubOrEmpty(part.e_in, piece),
      SubOrEmpty(part.e_out, piece));
}

// In units of residuals, whatever the loss scale is: those of some steps are compared with others'.
void TwoShotSlice::CountEncoding(const TensorPart& part, const EncodeStats& stats,
                                 double owned_p2) {
  const double unit = part.in_gradient_units ? context_.in_scale : 1.0;
  CountPiece({.payload_bytes = stats.bytes,
              .sum_p2 = stats.sum_p2 * unit * unit,
              .sum_err2 = stats.sum_err2 * unit * unit,
              .owned_p2 = owned_p2 * unit * unit,
              .nonfinite = stats.nonfinite},
             part, &stats_);
}

}  // namespace gradwire
