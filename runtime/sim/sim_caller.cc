#include "runtime/sim/sim_caller.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/hash.h"

namespace gradwire {

bool Caller::Work() {
  if (!inbox_.empty() && random_.Below(2) == 0) {
    inbox_.front()();
    inbox_.pop_front();
    return true;
  }
  if (over() || job_->now_ns() < wake_ns_ || step_ == s_.steps.size()) return !inbox_.empty();
  return Act() || !inbox_.empty();
}

bool Caller::Act() {
  switch (state_) {
    case State::kBegin: return Begin();
    case State::kSubmit: return SubmitNext();
    case State::kWait: return WaitForOps();
    case State::kEnd: return End();
    case State::kAwait: return Await();
  }
  return false;
}

bool Caller::Begin() {
  if (TurnsAhead(user_turn_, me().turn()) <= 0) user_turn_ = me().turn();
  context_ = {.number = step().number + (Faulty(FaultKind::kOtherStep) ? 1 : 0),
              .turn = user_turn_};
  memory_[step_].assign(step().ops.size() + 1, {});
  operations_.clear();
  next_op_ = 0;
  one_by_one_ = step().no_wait || random_.Below(2) == 0;
  for (size_t t = 0; t < tensors_.size(); ++t) JobRank::SetSpec(tensors_[t], step().specs[t]);
  state_ = State::kSubmit;
  if (Faulty(FaultKind::kStall)) {
    wake_ns_ = job_->now_ns() + s_.fault_ns;
  } else {
    Pause();
  }
  return true;
}

bool Caller::SubmitNext() {
  const size_t count = step().ops.size() + (Faulty(FaultKind::kMoreOps) ? 1 : 0);
  if (next_op_ == static_cast<size_t>(s_.fault_op) && Faulty(FaultKind::kFewerOps)) ++next_op_;
  if (next_op_ >= count) {
    state_ = State::kEnd;
    return true;
  }
  const size_t op = next_op_++;
  if (op == step().ops.size()) {
    SubmitExtra();
  } else if (step().ops[op].tensors.empty()) {
    SubmitRaw(op);
  } else {
    SubmitGroup(op);
  }
  if (one_by_one_) state_ = State::kWait;
  Pause();
  return true;
}

void Caller::SubmitRaw(size_t index) {
  const ScenarioOp& op = step().ops[index];
  const bool other = index == static_cast<size_t>(s_.fault_op) && Faulty(FaultKind::kOtherOp);
  const int64_t count = op.count + (other ? 1 : 0);
  OpMemory& memory = memory_[step_][index];
  memory.send = {
      DrawValues(step().number * 1000 + index * 50 + rank_, count * s_.job.world_size, op.dtype)};
  memory.recv = {std::vector<std::byte>(count * s_.job.world_size * SizeOf(op.dtype))};
  Queue(me().SubmitRaw({.collective = op.row->collective,
                        .send = memory.send[0].data(),
                        .recv = memory.recv[0].data(),
                        .count = count,
                        .dtype = op.dtype,
                        .op = op.op,
                        .root = op.root},
                       *op.row, context_.turn));
}

bool Caller::Scatters(const ScenarioOp& op) const {
  return op.scatter && TakesReduceScatter(*tensors_[op.tensors[0]]) &&
         s_.tensors[op.tensors[0]].elems % s_.job.world_size == 0;
}

void Caller::SubmitGroup(size_t index) {
  const ScenarioOp& op = step().ops[index];
  OpMemory& memory = memory_[step_][index];
  memory.scattered = Scatters(op);
  std::vector<SubmittedTensor> group;
  for (int t : op.tensors) {
    const ScenarioTensor& tensor = s_.tensors[t];
    memory.send.push_back(
        DrawValues(step().number * 1000 + 500 + t * 20 + rank_, tensor.elems, tensor.dtype));
    const bool infinite = step().infinite_rank == rank_ && t == op.tensors[0] && !repaired_;
    if (infinite && tensor.elems > 0) SetInfinite(&memory.send.back(), tensor.dtype);
    memory.recv.emplace_back(memory.send.back().size() /
                             (memory.scattered ? s_.job.world_size : 1));
    group.push_back({tensors_[t], memory.send.back().data(), memory.recv.back().data()});
  }
  const bool other = index == static_cast<size_t>(s_.fault_op) && Faulty(FaultKind::kOtherOp);
  const ReduceOp kinds[] = {ReduceOp::kSum, ReduceOp::kAvg};
  const ReduceOp kind = kinds[(op.op == ReduceOp::kAvg) != other];
  if (memory.scattered) {
    Queue(me().SubmitReduceScatter(group[0], kind, context_));
  } else {
    for (auto& o : me().SubmitTensors(group, kind, context_)) Queue(o);
  }
  NoteIn(op);
}

void Caller::SetInfinite(std::vector<std::byte>* values, DType dtype) {
  const float f = std::numeric_limits<float>::infinity();
  const uint16_t half = dtype == DType::kFloat16 ? 0x7C00 : 0x7F80;
  std::memcpy(values->data(), dtype == DType::kFloat32 ? static_cast<const void*>(&f) : &half,
              SizeOf(dtype));
}

bool Caller::WaitForOps() {
  for (const auto& operation : operations_) {
    if (!operation->done.load()) return false;
  }
  state_ = TurnIsOver() ? State::kEnd : State::kSubmit;
  return true;
}

bool Caller::End() {
  // As the communicator: a turn that ended by itself is not ended again. The engine may come to
  // this call late, when the turn has ended in between.
  if (!TurnIsOver() || step().no_wait) {
    inbox_.push_back([this, c = context_, no_wait = step().no_wait] { me().EndStep(c, no_wait); });
  }
  if (step().no_wait) {
    user_turn_ = static_cast<uint16_t>(context_.turn + 1);
    Advance();
  } else {
    state_ = State::kAwait;
  }
  return true;
}

bool Caller::Await() {
  if (!TurnIsOver()) return false;
  user_turn_ = me().turn();
  const TurnResult& result = me().results()[context_.turn];
  if (result.outcome != StepOutcome::kAbort) {
    Advance();
  } else {
    ++attempt_;
    repaired_ |= result.reason.code() == gwNonFinite;
    state_ = State::kBegin;
  }
  Pause();
  return true;
}

void Caller::Advance() {
  ++step_;
  attempt_ = 0;
  repaired_ = false;
  state_ = State::kBegin;
}

void Caller::OnTurnEnd(const TurnResult& result) {
  if (result.outcome == StepOutcome::kAbort) {
    disturbed_ |= result.reason.code() != gwNonFinite;
    return;
  }
  size_t at = 0;
  while (s_.steps[at].number != result.step) ++at;
  StepRecord record = {.number = result.step, .outcome = result.outcome, .disturbed = disturbed_};
  for (size_t i = 0; i < s_.steps[at].ops.size(); ++i) Digest(s_.steps[at].ops[i], at, i, &record);
  Hasher residuals;  // and what methods keep of this rank alone
  for (const TensorState* tensor : tensors_) {
    const ConstView live = tensor->residual.live(), local = tensor->local.live();
    residuals.Add(live.elems).Add(HashBytes(live.AsBytes())).Add(HashBytes(local.AsBytes()));
    record.finite &= std::all_of(live.as<float>(), live.as<float>() + live.elems,
                                 [](float e) { return std::isfinite(e); });
  }
  record.residuals = residuals.digest();
  records_.push_back(std::move(record));
  if (ledger_ != nullptr && result.outcome == StepOutcome::kCommit) NoteOut(at);
}

void Caller::Digest(const ScenarioOp& op, size_t step, size_t index, StepRecord* record) {
  Hasher hasher;
  const OpMemory& memory = memory_[step][index];
  for (const auto& recv : memory.recv) {
    hasher.Add(HashBytes(ConstBytes(recv.data(), static_cast<int64_t>(recv.size()))));
  }
  const bool mine =
      op.row == nullptr || op.row->collective != Collective::kReduce || op.root == rank_;
  const bool all = op.row == nullptr ? !memory.scattered
                                     : op.row->collective == Collective::kAllReduce ||
                                           op.row->collective == Collective::kBroadcast ||
                                           op.row->collective == Collective::kAllGather;
  if (mine) (op.row == nullptr ? record->sums : record->exact).push_back(hasher.digest());
  if (all) record->common.push_back(hasher.digest());
}

bool Caller::Conserves(int t, const ScenarioOp& op, const ScenarioStep& step) const {
  const Codec codec = *MakeCodec(step.specs[t]);
  return s_.tensors[t].dtype == DType::kFloat32 && op.op == ReduceOp::kSum &&
         step.infinite_rank < 0 && (codec.spec == "none" || codec.feedback == Feedback::kOn);
}

Balance& Caller::BalanceOf(const ScenarioStep& step, int t) {
  Balance& b = (*ledger_)[{step.number, t}];
  for (auto* v : {&b.in, &b.out, &b.size}) v->resize(s_.tensors[t].elems);
  return b;
}

void Caller::NoteIn(const ScenarioOp& op) {
  if (ledger_ == nullptr || me().turn() != context_.turn) return;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const int t = op.tensors[i];
    if (!Conserves(t, op, step())) continue;
    Balance& b = BalanceOf(step(), t);
    ++b.ranks;
    const auto* grad = reinterpret_cast<const float*>(memory_[step_][next_op_ - 1].send[i].data());
    const ConstView e = tensors_[t]->residual.live();
    for (int64_t k = 0; k < s_.tensors[t].elems; ++k) {
      const double v = grad[k] + (e.empty() ? 0.0 : e.as<float>()[k]);
      b.in[k] += v, b.size[k] += std::abs(v) + 1;
    }
  }
}

void Caller::NoteOut(size_t at) {
  for (size_t i = 0; i < s_.steps[at].ops.size(); ++i) {
    const ScenarioOp& op = s_.steps[at].ops[i];
    for (size_t j = 0; j < op.tensors.size(); ++j) {
      const int t = op.tensors[j];
      if (!ledger_->contains({s_.steps[at].number, t})) continue;
      Balance& b = BalanceOf(s_.steps[at], t);
      const OpMemory& memory = memory_[at][i];
      const auto* out = reinterpret_cast<const float*>(memory.recv[j].data());
      const ConstView e = tensors_[t]->residual.live();
      // Of results that all have, rank 0's.
      const int64_t elems = s_.tensors[t].elems;
      const int64_t shard = elems / (memory.scattered ? s_.job.world_size : 1);
      for (int64_t k = 0; k < elems; ++k) {
        const bool mine = k / shard == rank_;
        b.out[k] += (mine ? out[k % shard] : 0.0) + (e.empty() ? 0.0 : e.as<float>()[k]);
      }
    }
  }
}

}  // namespace gradwire
