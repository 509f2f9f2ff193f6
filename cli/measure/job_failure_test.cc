#include "cli/measure/job_failure.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

// What is kept of errors noted in this order.
std::string Kept(const std::vector<Status>& noted) {
  JobFailure failure;
  for (const Status& status : noted) failure.Note(status);
  return failure.first().ok() ? "" : failure.first().detail().message;
}

TEST(JobFailure, IsTheCauseThoughAnotherRankToldOfItsConsequenceFirst) {
  const Status cause(gwSystemError, "no memory"), other(gwTimeout, "late");
  for (const gwResult_t code : {gwPeerLost, gwRevoked, gwAborted}) {
    const Status consequence(code, "consequence");
    EXPECT_EQ(Kept({consequence, cause, other}), "no memory");
    EXPECT_EQ(Kept({cause, consequence, other}), "no memory");
  }
}

TEST(JobFailure, IsTheFirstOfItsKind) {
  const Status first(gwPeerLost, "first"), second(gwAborted, "second");
  EXPECT_EQ(Kept({first, second}), "first");
  EXPECT_EQ(Kept({Status::Ok(), second, first, Status::Ok()}), "second");
  EXPECT_EQ(Kept({Status::Ok()}), "");
}

}  // namespace
}  // namespace gradwire
