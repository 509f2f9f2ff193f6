#include "runtime/controller/knowledge.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/byte_stream.h"
#include "base/hash.h"
#include "runtime/controller/bounds.h"
#include "runtime/controller/plan_log.h"

namespace gradwire {
namespace {

constexpr uint32_t kKnowledgeVersion = 5;
// Bans are few: most expire.
constexpr uint32_t kMaxBans = 4096;
// Of steps and windows, and of microseconds: what is computed with them does not overflow.
constexpr int64_t kMaxCount = int64_t{1} << 30;
constexpr double kMaxAmount = 1e15;

// All that the controller knows of the job without measuring.
uint64_t DigestOf(const JobFacts& job) { return HashString(JobLine(job)); }

void Put(const Plan& plan, ByteWriter* out) {
  for (const uint8_t rung : plan) out->Put(rung);
}

void Put(const Memory::Medians& medians, ByteWriter* out) {
  out->Put(medians.step_us, medians.busy_us, medians.compute_us);
}

void Put(const ModelState& model, ByteWriter* out) {
  out->Put(model.us_per_message, model.us_per_byte, model.compute_us, model.slowdown);
  for (const double us : model.ready_us) out->Put(us);
  for (const double us : model.codec_us_per_elem) out->Put(us);
}

// Reads what belongs to one job, and remembers whether all of it was in range.
class Reader {
 public:
  Reader(const JobFacts& job, ByteReader* in) : job_(job), in_(*in) {}

  double Amount(double most = kMaxAmount) { return Checked(in_.Get<double>(), 0, most); }
  // Of a candidate: negative where it is not known.
  double AmountIfKnown() { return Checked(in_.Get<double>(), -1, kMaxAmount); }
  // Above the number of ranks where residuals come on top.
  double Alike() {
    const double alike = Amount();
    ok_ = ok_ && alike > 0;
    return alike;
  }
  int64_t Count(int64_t most) {
    const auto count = in_.Get<int64_t>();
    const bool possible = count >= 0 && count <= most;
    ok_ = ok_ && possible;
    return possible ? count : 0;
  }
  Plan OnePlan() {
    Plan plan(job_.tensors.size());
    for (size_t t = 0; t < plan.size(); ++t) {
      const auto rung = in_.Get<uint8_t>();
      const std::vector<JobRung>& ladder = job_.tensors[t].ladder;
      const bool possible = rung < ladder.size() && ladder[rung].usable();
      ok_ = ok_ && possible;
      plan[t] = possible ? rung : 0;
    }
    return plan;
  }
  // One plan for a top rung at most, from the lowest up.
  std::vector<Memory::Tried> Tried(uint32_t count) {
    std::vector<Memory::Tried> all(LongestLadder(job_));
    int last = -1;
    for (; count > 0 && ok(); --count) {
      Plan plan = OnePlan();
      const int rung = TopRung(plan);
      const Memory::Medians medians = Medians();
      ok_ = ok_ && rung > last && medians.step_us > 0;
      last = rung;
      all[static_cast<size_t>(rung)] = {.plan = std::move(plan), .medians = medians};
    }
    return all;
  }
  Memory::Medians Medians() { return {Amount(), Amount(), Amount()}; }
  ModelState Model() {
    ModelState model = {Amount(), Amount(), Amount(), Amount(kMaxSlowdown)};
    for (size_t t = 0; t < job_.tensors.size(); ++t) model.ready_us.push_back(Amount());
    for (size_t c = 0; c < job_.candidates.size(); ++c)
      model.codec_us_per_elem.push_back(AmountIfKnown());
    return model;
  }
  bool ok() const { return ok_ && in_.ok(); }

 private:
  double Checked(double value, double least, double most) {
    ok_ = ok_ && value >= least && value <= most;
    return value;
  }

