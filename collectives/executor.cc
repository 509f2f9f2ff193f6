#include "collectives/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace gradwire {
namespace {

uint64_t RecvKey(int peer, int32_t message) {
  return static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 32 | static_cast<uint32_t>(message);
}

Command::Kind CommandKind(StepKind kind) {
  if (kind == StepKind::kSend) return Command::Kind::kSend;
  return IsRecv(kind) ? Command::Kind::kExpect : Command::Kind::kCompute;
}

}  // namespace

std::string PeerProgress::ToString() const {
  std::string text =
      fmt::format("sent {} of {}, received {} of {}", sends_done, sends, recvs_done, recvs);
  if (next_message >= 0) text += fmt::format(", waits for peer {} message {}", peer, next_message);
  return text;
}

PreparedSchedule::PreparedSchedule(Schedule s) : schedule(std::move(s)) {
  const size_t steps = schedule.steps.size();
  dep_counts.resize(steps);
  successor_begin.assign(steps + 1, 0);
  successors.resize(schedule.deps.size());
  kinds.resize(steps);
  for (int32_t dep : schedule.deps) ++successor_begin[dep + 1];
  for (size_t i = 0; i < steps; ++i) successor_begin[i + 1] += successor_begin[i];
  std::vector<uint32_t> next(successor_begin.begin(), successor_begin.end() - 1);
  for (size_t i = 0; i < steps; ++i) {
    const Step& step = schedule.steps[i];
    dep_counts[i] = static_cast<int32_t>(step.deps_count);
    kinds[i] = CommandKind(step.kind);
    for (int32_t dep : schedule.DepsOf(step)) successors[next[dep]++] = static_cast<int32_t>(i);
    if (kinds[i] == Command::Kind::kExpect) {
      recvs.emplace_back(RecvKey(step.peer, step.message), static_cast<int32_t>(i));
    }
  }
  std::sort(recvs.begin(), recvs.end());
}

int32_t PreparedSchedule::FindRecv(int peer, int32_t message) const {
  if (peer < 0 || message < 0) return -1;
  const uint64_t key = RecvKey(peer, message);
  auto it = std::lower_bound(recvs.begin(), recvs.end(), std::make_pair(key, int32_t{0}));
  return it != recvs.end() && it->first == key ? it->second : -1;
}

Executor::Executor(const PreparedSchedule* prepared)
    : prepared_(prepared), missing_(prepared->dep_counts), state_(prepared->dep_counts.size()) {
  ready_.reserve(state_.size());
  Reset();
}

void Executor::Reset() {
  std::copy(prepared_->dep_counts.begin(), prepared_->dep_counts.end(), missing_.begin());
  ready_.clear();
  complete_ = outstanding_ = 0;
  status_ = Status();
  for (size_t i = 0; i < state_.size(); ++i) {
    state_[i] = missing_[i] == 0 ? State::kReady : State::kBlocked;
    if (missing_[i] == 0) ready_.push_back(static_cast<int32_t>(i));
  }
}

void Executor::TakeReady(std::vector<Command>* commands) {
  if (failed()) return;
  // Steps become ready in the order in which their last dependencies happened to complete.
  std::sort(ready_.begin(), ready_.end());
  for (int32_t step : ready_) {
    state_[step] = State::kTaken;
    commands->push_back({.kind = prepared_->kinds[step], .step = step});
  }
  outstanding_ += static_cast<int32_t>(ready_.size());
  ready_.clear();
}

void Executor::Complete(int32_t step, const Status& status) {
  assert(state_[step] == State::kTaken);
  --outstanding_;
  if (!status.ok()) {
    // The step stays taken, so that progress() shows it as not done.
    if (status_.ok()) status_ = status;
    return;
  }
  state_[step] = State::kComplete;
  ++complete_;
  for (uint32_t i = prepared_->successor_begin[step]; i < prepared_->successor_begin[step + 1];
       ++i) {
    const int32_t next = prepared_->successors[i];
    if (--missing_[next] > 0) continue;
    state_[next] = State::kReady;
    ready_.push_back(next);
  }
}

bool Executor::done() const {
  if (failed()) return outstanding_ == 0;
  return complete_ == static_cast<int32_t>(state_.size());
}

PeerProgress Executor::progress(int peer) const {
  PeerProgress progress = {.peer = peer};
  for (size_t i = 0; i < state_.size(); ++i) {
    const Step& step = prepared_->schedule.steps[i];
    if (step.peer != peer) continue;
    const bool complete = state_[i] == State::kComplete;
    if (step.kind == StepKind::kSend) {
      ++progress.sends;
      progress.sends_done += complete;
    } else if (IsRecv(step.kind)) {
      ++progress.recvs;
      progress.recvs_done += complete;
      if (!complete && progress.next_message < 0) progress.next_message = step.message;
    }
  }
  return progress;
}

int Executor::AwaitedPeer() const {
  // A receive first: a send that does not complete is most often the consequence of a peer that
  // does not get there either.
  int sending_to = -1;
  for (size_t i = 0; i < state_.size(); ++i) {
    if (state_[i] != State::kReady && state_[i] != State::kTaken) continue;
    if (prepared_->kinds[i] == Command::Kind::kExpect) return prepared_->schedule.steps[i].peer;
    if (prepared_->kinds[i] == Command::Kind::kSend && sending_to < 0) {
      sending_to = prepared_->schedule.steps[i].peer;
    }
  }
  return sending_to;
}

}  // namespace gradwire
