#include "runtime/recorder/disagreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ranks_text.h"
#include "runtime/recorder/entry_text.h"

namespace gradwire {
namespace {

struct Party {
  uint64_t word = 0;  // what its ranks have in common
  std::string what;   // the same for people
  std::vector<int> ranks;
};

// Collects ranks by what they say.
class Parties {
 public:
  void Add(int rank, uint64_t word, std::string what) {
    Party& party = by_word_[word];
    if (party.ranks.empty()) party.what = std::move(what);
    party.word = word;
    party.ranks.push_back(rank);
  }
  size_t size() const { return by_word_.size(); }
  // The largest first; of equal ones that with the lowest rank.
  std::vector<Party> Sorted() const {
    std::vector<Party> parties;
    for (const auto& [word, party] : by_word_) parties.push_back(party);
    std::sort(parties.begin(), parties.end(), [](const Party& a, const Party& b) {
      if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
      return a.ranks < b.ranks;
    });
    return parties;
  }

 private:
  std::map<uint64_t, Party> by_word_;
};

// Of at least two parties; `habit` is what was said in an earlier step.
Finding FindingOf(const std::vector<Party>& parties, std::optional<uint64_t> habit,
                  const std::string& about) {
  Finding finding = {.kind = FindingKind::kDisagree, .text = "the ranks disagree about " + about};
  const bool majority = parties[0].ranks.size() > parties[1].ranks.size();
  const bool has_habit = std::any_of(parties.begin(), parties.end(),
                                     [&](const Party& p) { return habit && p.word == *habit; });
  std::optional<uint64_t> right;
  if (has_habit) right = habit;
  if (majority) right = parties[0].word;
  for (size_t i = 0; i < parties.size(); ++i) {
    const auto& [word, what, ranks] = parties[i];
    finding.text += fmt::format("{} {}: {}", i > 0 ? ";" : ":", RanksText(ranks), what);
    if (right && word == *right) continue;
    finding.culprits.insert(finding.culprits.end(), ranks.begin(), ranks.end());
  }
  std::sort(finding.culprits.begin(), finding.culprits.end());
  if (!majority && right) {
    finding.text +=
        fmt::format("; in earlier steps all did as {}",
                    RanksText(std::find_if(parties.begin(), parties.end(), [&](const Party& p) {
                                return p.word == *right;
                              })->ranks));
  }
  return finding;
}

std::string TypeText(const OpOnRank& op) {
  std::string text = op.text.empty() ? "no name" : op.text;
  if (op.bytes > 0) text += fmt::format(", {} bytes", op.bytes);
  if (const auto dtype = DTypeFromInt(op.dtype)) text += fmt::format(" of {}", Name(*dtype));
  return text;
}

Parties PartiesAbout(const OpRecord& op) {
  Parties parties;
  for (const auto& [rank, on_rank] : op) {
    if (on_rank.signed_here) parties.Add(rank, on_rank.signature, TypeText(on_rank));
  }
  return parties;
}

// The signature in the same place of the last step that was committed.
std::optional<uint64_t> HabitAt(const JobRecord& job, int64_t op_seq) {
  const auto op = job.ops.find({job.last_committed, op_seq});
  if (op == job.ops.end()) return std::nullopt;
  const std::vector<Party> parties = PartiesAbout(op->second).Sorted();
  return parties.empty() ? std::nullopt : std::optional(parties[0].word);
}

std::optional<uint64_t> HabitualCount(const JobRecord& job) {
  for (const RankRecord& record : job.ranks) {
    const auto ended = record.ended.find(job.last_committed);
    if (ended != record.ended.end()) return static_cast<uint64_t>(ended->second);
  }
  return std::nullopt;
}

// Who ended the turn, by its count, and who has submitted more without having ended it: these would
// go on to the habitual number.
Parties PartiesAboutCount(const JobRecord& job, int64_t turn, std::optional<uint64_t> habit) {
  std::optional<int64_t> least;
  for (const RankRecord& record : job.ranks) {
    const auto ended = record.ended.find(turn);
    if (ended == record.ended.end()) continue;
    least = std::min(least.value_or(ended->second), ended->second);
  }
  Parties parties;
  for (int rank = 0; least && rank < job.world_size; ++rank) {
    const RankRecord& record = job.ranks[rank];
    if (const auto ended = record.ended.find(turn); ended != record.ended.end()) {
      parties.Add(rank, static_cast<uint64_t>(ended->second), fmt::format("{}", ended->second));
      continue;
    }
    const auto submitted = record.submitted.find(turn);
    if (submitted == record.submitted.end() || submitted->second <= *least) continue;
    const auto count = static_cast<uint64_t>(submitted->second);
    parties.Add(rank, habit && *habit > count ? *habit : count,
                fmt::format("{} so far", submitted->second));
  }
  return parties;
}

}  // namespace

bool Differs(const OpRecord& op) { return PartiesAbout(op).size() > 1; }

std::optional<Finding> OperationDisagreement(const JobRecord& job) {
  for (const auto& [at, op] : job.ops) {
    if (at.turn <= job.last_committed) continue;
    const Parties parties = PartiesAbout(op);
    if (parties.size() < 2) continue;
    return FindingOf(parties.Sorted(), HabitAt(job, at.op_seq),
                     fmt::format("operation #{}", at.number()));
  }
  return std::nullopt;
}

std::optional<Finding> CountDisagreement(const JobRecord& job) {
  const std::optional<uint64_t> habit = HabitualCount(job);
  for (int64_t turn = std::max(job.last_committed, job.last_turn - 16) + 1; turn <= job.last_turn;
       ++turn) {
    const Parties parties = PartiesAboutCount(job, turn, habit);
    if (parties.size() < 2) continue;
    return FindingOf(parties.Sorted(), habit, "the number of operations in the step");
  }
  return std::nullopt;
}

}  // namespace gradwire
