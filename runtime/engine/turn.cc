#include "runtime/engine/turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ranks_text.h"
#include "base/wrapping.h"
#include "collectives/drivers/submit_mismatch.h"
#include "runtime/engine/differing_values.h"
#include "runtime/engine/tensor_list.h"

namespace gradwire {
namespace {

// "1024 (rank 0, 2)"
std::string ValueWithRanks(const std::string& value, const std::vector<int>& ranks) {
  return fmt::format("{} (rank {})", value, fmt::join(ranks, ", "));
}

// Values of one field with the ranks that hold each, the value of the lowest rank first.
using Groups = std::vector<std::pair<std::string, std::vector<int>>>;

// Where there are two groups, the rank that stands alone against several; -1: none does.
int OddOneOut(const Groups& groups) {
  for (int i = 0; groups.size() == 2 && i < 2; ++i) {
    if (groups[i].second.size() == 1 && groups[1 - i].second.size() > 1) return groups[i].second[0];
  }
  return -1;
}

Groups GroupByValue(const std::vector<std::pair<int, std::string>>& values) {
  Groups groups;
  for (const auto& entry : values) {
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& g) { return g.first == entry.second; });
    if (it == groups.end()) it = groups.insert(groups.end(), {entry.second, {}});
    it->second.push_back(entry.first);
  }
  return groups;
}

// Names of all fields: in the order of the first rank, then what only others have.
std::vector<std::string> FieldsOf(const std::vector<std::pair<int, OpText>>& texts) {
  std::vector<std::string> names;
  for (const auto& rank_text : texts) {
    for (const auto& field : rank_text.second) {
      if (std::find(names.begin(), names.end(), field.first) == names.end())
        names.push_back(field.first);
    }
  }
  return names;
}

Status Difference(Status mismatch, const std::string& field,
                  const std::vector<std::pair<int, std::string>>& values) {
  const auto groups = GroupByValue(values);
  if (groups.size() < 2) return mismatch;
  ErrorDetail detail = mismatch.detail();
  detail.field = field;
  const auto [expected, actual] = FromWhereTheyDiffer(groups[0].first, groups[1].first);
  detail.expected = ValueWithRanks(expected, groups[0].second);
  detail.actual = ValueWithRanks(actual, groups[1].second);
  // Not who was heard first.
  detail.peer = OddOneOut(groups);
  return Status(mismatch.code(), std::move(detail));
}

// A mismatch in a number that every vote carries.
template <typename Number>
Status CheckEqual(const std::vector<Vote>& votes, const char* field, const char* hint,
                  const char* format, Number VoteFields::*number) {
  // Every step is agreed on here, and hardly one disagreed: no text until then.
  const bool equal = std::all_of(votes.begin(), votes.end(), [&](const Vote& vote) {
    return vote.fields.*number == votes.front().fields.*number;
  });
  if (equal) return Status();
  std::vector<std::pair<int, std::string>> values;
  for (size_t r = 0; r < votes.size(); ++r)
    values.emplace_back(r, fmt::format(fmt::runtime(format), votes[r].fields.*number));
  Status status =
      Difference(Status(gwMismatch, "the ranks end the step differently", hint), field, values);
  return status.detail().field.empty() ? Status() : status;
}

// The error has the first tensor that differs, its message more of them.
Status CheckTables(const std::vector<Vote>& votes) {
  constexpr const char* kField = "tensor table";
  constexpr const char* kHint =
      "Register the same tensors, with the same shapes and types, on all ranks";
  Status digests = CheckEqual(votes, kField, kHint, "digest {:016x}", &VoteFields::table_digest);
  if (digests.ok()) return digests;
  std::vector<std::string> texts;
  for (const Vote& vote : votes) texts.push_back(vote.table == nullptr ? "" : *vote.table);
  TensorListDifference difference = CompareTensorLists(texts);
  // Beyond what fits a vote.
  if (difference.names.empty()) return digests;
  constexpr size_t kNames = 8;
  const size_t more = difference.names.size() - std::min(difference.names.size(), kNames);
  difference.names.resize(difference.names.size() - more);
  return Difference(Status(gwMismatch,
                           fmt::format("the ranks have registered different tensors: {}{}",
                                       fmt::join(difference.names, ", "),
                                       more == 0 ? "" : fmt::format(" and {} more", more)),
                           kHint),
                    kField, difference.first);
}

