#include "runtime/engine/ballot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/engine/tensor_list.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

VoteFields For(uint32_t submitted) { return {.step = 7, .submitted = submitted, .ok = 1}; }
Status HearTable(Ballot* ballot, int rank, VoteFields fields, const TensorList& table,
                 const std::string& observation) {
  const std::string text = EncodeTensorList(table, 1000);
  fields.table_bytes = static_cast<uint32_t>(text.size());
  return ballot->HearVote(rank, fields, text + observation, 1);
}
VoteFields Against(uint32_t submitted) { return {.step = 7, .submitted = submitted, .ok = 0}; }

void ExpectNames(const Status& status, const std::string& expected, const std::string& actual,
                 int peer) {
  EXPECT_EQ(status.code(), gwMismatch);
  EXPECT_EQ(status.detail().field, "operations since the last step");
  EXPECT_EQ(status.detail().expected, expected);
  EXPECT_EQ(status.detail().actual, actual);
  EXPECT_EQ(status.detail().peer, peer);
}

TEST(Ballot, IsCompleteWithTheLastVote) {
  Ballot ballot(3);
  EXPECT_EQ(ballot.last_vote_ns(), 0);
  EXPECT_TRUE(ballot.HearVote(1, For(2), "", 100).ok());
  EXPECT_THAT(ballot.Missing(), ElementsAre(0, 2));
  EXPECT_TRUE(ballot.HearVote(2, For(2), "", 200).ok());
  EXPECT_TRUE(ballot.HearVote(0, For(2), "", 300).ok());
  EXPECT_THAT(ballot.Missing(), IsEmpty());
  EXPECT_EQ(ballot.last_vote_ns(), 300);
  const TurnResult result = ballot.Decide(4, Status(), NonFinitePolicy::kPropagate);
  EXPECT_EQ(result.turn, 4);
  EXPECT_EQ(result.step, 7u);
  EXPECT_EQ(result.outcome, StepOutcome::kCommit);
}

TEST(Ballot, WhoHasVotedWithFewerOperationsIsAMismatch) {
  Ballot ballot(3);
  EXPECT_TRUE(ballot.HearSubmitted(2, 1).ok());
  EXPECT_TRUE(ballot.HearVote(1, For(1), "", 1).ok());
  EXPECT_TRUE(ballot.HearSubmitted(0, 1).ok());
  ExpectNames(ballot.HearSubmitted(2, 2), "1 (rank 1)", "2 (rank 2)", 2);
}

TEST(Ballot, AVoteWithFewerOperationsThanSubmittedIsAMismatch) {
  Ballot ballot(3);
  EXPECT_TRUE(ballot.HearSubmitted(2, 2).ok());
  ExpectNames(ballot.HearVote(1, For(1), "", 1), "1 (rank 1)", "2 (rank 2)", 2);
}

// It may be cut short by the reason for which it is against.
TEST(Ballot, AVoteAgainstTellsNothingOfTheNumberOfOperations) {
  Ballot ballot(2);
  EXPECT_TRUE(ballot.HearSubmitted(0, 2).ok());
  EXPECT_TRUE(ballot.HearVote(1, Against(1), "", 1).ok());
  EXPECT_TRUE(ballot.HearSubmitted(0, 3).ok());
}

TEST(Ballot, TextsOfVotesAgainstExplainAMismatch) {
  Ballot ballot(2);
  EXPECT_TRUE(ballot.HearVote(0, Against(1), EncodeOpText({{"op", "sum"}}), 1).ok());
  EXPECT_TRUE(ballot.HearVote(1, Against(1), EncodeOpText({{"op", "max"}}), 2).ok());
  const TurnResult result =
      ballot.Decide(0, Status(gwMismatch, "operations differ"), NonFinitePolicy::kPropagate);
  EXPECT_EQ(result.outcome, StepOutcome::kAbort);
  EXPECT_EQ(result.reason.detail().expected, "sum (rank 0)");
  EXPECT_EQ(result.reason.detail().actual, "max (rank 1)");
}

VoteFields AgainstOver(uint32_t op_seq) { return {.step = 7, .submitted = 9, .op_seq = op_seq}; }

