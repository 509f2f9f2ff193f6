#include "base/timeline.h"

#include <fmt/format.h>

#include <fstream>

namespace gradwire {

std::string_view NameOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep: return "step";
    case SpanKind::kBlocked: return "blocked";
    case SpanKind::kEncode: return "encode";
    case SpanKind::kDecode: return "decode";
    case SpanKind::kWire: return "wire";
  }
  return "";
}

void Timeline::Add(const Span& span) {
  std::lock_guard lock(mu_);
  if (spans_.size() < kMaxSpans) {
    spans_.push_back(span);
  } else {
    ++left_out_;
  }
}

std::vector<Span> Timeline::spans() const {
  std::lock_guard lock(mu_);
  return spans_;
}

Status Timeline::WriteTo(const std::string& path, const TimelineOwner& owner) const {
  std::lock_guard lock(mu_);
  std::ofstream file(path);
  file << fmt::format("{{\"job\": \"{:016x}\", \"rank\": {}, \"ranks\": {}}}\n", owner.job,
                      owner.rank, owner.ranks);
  for (const Span& span : spans_) {
    file << fmt::format("{{\"span\": \"{}\", \"begin_ns\": {}, \"end_ns\": {}, \"number\": {}}}\n",
                        NameOf(span.kind), span.begin_ns, span.end_ns, span.number);
  }
  if (left_out_ > 0) file << fmt::format("{{\"left_out\": {}}}\n", left_out_);
  file.close();
  return file ? Status::Ok()
              : Status(gwSystemError, fmt::format("cannot write the timeline '{}'", path));
}

}  // namespace gradwire
