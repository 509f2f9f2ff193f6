// UCX as found at run time: libucp.so.0 is opened when the first transport asks for it and is never
// linked, so that gradwire starts on machines without UCX. Compiled against the headers of 1.13;
// any later 1.x will do.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_API_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_API_H_

#include <ucp/api/ucp.h>

#include <string>

#include "base/status.h"

namespace gradwire {

inline constexpr char kUcxLibrary[] = "libucp.so.0";

// Every function of UCX that we call, so that the table and its look-up cannot differ.
#define GRADWIRE_UCX_FUNCTIONS(X)   \
  X(ucp_get_version)                \
  X(ucp_config_read)                \
  X(ucp_config_modify)              \
  X(ucp_config_print)               \
  X(ucp_config_release)             \
  X(ucp_init_version)               \
  X(ucp_cleanup)                    \
  X(ucp_context_print_info)         \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_query)               \
  X(ucp_worker_release_address)     \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_worker_progress)            \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create)                  \
  X(ucp_ep_flush_nbx)               \
  X(ucp_ep_close_nbx)               \
  X(ucp_am_send_nbx)                \
  X(ucp_request_check_status)       \
  X(ucp_request_free)               \
  X(ucp_dt_create_generic)          \
  X(ucp_dt_destroy)                 \
  X(ucs_status_string)

// A table of function pointers under UCX's own names.
struct UcxApi {
#define GRADWIRE_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  GRADWIRE_UCX_FUNCTIONS(GRADWIRE_UCX_MEMBER)
#undef GRADWIRE_UCX_MEMBER

  unsigned major = 0, minor = 0, patch = 0;  // of the library found

  std::string version() const;
};

// The process's UCX, opened by the first call and kept to the end: it has threads and hooks of its
// own. Undoes what loading it does to the process: its handlers of SIGSEGV and the like go, and its
// log starts at errors (UCX_LOG_LEVEL, if set, wins). Any thread.
// gwTransportUnavailable: not installed, too old, or a function is missing; says which and the fix.
StatusOr<const UcxApi*> LoadUcx();

// The same for another file and with nothing kept: for tests.
StatusOr<UcxApi> OpenUcx(const char* library);

// Whether a library of this name, without a folder, is on this machine, also if it cannot be
// loaded.
bool LibraryIsThere(const char* library);

// "ucx: <what>: <UCX's text>" with the given code.
Status UcxError(const UcxApi& api, gwResult_t code, const std::string& what, ucs_status_t status);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_API_H_
