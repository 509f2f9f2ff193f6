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

int64_t ProbesOf(const Controller& controller) {
  const std::string json = controller.Json(), name = "\"probes\": ";
  return std::stoll(json.substr(json.find(name) + name.size()));
}

// But for the steps in which rank 0 probes a codec.
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
  constexpr uint16_t kSteps = 100;
  for (const int rank : {0, 1}) {
    ManualClock clock;
    Controller controller(
        {.rank = rank, .slice_elems = 1024, .algorithms = {.world_size = 2}, .clock = &clock});
    controller.Enable();
    int quiet = 0;
    for (uint16_t turn = 0; turn < kSteps; ++turn) {
      const int64_t probes = ProbesOf(controller), before = AllocationCount();
      RunStep(&controller, turn, tensors, data);
      const int64_t allocations = AllocationCount() - before;
      if (ProbesOf(controller) == probes) {
        ++quiet;
        EXPECT_EQ(allocations, 0) << "rank " << rank << ", turn " << turn;
      }
      const std::string observation = controller.TakeObservation();
      const std::vector<std::string> ranks(2, observation);
      controller.EndTurn(turn, true, rank == 0 ? controller.Advise(turn, ranks, tensors) : "",
                         tensors);
    }
    EXPECT_GE(quiet, rank == 0 ? kSteps / 4 : kSteps) << "rank " << rank;
  }
}

}  // namespace
}  // namespace gradwire
