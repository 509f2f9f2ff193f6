#include "runtime/engine/slice_pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/failpoint.h"
#include "base/keep_forever.h"
#include "base/log.h"
#include "transports/control/message.h"

namespace gradwire {
namespace {

// Finished operations kept for the case that a peer disagrees about one later.
constexpr size_t kKeptOperations = 64;

// Of the next operation, of which `submitted` becomes the number behind it.
uint32_t TakeOpSeq(uint32_t* submitted) {
  if (*submitted == kNoOpSeq) ++*submitted;
  return (*submitted)++;
}

// Whose times tell of the way. The second slice may be alone, when all ranks have met for the
// first, and the last may be shorter.
bool IsLongAllReduce(const Operation& operation) {
  const AlgorithmRow* algorithm = operation.course.algorithm;
  return operation.slices() > 2 && algorithm != nullptr &&
         algorithm->collective == Collective::kAllReduce;
}

}  // namespace

SlicePipeline::SlicePipeline(const Options& options, EventDriver* driver, const Clock* clock,
                             const EngineNotes* notes, PipelineListener* listener)
    : driver_(driver),
      clock_(clock),
      notes_(notes),
      listener_(listener),
      window_(options.window),
      submitted_(options.first_op_seq) {}

void SlicePipeline::Submit(std::shared_ptr<Operation> operation) {
  operation->op_seq = TakeOpSeq(operation->turn == turn_ ? &submitted_ : &submitted_later_);
  queue_.push_back({std::move(operation)});
}

// ---- admission ----

bool SlicePipeline::Admit() {
  if (stopped_) return false;
  bool moved = false;
  while (Progress* const next = NextToAdmit()) {
    if (!(next->prepared || Prepare(next)) || !AdmitOne(next)) break;
    moved = true;
    if (stopped_) break;
  }
  return moved || stopped_;
}

// The first of this turn that has slices to be admitted; null: none has.
SlicePipeline::Progress* SlicePipeline::NextToAdmit() {
  for (Progress& progress : queue_) {
    if (!IsOfThisTurn(progress)) return nullptr;
    if (!progress.prepared || progress.admitted < progress.operation->slices()) return &progress;
  }
  return nullptr;
}

// False: there is no room, or the turn is stopped.
bool SlicePipeline::Prepare(Progress* next) {
  if (!window_.HasRoom(window_.LoadOf(0), false)) return false;
  Operation& operation = *next->operation;
  listener_->OnBegin(operation);
  if (Status s = operation.Prepare(); !s.ok()) {
    listener_->OnFailed(operation.op_seq, std::move(s));
    return false;
  }
  next->prepared = true;
  const SliceTraits traits = operation.Traits();
  next->load = window_.LoadOf(traits.fill);
  if (traits.kind != 0 && IsLongAllReduce(operation)) {
    next->kind = traits.kind;
    next->alone = window_.WantsAlone(traits.kind);
  }
  return true;
}

// False: there is no room, or the turn is stopped. Else `next` may be gone: a slice may be done at
// once, and be the last of its operation.
bool SlicePipeline::AdmitOne(Progress* next) {
  const bool alone = next->alone && next->admitted == 1;
  if (!window_.HasRoom(next->load, alone)) return false;
  Operation& operation = *next->operation;
  const int64_t slices = operation.slices(), index = next->admitted++;
  const RunKey key = {.op_seq = operation.op_seq, .slice = static_cast<uint32_t>(index)};
  StatusOr<std::unique_ptr<SliceOp>> slice = operation.MakeSlice(index);
  if (!slice.ok()) {
    listener_->OnFailed(key.op_seq, slice.status());
    return false;
  }
  // An operation of one slice is admitted when it is submitted and done when it is complete.
  if (slices > 1) notes_->Admitted(turn_, key);
  driver_->Admit(key.op_seq, key.slice, slices);
  active_.push_back({.operation = &operation,
                     .slice = std::move(*slice),
                     .key = key,
                     .load = next->load,
                     .kind = index + 1 < slices ? next->kind : 0,
                     .admitted_ns = clock_->NowNs()});
  window_.Begin(next->load, alone);
  Advance(active_.size() - 1);
  PassFailpoint(Failpoint::kSlice);
  return true;
}

// ---- slices in flight ----

void SlicePipeline::Advance(size_t index) {
  ActiveSlice& active = active_[index];
  StatusOr<SliceAction> action = active.slice->Next();
  if (!action.ok()) return Fail(index, action.status());
  active.action = *action;
  switch (action->kind) {
    case SliceAction::Kind::kCompute: return;
    case SliceAction::Kind::kRun:
      driver_->Start({.key = active.key,
                      .schedule = action->schedule,
                      .work = active.slice.get(),
                      .signature = active.operation->signature});
      ++active.key.run;  // may wrap: the runs of a slice follow each other
      return;
    case SliceAction::Kind::kDone: return Finish(index);
  }
}

bool SlicePipeline::AdvanceFinishedRuns() {
  bool moved = false;
  while (std::optional<FinishedRun> run = driver_->TakeFinished()) {
    moved = true;
    auto it = std::find_if(active_.begin(), active_.end(), [&](const ActiveSlice& a) {
      return a.key.op_seq == run->key.op_seq && a.key.slice == run->key.slice;
    });
    if (it == active_.end()) continue;  // stopped
    const size_t index = it - active_.begin();
    if (run->status.ok()) {
      Advance(index);
    } else {
      Fail(index, run->status);
    }
  }
  return moved;
}

bool SlicePipeline::Compute() {
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].action.kind != SliceAction::Kind::kCompute) continue;
    StatusOr<bool> finished = active_[i].slice->ComputeLocal();
    if (!finished.ok()) {
      Fail(i, finished.status());
    } else if (*finished) {
      Advance(i);
    }
    return true;
  }
  return false;
}

