// Index lists from any bytes: [how, universe (4 bytes), count (2 bytes), list]. With how & 1 the
// list is cut or filled up to the right size first, so that what lies behind that check is reached.
// What is accepted ascends, lies in the universe and is written as the same bytes again; buffers
// are of exactly their size.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "compress/kernels/index_list/index_list.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

constexpr size_t kHeadBytes = 7;

// `count` indices, `stride` apart.
Input MakeSeed(uint32_t universe, uint16_t count, uint32_t stride) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < count; ++i) indices.push_back(i * stride);
  Input input(kHeadBytes + static_cast<size_t>(IndexListBytes(universe, count)));
  input[0] = 1;
  std::memcpy(&input[1], &universe, sizeof(universe));
  std::memcpy(&input[5], &count, sizeof(count));
  EncodeIndexList(indices, universe, reinterpret_cast<std::byte*>(input.data()) + kHeadBytes);
  return input;
}

void CheckList(const std::vector<uint32_t>& indices, int64_t universe, ConstBytes list) {
  for (size_t i = 1; i < indices.size(); ++i) FUZZ_CHECK(indices[i - 1] < indices[i]);
  FUZZ_CHECK(indices.empty() || indices.back() < universe);
  std::vector<std::byte> again(static_cast<size_t>(list.size));
  EncodeIndexList(indices, universe, again.data());
  FUZZ_CHECK(std::equal(again.begin(), again.end(), list.data));
}

}  // namespace

std::vector<Input> Seeds() {
  return {MakeSeed(0, 0, 1),     MakeSeed(1, 1, 1),         MakeSeed(64, 64, 1),
          MakeSeed(48, 6, 8),    MakeSeed(1000, 10, 100),   MakeSeed(100, 33, 3),
          MakeSeed(4097, 65, 7), MakeSeed(~0u, 3, 1u << 30)};
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  uint32_t universe;
  uint16_t wanted_count;
  std::memcpy(&universe, data + 1, sizeof(universe));
  std::memcpy(&wanted_count, data + 5, sizeof(wanted_count));
  const int64_t count = std::min(int64_t{wanted_count}, int64_t{universe});
  const size_t given = size - kHeadBytes;
  const bool resize = (data[0] & 1) != 0;
  const size_t bytes = resize ? static_cast<size_t>(IndexListBytes(universe, count)) : given;
  const std::unique_ptr<std::byte[]> list(new std::byte[bytes]());
  std::copy_n(reinterpret_cast<const std::byte*>(data) + kHeadBytes, std::min(bytes, given),
              list.get());
  const ConstBytes view(list.get(), static_cast<int64_t>(bytes));
  std::vector<uint32_t> indices(static_cast<size_t>(count));
  const Status status = DecodeIndexList(view, universe, indices);
  FUZZ_CHECK(status.ok() || status.code() == gwDataCorrupt);
  FUZZ_CHECK(!status.ok() || view.size == IndexListBytes(universe, count));
  if (status.ok()) CheckList(indices, universe, view);
  return 0;
}
