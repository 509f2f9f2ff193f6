#include "tests/conformance/capi_scene.h"

#include <gtest/gtest.h>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

void Prepare(Scene* scene) {
  const int64_t shape[] = {kSceneElems};
  ASSERT_EQ(gwTensorRegister(scene->comm, "w", shape, 1, gwFloat32, nullptr, &scene->tensor),
            gwSuccess);
  ASSERT_EQ(gwTensorRegister(scene->comm, "v", shape, 1, gwFloat32, nullptr, &scene->second),
            gwSuccess);
  ASSERT_EQ(
      gwAllReduceTensor(scene->tensor, scene->send, scene->recv, gwSum, nullptr, &scene->request),
      gwSuccess);
  ASSERT_EQ(gwRequestWait(scene->request, -1), gwSuccess) << gwGetLastError(scene->comm);
  gwUniqueId id;
  ASSERT_EQ(gwGetUniqueId(&id), gwSuccess);
  ASSERT_EQ(gwCommInitRank(&scene->alone, 1, id, 0), gwSuccess) << gwGetLastError(nullptr);
  ASSERT_EQ(gwTensorRegister(scene->alone, "w", shape, 1, gwFloat32, nullptr, &scene->foreign),
            gwSuccess);
}

constexpr size_t kCount = kSceneElems;