void SlicePipeline::Finish(size_t index) {
  const ActiveSlice& active = active_[index];
  Operation& operation = *active.operation;
  const RunKey key = active.key;
  operation.stats.Add(active.slice->stats());
  if (active.kind != 0) window_.NoteTime(active.kind, clock_->NowNs() - active.admitted_ns);
  window_.End(active.load);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  driver_->Retire(key.op_seq, key.slice);
  ++slices_done_;
  if (operation.slices() > 1) notes_->SliceDone(turn_, key);
  auto it = std::find_if(queue_.begin(), queue_.end(),
                         [&](const Progress& p) { return p.operation.get() == &operation; });
  ++it->finished;
  if (!it->complete()) return;
  listener_->OnSlicesDone(operation);
  SkipDone();
}

// Operations complete out of order inside the window; frames for those below the first incomplete
// one are mismatches.
void SlicePipeline::SkipDone() {
  while (oldest() != nullptr && queue_.front().complete()) {
    done_.push_back(front());
    PopFront();
  }
  while (done_.size() > kKeptOperations) done_.pop_front();
  driver_->SetCompletedBelow(oldest() != nullptr ? oldest()->op_seq : submitted_);
}

void SlicePipeline::Fail(size_t index, Status why) {
  listener_->OnFailed(active_[index].key.op_seq, std::move(why));
}

// ---- the end of a turn ----

void SlicePipeline::Stop(const Status& why) {
  stopped_ = true;
  driver_->CancelAll(why);
  for (ActiveSlice& active : active_) graveyard_.push_back(std::move(active.slice));
  active_.clear();
  window_.Clear();
  window_.Forget();
}

bool SlicePipeline::LetGo() {
  if (!driver_->Quiet()) return false;
  graveyard_.clear();
  return true;
}

void SlicePipeline::Leak() {
  GW_LOG(kWarn, kColl, "{} slices are never freed: the transport has not let go of their memory",
         graveyard_.size() + active_.size());
  for (auto& slice : graveyard_) KeepForever(std::move(slice));
  for (auto& active : active_) KeepForever(std::move(active.slice));
}

void SlicePipeline::BeginTurn(uint16_t turn) {
  turn_ = turn;
  submitted_ = std::exchange(submitted_later_, 0);
  done_.clear();
  stopped_ = false;
}

// ---- what others ask ----

const Operation* SlicePipeline::oldest() const {
  return !queue_.empty() && IsOfThisTurn(queue_.front()) ? queue_.front().operation.get() : nullptr;
}

const Operation* SlicePipeline::Find(uint64_t op_seq) const {
  for (const Progress& progress : queue_) {
    if (IsOfThisTurn(progress) && progress.operation->op_seq == op_seq)
      return progress.operation.get();
  }
  for (const auto& operation : done_) {
    if (operation->op_seq == op_seq) return operation.get();
  }
  return nullptr;
}

bool SlicePipeline::HasBegun(const Operation& operation) const {
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const Progress& p) { return p.operation.get() == &operation; });
  return it == queue_.end() || it->prepared;
}

}  // namespace gradwire
