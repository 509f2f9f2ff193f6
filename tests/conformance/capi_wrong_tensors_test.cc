// Registered tensors, requests, steps and state with wrong arguments or at the wrong time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/conformance/capi_wrong_call.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

struct Registration {
  const char* name = "new";
  int64_t shape[2] = {2, 4};
  int ndim = 2;
  gwDataType_t dtype = gwFloat32;
  const char* spec = nullptr;
};

gwResult_t Register(Scene& s, const Registration& r) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = r.spec;
  return gwTensorRegister(s.comm, r.name, r.shape, r.ndim, r.dtype, &config, &s.new_tensor);
}

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

constexpr WrongCall kRegistrations[] = {
    {"no communicator", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       return gwTensorRegister(nullptr, "x", nullptr, 0, gwFloat32, nullptr, &s.new_tensor);
     }},
    {"no name", gwInvalidArgument, "name", [](Scene& s) { return Register(s, {.name = nullptr}); }},
    {"an empty name", gwInvalidArgument, "name",
     [](Scene& s) { return Register(s, {.name = ""}); }},
    {"a name of two lines", gwInvalidArgument, "name",
     [](Scene& s) { return Register(s, {.name = "a\nb"}); }},
    {"a name twice", gwInvalidArgument, "registered already",
     [](Scene& s) { return Register(s, {.name = "w"}); }},
    {"no shape", gwInvalidArgument, "shape",
     [](Scene& s) {
       return gwTensorRegister(s.comm, "x", nullptr, 1, gwFloat32, nullptr, &s.new_tensor);
     }},
    {"no place for the handle", gwInvalidArgument, "tensor",
     [](Scene& s) {
       return gwTensorRegister(s.comm, "x", nullptr, 0, gwFloat32, nullptr, nullptr);
     }},
    {"negative ndim", gwInvalidArgument, "ndim is -1",
     [](Scene& s) { return Register(s, {.ndim = -1}); }},
    {"a negative length", gwInvalidArgument, "negative",
     [](Scene& s) {
       return Register(s, {.shape = {3, -3}});
     }},
    {"an overflowing shape", gwInvalidArgument, "overflow",
     [](Scene& s) {
       return Register(s, {.shape = {kMax, 2}});
     }},
    {"more elements than dithers", gwInvalidArgument, "at most",
     [](Scene& s) {
       return Register(s, {.shape = {kMax, 1}});
     }},
    {"integers", gwInvalidArgument, "float16, bfloat16 or float32",
     [](Scene& s) { return Register(s, {.dtype = gwInt32}); }},
    {"an unknown type", gwInvalidArgument, "no known type",
     [](Scene& s) { return Register(s, {.dtype = static_cast<gwDataType_t>(99)}); }},
    {"a codec misspelt", gwInvalidArgument, "Did you mean 'qsgd'",
     [](Scene& s) { return Register(s, {.spec = "qsgdd(bits=4)"}); }},
    {"a key misspelt", gwInvalidArgument, "Did you mean 'block'",
     [](Scene& s) { return Register(s, {.spec = "qsgd(blok=4)"}); }},
    {"a value out of range", gwInvalidArgument, "bits",
     [](Scene& s) { return Register(s, {.spec = "qsgd(bits=1000)"}); }},
    {"a density that selects no element", gwInvalidArgument, "Accepted for this tensor",
     [](Scene& s) { return Register(s, {.spec = "topk(1e-6,min_numel=0)"}); }},
    {"one of owners that selects none", gwInvalidArgument,
     "Accepted for this tensor: 0.000244140625 to 1",
     [](Scene& s) {
       return Register(s, {.shape = {1, 2048}, .spec = "topk(0.0002,agreement=owners)"});
     }},
    {"one of owners given later", gwInvalidArgument, "selects none of 8 elements",
     [](Scene& s) { return gwTensorSetSpec(s.tensor, "topk(0.01,agreement=owners,min_numel=0)"); }},
    {"an unknown agreement", gwInvalidArgument, "speakers, owners, gather",
     [](Scene& s) { return Register(s, {.spec = "topk(agreement=votes)"}); }},
    {"a matrix of no rows", gwInvalidArgument, "none of them 0",
     [](Scene& s) {
       return Register(s, {.shape = {0, 4}, .spec = "acp(min_numel=0)"});
     }},
    {"an open parenthesis", gwInvalidArgument, "qsgd",
     [](Scene& s) { return Register(s, {.spec = "qsgd(bits=4"}); }},
    {"feedback where nothing is lost", gwInvalidArgument, "feedback",
     [](Scene& s) { return Register(s, {.spec = "none(feedback=on)"}); }},
    {"feedback of fp16", gwInvalidArgument, "bf16(feedback=on)",
     [](Scene& s) { return Register(s, {.spec = "fp16(feedback=on)"}); }},
    {"feedback of terngrad", gwInvalidArgument, "needs a contractive codec",
     [](Scene& s) { return Register(s, {.spec = "terngrad(feedback=on)"}); }},
    {"feedback of signsgd", gwInvalidArgument, "efsign is the sign with feedback",
     [](Scene& s) { return Register(s, {.spec = "signsgd(feedback=on)"}); }},
    {"feedback of intsgd", gwInvalidArgument, "the scale of its own step",
     [](Scene& s) { return Register(s, {.spec = "intsgd(feedback=on)"}); }},
    {"a config of zeros", gwInvalidArgument, "GW_TENSOR_CONFIG_INITIALIZER",
     [](Scene& s) {
       const gwTensorConfig_t config = {};
       return gwTensorRegister(s.comm, "x", nullptr, 0, gwFloat32, &config, &s.new_tensor);
     }},
    {"deregister null", gwInvalidArgument, "tensor is null",
     [](Scene&) { return gwTensorDeregister(nullptr); }},
    {"spec of null", gwInvalidArgument, "tensor is null",
     [](Scene&) { return gwTensorSetSpec(nullptr, "none"); }},
    {"no spec", gwInvalidArgument, "spec is null",
     [](Scene& s) { return gwTensorSetSpec(s.tensor, nullptr); }},
    {"a misspelt spec", gwInvalidArgument, "Did you mean 'bf16'",
     [](Scene& s) { return gwTensorSetSpec(s.tensor, "bf61"); }},
    {"discard null", gwInvalidArgument, "tensor is null",
     [](Scene&) { return gwTensorDiscardStep(nullptr); }},
    {"discard outside a step", gwInvalidUsage, "no complete operation in an open step",
     [](Scene& s) { return gwTensorDiscardStep(s.tensor); }},
};

