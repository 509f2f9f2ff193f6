// HungryOperation: for which there is no memory once it has begun. For tests.
#ifndef GRADWIRE_RUNTIME_ENGINE_HUNGRY_OPERATION_H_
#define GRADWIRE_RUNTIME_ENGINE_HUNGRY_OPERATION_H_

#include <cstdint>
#include <memory>
#include <new>

#include "base/status.h"
#include "runtime/engine/operation.h"

namespace gradwire {

class HungryOperation final : public Operation {
 public:
  OpText Text() const override { return {{"operation", "hungry"}}; }
  int64_t slices() const override { return 1; }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t /*index*/) override {
    throw std::bad_alloc();
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_HUNGRY_OPERATION_H_
