#include "cli/schedule/schedule_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>

#include "base/json_value.h"
#include "cli/text_output.h"
#include "collectives/executor.h"
#include "collectives/schemes/linear/linear_slice.h"
#include "collectives/schemes/part.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/two_shot/two_shot_slice.h"
#include "runtime/operations/slice_bytes.h"

namespace gradwire {
namespace {

struct RunOfSlice {
  int64_t slice = 0;
  uint8_t run = 0;
};

void AppendMessages(const Schedule& schedule, const SliceOp& op, const RunOfSlice& of,
                    std::vector<ScheduledMessage>* messages) {
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kSend) continue;
    messages->push_back({.src = schedule.rank,
                         .dst = step.peer,
                         .slice = of.slice,
                         .run = of.run,
                         .message = step.message,
                         .round = step.round,
                         .bytes = op.MessageBytes(step.src)});
  }
}

// The slices have no memory behind them: they are asked for sizes only.
void AppendRawMessages(const Schedule& schedule, const RunShape& shape,
                       std::vector<ScheduledMessage>* messages) {
  const PreparedSchedule prepared(schedule);
  const RawOp op = {.collective = schedule.collective,
                    .count = shape.elems,
                    .dtype = shape.dtype,
                    .rank = schedule.rank,
                    .world_size = schedule.world_size,
                    .root = schedule.root};
  const int64_t per_slice = RawSliceElems(op, shape.slice_elems);
  int64_t slice = 0;
  for (int64_t first = 0; first == 0 || first < shape.elems; first += per_slice) {
    const int64_t elems = std::min(per_slice, shape.elems - first);
    AppendMessages(schedule, RawSlice(op, first, elems, &prepared), {.slice = slice++}, messages);
  }
}

void AppendEncodedMessages(const Schedule& schedule, const RunShape& shape,
                           std::vector<ScheduledMessage>* messages) {
  const PreparedSchedule prepared(schedule);
  const TensorPart part = {.grad = ConstView(nullptr, shape.elems, shape.dtype),
                           .codec = shape.codec->payload.get()};
  const PartContext context = {.rank = schedule.rank, .world_size = schedule.world_size};
  const auto slices = CutIntoSlices({&part, 1}, shape.slice_elems);
  for (size_t slice = 0; slice < slices.size(); ++slice) {
    AppendMessages(schedule, TwoShotSlice({&part, 1}, context, slices[slice], &prepared),
                   {.slice = static_cast<int64_t>(slice)}, messages);
  }
}

// What the method keeps from step to step is zero before the first.
void AppendCarrierMessages(const Schedule& schedule, const RunShape& shape,
                           std::vector<ScheduledMessage>* messages) {
  const PreparedSchedule prepared(schedule);
  const CarrierMethod& method = *shape.codec->carrier;
  const TensorMeta meta = MetaOf(shape);
  const std::vector<std::byte> kept(method.ReplicatedBytes(meta, schedule.world_size));
  const TensorPart part = {.grad = ConstView(nullptr, shape.elems, shape.dtype),
                           .replicated_in = {kept.data(), std::ssize(kept)},
                           .shape = meta.shape,
                           .method = &method,
                           .quantum_elems = method.QuantumElems(meta, schedule.world_size)};
  const PartContext context = {.rank = schedule.rank, .world_size = schedule.world_size};
  auto slices = CutIntoSlices({&part, 1}, shape.slice_elems);
  if (slices.empty()) slices.emplace_back();  // no elements: still one message each
  for (size_t slice = 0; slice < slices.size(); ++slice) {
    LinearSlice op({&part, 1}, context, slices[slice], &prepared, SliceBytes(shape.slice_elems));
    RunOfSlice of = {.slice = static_cast<int64_t>(slice)};
    for (; op.SkipToNextRun(); ++of.run) AppendMessages(schedule, op, of, messages);
  }
}

// At most: no round of a slice has more than one run that is not full.
double EstimateRuns(const RunShape& shape, int ranks, double slices) {
  const CarrierMethod& method = *shape.codec->carrier;
  double runs = 0;
  for (int round = 0; round < method.rounds(); ++round) {
    const RoundSpec spec = method.Round(round, MetaOf(shape), ranks, {}, {});
    const int64_t bytes = spec.elems * SizeOf(spec.dtype) * (method.Gathers() ? ranks : 1);
    runs +=
        slices + static_cast<double>(bytes) / static_cast<double>(SliceBytes(shape.slice_elems));
  }
  return runs;
}

