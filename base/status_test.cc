#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

constexpr gwResult_t kCodes[] = {
    gwSuccess,         gwUnhandledCudaError,
    gwSystemError,     gwInternalError,
    gwInvalidArgument, gwInvalidUsage,
    gwRemoteError,     gwInProgress,
    gwTimeout,         gwAborted,
    gwMismatch,        gwDataCorrupt,
    gwNonFinite,       gwPeerLost,
    gwRevoked,         gwTransportUnavailable,
    gwUnauthenticated,
};

TEST(ResultCodes, FirstOnesAreNccls) {
  EXPECT_EQ(gwSuccess, 0);
  EXPECT_EQ(gwUnhandledCudaError, 1);
  EXPECT_EQ(gwSystemError, 2);
  EXPECT_EQ(gwInternalError, 3);
  EXPECT_EQ(gwInvalidArgument, 4);
  EXPECT_EQ(gwInvalidUsage, 5);
  EXPECT_EQ(gwRemoteError, 6);
  EXPECT_EQ(gwInProgress, 7);
  EXPECT_EQ(gwTimeout, 8);
}

TEST(ResultCodes, EachHasATextOfItsOwn) {
  std::set<std::string> texts;
  for (const gwResult_t code : kCodes) {
    EXPECT_TRUE(texts.insert(ResultText(code)).second) << ResultText(code);
  }
  EXPECT_STREQ(ResultText(static_cast<gwResult_t>(77)), "unknown result code");
  EXPECT_EQ(texts.count("unknown result code"), 0u);
}

TEST(Status, SuccessHasNoDetail) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), gwSuccess);
  EXPECT_EQ(ok.ToString(), "no error");
  EXPECT_EQ(ok.detail().message, "");
  EXPECT_EQ(ok.detail().peer, -1);
  const Status still = Status::Ok().WithOp("send", 3).WithTensor("w").WithRank(1).WithHint("h");
  EXPECT_TRUE(still.ok());
  EXPECT_EQ(still.detail().op, "");
}

TEST(Status, TextHasEveryKnownPart) {
  const Status status(gwMismatch, {.message = "the ranks disagree",
                                   .op = "all-reduce",
                                   .tensor = "w1",
                                   .hint = "Check the model",
                                   .rank = 2,
                                   .peer = 0,
                                   .op_seq = 12,
                                   .field = "count",
                                   .expected = "4 (rank 0, 2)",
                                   .actual = "5 (rank 1)"});
  EXPECT_EQ(status.ToString(),
            "ranks disagree: the ranks disagree; rank 2; peer 0; operation all-reduce #12; "
            "tensor 'w1'; count: 4 (rank 0, 2), 5 (rank 1). Check the model");
  EXPECT_EQ(Status(gwTimeout, "late").ToString(), "timeout: late");
  EXPECT_EQ(Status(gwTimeout, "late", "Wait").ToString(), "timeout: late. Wait");
}

TEST(Status, OfErrnoSaysWhatFailedAndWhy) {
  const Status status = ErrnoStatus("cannot open 'x'", ENOENT);
  EXPECT_EQ(status.ToString(), "system error: cannot open 'x': No such file or directory");
}

// All ranks may read of one culprit, the culprit too.
TEST(Status, NobodyIsToldToLookAtItself) {
  const Status status(gwMismatch, ErrorDetail{.message = "m", .rank = 1, .peer = 1});
  EXPECT_EQ(status.ToString(), "ranks disagree: m; rank 1");
}

TEST(Status, WithFillsInWhatIsMissing) {
  Status status(gwPeerLost, "gone");
  status = std::move(status).WithRank(0).WithPeer(0).WithOp("barrier", 0).WithTensor("a");
  // Zeros count as said.
  status =
      std::move(status).WithRank(1).WithPeer(2).WithOp("send", 7).WithTensor("b").WithHint("h");
  EXPECT_EQ(status.detail().rank, 0);
  EXPECT_EQ(status.detail().peer, 0);
  EXPECT_EQ(status.detail().op, "barrier");
  EXPECT_EQ(status.detail().op_seq, 0u);
  EXPECT_EQ(status.detail().tensor, "a");
  EXPECT_EQ(status.detail().hint, "h");
}

TEST(Status, CopiesAreIndependentAndMovesKeepTheCode) {
  const Status original(gwTimeout, "late");
  Status copy = original;
  copy = std::move(copy).WithRank(5);
  EXPECT_EQ(original.detail().rank, -1);
  EXPECT_EQ(copy.detail().rank, 5);
  const Status* self = &copy;
  copy = *self;
  EXPECT_EQ(copy.detail().message, "late");
  const Status moved = std::move(copy);
  EXPECT_EQ(moved.code(), gwTimeout);
  EXPECT_EQ(moved.detail().message, "late");
  copy = Status();
  EXPECT_TRUE(copy.ok());
}

Status FailIf(bool fail) { return fail ? Status(gwSystemError, "no") : Status(); }
Status Both(bool first, bool second, std::vector<int>* reached) {
  GW_RETURN_IF_ERROR(FailIf(first));
  reached->push_back(1);
  GW_RETURN_IF_ERROR(FailIf(second));
  reached->push_back(2);
  return Status();
}

TEST(Status, ReturnIfErrorStopsAtTheFirst) {
  std::vector<int> reached;
  EXPECT_TRUE(Both(false, false, &reached).ok());
  EXPECT_EQ(reached, (std::vector<int>{1, 2}));
  reached.clear();
  EXPECT_EQ(Both(false, true, &reached).code(), gwSystemError);
  EXPECT_EQ(reached, std::vector<int>{1});
  EXPECT_EQ(Both(true, false, &reached).detail().message, "no");
  EXPECT_EQ(reached, std::vector<int>{1});
}

TEST(StatusOr, HoldsAValueOrAnError) {
  StatusOr<std::unique_ptr<int>> value(std::make_unique<int>(7));
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value.status().ok());
  EXPECT_EQ(**value, 7);
  const std::unique_ptr<int> taken = std::move(*value);
  EXPECT_EQ(*taken, 7);
  const StatusOr<std::string> error(Status(gwInvalidArgument, "bad"));
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().code(), gwInvalidArgument);
  const StatusOr<std::string> text(std::string("four"));
  EXPECT_EQ(text->size(), 4u);
}

}  // namespace
}  // namespace gradwire