Status FirstDisagreement(const std::vector<Vote>& votes) {
  GW_RETURN_IF_ERROR(CheckTables(votes));
  GW_RETURN_IF_ERROR(
      CheckEqual(votes, kSubmittedField, kSubmittedHint, "{}", &VoteFields::submitted));
  GW_RETURN_IF_ERROR(CheckEqual(votes, "step", "All ranks must pass the same number to gwStepBegin",
                                "{}", &VoteFields::step));
  GW_RETURN_IF_ERROR(CheckEqual(votes, "plan epoch",
                                "A rank has missed a plan: restart from a checkpoint", "{}",
                                &VoteFields::plan_epoch));
  return CheckEqual(votes, "replicated state", "Replicas have diverged: restart from a checkpoint",
                    "{:016x}", &VoteFields::digest);
}

}  // namespace

Status WithDifference(Status mismatch, const std::vector<std::string>& op_texts) {
  std::vector<std::pair<int, OpText>> texts;
  for (size_t r = 0; r < op_texts.size(); ++r) {
    if (!op_texts[r].empty()) texts.emplace_back(r, DecodeOpText(op_texts[r]));
  }
  for (const std::string& field : FieldsOf(texts)) {
    std::vector<std::pair<int, std::string>> values;
    for (const auto& [rank, text] : texts) {
      auto it =
          std::find_if(text.begin(), text.end(), [&](const auto& f) { return f.first == field; });
      values.emplace_back(rank, it == text.end() ? "nothing" : it->second);
    }
    Status status = Difference(mismatch, field, values);
    if (!status.detail().field.empty()) return status;
  }
  return mismatch;
}