constexpr ApiFunction kFunctions[] = {
    {"gwGetVersion", CallRule::kNoComm, [](Scene& s) { return gwGetVersion(&s.number); }},
    {"gwGetErrorString", CallRule::kNoComm,
     [](Scene&) { return *gwGetErrorString(gwPeerLost) ? gwSuccess : gwInternalError; }},
    {"gwGetLastError", CallRule::kNoComm,
     [](Scene& s) { return gwGetLastError(s.comm) != nullptr ? gwSuccess : gwInternalError; }},
    {"gwSetLogCallback", CallRule::kNoComm,
     [](Scene&) { return gwSetLogCallback(nullptr, nullptr); }},
    {"gwGetUniqueId", CallRule::kNoComm,
     [](Scene&) {
       gwUniqueId id;
       return gwGetUniqueId(&id);
     }},
    {"gwCommInitRank", CallRule::kNoComm,
     [](Scene& s) {
       gwUniqueId id;
       if (const gwResult_t made = gwGetUniqueId(&id); made != gwSuccess) return made;
       return gwCommInitRank(&s.new_comm, 1, id, 0);
     }},
    {"gwCommInitRankConfig", CallRule::kNoComm,
     [](Scene& s) {
       gwUniqueId id;
       if (const gwResult_t made = gwGetUniqueId(&id); made != gwSuccess) return made;
       return gwCommInitRankConfig(&s.new_comm, 1, id, 0, nullptr);
     }},
    {"gwCommInitEnv", CallRule::kNoComm,
     [](Scene& s) { return gwCommInitEnv(&s.new_comm, nullptr); }},
    {"gwCommSplit", CallRule::kWorks,
     [](Scene& s) { return gwCommSplit(s.comm, 0, 0, &s.new_comm, nullptr); }},
    {"gwCommFinalize", CallRule::kWorks, [](Scene& s) { return gwCommFinalize(s.comm); }},
    {"gwCommDestroy", CallRule::kLooks, [](Scene& s) { return gwCommDestroy(s.comm); }},
    {"gwCommAbort", CallRule::kAnyThread, [](Scene& s) { return gwCommAbort(s.comm); }},
    {"gwCommGetAsyncError", CallRule::kAnyThread,
     [](Scene& s) {
       gwResult_t error = gwInternalError;
       const gwResult_t result = gwCommGetAsyncError(s.comm, &error);
       return result == gwSuccess ? error : result;
     }},
    {"gwCommCount", CallRule::kAnyThread, [](Scene& s) { return gwCommCount(s.comm, &s.number); }},
    {"gwCommUserRank", CallRule::kAnyThread,
     [](Scene& s) { return gwCommUserRank(s.comm, &s.number); }},
    {"gwAllReduce", CallRule::kWorks,
     [](Scene& s) {
       return gwAllReduce(s.send, s.recv, kCount, gwFloat32, gwSum, s.comm, nullptr);
     }},
    {"gwReduce", CallRule::kWorks,
     [](Scene& s) {
       return gwReduce(s.send, s.recv, kCount, gwFloat32, gwSum, 0, s.comm, nullptr);
     }},
    {"gwBroadcast", CallRule::kWorks,
     [](Scene& s) { return gwBroadcast(s.send, s.recv, kCount, gwFloat32, 0, s.comm, nullptr); }},
    {"gwAllGather", CallRule::kWorks,
     [](Scene& s) { return gwAllGather(s.send, s.recv, kCount, gwFloat32, s.comm, nullptr); }},
    {"gwReduceScatter", CallRule::kWorks,
     [](Scene& s) {
       return gwReduceScatter(s.send, s.recv, kCount, gwFloat32, gwSum, s.comm, nullptr);
     }},
    {"gwAllToAll", CallRule::kWorks,
     [](Scene& s) { return gwAllToAll(s.send, s.recv, kCount, gwFloat32, s.comm, nullptr); }},
    {"gwBarrier", CallRule::kWorks, [](Scene& s) { return gwBarrier(s.comm, nullptr); }},
    {"gwSend", CallRule::kWorks,
     [](Scene& s) { return gwSend(s.send, kCount, gwFloat32, 1 - s.rank, s.comm, nullptr); }},
    {"gwRecv", CallRule::kWorks,
     [](Scene& s) { return gwRecv(s.recv, kCount, gwFloat32, 1 - s.rank, s.comm, nullptr); }},
    {"gwGroupStart", CallRule::kNoComm, [](Scene&) { return gwGroupStart(); }},
    {"gwGroupEnd", CallRule::kNoComm, [](Scene&) { return gwGroupEnd(); }},
    {"gwTensorRegister", CallRule::kWorks,
     [](Scene& s) {
       return gwTensorRegister(s.comm, "new", nullptr, 0, gwFloat32, nullptr, &s.new_tensor);
     }},
    {"gwTensorDeregister", CallRule::kLooks, [](Scene& s) { return gwTensorDeregister(s.second); }},
    {"gwTensorSetSpec", CallRule::kWorks,
     [](Scene& s) { return gwTensorSetSpec(s.tensor, "bf16"); }},
    {"gwTensorDiscardStep", CallRule::kWorks,
     [](Scene& s) { return gwTensorDiscardStep(s.tensor); }},
    {"gwAllReduceTensor", CallRule::kWorks,
     [](Scene& s) {
       return gwAllReduceTensor(s.tensor, s.send, s.recv, gwSum, nullptr, &s.new_request);
     }},
    {"gwAllReduceTensors", CallRule::kWorks,
     [](Scene& s) {
       const void* send = s.send;
       void* recv = s.recv;
       return gwAllReduceTensors(1, &s.tensor, &send, &recv, gwSum, nullptr, &s.new_request);
     }},
    {"gwReduceScatterTensor", CallRule::kWorks,
     [](Scene& s) {
       return gwReduceScatterTensor(s.tensor, s.send, s.recv, gwSum, nullptr, &s.new_request);
     }},
    {"gwRequestWait", CallRule::kLooks, [](Scene& s) { return gwRequestWait(s.request, 0); }},
    {"gwRequestTest", CallRule::kLooks,
     [](Scene& s) { return gwRequestTest(s.request, &s.number); }},
    // Frees nothing here: the scene's own request goes when the scene does.
    {"gwRequestFree", CallRule::kNoComm, [](Scene&) { return gwRequestFree(nullptr); }},
    {"gwStepBegin", CallRule::kWorks, [](Scene& s) { return gwStepBegin(s.comm, 1); }},
    {"gwStepSetLossScale", CallRule::kWorks,
     [](Scene& s) { return gwStepSetLossScale(s.comm, 2.0f); }},
    {"gwStepEnd", CallRule::kWorks, [](Scene& s) { return gwStepEnd(s.comm, &s.outcome); }},
    {"gwStepAbort", CallRule::kWorks, [](Scene& s) { return gwStepAbort(s.comm, "no memory"); }},
    {"gwStateSave", CallRule::kWorks,
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwStateSave(s.comm, s.text, &bytes);
     }},
    {"gwStateLoad", CallRule::kWorks,
     [](Scene& s) { return gwStateLoad(s.comm, s.text, sizeof s.text); }},
    {"gwCommGetStats", CallRule::kLooks,
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwCommGetStats(s.comm, s.text, &bytes);
     }},
    {"gwCommGetLedger", CallRule::kLooks,
     [](Scene& s) {
       size_t bytes = sizeof s.text;
       return gwCommGetLedger(s.comm, s.text, &bytes);
     }},
};

}  // namespace

std::string Scene::errors() const {
  return std::string(gwGetLastError(comm)) + "\n" + gwGetLastError(nullptr);
}

void RunScene(const std::string& settings, const std::function<void(Scene&)>& body) {
  RunRanks(kSceneRanks, settings, [&](int rank, gwComm_t comm) {
    Scene scene;
    scene.rank = rank;
    scene.comm = comm;
    ASSERT_NO_FATAL_FAILURE(Prepare(&scene));
    body(scene);
    EXPECT_EQ(gwCommDestroy(scene.alone), gwSuccess);
    EXPECT_EQ(gwRequestFree(scene.request), gwSuccess);
  });
}

std::span<const ApiFunction> ApiFunctions() { return kFunctions; }

}  // namespace gradwire
