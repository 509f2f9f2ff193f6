// Ranks that do the same at different times or with different memory: groups that lie in one piece
// on one rank only, requests that are waited for when their step is long over.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <latch>
#include <string>
#include <vector>

#include "gradwire/gradwire.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

gwTensor_t Register(gwComm_t comm, const std::string& name, int64_t elems, const char* spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  EXPECT_EQ(gwTensorRegister(comm, name.c_str(), &elems, 1, gwFloat32, &config, &tensor), gwSuccess)
      << gwGetLastError(comm);
  return tensor;
}

gwResult_t SumAndWait(gwTensor_t tensor, const std::vector<float>& in, std::vector<float>* out) {
  gwRequest_t request = nullptr;
  gwResult_t code = gwAllReduceTensor(tensor, in.data(), out->data(), gwSum, nullptr, &request);
  if (code != gwSuccess) return code;
  code = gwRequestWait(request, -1);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  return code;
}

// Names and specs are longer than a message of the control plane.
TEST(UnevenRanks, AGroupOfManyTensorsIsRevokedOnAllRanks) {
  constexpr int kTensors = 1500;
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    std::vector<gwTensor_t> tensors;
    std::vector<std::vector<float>> memory(kTensors, std::vector<float>(8, 1.0f));
    std::vector<const void*> sends;
    std::vector<void*> recvs;
    for (int i = 0; i < kTensors; ++i) {
      tensors.push_back(
          Register(comm, "a.rather.long.prefix.of.layers." + std::to_string(i), 8, "qsgd(bits=4)"));
      sends.push_back(memory[i].data());
      recvs.push_back(memory[i].data());
    }
    gwRequest_t request = nullptr;
    gwStepOutcome_t outcome = gwStepCommitted;
    ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
    gwResult_t result = gwAllReduceTensors(kTensors, tensors.data(), sends.data(), recvs.data(),
                                           rank == 2 ? gwAvg : gwSum, nullptr, &request);
    if (result == gwSuccess) result = gwRequestWait(request, -1);
    EXPECT_NE(result, gwSuccess);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(outcome, gwStepAborted);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("avg"), std::string::npos) << text;
    EXPECT_TRUE(AllReduceWorks(rank, 3, comm));
  });
}

// Both tensors are longer than what a slice has left, and no multiple of a block.
TEST(UnevenRanks, AGroupMayLieInOnePieceOnOneRankOnly) {
  constexpr int64_t kElems = 1000;
  for (const gwRedOp_t op : {gwSum, gwAvg}) {
    RunRanks(3, "slice_elems=1280", [op](int rank, gwComm_t comm) {
      const gwTensor_t tensors[] = {Register(comm, "a", kElems, "none"),
                                    Register(comm, "b", kElems, "none")};
      const int64_t gap = rank == 0 ? 0 : 17;
      std::vector<float> memory(2 * kElems + gap);
      float* const parts[] = {memory.data(), memory.data() + kElems + gap};
      for (int64_t i = 0; i < kElems; ++i) {
        parts[0][i] = static_cast<float>(rank + i);
        parts[1][i] = static_cast<float>(rank - i);
      }
      const void* const sends[] = {parts[0], parts[1]};
      void* const recvs[] = {parts[0], parts[1]};
      gwRequest_t request = nullptr;
      ASSERT_EQ(gwAllReduceTensors(2, tensors, sends, recvs, op, nullptr, &request), gwSuccess);
      ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
      const float scale = op == gwAvg ? 1.0f / 3.0f : 1.0f;
      for (int64_t i = 0; i < kElems; ++i) {
        ASSERT_EQ(parts[0][i], static_cast<float>(3 + 3 * i) * scale) << i;
        ASSERT_EQ(parts[1][i], static_cast<float>(3 - 3 * i) * scale) << i;
      }
    });
  }
}

TEST(UnevenRanks, WaitingForARequestOfAStepLongOverChangesNothing) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    const gwTensor_t tensor = Register(comm, "a", 300, "none");
    const std::vector<float> in(300, 1.0f);
    std::vector<float> out(300), late_out(300);
    gwStepOutcome_t outcome = gwStepCommitted;
    gwRequest_t late = nullptr;
    ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
    const gwResult_t submitted = gwAllReduceTensor(tensor, in.data(), late_out.data(),
                                                   rank == 0 ? gwSum : gwAvg, nullptr, &late);
    // Refused where the other rank has found out already.
    EXPECT_EQ(submitted, late == nullptr ? gwAborted : gwSuccess) << gwGetLastError(comm);
    ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    ASSERT_EQ(outcome, gwStepAborted);

    ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
    ASSERT_EQ(SumAndWait(tensor, in, &out), gwSuccess) << gwGetLastError(comm);
    ASSERT_EQ(gwStepEnd(comm, nullptr), gwSuccess) << gwGetLastError(comm);
    if (late != nullptr) {
      EXPECT_NE(gwRequestWait(late, -1), gwSuccess);
    }
    EXPECT_EQ(gwRequestFree(late), gwSuccess);

    for (uint64_t step = 2; step < 10; ++step) {
      ASSERT_EQ(gwStepBegin(comm, step), gwSuccess) << gwGetLastError(comm);
      std::fill(out.begin(), out.end(), 0.0f);
      ASSERT_EQ(SumAndWait(tensor, in, &out), gwSuccess) << gwGetLastError(comm);
      for (float value : out) ASSERT_EQ(value, 2.0f);
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(outcome, gwStepCommitted) << gwGetLastError(comm);
    }
  });
}

