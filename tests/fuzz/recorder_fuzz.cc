// ParseRecorder on any bytes: [how, file]. With how & 1 the checksum of the header, with how & 2
// those of all entries are made right first, so that what lies behind them is reached. What can be
// read is diagnosed, too.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/crc.h"
#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/entry_text.h"
#include "runtime/recorder/recorder.h"
#include "runtime/recorder/recorder_log.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

// In place: `T` at `at` gets the checksum of its bytes.
template <typename T>
void Seal(std::byte* at) {
  const uint32_t crc = Crc32c(at, offsetof(T, crc));
  std::memcpy(at + offsetof(T, crc), &crc, sizeof crc);
}

void SealFile(std::vector<std::byte>* file, uint8_t how) {
  if ((how & 1) != 0 && file->size() >= sizeof(RecorderHeader)) Seal<RecorderHeader>(file->data());
  for (size_t at = kRecorderHeaderBytes;
       (how & 2) != 0 && at + sizeof(RecorderEntry) <= file->size(); at += sizeof(RecorderEntry)) {
    Seal<RecorderEntry>(file->data() + at);
  }
}

void CheckLog(const RecorderLog& log, int64_t file_bytes) {
  const uint64_t capacity = log.header.capacity;
  const auto entries = static_cast<int64_t>(log.entries.size());
  FUZZ_CHECK(log.header.rank >= 0 && log.header.rank < log.header.world_size);
  FUZZ_CHECK(log.damaged >= 0 && entries + log.damaged <= static_cast<int64_t>(capacity));
  FUZZ_CHECK(kRecorderHeaderBytes + entries * 128 <= std::max(file_bytes, kRecorderHeaderBytes));
  uint64_t previous = log.overwritten;
  for (const RecorderEntry& e : log.entries) {
    FUZZ_CHECK(e.seq > previous);
    FUZZ_CHECK(!Name(e.kind).empty() && TextOf(e.text).size() <= kRecorderTextBytes);
    FUZZ_CHECK(!DescribeEntry(e).empty());
    FUZZ_CHECK(log.WallNs(e.time_ns) - log.WallNs(e.time_ns) == 0);
    previous = e.seq;
  }
  FUZZ_CHECK(entries == 0 || previous - log.overwritten <= capacity);
}

Input MakeSeed(uint8_t how, int64_t capacity, int events) {
  auto recorder = Recorder::Open({.job = 7, .rank = 1, .world_size = 3, .capacity = capacity});
  FUZZ_CHECK(recorder.ok());
  for (int i = 0; i < events; ++i) {
    (*recorder)->Record({.kind = static_cast<RecordKind>(i % kRecordKinds),
                         .time_ns = i,
                         .op_seq = static_cast<uint32_t>(i),
                         .text = "all-reduce",
                         .tensor = "w"});
  }
  const ConstBytes memory = (*recorder)->memory();
  Input input(1 + static_cast<size_t>(memory.size));
  input[0] = how;
  std::memcpy(input.data() + 1, memory.data, static_cast<size_t>(memory.size));
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const uint8_t how : {0, 1, 2, 3}) {
    seeds.push_back(MakeSeed(how, 1, 0));
    seeds.push_back(MakeSeed(how, 4, 1));
    seeds.push_back(MakeSeed(how, 8, 30));
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes + 1, bytes + size);
  fuzz::SealFile(&file, data[0]);
  const auto file_bytes = static_cast<int64_t>(file.size());
  const StatusOr<RecorderLog> log = ParseRecorder({file.data(), file_bytes});
  if (log.ok()) {
    fuzz::CheckLog(*log, file_bytes);
    FUZZ_CHECK(!Diagnose(MergeLogs({*log, *log})).verdict.empty());
  } else {
    FUZZ_CHECK(log.status().code() == gwDataCorrupt && !log.status().detail().field.empty());
  }
  return 0;
}