// Ranks notice a mismatch where they first see it. Texts of different operations explain nothing.
TEST(Ballot, WaitsForAllToVoteAboutTheFirstOperationInDoubt) {
  Ballot ballot(3);
  EXPECT_TRUE(ballot.HearVote(0, AgainstOver(4), EncodeOpText({{"tensors", "d"}}), 1).ok());
  EXPECT_TRUE(ballot.HearVote(1, AgainstOver(2), EncodeOpText({{"tensors", "b"}}), 2).ok());
  EXPECT_TRUE(ballot.HearVote(2, For(9), "", 3).ok());
  EXPECT_THAT(ballot.Missing(), ElementsAre(0, 2));
  EXPECT_TRUE(ballot.HearVote(2, AgainstOver(2), EncodeOpText({{"tensors", "c"}}), 4).ok());
  EXPECT_TRUE(ballot.HearVote(0, AgainstOver(2), EncodeOpText({{"tensors", "b"}}), 5).ok());
  EXPECT_THAT(ballot.Missing(), IsEmpty());
  const TurnResult result =
      ballot.Decide(0, Status(gwMismatch, "operations differ"), NonFinitePolicy::kPropagate);
  EXPECT_EQ(result.reason.detail().expected, "b (rank 0, 1)");
  EXPECT_EQ(result.reason.detail().actual, "c (rank 2)");
}

// It hears no result, but those that are still there must.
TEST(Ballot, AnAbortDoesWithoutTheVotesOfWhoHasLeft) {
  Ballot ballot(4);
  Departures departures({.world_size = 4});
  EXPECT_TRUE(ballot.HearVote(3, AgainstOver(5), EncodeOpText({{"op", "min"}}), 1).ok());
  EXPECT_TRUE(ballot.HearVote(0, AgainstOver(2), EncodeOpText({{"op", "sum"}}), 2).ok());
  departures.HearBye(3);
  departures.HearBye(1);
  EXPECT_FALSE(ballot.MayAbort(departures)) << "rank 2 is here";
  EXPECT_TRUE(ballot.HearVote(2, AgainstOver(2), EncodeOpText({{"op", "max"}}), 3).ok());
  EXPECT_TRUE(ballot.MayAbort(departures));
  EXPECT_FALSE(ballot.complete());
  const TurnResult result =
      ballot.Decide(0, Status(gwMismatch, "operations differ"), NonFinitePolicy::kPropagate);
  EXPECT_EQ(result.outcome, StepOutcome::kAbort);
  EXPECT_EQ(result.reason.detail().expected, "sum (rank 0)");
  EXPECT_EQ(result.reason.detail().actual, "max (rank 2)");
  ballot.BeginTurn();
  EXPECT_FALSE(ballot.MayAbort(departures));
}

TEST(Ballot, WhoHasLeftBehindItsVoteIsNotCountedTwice) {
  Ballot ballot(3);
  Departures departures({.world_size = 3});
  EXPECT_TRUE(ballot.HearVote(1, AgainstOver(2), "", 1).ok());
  departures.HearBye(1);
  EXPECT_TRUE(ballot.HearVote(0, AgainstOver(2), "", 2).ok());
  EXPECT_FALSE(ballot.MayAbort(departures)) << "rank 2 is here";
  EXPECT_TRUE(ballot.HearVote(2, AgainstOver(2), "", 2).ok());
  EXPECT_TRUE(ballot.MayAbort(departures));
}

// 2^32 operations in one turn: the last before the wrap comes before the first after it.
TEST(Ballot, TheNumbersOfOperationsWrap) {
  constexpr uint32_t kLast = kNoOpSeq - 1;
  Ballot ballot(3);
  EXPECT_TRUE(ballot.HearVote(0, AgainstOver(1), "", 1).ok());
  EXPECT_TRUE(ballot.HearVote(1, AgainstOver(kLast), "", 2).ok());
  EXPECT_TRUE(ballot.HearVote(2, AgainstOver(kNoOpSeq), "", 3).ok());
  EXPECT_THAT(ballot.Missing(), ElementsAre(0, 2));
}

TEST(Ballot, IsCompleteWhereNoneIsMissing) {
  Ballot ballot(3);
  const auto hear = [&](int rank, const VoteFields& fields) {
    EXPECT_TRUE(ballot.HearVote(rank, fields, "", 1).ok());
    EXPECT_EQ(ballot.complete(), ballot.Missing().empty()) << rank;
    return ballot.complete();
  };
  EXPECT_FALSE(hear(0, For(9)));
  EXPECT_FALSE(hear(1, For(9)));
  EXPECT_FALSE(hear(1, AgainstOver(4)));
  EXPECT_FALSE(hear(2, AgainstOver(4)));
  EXPECT_TRUE(hear(0, AgainstOver(4)));
  EXPECT_FALSE(hear(2, AgainstOver(3)));
  EXPECT_FALSE(hear(2, AgainstOver(3)));
  EXPECT_FALSE(hear(0, AgainstOver(3)));
  EXPECT_TRUE(hear(1, AgainstOver(3)));
  ballot.BeginTurn();
  EXPECT_FALSE(ballot.complete());
  for (int rank : {2, 0}) EXPECT_FALSE(hear(rank, For(9)));
  EXPECT_TRUE(hear(1, For(9)));
}

