// Memory that is never handed back.
#ifndef GRADWIRE_BASE_KEEP_FOREVER_H_
#define GRADWIRE_BASE_KEEP_FOREVER_H_

#include <memory>

namespace gradwire {

// For what somebody may still read who will not say when that ends. It stays reachable, so leak
// checkers do not report it. Any thread.
void KeepForever(std::shared_ptr<const void> memory);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_KEEP_FOREVER_H_
