// A tensor that gets a codec which keeps nothing back sends what the one before has kept.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/gradwire.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kElems = 3000;
constexpr const char* kFeedback = "qsgd(bits=2,feedback=on)";

int64_t HeldBytes(gwComm_t comm) {
  return nlohmann::json::parse(LedgerText(comm)).at("tensors").at(0).at("held_bytes");
}

std::vector<float> Gradient(int rank, int step) {
  std::vector<float> grad(kElems);
  for (int64_t i = 0; i < kElems; ++i)
    grad[i] = std::sin(static_cast<float>(i * 7 + rank * 3 + step * 11));
  return grad;
}

// One tensor, whose outputs and gradients are added up.
struct Totals {
  explicit Totals(gwComm_t comm) : comm(comm) {
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = kFeedback;
    EXPECT_EQ(gwTensorRegister(comm, "w", &kElems, 1, gwFloat32, &config, &tensor), gwSuccess);
  }
  void Step(int step, std::vector<float> grad) {
    gwStepOutcome_t outcome = gwStepAborted;
    ASSERT_EQ(gwStepBegin(comm, step), gwSuccess);
    ASSERT_NO_FATAL_FAILURE(Sum(step, std::move(grad)));
    ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    ASSERT_EQ(outcome, gwStepCommitted);
  }
  // In a step or outside of any.
  void Sum(int step, std::vector<float> grad) {
    gwRequest_t request = nullptr;
    ASSERT_EQ(gwAllReduceTensor(tensor, grad.data(), grad.data(), gwSum, nullptr, &request),
              gwSuccess)
        << gwGetLastError(comm);
    ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    for (int64_t i = 0; i < kElems; ++i) {
      if (!std::isfinite(grad[i])) continue;
      out[i] += grad[i];
      for (int rank = 0; rank < kRanks; ++rank) in[i] += Gradient(rank, step)[i];
    }
  }
  void ExpectEqual() const {
    for (int64_t i = 0; i < kElems; ++i) ASSERT_NEAR(out[i], in[i], 1e-4) << "element " << i;
  }

  gwComm_t comm;
  gwTensor_t tensor = nullptr;
  std::vector<double> in = std::vector<double>(kElems), out = in;
};

// Calls go_on where a codec has kept something back and the next one will not.
template <typename GoOn>
void ForEachFlush(GoOn go_on) {
  for (const char* settings : {"", "transaction=off"}) {
    SCOPED_TRACE(settings);
    RunRanks(kRanks, settings, [&](int rank, gwComm_t comm) {
      Totals totals(comm);
      totals.Step(0, Gradient(rank, 0));
      EXPECT_GT(HeldBytes(comm), 0);
      ASSERT_EQ(gwTensorSetSpec(totals.tensor, "none"), gwSuccess);
      go_on(rank, &totals);
    });
  }
}

TEST(Flush, SendsAllAndFreesItsMemory) {
  ForEachFlush([](int rank, Totals* totals) {
    totals->Step(1, Gradient(rank, 1));
    totals->ExpectEqual();
    EXPECT_EQ(HeldBytes(totals->comm), 0);
    totals->Step(2, Gradient(rank, 2));
    totals->ExpectEqual();
  });
}

TEST(Flush, OutsideStepsDoesSoToo) {
  ForEachFlush([](int rank, Totals* totals) {
    std::vector<float> overflown = Gradient(rank, 1);
    if (rank == 0) overflown[7] = std::numeric_limits<float>::infinity();
    totals->Sum(1, std::move(overflown));
    EXPECT_GT(HeldBytes(totals->comm), 0) << "what met an infinity";
    for (int step = 2; step < 4; ++step) {
      totals->Sum(step, Gradient(rank, step));
      totals->ExpectEqual();
      EXPECT_EQ(HeldBytes(totals->comm), 0);
    }
  });
}

// Under nonfinite=propagate the step is committed.
TEST(Flush, KeepsWhatMetAnInfinity) {
  ForEachFlush([](int rank, Totals* totals) {
    std::vector<float> overflown = Gradient(rank, 1);
    if (rank == 0) overflown[7] = std::numeric_limits<float>::infinity();
    totals->Step(1, std::move(overflown));
    EXPECT_GT(HeldBytes(totals->comm), 0);
    totals->Step(2, Gradient(rank, 2));
    totals->ExpectEqual();
    EXPECT_EQ(HeldBytes(totals->comm), 0);
  });
}

}  // namespace
}  // namespace gradwire
