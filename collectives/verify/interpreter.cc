#include "collectives/verify/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "collectives/verify/world.h"

namespace gradwire {
namespace {

// A step under way.
struct Task {
  int rank = 0;
  Command command;
  int64_t cursor = 0;
};

class Interpreter {
 public:
  Interpreter(std::span<const InterpretedRank> ranks, uint64_t seed)
      : ranks_(ranks), random_(seed) {
    for (const InterpretedRank& rank : ranks) executors_.emplace_back(rank.schedule);
  }

  Status Run();

 private:
  using MessageKey = std::tuple<int, int, int32_t>;  // from, to, message

  const Step& StepOf(const Task& task) const {
    return ranks_[task.rank].schedule->schedule.steps[task.command.step];
  }
  MessageKey KeyOf(const Task& task) const {
    const Step& step = StepOf(task);
    return {step.peer, task.rank, step.message};
  }
  bool Runnable(const Task& task) const {
    return task.command.kind != Command::Kind::kExpect || messages_.contains(KeyOf(task));
  }
  StatusOr<bool> Advance(Task* task);
  void SendMessage(const Task& task);
  StatusOr<bool> ReceiveFragment(Task* task);
  Status Stuck() const;

  std::span<const InterpretedRank> ranks_;
  RandomStream random_;
  std::vector<Executor> executors_;
  std::vector<Task> tasks_;
  std::map<MessageKey, std::vector<std::byte>> messages_;
};

void Interpreter::SendMessage(const Task& task) {
  const Step& step = StepOf(task);
  const ConstBytes bytes = ranks_[task.rank].work->Memory(step.src);
  messages_[{task.rank, step.peer, step.message}].assign(bytes.data, bytes.data + bytes.size);
}

StatusOr<bool> Interpreter::ReceiveFragment(Task* task) {
  const Step& step = StepOf(*task);
  SliceWork* work = ranks_[task->rank].work;
  std::vector<std::byte>& message = messages_[KeyOf(*task)];
  const auto size = static_cast<int64_t>(message.size());
  if (size != work->MessageBytes(step.dst)) {
    return Status(gwMismatch, fmt::format("{} has {} bytes, not {}",
                                          DescribeStep(ranks_[task->rank].schedule->schedule,
                                                       task->command.step),
                                          size, work->MessageBytes(step.dst)));
  }
  const int64_t any = 64 * static_cast<int64_t>(1 + random_.Below(8));
  const int64_t bytes = std::min(any, size - task->cursor);
  const ConstBytes fragment(message.data() + task->cursor, bytes);
  if (step.kind == StepKind::kRecvReduce) {
    work->Combine(step, task->cursor, fragment);
  } else if (bytes > 0) {
    std::memcpy(work->Memory(step.dst).data + task->cursor, fragment.data, bytes);
  }
  task->cursor += bytes;
  if (task->cursor < size) return false;
  messages_.erase(KeyOf(*task));
  return true;
}

StatusOr<bool> Interpreter::Advance(Task* task) {
  switch (task->command.kind) {
    case Command::Kind::kSend: SendMessage(*task); return true;
    case Command::Kind::kCompute:
      return ranks_[task->rank].work->Compute(StepOf(*task), &task->cursor);
    case Command::Kind::kExpect: return ReceiveFragment(task);
  }
  return true;
}

Status Interpreter::Stuck() const {
  for (size_t rank = 0; rank < executors_.size(); ++rank) {
    if (executors_[rank].done()) continue;
    const int peer = executors_[rank].AwaitedPeer();
    return Status(gwInternalError, fmt::format("rank {} is stuck: {}", rank,
                                               executors_[rank].progress(peer).ToString()));
  }
  return Status::Ok();
}

Status Interpreter::Run() {
  std::vector<Command> ready;
  std::vector<size_t> runnable;
  while (true) {
    for (size_t rank = 0; rank < executors_.size(); ++rank) {
      ready.clear();
      executors_[rank].TakeReady(&ready);
      for (const Command& command : ready) tasks_.push_back({static_cast<int>(rank), command});
    }
    runnable.clear();
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (Runnable(tasks_[i])) runnable.push_back(i);
    }
    if (runnable.empty()) return Stuck();
    const size_t pick = runnable[random_.Below(runnable.size())];
    Task task = tasks_[pick];
    StatusOr<bool> finished = Advance(&task);
    if (!finished.ok()) return finished.status();
    tasks_[pick] = task;
    if (!*finished) continue;
    executors_[task.rank].Complete(task.command.step, Status::Ok());
    tasks_[pick] = tasks_.back();
    tasks_.pop_back();
  }
}

}  // namespace

Status Interpret(std::span<const InterpretedRank> ranks, uint64_t seed) {
  return Interpreter(ranks, seed).Run();
}

}  // namespace gradwire
