// TensorTable::Load on any bytes: [how, state]. With how & 1 the checksums are made right first.
// What is refused changes nothing; what is accepted is kept to the last bit.

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/byte_stream.h"
#include "compress/registry.h"
#include "runtime/state/tensor_state.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/lib/saved_state.h"

namespace gradwire::fuzz {
namespace {

constexpr int kRank = 1, kWorldSize = 3;

void Add(TensorTable* table, const char* name, int64_t elems, const char* spec) {
  auto tensor = std::make_unique<TensorState>();
  tensor->name = name;
  tensor->shape = {elems};
  tensor->elems = elems;
  const StatusOr<Codec> codec = MakeCodec(spec);
  FUZZ_CHECK(codec.ok());
  tensor->SetCodec(*codec);
  FUZZ_CHECK(table->Add(std::move(tensor)).ok());
}

// Two tensors alike, one of these with a residual, and one with what its method keeps.
void Fill(TensorTable* table) {
  Add(table, "bias", 0, "none");
  Add(table, "keep", 5, "qsgd(bits=4,feedback=on)");
  Add(table, "kept", 5, "qsgd(bits=4,feedback=on)");
  Add(table, "turns", 5, "topk(0.5,min_numel=0)");
  for (TensorState* tensor : table->All()) {
    if (tensor->name == "kept") {
      FUZZ_CHECK(tensor->residual.Allocate(tensor->elems, true).ok());
      tensor->committed_step = 7;
    }
    if (const int64_t bytes = ReplicatedBytes(*tensor, kWorldSize); bytes > 0) {
      FUZZ_CHECK(tensor->replicated.Allocate(bytes, kReplicatedSlots).ok());
    }
  }
}

Input SeedOf(uint8_t how, const std::string& state) {
  Input input(1 + state.size());
  input[0] = how;
  std::memcpy(input.data() + 1, state.data(), state.size());
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  TensorTable empty, full;
  Fill(&full);
  std::string twice = full.Save(kRank, kWorldSize);
  twice.replace(twice.find("keep"), 4, "kept");
  const std::string older("GWS1\5\0\0\0", 8);  // of format 5
  std::vector<Input> seeds = {SeedOf(1, twice), SeedOf(0, older)};
  for (const uint8_t how : {0, 1}) {
    seeds.push_back(SeedOf(how, empty.Save(kRank, kWorldSize)));
    seeds.push_back(SeedOf(how, full.Save(kRank, kWorldSize)));
    seeds.push_back(SeedOf(how, empty.Save(kRank, kWorldSize, "controller")));
    seeds.push_back(SeedOf(how, full.Save(kRank + 1, kWorldSize)));
    seeds.push_back(SeedOf(how, WithoutOwnParts(full.Save(kRank + 1, kWorldSize + 1))));
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  if (size == 0) return 0;
  std::string state(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0) SealState(&state);
  TensorTable table;
  fuzz::Fill(&table);
  const std::string before = table.Save(fuzz::kRank, fuzz::kWorldSize);
  std::string controller;
  const Status loaded =
      table.Load(TextBytes(state), fuzz::kRank, fuzz::kWorldSize, true, &controller);
  const std::string after = table.Save(fuzz::kRank, fuzz::kWorldSize, controller);
  if (loaded.ok()) {
    FUZZ_CHECK(after == AsSavedBy(fuzz::kRank, fuzz::kWorldSize, state));
  } else {
    FUZZ_CHECK(loaded.code() == gwDataCorrupt || loaded.code() == gwMismatch);
    FUZZ_CHECK(after == before);
  }
  return 0;
}
