#include "cli/trace/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/json_value.h"

namespace gradwire {
namespace {

using Json = JsonValue;

// The rows of a rank.
enum Row { kTraining, kCodec, kWire, kRows };
constexpr const char* kRowNames[kRows] = {"training", "codec", "wire"};

Row RowOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep:
    case SpanKind::kBlocked: return kTraining;
    case SpanKind::kEncode:
    case SpanKind::kDecode: return kCodec;
    case SpanKind::kWire: return kWire;
  }
  return kTraining;
}

struct Named {  // to be drawn
  std::string name;
  Row row = kTraining;
  int64_t begin_ns = 0, end_ns = 0;
};

// Where the caller of a step is not blocked it computes. `blocked` in the order of time.
std::vector<Named> ComputeOf(const Span& step, const std::vector<Span>& blocked) {
  std::vector<Named> computes;
  int64_t from_ns = step.begin_ns;
  const auto add_until = [&](int64_t end_ns) {
    if (end_ns > from_ns) {
      computes.push_back({"compute", kTraining, from_ns, end_ns});
    }
  };
  for (const Span& wait : blocked) {
    if (wait.end_ns <= step.begin_ns || wait.begin_ns >= step.end_ns) continue;
    add_until(wait.begin_ns);
    from_ns = std::max(from_ns, wait.end_ns);
  }
  add_until(step.end_ns);
  return computes;
}

std::vector<Named> DrawingOf(const std::vector<Span>& spans) {
  std::vector<Named> drawing;
  std::vector<Span> blocked;
  for (const Span& span : spans) {
    const bool is_step = span.kind == SpanKind::kStep;
    const std::string name =
        is_step ? fmt::format("step {}", span.number) : std::string(NameOf(span.kind));
    drawing.push_back({name, RowOf(span.kind), span.begin_ns, span.end_ns});
    if (span.kind == SpanKind::kBlocked) blocked.push_back(span);
  }
  for (const Span& span : spans) {
    if (span.kind != SpanKind::kStep) continue;
    for (Named& compute : ComputeOf(span, blocked)) drawing.push_back(std::move(compute));
  }
  // Of two that begin together the outer one first.
  std::stable_sort(drawing.begin(), drawing.end(), [](const Named& a, const Named& b) {
    return std::pair(a.begin_ns, -a.end_ns) < std::pair(b.begin_ns, -b.end_ns);
  });
  return drawing;
}

class Writer {
 public:
  explicit Writer(int64_t zero_ns) : zero_ns_(zero_ns) {}

  void Name(const char* what, size_t rank, int row, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"pid", rank}, {"tid", row}, {"name", what}, {"args", {{"name", name}}}});
  }
  void Draw(size_t rank, const Named& span) {
    const double us = Us(span.end_ns) - Us(span.begin_ns);
    events_.push_back({{"ph", "X"},
                       {"pid", rank},
                       {"tid", static_cast<int>(span.row)},
                       {"name", span.name},
                       {"ts", Us(span.begin_ns)},
                       {"dur", us}});
  }
  void Mark(int64_t at_ns, const PlanChange& plan) {
    events_.push_back({{"ph", "i"},
                       {"s", "g"},  // a line across all rows
                       {"pid", 0},
                       {"tid", static_cast<int>(kTraining)},
                       {"name", "plan: " + plan.change},
                       {"ts", Us(at_ns)},
                       {"args", PlanChangeJson(plan)}});
  }
  std::string Text() const {
    return Json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}}.dump() + "\n";
  }

 private:
  double Us(int64_t ns) const { return static_cast<double>(ns - zero_ns_) / kNsPerUs; }

  const int64_t zero_ns_;
  Json events_ = Json::array();
};

std::string NameOfRank(const RecordedRun& run, size_t rank) {
  const int64_t left_out = rank < run.left_out.size() ? run.left_out[rank] : 0;
  const std::string name = fmt::format("rank {}", rank);
  return left_out == 0 ? name : fmt::format("{}, {} spans at the end left out", name, left_out);
}

int64_t FirstNs(const RecordedRun& run) {
  int64_t first_ns = INT64_MAX;
  for (const auto& spans : run.ranks) {
    for (const Span& span : spans) first_ns = std::min(first_ns, span.begin_ns);
  }
  return first_ns;
}

void MarkPlans(const RecordedRun& run, Writer* writer) {
  for (const PlanChange& plan : run.plans) {
    for (const Span& span : run.ranks[0]) {
      if (span.kind == SpanKind::kStep && span.number == plan.step) {
        writer->Mark(span.end_ns, plan);
      }
    }
  }
}

}  // namespace

std::string ChromeTrace(const RecordedRun& run) {
  Writer writer(FirstNs(run));
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    writer.Name("process_name", rank, 0, NameOfRank(run, rank));
    for (int row = 0; row < kRows; ++row) writer.Name("thread_name", rank, row, kRowNames[row]);
    for (const Named& span : DrawingOf(run.ranks[rank])) writer.Draw(rank, span);
  }
  if (!run.ranks.empty()) MarkPlans(run, &writer);
  return writer.Text();
}

}  // namespace gradwire
