// What other ranks send beside frames and control messages, on any bytes: [what, how, bytes]. Of a
// message of UCX's `how` tells how it comes: its lowest bit whether the payload lies apart, the
// others how long the message proper is then.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "base/view.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/tensor_list.h"
#include "runtime/start/agreed_text.h"
#include "tests/fuzz/fuzz_target.h"
#include "transports/shm/shm_memory.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_wire.h"

namespace gradwire::fuzz {
namespace {

enum What : uint8_t { kUcxFrame, kUcxAddress, kShmAddress, kOpText, kTensorLists, kWhats };

constexpr int kWorldSize = 5;

// In a block of exactly its size, so that a sanitizer sees a read one byte too far.
struct Block {
  explicit Block(std::string_view text) : bytes(new std::byte[text.size()]), size(text.size()) {
    if (size > 0) std::memcpy(bytes.get(), text.data(), size);
  }
  ConstBytes view() const { return {bytes.get(), static_cast<int64_t>(size)}; }

  const std::unique_ptr<std::byte[]> bytes;
  const size_t size;
};

bool Holds(ConstBytes whole, ConstBytes part) {
  return part.data >= whole.data && part.data + part.size <= whole.data + whole.size;
}

void ReadUcxFrame(std::string_view text, uint8_t how) {
  const size_t apart_at = (how & 1) != 0 ? std::min<size_t>(how >> 1, text.size()) : text.size();
  const Block message(text.substr(0, apart_at)), tail(text.substr(apart_at));
  UcxFrame frame;
  const UcxFrameVerdict verdict = ParseUcxFrame(message.view(), tail.view(), kWorldSize, &frame);
  FUZZ_CHECK((verdict == UcxFrameVerdict::kFrame) == (frame.src >= 0));
  if (verdict != UcxFrameVerdict::kFrame) return;
  FUZZ_CHECK(frame.src < kWorldSize);
  FUZZ_CHECK(Holds(tail.size > 0 ? tail.view() : message.view(), frame.payload));
}

void ReadUcxAddress(std::string_view text) {
  const StatusOr<UcxAddress> address = DecodeUcxAddress(text);
  if (!address.ok()) return;
  const StatusOr<UcxAddress> again = DecodeUcxAddress(EncodeUcxAddress(*address));
  FUZZ_CHECK(again.ok() && again->worker == address->worker);
  FUZZ_CHECK(CheckUcxPeer(*address, *again, address->rank).ok());
}

void ReadShmAddress(std::string_view text) {
  const StatusOr<ShmAddress> address = DecodeShmAddress(text);
  FUZZ_CHECK(!address.ok() || EncodeShmAddress(*address) == text);
}

void ReadOpText(std::string_view text) {
  const OpText read = DecodeOpText(text);
  FUZZ_CHECK(DecodeOpText(EncodeOpText(read)) == read);
  const StatusOr<AgreedSettings> agreed = ParseAgreed(read);
  FUZZ_CHECK(agreed.ok() || agreed.status().code() == gwMismatch);
}

// Of two ranks: the same list, and what the text says.
void ReadTensorLists(std::string_view text) {
  const std::string own = EncodeTensorList({{"a", "[1] float"}, {"b", "[2,3] half"}}, 1 << 10);
  const TensorListDifference difference = CompareTensorLists({own, std::string(text)});
  FUZZ_CHECK(difference.names.empty() == difference.first.empty());
  for (const auto& [rank, what] : difference.first) FUZZ_CHECK(rank == 0 || rank == 1);
}

Input Seed(What what, uint8_t how, std::string_view text) {
  Input input(2 + text.size());
  input[0] = what;
  input[1] = how;
  std::memcpy(input.data() + 2, text.data(), text.size());
  return input;
}

std::string UcxMessage(const UcxLayout& layout, int64_t payload_bytes) {
  UcxHead head;
  FillHead(layout, 3, {.src = 3}, payload_bytes, &head);
  return std::string(reinterpret_cast<const char*>(head.bytes), head.size) +
         std::string(static_cast<size_t>(payload_bytes), 'p');
}

}  // namespace

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const UcxLayout& layout : {kUcxQueueLayout, kUcxStreamLayout, kUcxSegmentLayout}) {
    for (const int64_t bytes : {0, 1, 64}) {
      const std::string message = UcxMessage(layout, bytes);
      seeds.push_back(Seed(kUcxFrame, 0, message));
      const size_t head = message.size() - static_cast<size_t>(bytes);
      seeds.push_back(Seed(kUcxFrame, static_cast<uint8_t>(head << 1 | 1), message));
    }
  }
  seeds.push_back(Seed(kUcxAddress, 0, EncodeUcxAddress({.rank = 2, .worker = "worker"})));
  seeds.push_back(Seed(kShmAddress, 0, EncodeShmAddress({.pid = 7, .fd = 3})));
  OpText agreed = AgreedText(Settings());
  agreed.emplace_back("one_host", "1");
  agreed.emplace_back("end", "");
  seeds.push_back(Seed(kOpText, 0, EncodeOpText(agreed)));
  seeds.push_back(
      Seed(kTensorLists, 0, EncodeTensorList({{"a", "[1] float"}, {"c", "[2] float"}}, 1 << 10)));
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire::fuzz;
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  switch (static_cast<What>(data[0] % kWhats)) {
    case kUcxFrame: ReadUcxFrame(text, data[1]); break;
    case kUcxAddress: ReadUcxAddress(text); break;
    case kShmAddress: ReadShmAddress(text); break;
    case kOpText: ReadOpText(text); break;
    case kTensorLists: ReadTensorLists(text); break;
    case kWhats: break;
  }
  return 0;
}
