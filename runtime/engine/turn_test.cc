#include "runtime/engine/turn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/engine/tensor_list.h"
#include "transports/control/message.h"

namespace gradwire {
namespace {

std::vector<Vote> Votes(int n) {
  return std::vector<Vote>(n, Vote{.fields = {.step = 7, .submitted = 3, .ok = 1}});
}

TurnResult Decide(const std::vector<Vote>& votes, const Status& revoked = Status(),
                  NonFinitePolicy policy = NonFinitePolicy::kPropagate) {
  return DecideTurn(12, votes, revoked, policy);
}

std::string TextWith(const std::string& count, const std::string& dtype = "float") {
  return EncodeOpText({{"operation", "all-reduce"}, {"count", count}, {"datatype", dtype}});
}

TEST(DecideTurn, AgreementCommits) {
  const TurnResult result = Decide(Votes(3));
  EXPECT_EQ(result.turn, 12);
  EXPECT_EQ(result.step, 7u);
  EXPECT_EQ(result.outcome, StepOutcome::kCommit);
  EXPECT_TRUE(result.reason.ok());
}

TEST(DecideTurn, OneVoteAgainstAborts) {
  std::vector<Vote> votes = Votes(3);
  votes[2].fields.ok = 0;
  const TurnResult result = Decide(votes);
  EXPECT_EQ(result.outcome, StepOutcome::kAbort);
  EXPECT_EQ(result.reason.code(), gwAborted);
}

// What codecs did outside steps stays where all ranks have done it, and cannot be taken back where
// some have not.
TEST(DecideTurn, AnAbortAfterUnvotedOperationsBeginsAnew) {
  std::vector<Vote> votes = Votes(3);
  EXPECT_FALSE(Decide(votes, Status(gwDataCorrupt, "a bad frame")).begins_anew);
  votes[0].fields.draws = 3, votes[1].fields.draws = 200'001, votes[2].fields.draws = 200'000;
  EXPECT_EQ(Decide(votes, Status(gwDataCorrupt, "a bad frame")).draws, 0u);
  votes[1].fields.unfinished = 1;
  EXPECT_TRUE(Decide(votes, Status(gwDataCorrupt, "a bad frame")).begins_anew);
  EXPECT_EQ(Decide(votes, Status(gwDataCorrupt, "a bad frame")).draws, 200'001u);
  EXPECT_FALSE(Decide(votes).begins_anew) << "a commit";
  votes[2].fields.nonfinite = 1;
  EXPECT_FALSE(Decide(votes, Status(), NonFinitePolicy::kSkip).begins_anew) << "all are complete";
}

TEST(DecideTurn, ARevokedStepAbortsWithItsReasonThoughAllVotedForIt) {
  const TurnResult result = Decide(Votes(3), Status(gwDataCorrupt, "a bad frame"));
  EXPECT_EQ(result.outcome, StepOutcome::kAbort);
  EXPECT_EQ(result.reason.code(), gwDataCorrupt);
  EXPECT_EQ(result.reason.detail().message, "a bad frame");
}

// Rank 0 awaits rank 2, which has called the operation and waits itself.
TEST(DecideTurn, ATimeOutNamesWhoHasNotCalledTheOperation) {
  constexpr uint32_t kInDoubt = 2;
  std::vector<Vote> votes = Votes(4);
  for (Vote& vote : votes) vote.fields.ok = 0, vote.fields.op_seq = kInDoubt;
  const Status found(gwTimeout, {.message = "no progress", .op = "barrier", .rank = 0, .peer = 2});
  const auto decided = [&] { return Decide(votes, found).reason; };
  EXPECT_EQ(decided().ToString(), found.ToString()) << "all have called it";
  votes[3].fields.submitted = kInDoubt;
  EXPECT_EQ(decided().detail().peer, 3);
  EXPECT_EQ(decided().detail().message, "rank 3 has not called what others wait in: no progress");
  votes[1].fields.submitted = kInDoubt - 1;
  EXPECT_EQ(decided().detail().peer, 1);
  EXPECT_EQ(decided().detail().message,
            "ranks 1 and 3 have not called what others wait in: no progress");
  votes[1] = votes[3] = Vote();
  EXPECT_EQ(decided().detail().peer, 2) << "those have left";
}

TEST(DecideTurn, ATimeOutOfTheStepItselfIsOfNoOperation) {
  std::vector<Vote> votes = Votes(2);
  votes[1].fields.submitted = 0;
  const Status found(gwTimeout, ErrorDetail{.message = "rank 1 has not ended the step", .peer = 1});
  EXPECT_EQ(Decide(votes, found).reason.ToString(), found.ToString());
}

TEST(DecideTurn, WhoHasCalledWhatTimedOutIsToldAlsoWhereTheNumbersWrap) {
  constexpr uint32_t kLast = kNoOpSeq - 1;
  std::vector<Vote> votes = Votes(3);
  for (Vote& vote : votes) vote.fields.ok = 0, vote.fields.op_seq = kLast;
  votes[0].fields.submitted = 1, votes[1].fields.submitted = kLast;
  votes[2].fields.submitted = kLast + 1;
  EXPECT_EQ(Decide(votes, Status(gwTimeout, "no progress")).reason.detail().peer, 1);
}

TEST(DecideTurn, AMismatchIsExplainedByTheVotes) {
  std::vector<Vote> votes = Votes(3);
  for (Vote& vote : votes) vote.fields.ok = 0, vote.op_text = TextWith("1000");
  votes[1].op_text = TextWith("500", "int32");
  const TurnResult result = Decide(votes, Status(gwMismatch, "another operation"));
  EXPECT_EQ(result.reason.code(), gwMismatch);
  const ErrorDetail& d = result.reason.detail();
  EXPECT_EQ(d.field, "count");
  EXPECT_EQ(d.expected, "1000 (rank 0, 2)");
  EXPECT_EQ(d.actual, "500 (rank 1)");
}

// What a reason has room for on its way holds the difference and who has which.
TEST(DecideTurn, AMismatchInLongListsIsToldOnEveryRank) {
  std::string common;
  for (int i = 0; i < 60; ++i) common += "encoder.layer." + std::to_string(1000 + i) + ",";
  std::vector<Vote> votes = Votes(3);
  for (int r = 0; r < 3; ++r) {
    votes[r].fields.ok = 0;
    votes[r].op_text = EncodeOpText({{"tensors", common + (r == 1 ? "bias,end" : "weight,end")}});
  }
  const Status reason = Decide(votes, Status(gwMismatch, "another operation")).reason;
  const ErrorDetail heard = DecodeStatus(EncodeStatus(reason)).detail();
  EXPECT_EQ(heard.expected, "...weight,end (rank 0, 2)");
  EXPECT_EQ(heard.actual, "...bias,end (rank 1)");
  EXPECT_EQ(reason.detail().actual, heard.actual);
}

// Rank 2 found it, and what it says is nobody else's: not itself, nor whom it heard first.
TEST(DecideTurn, AMismatchIsTrueOnEveryRank) {
  std::vector<Vote> votes = Votes(3);
  for (Vote& vote : votes) vote.fields.ok = 0, vote.op_text = TextWith("1000");
  votes[1].op_text = TextWith("500");
  const ErrorDetail found = {
      .message = "m", .op = "all-reduce", .tensor = "w", .rank = 2, .peer = 0, .op_seq = 4};
  const auto decided = [&] { return Decide(votes, Status(gwMismatch, found)).reason.ToString(); };
  EXPECT_EQ(decided(),
            "ranks disagree: m; peer 1; operation all-reduce #4; tensor 'w'; "
            "count: 1000 (rank 0, 2), 500 (rank 1)");
  votes[2].op_text = TextWith("200");
  EXPECT_EQ(decided(),
            "ranks disagree: m; operation all-reduce #4; tensor 'w'; "
            "count: 1000 (rank 0), 500 (rank 1)")
      << "nobody stands alone";
  for (int r = 0; r < 3; ++r) {
    votes[r].op_text = EncodeOpText({{"operation", r == 1 ? "broadcast" : "all-reduce"}});
  }
  EXPECT_EQ(decided(),
            "ranks disagree: m; peer 1 #4; operation: all-reduce (rank 0, 2), broadcast (rank 1)");
}

// What its text tells stays, where the votes tell nothing.
TEST(DecideTurn, AMismatchThatOnlyItsFinderExplainsNamesNoFinder) {
  std::vector<Vote> votes = Votes(3);
  votes[2].fields.ok = 0;
  const Status found(gwMismatch, {.message = "m",
                                  .rank = 2,
                                  .peer = 0,
                                  .field = "n",
                                  .expected = "1 (rank 2)",
                                  .actual = "2 (rank 0)"});
  EXPECT_EQ(Decide(votes, found).reason.ToString(), "ranks disagree: m; n: 1 (rank 2), 2 (rank 0)");
  const Status unexplained(gwMismatch, ErrorDetail{.message = "m", .rank = 2, .peer = 0});
  EXPECT_EQ(Decide(votes, unexplained).reason.ToString(), unexplained.ToString());
}

TEST(DecideTurn, NumbersThatDifferAbort) {
  struct Case {
    const char* field;
    void (*change)(VoteFields*);
  };
  const Case cases[] = {{"operations since the last step", [](VoteFields* v) { v->submitted = 4; }},
                        {"step", [](VoteFields* v) { v->step = 8; }},
                        {"tensor table", [](VoteFields* v) { v->table_digest = 1; }},
                        {"plan epoch", [](VoteFields* v) { v->plan_epoch = 1; }},
                        {"replicated state", [](VoteFields* v) { v->digest = 1; }}};
  for (const Case& c : cases) {
    std::vector<Vote> votes = Votes(4);
    c.change(&votes[3].fields);
    const TurnResult result = Decide(votes);
    EXPECT_EQ(result.outcome, StepOutcome::kAbort);
    EXPECT_EQ(result.reason.code(), gwMismatch);
    EXPECT_EQ(result.reason.detail().field, c.field);
    EXPECT_NE(result.reason.detail().actual.find("(rank 3)"), std::string::npos);
  }
}

TEST(DecideTurn, TablesThatDifferAreNamedByTensor) {
  const std::string table = EncodeTensorList({{"b", "[2] float"}, {"w", "[2,3] float"}}, 1000);
  const std::string other = EncodeTensorList({{"w", "[3,2] float"}, {"x", "[] half"}}, 1000);
  std::vector<Vote> votes = Votes(3);
  for (Vote& vote : votes) vote.table = &table;
  EXPECT_EQ(Decide(votes).outcome, StepOutcome::kCommit);
  votes[1].table = &other;
  votes[1].fields.table_digest = 1;
  votes[1].fields.submitted = 2;  // a consequence
  const ErrorDetail d = Decide(votes).reason.detail();
  EXPECT_EQ(d.field, "tensor table");
  EXPECT_EQ(d.expected, "tensor b [2] float (rank 0, 2)");
  EXPECT_EQ(d.actual, "no tensor b (rank 1)");
  EXPECT_NE(d.message.find("b, w, x"), std::string::npos) << d.message;
}

TEST(DecideTurn, NonFiniteFollowsThePolicy) {
  std::vector<Vote> votes = Votes(3);
  votes[1].fields.nonfinite = 1;
  EXPECT_EQ(Decide(votes).outcome, StepOutcome::kCommit);
  const TurnResult skip = Decide(votes, Status(), NonFinitePolicy::kSkip);
  EXPECT_EQ(skip.outcome, StepOutcome::kSkip);
  EXPECT_EQ(skip.reason.code(), gwNonFinite);
  // Who sees it need not be who brought it: nobody is blamed.
  EXPECT_EQ(skip.reason.detail().peer, -1);
  EXPECT_NE(skip.reason.detail().message.find("rank 1"), std::string::npos);
  EXPECT_EQ(skip.reason.detail().tensor, "");
  EXPECT_EQ(Decide(votes, Status(), NonFinitePolicy::kError).outcome, StepOutcome::kAbort);
  // A disagreement comes first: its values may be the cause.
  votes[2].fields.step = 9;
  EXPECT_EQ(Decide(votes, Status(), NonFinitePolicy::kSkip).reason.code(), gwMismatch);
}

TEST(DecideTurn, WhoBroughtWhatIsNotFiniteIsBlamed) {
  std::vector<Vote> votes = Votes(4);
  for (Vote& vote : votes) vote.fields.nonfinite = kInResult, vote.nonfinite_tensor = "seen";
  votes[2].fields.nonfinite |= kInGradient;
  votes[2].nonfinite_tensor = "brought";
  const ErrorDetail one = Decide(votes, Status(), NonFinitePolicy::kError).reason.detail();
  EXPECT_EQ(one.message, "gradients of rank 2 hold a NaN or an infinity");
  EXPECT_EQ(one.tensor, "brought");
  EXPECT_EQ(one.peer, 2);
  // Of its own shard of the sum: it sees no other, and has no name for it.
  votes[3].fields.nonfinite = kInGradient;
  votes[3].nonfinite_tensor.clear();
  const ErrorDetail two = Decide(votes, Status(), NonFinitePolicy::kError).reason.detail();
  EXPECT_EQ(two.message, "gradients of rank 2, 3 hold a NaN or an infinity");
  EXPECT_EQ(two.tensor, "brought");
  EXPECT_EQ(two.peer, -1);
}

TEST(DecideTurn, RanksWithDifferentTensorsAreToldApart) {
  std::vector<Vote> votes = Votes(3);
  for (Vote& vote : votes) vote.fields.nonfinite = kInResult | kInGradient;
  votes[0].nonfinite_tensor = votes[2].nonfinite_tensor = "w";
  votes[1].nonfinite_tensor = "b";
  const ErrorDetail detail = Decide(votes, Status(), NonFinitePolicy::kError).reason.detail();
  EXPECT_EQ(detail.message,
            "gradients hold a NaN or an infinity: of rank 0 in 'w', rank 1 in 'b', rank 2 in 'w'");
  EXPECT_EQ(detail.tensor, "");
  // It sees no result that is not finite, and names nothing.
  votes[0].fields.nonfinite = kInGradient;
  votes[0].nonfinite_tensor.clear();
  EXPECT_EQ(Decide(votes, Status(), NonFinitePolicy::kError).reason.detail().message,
            "gradients hold a NaN or an infinity: of rank 0, rank 1 in 'b', rank 2 in 'w'");
}

TEST(DecideTurn, WhoHasBroughtWhatOthersSeeIsToldWithTheirName) {
  std::vector<Vote> votes = Votes(3);
  votes[0].fields.nonfinite = kInResult;
  votes[0].nonfinite_tensor = "seen";
  votes[2].fields.nonfinite = kInGradient;
  const ErrorDetail detail = Decide(votes, Status(), NonFinitePolicy::kError).reason.detail();
  EXPECT_EQ(detail.message, "gradients of rank 2 hold a NaN or an infinity");
  EXPECT_EQ(detail.tensor, "seen");
}

TEST(DecideTurn, WhereAllHaveLookedASumOfFiniteGradientsIsToldAsSuch) {
  std::vector<Vote> votes = Votes(2);
  for (Vote& vote : votes) vote.fields.nonfinite = kInResult;
  EXPECT_EQ(Decide(votes, Status(), NonFinitePolicy::kError).reason.detail().message,
            "a sum of finite gradients holds a NaN or an infinity; seen by rank 0, 1");
}

// As where a codec sends none of it on.
TEST(DecideTurn, WhatIsInNoResultChangesNothing) {
  std::vector<Vote> votes = Votes(3);
  votes[1].fields.nonfinite = kInGradient;
  EXPECT_EQ(Decide(votes, Status(), NonFinitePolicy::kError).outcome, StepOutcome::kCommit);
}

TEST(WithDifference, NamesTheFirstFieldThatDiffers) {
  const Status s = WithDifference(
      Status(gwMismatch, "x"), {TextWith("1", "float"), "", TextWith("1", "int8"), TextWith("2")});
  EXPECT_EQ(s.detail().field, "count");
  EXPECT_EQ(s.detail().expected, "1 (rank 0, 2)");
  EXPECT_EQ(s.detail().actual, "2 (rank 3)");
}

TEST(WithDifference, AFieldThatOneRankLacksDiffers) {
  const Status s = WithDifference(Status(gwMismatch, "x"), {EncodeOpText({{"a", "1"}, {"b", "2"}}),
                                                            EncodeOpText({{"a", "1"}})});
  EXPECT_EQ(s.detail().field, "b");
  EXPECT_EQ(s.detail().actual, "nothing (rank 1)");
}

// The same the other way round: what only a later rank has.
TEST(WithDifference, AFieldThatTheFirstRankLacksDiffers) {
  const Status s =
      WithDifference(Status(gwMismatch, "x"),
                     {EncodeOpText({{"a", "1"}}), EncodeOpText({{"a", "1"}, {"b", "2"}})});
  EXPECT_EQ(s.detail().field, "b");
  EXPECT_EQ(s.detail().expected, "nothing (rank 0)");
}

TEST(WithDifference, HasNoEffectWhereNothingDiffers) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{}, {TextWith("1")}, {TextWith("1"), TextWith("1")}, {"", ""}}) {
    EXPECT_TRUE(WithDifference(Status(gwMismatch, "x"), texts).detail().field.empty());
  }
}

TEST(WithDifference, BlamesOneAgainstSeveral) {
  const auto culprit = [](const std::vector<std::string>& texts) {
    return WithDifference(Status(gwMismatch, "x"), texts).detail().peer;
  };
  EXPECT_EQ(culprit({TextWith("1"), TextWith("2"), TextWith("1")}), 1);
  EXPECT_EQ(culprit({TextWith("2"), TextWith("1"), TextWith("1")}), 0);
  EXPECT_EQ(culprit({TextWith("1"), TextWith("2")}), -1);
  EXPECT_EQ(culprit({TextWith("1"), TextWith("2"), TextWith("3")}), -1);
  EXPECT_EQ(culprit({TextWith("1"), TextWith("2"), TextWith("1"), TextWith("2")}), -1);
}

}  // namespace
}  // namespace gradwire
