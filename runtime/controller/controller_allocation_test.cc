#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/controller/controller.h"
#include "runtime/spec/auto_spec.h"
#include "tests/lib/allocation_count.h"

namespace gradwire {
namespace {

// As the caller and the engine do while a step is under way. What a step takes beyond that is at
// its end: the text of the vote, and at rank 0 what it decides from.
void RunStep(Controller* controller, uint16_t turn, std::span<TensorState* const> tensors,
             const std::byte* gradient) {
  controller->BeginStep(turn, turn);
  for (TensorState* tensor : tensors) {
    controller->RungFor(*tensor, turn, true);
    controller->NoteSubmit(tensor, gradient);
    controller->NoteOperation(turn, 1, 2);
  }
  controller->NoteBlocked(1);
}

// But for the steps in which rank 0 probes a codec: of 20 behind the warm-up at most one.
TEST(Controller, AllocatesNothingWhileAStepIsUnderWay) {
  const auto spec = std::make_shared<const AutoSpec>(
      *MakeAutoSpec("auto(allow=\"topk,powersgd\",exclude=\"*.a_long_name_of_a_layer.bias\")"));
  TensorState small, excluded, row;
  small.shape = {10}, small.elems = 10;
  excluded.name = "network.a_long_name_of_a_layer.bias";
  excluded.shape = {1, 1 << 20}, excluded.elems = 1 << 20;
  row.shape = {1, 1 << 20}, row.elems = 1 << 20;
  std::vector<TensorState*> tensors = {&small, &excluded, &row};
  for (TensorState* tensor : tensors) tensor->TakeLadder(spec, 2);
  const std::vector<float> gradient(static_cast<size_t>(row.elems), 1.0f);
  const auto* data = reinterpret_cast<const std::byte*>(gradient.data());
  constexpr uint16_t kWarmUp = 80, kCounted = 20;
  for (const int rank : {0, 1}) {
    ManualClock clock;
    Controller controller(
        {.rank = rank, .slice_elems = 1024, .algorithms = {.world_size = 2}, .clock = &clock});
    controller.Enable();
    int allocating = 0;
    for (uint16_t turn = 0; turn < kWarmUp + kCounted; ++turn) {
      const int64_t before = AllocationCount();
      RunStep(&controller, turn, tensors, data);
      if (turn >= kWarmUp && AllocationCount() > before) ++allocating;
      const std::string observation = controller.TakeObservation();
      const std::vector<std::string> ranks(2, observation);
      controller.EndTurn(turn, true, rank == 0 ? controller.Advise(turn, ranks, tensors) : "",
                         tensors);
    }
    EXPECT_LE(allocating, rank == 0 ? 1 : 0) << "rank " << rank;
  }
}

}  // namespace
}  // namespace gradwire
