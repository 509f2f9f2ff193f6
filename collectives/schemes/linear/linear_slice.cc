#include "collectives/schemes/linear/linear_slice.h"

#include <algorithm>

#include "base/numeric.h"

namespace gradwire {

LinearSlice::LinearSlice(std::span<const TensorPart> parts, const PartContext& context,
                         std::span<const Piece> slice, const PreparedSchedule* schedule,
                         int64_t run_bytes)
    : parts_(parts), context_(context), schedule_(schedule), run_bytes_(run_bytes) {
  for (const Piece& piece : slice) {
    // Pieces are also the quanta of filling and absorbing.
    const TensorPart& part = parts[piece.part];
    const int64_t quantum = IsWhole(part) ? piece.elems : part.quantum_elems;
    const int64_t most = std::max(kPieceElems / quantum * quantum, quantum);
    for (int64_t first = 0; first < piece.elems; first += most) {
      const int64_t elems = std::min(most, piece.elems - first);
      pieces_.push_back(
          {.piece = {.part = piece.part, .first = piece.first + first, .elems = elems}});
    }
  }
}

StatusOr<SliceAction> LinearSlice::Next() {
  switch (state_) {
    case State::kStart:
      if (Status s = LayOut(); !s.ok()) return s;
      if (Status s = BeginRound(); !s.ok()) return s;
      state_ = State::kFilling;
      return SliceAction{SliceAction::Kind::kCompute};
    case State::kFilling:
      // What all ranks know already: nothing to sum. The last round always runs, for it orders the
      // ranks and has all of them check the signature.
      if (sum_.count == 0 && !in_last_round()) return BeginAbsorbing();
      state_ = State::kRunning;
      return run_->Next();
    case State::kRunning:
      if (next_run_ < sum_.count) {
        BeginRun();
        return run_->Next();
      }
      return BeginAbsorbing();
    case State::kAbsorbing:
      if (in_last_round()) {
        state_ = State::kDone;
        return SliceAction{};
      }
      ++round_;
      if (Status s = BeginRound(); !s.ok()) return s;
      state_ = State::kFilling;
      return SliceAction{SliceAction::Kind::kCompute};
    case State::kDone: return SliceAction{};
  }
  return SliceAction{};
}

SliceAction LinearSlice::BeginAbsorbing() {
  state_ = State::kAbsorbing;
  next_piece_ = 0;
  return SliceAction{SliceAction::Kind::kCompute};
}

Status LinearSlice::LayOut() {
  int64_t bytes = 0;
  for (PieceState& state : pieces_) {
    const CarrierMethod& method = *parts_[state.piece.part].method;
    const TensorMeta meta = MetaOf(state);
    state.agreed_bytes = method.AgreedBytes(meta, context_.world_size);
    state.agreed_offset = bytes;
    bytes += AlignUp(state.agreed_bytes);
    state.workspace_bytes = method.WorkspaceBytes(meta, context_.world_size);
    state.workspace_offset = bytes;
    bytes += AlignUp(state.workspace_bytes);
  }
  return scratch_.EnsureBytes(bytes);
}

bool LinearSlice::SkipToNextRun() {
  if (run_ && next_run_ < sum_.count) {
    BeginRun();
    return true;
  }
  if (run_ && in_last_round()) return false;
  if (run_) ++round_;
  PlanRound();
  while (sum_.count == 0 && !in_last_round()) {
    ++round_;
    PlanRound();
  }
  BeginRun();
  return true;
}

// All pieces of a round travel as one array.
void LinearSlice::PlanRound() {
  int64_t elems = 0;
  for (PieceState& state : pieces_) {
    const TensorPart& part = parts_[state.piece.part];
    state.round = part.method->Round(round_, MetaOf(state), context_.world_size, AgreedOf(state),
                                     part.replicated_in);
    state.carrier_offset = elems * SizeOf(state.round.dtype);
    elems += state.round.elems;
  }
  const RoundSpec spec = pieces_.empty() ? RoundSpec() : pieces_[0].round;
  sum_ = {.collective = gathers() ? Collective::kAllGather : Collective::kAllReduce,
          .count = elems,
          .dtype = spec.dtype,
          .op = spec.op,
          .rank = context_.rank,
          .world_size = context_.world_size};
  next_run_ = 0;
}

Status LinearSlice::BeginRound() {
  PlanRound();
  const int64_t bytes = sum_.count * SizeOf(sum_.dtype);
  GW_RETURN_IF_ERROR(carrier_.EnsureBytes(bytes));
  if (gathers()) {
    GW_RETURN_IF_ERROR(gathered_.EnsureBytes(bytes * context_.world_size));
    GW_RETURN_IF_ERROR(piece_.EnsureBytes(LargestScattered() * context_.world_size));
  }
  sum_.send = carrier_.data();
  sum_.recv = (gathers() ? gathered_ : carrier_).data();
  BeginRun();
  next_piece_ = 0;
  return Status();
}

// Bytes of the largest piece's carrier; 0 where the only piece has the array to itself.
int64_t LinearSlice::LargestScattered() {
  int64_t most = 0;
  for (const PieceState& state : pieces_) most = std::max(most, CarrierOf(state).bytes());
  return pieces_.size() > 1 ? most : 0;
}

void LinearSlice::BeginRun() {
  const int64_t width = gathers() ? context_.world_size : 1;  // what a rank receives of an element
  const int64_t most = std::max<int64_t>(run_bytes_ / (width * SizeOf(sum_.dtype)), 1);
  const int64_t elems = std::min(most, sum_.count - next_run_);
  run_.emplace(sum_, next_run_, elems, schedule_);
  next_run_ += elems;
}

TensorMeta LinearSlice::MetaOf(const PieceState& state) const {
  const TensorPart& part = parts_[state.piece.part];
  return {.shape = part.shape,
          .elems = state.piece.elems,
          .dtype = part.grad.dtype,
          .has_residual = part.has_residual};
}

// Empty while nothing is laid out.
Bytes LinearSlice::AgreedOf(const PieceState& state) {
  if (scratch_.size() == 0) return {};
  return scratch_.bytes().Sub(state.agreed_offset, state.agreed_bytes);
}

StepView LinearSlice::ViewOf(const PieceState& state) {
  const Piece& piece = state.piece;
  const TensorPart& part = parts_[piece.part];
  StepView view;
  view.meta = MetaOf(state);
  view.world_size = context_.world_size;
  view.grad = part.grad.Sub(piece.first, piece.elems);
  view.in_scale = context_.in_scale;
  view.out_scale = context_.out_scale;
  view.rest_scale = context_.rest_scale;
  if (!part.e_in.empty()) view.e_in = part.e_in.Sub(piece.first, piece.elems);
  if (!part.e_out.empty()) view.e_out = part.e_out.Sub(piece.first, piece.elems);
  if (!part.local_in.empty()) {
    view.local_in = part.local_in.Sub(piece.first, piece.elems);
    view.local_out = part.local_out.Sub(piece.first, piece.elems);
  }
  view.out = part.out.Sub(piece.first, piece.elems);
  view.replicated_in = part.replicated_in;
  view.replicated_out = part.replicated_out;
  view.dither = {.seed = context_.seed,
                 .purpose = DitherPurpose::kWorker,
                 .tensor = part.tensor_id,
                 .step = part.dither_step,
                 .rank = static_cast<uint32_t>(context_.rank),
                 .first_elem = piece.first};
  view.agreed = AgreedOf(state);
  if (scratch_.size() > 0)
    view.workspace = scratch_.bytes().Sub(state.workspace_offset, state.workspace_bytes);
  return view;
}

View LinearSlice::CarrierOf(const PieceState& state) {
  return {carrier_.data() + state.carrier_offset, state.round.elems, state.round.dtype};
}

// The sum of the ranks' carriers, or one behind the other: each rank's pieces came as one array.
ConstView LinearSlice::ReducedOf(const PieceState& state) {
  const View mine = CarrierOf(state);
  if (!gathers()) return mine;
  const int64_t elems = mine.elems * context_.world_size;
  if (pieces_.size() == 1) return {gathered_.data(), elems, mine.dtype};
  const int64_t rank_bytes = sum_.count * SizeOf(sum_.dtype);
  for (int64_t rank = 0; rank < context_.world_size; ++rank) {
    std::copy_n(gathered_.data() + rank * rank_bytes + state.carrier_offset, mine.bytes(),
                piece_.data() + rank * mine.bytes());
  }
  return {piece_.data(), elems, mine.dtype};
}

StatusOr<bool> LinearSlice::ComputeLocal() {
  if (pieces_.empty()) return true;
  const PieceState& state = pieces_[next_piece_];
  const int64_t begin_ns = context_.clock->NowNs();
  const bool fills = state_ == State::kFilling;
  GW_RETURN_IF_ERROR(fills ? FillPiece(state) : AbsorbPiece(state));
  SliceStats counted;
  (fills ? counted.encode_ns : counted.decode_ns) =
      CodecTime(context_, fills ? SpanKind::kEncode : SpanKind::kDecode, begin_ns);
  CountPiece(counted, parts_[state.piece.part], &stats_);
  return ++next_piece_ == pieces_.size();
}

Status LinearSlice::FillPiece(const PieceState& state) {
  const TensorPart& part = parts_[state.piece.part];
  EncodeStats stats;
  StepView view = ViewOf(state);
  view.stats = &stats;
  GW_RETURN_IF_ERROR(part.method->Fill(round_, view, CarrierOf(state), nullptr));
  CountPiece({.payload_bytes = stats.bytes,
              .sum_p2 = stats.sum_p2,
              .sum_err2 = stats.sum_err2,
              .nonfinite = stats.nonfinite},
             part, &stats_);
  return Status();
}

Status LinearSlice::AbsorbPiece(const PieceState& state) {
  const TensorPart& part = parts_[state.piece.part];
  const StepView view = ViewOf(state);
  GW_RETURN_IF_ERROR(part.method->Absorb(round_, ReducedOf(state), view, nullptr));
  if (in_last_round()) CheckResult(part, view);
  return Status();
}

// Methods keep the residual where a rank is not finite. A finite sum may still be too large for
// gradients of 16 bits; looking for one in float32 would cost what it is not worth.
void LinearSlice::CheckResult(const TensorPart& part, const StepView& view) {
  const bool has_last_residual = !view.e_out.empty() && view.e_out.data != view.e_in.data;
  const bool may_overflow = has_last_residual && view.out.dtype != DType::kFloat32;
  if (!context_.count_nonfinite && !may_overflow) return;
  const uint64_t nonfinite = CountNonFinite(view.out);
  if (context_.count_nonfinite) CountPiece({.nonfinite = nonfinite}, part, &stats_);
  if (may_overflow && nonfinite > 0) KeepWhereNotFinite(view.out, view.e_in, view.e_out);
}

}  // namespace gradwire