  const JobFacts& job_;
  ByteReader& in_;
  bool ok_ = true;
};

// Counters begin anew: what is kept is how much was left of each.
int64_t Left(int64_t until_window, const Memory& memory) {
  return std::max<int64_t>(until_window - memory.windows, 0);
}

Memory ReadMemory(const JobFacts& job, Reader* in, uint32_t tried, uint32_t bans) {
  Memory memory;
  memory.phase = Memory::Phase::kResumed;
  memory.running = in->OnePlan();
  memory.expected_us = in->Amount();
  memory.tried = in->Tried(tried);
  memory.model = in->Model();
  for (size_t c = 0; c < job.candidates.size(); ++c)
    memory.candidates.push_back(
        {in->AmountIfKnown(), -in->Count(kMaxCount), in->Count(kTellingPieceElems)});
  for (const JobTensor& tensor : job.tensors) {
    memory.forbidden.emplace_back();
    for (size_t r = 0; r < tensor.ladder.size(); ++r)
      memory.forbidden.back().push_back(in->Count(kForbidWindows));
  }
  memory.tensors.resize(job.tensors.size());
  for (size_t t = 0; t < job.tensors.size(); ++t) memory.alike.push_back(in->Alike());
  for (; bans > 0 && in->ok(); --bans) {
    memory.bans.Add(
        {in->OnePlan(), in->Count(PlanBans::kMaxWindows), static_cast<int>(in->Count(kMaxCount))});
  }
  return memory;
}

}  // namespace

std::string EncodeKnowledge(const JobFacts& job, const Memory& memory) {
  // What was switched to is not known to be better before it has won the comparison.
  const Plan& plan = memory.to_verify ? *memory.to_verify : memory.running;
  const double known_us = memory.usual_us > 0 ? memory.usual_us : memory.expected_us;
  const bool warms_up = memory.phase == Memory::Phase::kBf16 ||
                        memory.phase == Memory::Phase::kNone || memory.left_out_none;
  if (warms_up) return {};
  const std::vector<PlanBans::Entry>& all_bans = memory.bans.entries();
  const size_t bans = std::min<size_t>(all_bans.size(), kMaxBans);
  ByteWriter out;
  std::vector<Memory::Tried> known;
  std::copy_if(memory.tried.begin(), memory.tried.end(), std::back_inserter(known),
               [](const Memory::Tried& tried) { return tried.medians.step_us > 0; });
  out.Put(kKnowledgeVersion, DigestOf(job), static_cast<uint32_t>(known.size()),
          static_cast<uint32_t>(bans));
  Put(plan, &out);
  out.Put(memory.to_verify ? 0.0 : known_us);
  for (const Memory::Tried& tried : known) {
    Put(tried.plan, &out);
    Put(tried.medians, &out);
  }
  Put(memory.model, &out);
  for (const Memory::Tested& tested : memory.candidates)
    out.Put(tested.relative_error, std::min(memory.steps - tested.at_step, kMaxCount),
            tested.probed_elems);
  for (const std::vector<int64_t>& of_tensor : memory.forbidden) {
    for (const int64_t until_window : of_tensor) out.Put(Left(until_window, memory));
  }
  for (const double alike : memory.alike) out.Put(alike);
  for (size_t i = all_bans.size() - bans; i < all_bans.size(); ++i) {
    const PlanBans::Entry& ban = all_bans[i];
    Put(ban.plan, &out);
    out.Put(Left(ban.until_window, memory), static_cast<int64_t>(ban.times));
  }
  return std::move(out).Take();
}

StatusOr<Memory> DecodeKnowledge(const JobFacts& job, std::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.Get<uint32_t>();
  const auto digest = in.Get<uint64_t>();
  const auto tried = in.Get<uint32_t>();
  const auto bans = in.Get<uint32_t>();
  if (in.ok() && (version != kKnowledgeVersion || digest != DigestOf(job))) {
    return Status(gwMismatch, version != kKnowledgeVersion
                                  ? "the saved controller is of another version"
                                  : "the saved controller is of other tensors or settings");
  }
  Reader reader(job, &in);
  Memory memory = ReadMemory(job, &reader, tried, bans);
  if (!reader.ok() || bans > kMaxBans || !in.at_end())
    return Status(gwDataCorrupt, "the saved controller cannot be read");
  return memory;
}

}  // namespace gradwire