namespace {

// A mismatch that one rank has found, as it is true on every rank.
Status Explained(const Status& mismatch, const std::vector<std::string>& op_texts) {
  ErrorDetail detail = mismatch.detail();
  detail.rank = detail.peer = -1;
  detail = WithDifference(Status(mismatch.code(), std::move(detail)), op_texts).detail();
  if (detail.field.empty()) return mismatch;
  if (detail.field == "operation") detail.op.clear();
  if (detail.field == "operation" || detail.field == "tensors") detail.tensor.clear();
  return Status(mismatch.code(), std::move(detail));
}

// Whose caller had not come to the operation in doubt when its engine voted. Who has left without a
// vote about it is not asked for more.
std::vector<int> WhoHasNotCalled(const std::vector<Vote>& votes) {
  std::vector<int> ranks;
  for (size_t r = 0; r < votes.size(); ++r) {
    const VoteFields& vote = votes[r].fields;
    if (vote.op_seq != kNoOpSeq && !IsBefore(vote.op_seq, vote.submitted))
      ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

// Whom the rank that found a time-out awaits may await another one itself, and that one's caller
// has not come.
Status NamingTheLate(Status timeout, const std::vector<Vote>& votes) {
  const std::vector<int> late = WhoHasNotCalled(votes);
  if (late.empty()) return timeout;
  ErrorDetail detail = timeout.detail();
  detail.message = fmt::format("{} {} not called what others wait in: {}", RanksText(late),
                               late.size() == 1 ? "has" : "have", detail.message);
  detail.peer = late.front();
  return Status(timeout.code(), std::move(detail));
}

// What rank 0 knows of the reason, as the votes tell more of it.
Status ToldByVotes(Status reason, const std::vector<Vote>& votes) {
  if (reason.code() == gwTimeout) return NamingTheLate(std::move(reason), votes);
  if (reason.code() != gwMismatch) return reason;
  std::vector<std::string> texts;
  for (const Vote& vote : votes) texts.push_back(vote.op_text);
  return Explained(reason, texts);
}

// The first tensor that one of them has named; empty: none has.
std::string FirstNamed(const std::vector<int>& ranks, const std::vector<Vote>& votes) {
  const auto named =
      std::ranges::find_if(ranks, [&](int rank) { return !votes[rank].nonfinite_tensor.empty(); });
  return named == ranks.end() ? std::string() : votes[*named].nonfinite_tensor;
}

// "rank 0 in 'fc.weight', rank 2", where that one has named none.
std::string Places(const std::vector<int>& ranks, const std::vector<Vote>& votes) {
  std::vector<std::string> places;
  for (const int rank : ranks) {
    const std::string& name = votes[rank].nonfinite_tensor;
    places.push_back(fmt::format("rank {}", rank) +
                     (name.empty() ? "" : fmt::format(" in '{}'", name)));
  }
  return fmt::format("{}", fmt::join(places, ", "));
}

// Nothing: all results are finite. Blames the ranks whose own gradients are not: under kError they
// have looked.
std::optional<Status> NonFinite(const std::vector<Vote>& votes, NonFinitePolicy policy) {
  std::vector<int> seen_by, brought_by;
  for (size_t r = 0; r < votes.size(); ++r) {
    const uint8_t where = votes[r].fields.nonfinite;
    if ((where & kInResult) != 0) seen_by.push_back(static_cast<int>(r));
    if ((where & kInGradient) != 0) brought_by.push_back(static_cast<int>(r));
  }
  if (seen_by.empty()) return std::nullopt;
  ErrorDetail detail = {.hint = "Lower the loss scale, or look at the input of this step"};
  detail.tensor = FirstNamed(brought_by, votes);
  const bool alike = std::ranges::all_of(brought_by, [&](int rank) {
    const std::string& name = votes[rank].nonfinite_tensor;
    return name.empty() || name == detail.tensor;
  });
  if (brought_by.empty()) {
    const bool all_looked = policy == NonFinitePolicy::kError;
    detail.message = fmt::format("{} holds a NaN or an infinity; seen by rank {}",
                                 all_looked ? "a sum of finite gradients" : "a gradient or a sum",
                                 fmt::join(seen_by, ", "));
  } else if (alike) {
    detail.message =
        fmt::format("gradients of rank {} hold a NaN or an infinity", fmt::join(brought_by, ", "));
  } else {
    detail.message =
        fmt::format("gradients hold a NaN or an infinity: of {}", Places(brought_by, votes));
    detail.tensor.clear();
  }
  // Who has brought it may see no result that it is in, as in a reduce-scatter.
  if (alike && detail.tensor.empty()) detail.tensor = FirstNamed(seen_by, votes);
  if (brought_by.size() == 1) detail.peer = brought_by[0];
  return Status(gwNonFinite, std::move(detail));
}

TurnResult Outcome(uint16_t turn, const std::vector<Vote>& votes, const Status& revoked,
                   NonFinitePolicy policy) {
  TurnResult result = {.turn = turn, .step = votes[0].fields.step};
  const bool against =
      std::any_of(votes.begin(), votes.end(), [](const Vote& v) { return v.fields.ok == 0; });
  if (against || !revoked.ok()) {
    Status reason = revoked.ok() ? Status(gwAborted, "a rank voted against the step") : revoked;
    result.outcome = StepOutcome::kAbort;
    result.reason = ToldByVotes(std::move(reason), votes);
    return result;
  }
  if (Status s = FirstDisagreement(votes); !s.ok()) {
    result.outcome = StepOutcome::kAbort;
    result.reason = std::move(s);
    return result;
  }
  if (policy == NonFinitePolicy::kPropagate) return result;
  if (std::optional<Status> nonfinite = NonFinite(votes, policy)) {
    result.outcome = policy == NonFinitePolicy::kSkip ? StepOutcome::kSkip : StepOutcome::kAbort;
    result.reason = *std::move(nonfinite);
  }
  return result;
}

}  // namespace

TurnResult DecideTurn(uint16_t turn, const std::vector<Vote>& votes, const Status& revoked,
                      NonFinitePolicy policy) {
  TurnResult result = Outcome(turn, votes, revoked, policy);
  result.begins_anew = result.outcome == StepOutcome::kAbort &&
                       std::any_of(votes.begin(), votes.end(),
                                   [](const Vote& v) { return v.fields.unfinished != 0; });
  if (!result.begins_anew) return result;
  for (const Vote& vote : votes) result.draws = std::max(result.draws, vote.fields.draws);
  return result;
}

}  // namespace gradwire