gwResult_t Submit(Scene& s, const void* send, void* recv, gwRedOp_t op = gwSum) {
  return gwAllReduceTensor(s.tensor, send, recv, op, nullptr, &s.new_request);
}

// A handle whose tensor is there no more.
gwTensor_t Deregistered(Scene& s) {
  const int64_t shape[] = {kSceneElems};
  gwTensor_t gone = nullptr;
  EXPECT_EQ(gwTensorRegister(s.comm, "gone", shape, 1, gwFloat32, nullptr, &gone), gwSuccess);
  EXPECT_EQ(gwTensorDeregister(gone), gwSuccess);
  return gone;
}

constexpr WrongCall kDeregistered[] = {
    {"submit", gwInvalidUsage, "was deregistered",
     [](Scene& s) {
       return gwAllReduceTensor(Deregistered(s), s.send, s.recv, gwSum, nullptr, &s.new_request);
     }},
    {"submit in a group", gwInvalidUsage, "was deregistered",
     [](Scene& s) {
       const gwTensor_t tensors[] = {s.tensor, Deregistered(s)};
       const void* const send[] = {s.send, s.send};
       void* const recv[] = {s.recv, s.recv + kSceneElems};
       return gwAllReduceTensors(2, tensors, send, recv, gwSum, nullptr, &s.new_request);
     }},
    {"spec", gwInvalidUsage, "was deregistered",
     [](Scene& s) { return gwTensorSetSpec(Deregistered(s), "bf16"); }},
    {"discard", gwInvalidUsage, "was deregistered",
     [](Scene& s) { return gwTensorDiscardStep(Deregistered(s)); }},
    {"deregister again", gwInvalidUsage, "was deregistered",
     [](Scene& s) { return gwTensorDeregister(Deregistered(s)); }},
};

struct Two {
  gwTensor_t tensors[2];
  const void* send[2];
  void* recv[2];
};

gwResult_t SubmitTwo(Scene& s, const Two& two) {
  return gwAllReduceTensors(2, two.tensors, two.send, two.recv, gwSum, nullptr, &s.new_request);
}

gwResult_t Scatter(Scene& s, const float* send, float* recv, gwRedOp_t op = gwSum) {
  return gwReduceScatterTensor(s.tensor, send, recv, op, nullptr, &s.new_request);
}

// Of a tensor that is there for this call only.
gwResult_t ScatterAnother(Scene& s, int64_t elems, const char* spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  EXPECT_EQ(gwTensorRegister(s.comm, "another", &elems, 1, gwFloat32, &config, &tensor), gwSuccess);
  const gwResult_t result =
      gwReduceScatterTensor(tensor, s.send, s.recv, gwSum, nullptr, &s.new_request);
  EXPECT_EQ(gwTensorDeregister(tensor), gwSuccess);
  return result;
}

