// Calls that must be refused: by what they say, and without effect.
#ifndef GRADWIRE_TESTS_CONFORMANCE_CAPI_WRONG_CALL_H_
#define GRADWIRE_TESTS_CONFORMANCE_CAPI_WRONG_CALL_H_

#include <span>

#include "tests/conformance/capi_scene.h"

namespace gradwire {

struct WrongCall {
  const char* what;
  gwResult_t code;
  const char* says;  // part of the error's text
  gwResult_t (*call)(Scene& scene);
};

// On every rank: makes each call, looks at code, text, untouched results and unchanged state, and
// then all-reduces.
void CheckWrongCalls(std::span<const WrongCall> calls);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_CAPI_WRONG_CALL_H_