// A vote in favour that becomes one against binds its rank no more; another's still does.
TEST(Ballot, AVoteThatComesAgainTakesTheFirstBack) {
  Ballot ballot(3);
  EXPECT_TRUE(ballot.HearVote(0, For(1), "", 1).ok());
  EXPECT_TRUE(ballot.HearVote(2, For(4), "", 1).ok());
  EXPECT_TRUE(ballot.HearVote(0, Against(1), "", 1).ok());
  EXPECT_TRUE(ballot.HearSubmitted(1, 4).ok());
  ExpectNames(ballot.HearSubmitted(1, 5), "4 (rank 2)", "5 (rank 1)", 1);
}

TEST(Ballot, TheNumberOfOperationsMayHaveWrapped) {
  constexpr uint32_t kBeforeTheWrap = kNoOpSeq - 2;
  Ballot ballot(2);
  EXPECT_TRUE(ballot.HearSubmitted(0, kBeforeTheWrap).ok());
  EXPECT_TRUE(ballot.HearVote(1, For(1), "", 1).ok()) << "rank 0 may still submit";
  EXPECT_TRUE(ballot.HearSubmitted(0, 1).ok());
  EXPECT_TRUE(ballot.HearSubmitted(0, kBeforeTheWrap).ok()) << "an old heartbeat";
  ExpectNames(ballot.HearSubmitted(0, 2), "1 (rank 1)", "2 (rank 0)", 0);
}

TEST(Ballot, ATurnForgetsAllButTheTables) {
  Ballot ballot(2);
  VoteFields mine = For(9), other = For(9);
  mine.table_digest = 1, other.table_digest = 2;
  EXPECT_TRUE(ballot.HearSubmitted(0, 9).ok());
  EXPECT_TRUE(HearTable(&ballot, 0, mine, {{"a", "[1] float"}}, "").ok());
  EXPECT_TRUE(HearTable(&ballot, 1, other, {{"b", "[1] float"}}, "").ok());

  ballot.BeginTurn();
  EXPECT_THAT(ballot.Missing(), ElementsAre(0, 1));
  EXPECT_EQ(ballot.last_vote_ns(), 0);
  mine.submitted = other.submitted = 1;
  EXPECT_TRUE(ballot.HearVote(0, mine, "", 3).ok());
  EXPECT_TRUE(ballot.HearVote(1, other, "", 4).ok());
  const std::string text =
      ballot.Decide(1, Status(), NonFinitePolicy::kPropagate).reason.ToString();
  EXPECT_THAT(text, testing::HasSubstr("different tensors: a, b"));
}

TEST(Ballot, ObservationsStandBehindTheTableAndLastOneTurn) {
  Ballot ballot(3);
  EXPECT_TRUE(HearTable(&ballot, 0, For(1), {{"a", "[1] float"}}, "zero").ok());
  EXPECT_TRUE(ballot.HearVote(1, For(1), "one", 2).ok());
  EXPECT_TRUE(ballot.HearVote(2, For(1), "", 3).ok());
  EXPECT_EQ(ballot.observations(), (std::vector<std::string>{"zero", "one", ""}));
  ballot.BeginTurn();
  EXPECT_EQ(ballot.observations(), (std::vector<std::string>{"", "", ""}));
}

TEST(Ballot, TheTensorOfAResultThatIsNotFiniteIsNoObservation) {
  Ballot ballot(2);
  VoteFields fields = For(2);
  fields.nonfinite = kInGradient;
  EXPECT_TRUE(HearTable(&ballot, 1, fields, {{"weight", "[2] float"}}, "observed").ok());
  EXPECT_EQ(ballot.observations()[1], "observed");
  fields.nonfinite |= kInResult;
  EXPECT_TRUE(HearTable(&ballot, 1, fields, {{"weight", "[2] float"}}, "weight").ok());
  EXPECT_EQ(ballot.observations()[1], "");
  EXPECT_TRUE(HearTable(&ballot, 0, For(2), {{"weight", "[2] float"}}, "").ok());
  const TurnResult result = ballot.Decide(4, Status(), NonFinitePolicy::kSkip);
  EXPECT_EQ(result.reason.detail().tensor, "weight");
}

TEST(Ballot, ATableLongerThanTheVoteIsDamage) {
  Ballot ballot(2);
  VoteFields fields = For(1);
  fields.table_bytes = 4;
  const Status status = ballot.HearVote(1, fields, "abc", 1);
  EXPECT_EQ(status.code(), gwDataCorrupt);
  EXPECT_EQ(status.detail().peer, 1);
}

}  // namespace
}  // namespace gradwire