constexpr WrongCall kSubmits[] = {
    {"no tensor", gwInvalidArgument, "null",
     [](Scene& s) {
       return gwAllReduceTensor(nullptr, s.send, s.recv, gwSum, nullptr, &s.new_request);
     }},
    {"no send", gwInvalidArgument, "'w'", [](Scene& s) { return Submit(s, nullptr, s.recv); }},
    {"no recv", gwInvalidArgument, "'w'", [](Scene& s) { return Submit(s, s.send, nullptr); }},
    {"misaligned", gwInvalidArgument, "aligned",
     [](Scene& s) { return Submit(s, reinterpret_cast<char*>(s.send) + 2, s.recv); }},
    {"overlapping", gwInvalidArgument, "overlap",
     [](Scene& s) { return Submit(s, s.send, s.send + 1); }},
    {"a maximum", gwInvalidArgument, "gwSum or gwAvg",
     [](Scene& s) { return Submit(s, s.send, s.recv, gwMax); }},
    {"an unknown operation", gwInvalidArgument, "gwSum or gwAvg",
     [](Scene& s) { return Submit(s, s.send, s.recv, static_cast<gwRedOp_t>(-3)); }},
    {"no place for the request", gwInvalidArgument, "null",
     [](Scene& s) { return gwAllReduceTensor(s.tensor, s.send, s.recv, gwSum, nullptr, nullptr); }},
    {"a stream", gwInvalidArgument, "NULL",
     [](Scene& s) {
       return gwAllReduceTensor(s.tensor, s.send, s.recv, gwSum, &s.number, &s.new_request);
     }},
    {"an empty group", gwInvalidArgument, "count",
     [](Scene& s) {
       return gwAllReduceTensors(0, nullptr, nullptr, nullptr, gwSum, nullptr, &s.new_request);
     }},
    {"a negative group", gwInvalidArgument, "count",
     [](Scene& s) {
       return gwAllReduceTensors(-1, nullptr, nullptr, nullptr, gwSum, nullptr, &s.new_request);
     }},
    {"a null among tensors", gwInvalidArgument, "tensor 1",
     [](Scene& s) {
       return SubmitTwo(s, {{s.tensor, nullptr}, {s.send, s.send}, {s.recv, s.recv + kSceneElems}});
     }},
    {"a tensor twice in a group", gwInvalidUsage, "'w'",
     [](Scene& s) {
       return SubmitTwo(s, {{s.tensor, s.tensor}, {s.send, s.send}, {s.recv, s.recv}});
     }},
    {"tensors of two communicators", gwInvalidArgument, "different communicators",
     [](Scene& s) {
       return SubmitTwo(s,
                        {{s.tensor, s.foreign}, {s.send, s.send}, {s.recv, s.recv + kSceneElems}});
     }},
    {"two results in one place", gwInvalidArgument, "overlap",
     [](Scene& s) {
       return SubmitTwo(s, {{s.tensor, s.second}, {s.send, s.send}, {s.recv, s.recv + 7}});
     }},
    {"a result in another tensor's gradient", gwInvalidArgument, "overlap",
     [](Scene& s) {
       float* const next = s.send + kSceneElems;
       return SubmitTwo(s, {{s.tensor, s.second}, {s.send, next}, {next, s.recv}});
     }},
    {"scatter no tensor", gwInvalidArgument, "null",
     [](Scene& s) {
       return gwReduceScatterTensor(nullptr, s.send, s.recv, gwSum, nullptr, &s.new_request);
     }},
    {"scatter to no request", gwInvalidArgument, "null",
     [](Scene& s) {
       return gwReduceScatterTensor(s.tensor, s.send, s.recv, gwSum, nullptr, nullptr);
     }},
    {"scatter from null", gwInvalidArgument, "'w'",
     [](Scene& s) { return Scatter(s, nullptr, s.recv); }},
    {"scatter into another rank's shard", gwInvalidArgument, "overlap",
     [](Scene& s) { return Scatter(s, s.send, s.send + kSceneElems / 2 * (1 - s.rank)); }},
    {"scatter a maximum", gwInvalidArgument, "gwSum or gwAvg",
     [](Scene& s) { return Scatter(s, s.send, s.recv, gwMax); }},
    {"scatter shards that are not equal", gwInvalidArgument, "no multiple of the 2 ranks",
     [](Scene& s) { return ScatterAnother(s, 7, "none"); }},
    {"scatter what is only all-reduced", gwInvalidUsage, "for all-reduce",
     [](Scene& s) { return ScatterAnother(s, 8, "signsgd(min_numel=0)"); }},
    {"scatter automatically", gwInvalidUsage, "for all-reduce",
     [](Scene& s) { return ScatterAnother(s, 8, "auto"); }},
    {"wait for null", gwInvalidArgument, "request is null",
     [](Scene&) { return gwRequestWait(nullptr, 0); }},
    {"test of null", gwInvalidArgument, "request is null",
     [](Scene& s) { return gwRequestTest(nullptr, &s.number); }},
    {"test to null", gwInvalidArgument, "done is null",
     [](Scene& s) { return gwRequestTest(s.request, nullptr); }},
};

