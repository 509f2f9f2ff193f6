#include "runtime/capi/entry.h"

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "runtime/capi/handles.h"

namespace gradwire {
namespace {

// Of the exception that is being handled.
Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(gwSystemError, "out of memory",
                  "Destroy the communicator, and leave the process more memory");
  } catch (const std::system_error& error) {
    return Status(gwSystemError, error.what());
  } catch (const std::exception& error) {
    return Status(gwInternalError, error.what());
  } catch (...) {
    return Status(gwInternalError, "an unknown exception");
  }
}

// So short that it needs no memory.
std::string ShortText() { return "out of memory"; }

}  // namespace

void BeginCall() { BusyComm() = nullptr; }

Thrown ReportException(const char* caller) noexcept {
  gwComm_t const comm = BusyComm();
  try {
    return Thrown(Report(comm, StatusOfException(), caller));
  } catch (...) {
    if (comm != nullptr) {
      comm->comm->SetLastError(ShortText());
    } else {
      ThreadError() = ShortText();
    }
    return Thrown(gwSystemError);
  }
}

}  // namespace gradwire
