// Starts the library's own threads.
#ifndef GRADWIRE_BASE_SERVICE_THREAD_H_
#define GRADWIRE_BASE_SERVICE_THREAD_H_

#include <functional>
#include <thread>

#include "base/status.h"

namespace gradwire {

// A thread that runs `body` with all signals blocked but those of a fault, so that the
// application's handlers run on the application's threads, and its crash handler wherever it
// crashes. `name`: at most 15 characters, for debuggers. gwSystemError: the system has no thread
// left.
StatusOr<std::thread> StartServiceThread(const char* name, std::function<void()> body);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_SERVICE_THREAD_H_