std::string RegionText(const Schedule& schedule, const Region& region) {
  if (region.count == 0) return "";
  const BufferDecl& decl = schedule.buffers[region.buffer];
  std::vector<int32_t> shards(decl.shard_ids.begin() + region.first,
                              decl.shard_ids.begin() + region.first + region.count);
  const bool run = shards.size() > 2 && shards.back() - shards.front() + 1 == region.count;
  return fmt::format("{}[{}]", Name(decl.role),
                     run ? fmt::format("{}..{}", shards.front(), shards.back())
                         : fmt::format("{}", fmt::join(shards, ",")));
}

}  // namespace

TensorMeta MetaOf(const RunShape& shape) {
  return {.shape = shape.matrix, .elems = shape.elems, .dtype = shape.dtype};
}

std::vector<Schedule> MakeSchedules(const AlgorithmRow& algorithm, int ranks, int root, int rank) {
  if (rank >= 0) return {algorithm.make(rank, ranks, root)};
  std::vector<Schedule> schedules;
  for (rank = 0; rank < ranks; ++rank) schedules.push_back(algorithm.make(rank, ranks, root));
  return schedules;
}

double EstimateMessages(const AlgorithmRow& algorithm, int ranks, const RunShape& shape) {
  const RawOp op = {.collective = algorithm.collective, .dtype = shape.dtype, .world_size = ranks};
  // Slices of tensors are whole quanta, one or more: no more is cut off than stays.
  const int64_t least = shape.codec ? std::max<int64_t>(shape.slice_elems / 2, 1)
                                    : RawSliceElems(op, shape.slice_elems);
  const double cut = std::ceil(static_cast<double>(shape.elems) / static_cast<double>(least));
  const double slices = std::max(cut, 1.0);
  const bool in_rounds = shape.codec && !shape.encoded();
  return (in_rounds ? EstimateRuns(shape, ranks, slices) : slices) *
         static_cast<double>(algorithm.totals(ranks).messages);
}

std::vector<ScheduledMessage> ListMessages(std::span<const Schedule> schedules,
                                           const RunShape& shape) {
  std::vector<ScheduledMessage> messages;
  for (const Schedule& schedule : schedules) {
    if (!shape.codec) {
      AppendRawMessages(schedule, shape, &messages);
    } else if (shape.encoded()) {
      AppendEncodedMessages(schedule, shape, &messages);
    } else {
      AppendCarrierMessages(schedule, shape, &messages);
    }
  }
  std::stable_sort(messages.begin(), messages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.slice, a.run, a.round, a.src) < std::tie(b.slice, b.run, b.round, b.src);
  });
  return messages;
}

std::string ScheduleTable(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows = {
      {"#", "step", "round", "kind", "peer", "message", "src", "arg", "dst", "after"}};
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const bool moves = step.peer >= 0;
    rows.push_back({"", fmt::to_string(i), fmt::to_string(step.round), std::string(Name(step.kind)),
                    moves ? fmt::to_string(step.peer) : "",
                    moves ? fmt::to_string(step.message) : "", RegionText(schedule, step.src),
                    RegionText(schedule, step.arg), RegionText(schedule, step.dst),
                    fmt::format("{}", fmt::join(schedule.DepsOf(step), ","))});
  }
  return FormatColumns(rows);
}

std::string MessageTable(std::span<const ScheduledMessage> messages) {
  std::vector<std::vector<std::string>> rows = {
      {"#", "src", "dst", "slice", "run", "message", "round", "bytes"}};
  for (const ScheduledMessage& m : messages) {
    rows.push_back({"", fmt::to_string(m.src), fmt::to_string(m.dst), fmt::to_string(m.slice),
                    fmt::to_string(int{m.run}), fmt::to_string(m.message), fmt::to_string(m.round),
                    fmt::to_string(m.bytes)});
  }
  return FormatColumns(rows);
}

JsonValue MessagesJson(std::span<const ScheduledMessage> messages) {
  JsonValue json = JsonValue::array();
  for (const ScheduledMessage& m : messages) {
    json.push_back({{"src", m.src},
                    {"dst", m.dst},
                    {"slice", m.slice},
                    {"run", m.run},
                    {"message", m.message},
                    {"round", m.round},
                    {"bytes", m.bytes}});
  }
  return json;
}

}  // namespace gradwire
