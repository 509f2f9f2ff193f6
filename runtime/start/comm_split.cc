#include "runtime/start/comm_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "runtime/start/comm_start.h"
#include "transports/bootstrap/unique_id.h"

namespace gradwire {
namespace {

// What one rank tells all others of the parent, in each of three rounds: what it wants, the unique
// id if it leads a group, and how its start ended. One exact all-gather a round.
struct Word {
  int32_t code = gwSuccess;  // of this rank; anything else ends the split on all ranks
  int32_t has_color = 0, color = 0, key = 0;
  uint32_t number = 0;  // of this split, as far as this rank knows: it may have missed one
  UniqueId id = {};
  char error[360] = {};  // message and hint of `code`, cut
};

Word WordOf(const SplitPart& mine, uint32_t number) {
  return {.has_color = mine.color ? 1 : 0,
          .color = mine.color.value_or(0),
          .key = mine.key,
          .number = number};
}

// Ranks that missed a split which failed count fewer of them.
uint32_t AgreedNumber(const std::vector<Word>& wishes) {
  const auto later = [](const Word& a, const Word& b) { return a.number < b.number; };
  return std::max_element(wishes.begin(), wishes.end(), later)->number;
}

void TellError(const Status& status, Word* word) {
  word->code = status.code();
  const std::string text = status.ToString();
  std::memcpy(word->error, text.data(), std::min(text.size(), sizeof word->error - 1));
}

Status ErrorOf(int rank, const Word& word) {
  const size_t bytes = strnlen(word.error, sizeof word.error);
  return Status(gwRemoteError, {.message = fmt::format("rank {} failed in the split: {}", rank,
                                                       std::string(word.error, bytes)),
                                .hint = "Look at that rank; no rank has a new communicator",
                                .peer = rank});
}

// One round. An error of any rank is every rank's: its own where it has one, else that of the
// lowest that has. What a rank tells after an error of the parent itself nobody hears.
StatusOr<std::vector<Word>> Exchange(Communicator& parent, const Status& status, Word mine,
                                     int64_t patience_ns) {
  if (!status.ok()) TellError(status, &mine);
  std::vector<Word> all(parent.world_size());
  GW_RETURN_IF_ERROR(parent.Run({.collective = Collective::kAllGather,
                                 .send = reinterpret_cast<const std::byte*>(&mine),
                                 .recv = reinterpret_cast<std::byte*>(all.data()),
                                 .count = sizeof mine,
                                 .dtype = DType::kUint8},
                                "gwCommSplit", {patience_ns, "GRADWIRE_INIT_TIMEOUT_MS"}));
  if (!status.ok()) return status;
  for (int rank = 0; rank < parent.world_size(); ++rank) {
    if (all[rank].code != gwSuccess) return ErrorOf(rank, all[rank]);
  }
  return all;
}

// The parent's ranks of one color in the new order.
std::vector<int> GroupOf(int color, const std::vector<Word>& words) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(words.size()); ++rank) {
    if (words[rank].has_color != 0 && words[rank].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return words[a].key < words[b].key; });
  return ranks;
}

// The unique id of a group that this rank leads. Its listener goes with it, unless a start has
// taken it.
class GroupId {
 public:
  // The system chooses the port: groups on one host need one each. `root`: the parent's.
  Status Create(const Settings& settings, const std::string& root) {
    StatusOr<UniqueId> made =
        CreateUniqueId({.interface = settings.Text("interface"), .root = root});
    if (!made.ok()) return made.status();
    id_ = *made;
    return Status();
  }
  GroupId() = default;
  ~GroupId() {
    if (!id_) return;
    if (const StatusOr<UniqueIdContents> contents = ParseUniqueId(*id_); contents.ok())
      (void)ClaimListener(*contents);
  }
  GroupId(const GroupId&) = delete;
  GroupId& operator=(const GroupId&) = delete;
  UniqueId bytes() const { return id_.value_or(UniqueId{}); }

 private:
  std::optional<UniqueId> id_;
};

}  // namespace

StatusOr<std::unique_ptr<Communicator>> Split(Communicator& parent, const SplitPart& mine) {
  const int64_t start_ns = mine.settings->DurationNs("init_timeout_ms");
  const StatusOr<std::vector<Word>> wishes =
      Exchange(parent, mine.refused, WordOf(mine, parent.splits()), start_ns);
  if (!wishes.ok()) return wishes.status();
  const uint64_t split_salt = parent.TakeSplitSalt(AgreedNumber(*wishes));

  const std::vector<int> group = mine.color ? GroupOf(*mine.color, *wishes) : std::vector<int>();
  GroupId made;
  Status status;
  if (!group.empty() && group.front() == parent.rank()) {
    status = made.Create(*mine.settings, parent.root());
  }
  const StatusOr<std::vector<Word>> ids = Exchange(parent, status, {.id = made.bytes()}, start_ns);
  if (!ids.ok()) return ids.status();

  // Who waits for a rank in the start hears from the parent when that rank dies or gives up.
  const std::atomic<bool>* const interrupted = parent.WatchForFailure();
  std::unique_ptr<Communicator> started;
  if (!group.empty()) {
    const auto place = std::find(group.begin(), group.end(), parent.rank());
    StatusOr<std::unique_ptr<Communicator>> start =
        StartGroup({.id = (*ids)[group.front()].id,
                    .rank = static_cast<int>(place - group.begin()),
                    .world_size = static_cast<int>(group.size()),
                    .seed_salt = Hasher().Add(split_salt).Add(*mine.color).digest()},
                   *mine.settings, interrupted);
    status = start.status();
    if (start.ok()) started = std::move(*start);
  }
  // The others may be as long in their start as that may take.
  const StatusOr<std::vector<Word>> outcomes = Exchange(parent, status, {}, 2 * start_ns);
  if (outcomes.ok()) return started;
  // Not all of this rank's group may have come so far: nobody is waited for.
  if (started) started->Abort();
  return outcomes.status();
}

}  // namespace gradwire
