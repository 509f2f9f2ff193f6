// One rank with one of everything that the C API has handles for, and the table of its functions.
#ifndef GRADWIRE_TESTS_CONFORMANCE_CAPI_SCENE_H_
#define GRADWIRE_TESTS_CONFORMANCE_CAPI_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gradwire/gradwire.h"

namespace gradwire {

inline constexpr int kSceneRanks = 2;
inline constexpr int64_t kSceneElems = 8;

struct Scene {
  int rank = 0;
  gwComm_t comm = nullptr;
  gwTensor_t tensor = nullptr, second = nullptr;  // of comm, kSceneElems floats
  gwRequest_t request = nullptr;                  // complete
  gwComm_t alone = nullptr;                       // a communicator of one rank
  gwTensor_t foreign = nullptr;                   // a tensor of `alone`
  float send[2 * kSceneElems] = {}, recv[2 * kSceneElems] = {};
  char text[8192] = {};
  // What calls write their results to; refused calls leave them.
  gwTensor_t new_tensor = nullptr;
  gwRequest_t new_request = nullptr;
  gwComm_t new_comm = nullptr;
  gwStepOutcome_t outcome = gwStepAborted;
  int number = -7;

  bool untouched() const {
    return new_tensor == nullptr && new_request == nullptr && new_comm == nullptr &&
           outcome == gwStepAborted && number == -7;
  }
  // Of this thread and of the communicator, whichever was reported.
  std::string errors() const;
};

// Runs `body` on kSceneRanks ranks, each with its scene.
void RunScene(const std::string& settings, const std::function<void(Scene&)>& body);

// Where a function may be called.
enum class CallRule : uint8_t {
  kNoComm,     // needs no communicator
  kAnyThread,  // any thread of the process that made it
  kLooks,      // one thread at a time; also after gwCommFinalize
  kWorks,      // one thread at a time; not after gwCommFinalize
};

// Every function of gradwire.h with a call that is right where its rule allows it.
struct ApiFunction {
  const char* symbol;
  CallRule rule;
  gwResult_t (*call)(Scene& scene);
};
std::span<const ApiFunction> ApiFunctions();

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_CAPI_SCENE_H_