constexpr WrongCall kSteps[] = {
    {"begin on null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwStepBegin(nullptr, 0); }},
    {"scale on null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwStepSetLossScale(nullptr, 1); }},
    {"end on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwStepEnd(nullptr, &s.outcome); }},
    {"end without begin", gwInvalidUsage, "gwStepBegin",
     [](Scene& s) { return gwStepEnd(s.comm, &s.outcome); }},
    {"end without begin or outcome", gwInvalidUsage, "gwStepBegin",
     [](Scene& s) { return gwStepEnd(s.comm, nullptr); }},
    {"abort on null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwStepAbort(nullptr, "why"); }},
    {"abort without begin", gwInvalidUsage, "gwStepBegin",
     [](Scene& s) { return gwStepAbort(s.comm, nullptr); }},
    {"scale outside a step", gwInvalidUsage, "between",
     [](Scene& s) { return gwStepSetLossScale(s.comm, 2.0f); }},
    {"save on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwStateSave(nullptr, s.text, &bytes);
     }},
    {"save without size", gwInvalidArgument, "bytes is null",
     [](Scene& s) { return gwStateSave(s.comm, s.text, nullptr); }},
    {"save to too little", gwInvalidArgument, "are needed",
     [](Scene& s) {
       size_t bytes = 3;
       s.text[0] = s.text[1] = s.text[2] = 9;
       const gwResult_t result = gwStateSave(s.comm, s.text, &bytes);
       const bool unwritten = s.text[0] == 9 && s.text[1] == 9 && s.text[2] == 9;
       return unwritten && bytes > 3 ? result : gwInternalError;
     }},
    {"load on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwStateLoad(nullptr, s.text, 5); }},
    {"load nothing", gwInvalidArgument, "buffer is null",
     [](Scene& s) { return gwStateLoad(s.comm, nullptr, 5); }},
    {"load no bytes", gwDataCorrupt, "too short",
     [](Scene& s) { return gwStateLoad(s.comm, s.text, 0); }},
    {"stats of null", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwCommGetStats(nullptr, s.text, &bytes);
     }},
    {"stats without size", gwInvalidArgument, "bytes is null",
     [](Scene& s) { return gwCommGetStats(s.comm, s.text, nullptr); }},
    {"ledger of null", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwCommGetLedger(nullptr, s.text, &bytes);
     }},
    {"ledger to too little", gwInvalidArgument, "are needed",
     [](Scene& s) {
       size_t bytes = 1;
       return gwCommGetLedger(s.comm, s.text, &bytes);
     }},
};

TEST(CapiWrongTensors, RegistrationIsRefusedWithoutEffect) { CheckWrongCalls(kRegistrations); }
TEST(CapiWrongTensors, DeregisteredHandlesAreRefused) { CheckWrongCalls(kDeregistered); }
TEST(CapiWrongTensors, SubmitIsRefusedWithoutEffect) { CheckWrongCalls(kSubmits); }
TEST(CapiWrongTensors, StepsAndStateAreRefusedWithoutEffect) { CheckWrongCalls(kSteps); }

// Bytes hold the sum of 127 ranks: one more is refused where the tensor is registered, and where it
// is given the codec later.
TEST(CapiWrongTensors, MoreRanksThanACarrierHasRoomForAreRefused) {
  constexpr int kRanks = 128;
  // Their threads take turns on few cores.
  RunRanks(kRanks, "heartbeat_timeout_ms=60000", [](int rank, gwComm_t comm) {
    const auto expect_refused = [&](gwResult_t result) {
      EXPECT_EQ(result, gwInvalidArgument);
      const std::string error = gwGetLastError(comm);
      EXPECT_NE(error.find("at most 127 ranks"), std::string::npos) << error;
      EXPECT_NE(error.find("tensor 'w'"), std::string::npos) << error;
    };
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = "intsgd(bits=8,min_numel=0)";
    const int64_t shape[] = {kSceneElems};
    gwTensor_t tensor = nullptr;
    expect_refused(gwTensorRegister(comm, "w", shape, 1, gwFloat32, &config, &tensor));
    EXPECT_EQ(tensor, nullptr);
    config.spec = "intsgd(bits=32,min_numel=0)";
    ASSERT_EQ(gwTensorRegister(comm, "w", shape, 1, gwFloat32, &config, &tensor), gwSuccess)
        << gwGetLastError(comm);
    expect_refused(gwTensorSetSpec(tensor, "intsgd(bits=8,min_numel=0)"));
    EXPECT_TRUE(AllReduceWorks(rank, kRanks, comm)) << gwGetLastError(comm);
  });
}

}  // namespace
}  // namespace gradwire
