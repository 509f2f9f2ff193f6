// State and little memory: one that there is no memory for changes nothing, and saving takes none.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

constexpr int kTensors = 4;
constexpr int64_t kElems = int64_t{1} << 22;  // 16 MiB of residual, 32 with both slots

void AddTensors(TensorTable* table) {
  for (int i = 0; i < kTensors; ++i) {
    auto tensor = std::make_unique<TensorState>();
    tensor->name = std::to_string(i);
    tensor->shape = {kElems};
    tensor->elems = kElems;
    ASSERT_TRUE(table->Add(std::move(tensor)).ok());
  }
}

int64_t AddressSpaceBytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// As long as it lives the process gets `more` bytes of address space, and none beyond.
class Limit {
 public:
  explicit Limit(int64_t more) {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(AddressSpaceBytes() + more);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(SavedState, ForWhichThereIsNoMemoryChangesNothing) {
  TensorTable full, table;
  AddTensors(&full);
  AddTensors(&table);
  for (TensorState* tensor : full.All()) {
    ASSERT_TRUE(tensor->residual.Allocate(kElems, true).ok());
    tensor->committed_step = 7;
  }
  const std::string saved = full.Save(0, 2), before = table.Save(0, 2);
  {
    const Limit limit(2 * 2 * kElems * static_cast<int64_t>(sizeof(float)) + (1 << 20));
    EXPECT_EQ(table.Load(TextBytes(saved), 0, 2, true).code(), gwSystemError) << "room for two";
  }
  EXPECT_EQ(table.Save(0, 2), before);
  EXPECT_TRUE(table.Load(TextBytes(saved), 0, 2, true).ok());
  EXPECT_EQ(table.Save(0, 2), saved);
}

TEST(SavedState, IsWrittenToItsPlaceWithoutACopy) {
  TensorTable table;
  AddTensors(&table);
  for (TensorState* tensor : table.All()) ASSERT_TRUE(tensor->residual.Allocate(kElems, true).ok());
  std::string place(table.SaveTo({}, 0, 2), '\0');
  ASSERT_GT(place.size(), kElems * sizeof(float));
  {
    const Limit limit(1 << 20);
    EXPECT_EQ(table.SaveTo({.data = reinterpret_cast<std::byte*>(place.data()),
                            .size = static_cast<int64_t>(place.size())},
                           0, 2),
              static_cast<int64_t>(place.size()));
  }
  EXPECT_EQ(place, table.Save(0, 2));
}

}  // namespace
}  // namespace gradwire
