// How the functions of the C API are defined: what all of them have around their bodies.
#ifndef GRADWIRE_RUNTIME_CAPI_ENTRY_H_
#define GRADWIRE_RUNTIME_CAPI_ENTRY_H_

#include <cxxabi.h>

#include "base/status.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// What a call returns that an exception has ended.
class Thrown {
 public:
  explicit Thrown(gwResult_t code) : code_(code) {}
  operator gwResult_t() const { return code_; }               // NOLINT(google-explicit-constructor)
  operator const char*() const { return ResultText(code_); }  // NOLINT(google-explicit-constructor)

 private:
  gwResult_t code_;
};

// No call of this thread's has marked a communicator as busy yet.
void BeginCall();
// From a catch block. The text is the last error of the communicator that the call has marked as
// busy, or else of the thread. gwSystemError: the system had no memory, thread or the like;
// gwInternalError for any other exception.
Thrown ReportException(const char* caller) noexcept;

// Callers are in any language: no exception gets there. But a thread may be cancelled.
template <typename Body>
auto CallBody(const char* caller, const Body& body) -> decltype(body()) {
  BeginCall();
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return ReportException(caller);
  }
}

// GW_DEFINE(gwResult_t, gwCommCount, (gwComm_t comm, int* count), (comm, count)) { body }
// Every public function is a strong pgw* with a weak gw* alias, so that a tool can stand between,
// as with PMPI.
#define GW_DEFINE(ret, name, params, args)                                   \
  namespace bodies {                                                         \
  static ret name params;                                                    \
  }                                                                          \
  extern "C" GW_API ret p##name params;                                      \
  extern "C" GW_API __attribute__((weak, alias("p" #name))) ret name params; \
  extern "C" ret p##name params {                                            \
    return CallBody(#name, [&] { return bodies::name args; });               \
  }                                                                          \
  ret bodies::name params

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_ENTRY_H_