TEST(UnevenRanks, StateIsLeftAloneWhileAnOperationUsesIt) {
  std::latch asked(1);
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    const gwTensor_t tensor = Register(comm, "kept", 300, "qsgd(bits=4,feedback=on)");
    const std::vector<float> in(300, 1.0f);
    std::vector<float> out(300);
    const std::string state = SavedState(comm);
    size_t bytes = 0;
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
    // Rank 1 joins only when rank 0 has asked.
    if (rank == 0) {
      gwRequest_t request = nullptr;
      ASSERT_EQ(gwAllReduceTensor(tensor, in.data(), out.data(), gwSum, nullptr, &request),
                gwSuccess);
      EXPECT_EQ(gwStateLoad(comm, state.data(), state.size()), gwInvalidUsage);
      const std::string text = gwGetLastError(comm);
      EXPECT_NE(text.find("'kept'"), std::string::npos) << text;
      EXPECT_EQ(gwStateSave(comm, nullptr, &bytes), gwInvalidUsage);
      asked.count_down();
      ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
    } else {
      asked.wait();
      ASSERT_EQ(SumAndWait(tensor, in, &out), gwSuccess) << gwGetLastError(comm);
    }
    EXPECT_EQ(gwStateLoad(comm, state.data(), state.size()), gwSuccess) << gwGetLastError(comm);
  });
}

TEST(UnevenRanks, SizesThatDifferButAddUpAreAMismatch) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    const gwTensor_t tensors[] = {Register(comm, "a", rank == 0 ? 100 : 200, "none"),
                                  Register(comm, "b", rank == 0 ? 200 : 100, "none")};
    std::vector<float> a(200, 1.0f), b(200, 1.0f);
    const void* const sends[] = {a.data(), b.data()};
    void* const recvs[] = {a.data(), b.data()};
    gwRequest_t request = nullptr;
    gwResult_t result = gwAllReduceTensors(2, tensors, sends, recvs, gwSum, nullptr, &request);
    if (result == gwSuccess) result = gwRequestWait(request, -1);
    EXPECT_EQ(result, gwMismatch);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("100,200"), std::string::npos) << text;
    EXPECT_NE(text.find("200,100"), std::string::npos) << text;
  });
}

TEST(UnevenRanks, OneRankAloneFollowsThePolicyToo) {
  for (const char* spec : {"none", "bf16", "qsgd(bits=4)"}) {
    RunRanks(1, "nonfinite=skip", [spec](int, gwComm_t comm) {
      const gwTensor_t tensor = Register(comm, "a", 300, spec);
      std::vector<float> in(300, 1.0f), out(300);
      in[200] = std::nanf("");
      gwStepOutcome_t outcome = gwStepCommitted;
      ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
      ASSERT_EQ(SumAndWait(tensor, in, &out), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(outcome, gwStepSkipped) << spec;
    });
  }
}

// Outside steps every tensor counts its own operations: who travels with it changes nothing.
TEST(UnevenRanks, DithersDoNotDependOnTheGroup) {
  constexpr int64_t kElems = 512;
  std::vector<float> second[2];
  for (const bool together : {false, true}) {
    RunRanks(2, "", [&](int rank, gwComm_t comm) {
      const gwTensor_t tensors[] = {Register(comm, "a", kElems, "qsgd(bits=4)"),
                                    Register(comm, "b", kElems, "qsgd(bits=4)")};
      std::vector<float> a(kElems, 0.3f), b(kElems), out_a(kElems), out_b(kElems);
      for (int64_t i = 0; i < kElems; ++i) b[i] = std::sin(static_cast<float>(i + rank));
      const void* const sends[] = {a.data(), b.data()};
      void* const recvs[] = {out_a.data(), out_b.data()};
      if (together) {
        gwRequest_t request = nullptr;
        ASSERT_EQ(gwAllReduceTensors(2, tensors, sends, recvs, gwSum, nullptr, &request),
                  gwSuccess);
        ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
        EXPECT_EQ(gwRequestFree(request), gwSuccess);
      } else {
        ASSERT_EQ(SumAndWait(tensors[1], b, &out_b), gwSuccess) << gwGetLastError(comm);
      }
      const std::vector<float> first = out_b;
      ASSERT_EQ(SumAndWait(tensors[1], b, &out_b), gwSuccess) << gwGetLastError(comm);
      EXPECT_NE(first, out_b) << "the same dither twice";
      if (rank == 0) second[together ? 1 : 0] = out_b;
    });
  }
  EXPECT_EQ(second[0], second[1]);
}

}  // namespace
}  // namespace gradwire
