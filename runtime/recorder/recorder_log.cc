#include "runtime/recorder/recorder_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/crc.h"

namespace gradwire {
namespace {

constexpr int64_t kMaxFileBytes =
    kRecorderHeaderBytes + kMaxRecorderEntries * static_cast<int64_t>(sizeof(RecorderEntry));

Status Corrupt(const char* field, uint64_t expected, uint64_t actual) {
  return Status(gwDataCorrupt, {.message = "this is no recorder file, or its header is damaged",
                                .field = field,
                                .expected = fmt::format("{} (expected)", expected),
                                .actual = fmt::format("{} (in the file)", actual)});
}

Status CheckHeader(const RecorderHeader& header) {
  const uint32_t crc = Crc32c(&header, offsetof(RecorderHeader, crc));
  if (header.magic != kRecorderMagic) return Corrupt("magic", kRecorderMagic, header.magic);
  if (header.version != kRecorderVersion) {
    return Corrupt("version", kRecorderVersion, header.version);
  }
  if (header.crc != crc) return Corrupt("checksum", crc, header.crc);
  if (header.header_bytes != kRecorderHeaderBytes) {
    return Corrupt("header bytes", kRecorderHeaderBytes, header.header_bytes);
  }
  if (header.entry_bytes != sizeof(RecorderEntry)) {
    return Corrupt("entry bytes", sizeof(RecorderEntry), header.entry_bytes);
  }
  const uint32_t capacity = header.capacity;
  if (capacity == 0 || (capacity & (capacity - 1)) != 0 || capacity > kMaxRecorderEntries) {
    return Corrupt("capacity", kRecorderEntries, capacity);
  }
  if (header.world_size > kMaxRecorderRanks) {
    return Corrupt("world size", kMaxRecorderRanks, static_cast<uint64_t>(header.world_size));
  }
  if (header.rank < 0 || header.rank >= header.world_size) {
    return Corrupt("rank", static_cast<uint64_t>(header.world_size),
                   static_cast<uint64_t>(header.rank));
  }
  return Status();
}

bool IsEntry(const RecorderEntry& entry, uint64_t slot, uint32_t capacity) {
  return entry.seq != 0 && (entry.seq - 1) % capacity == slot &&
         static_cast<int>(entry.kind) < kRecordKinds && entry.status >= 0 &&
         entry.status <= kMaxRecordedStatus &&
         entry.crc == Crc32c(&entry, offsetof(RecorderEntry, crc));
}

bool IsUnused(const std::byte* slot) {
  return std::all_of(slot, slot + sizeof(RecorderEntry),
                     [](std::byte b) { return b == std::byte{}; });
}

// Sorts, and drops what is older than one turn of the ring: left over where newer slots are
// damaged.
void Order(RecorderLog* log) {
  auto& entries = log->entries;
  std::sort(entries.begin(), entries.end(),
            [](const RecorderEntry& a, const RecorderEntry& b) { return a.seq < b.seq; });
  if (entries.empty()) return;
  const uint64_t last = entries.back().seq;
  const uint64_t capacity = log->header.capacity;
  const uint64_t oldest = last > capacity ? last - capacity + 1 : 1;
  std::erase_if(entries, [&](const RecorderEntry& e) { return e.seq < oldest; });
  log->overwritten = oldest - 1;
}

}  // namespace

StatusOr<RecorderLog> ParseRecorder(ConstBytes file) {
  if (file.size < static_cast<int64_t>(sizeof(RecorderHeader))) {
    return Corrupt("bytes", sizeof(RecorderHeader), static_cast<uint64_t>(file.size));
  }
  RecorderLog log;
  std::memcpy(&log.header, file.data, sizeof log.header);
  GW_RETURN_IF_ERROR(CheckHeader(log.header));
  const int64_t ring_bytes = std::max<int64_t>(0, file.size - kRecorderHeaderBytes);
  const int64_t slots = std::min<int64_t>(log.header.capacity,
                                          ring_bytes / static_cast<int64_t>(sizeof(RecorderEntry)));
  for (int64_t slot = 0; slot < slots; ++slot) {
    const std::byte* at = file.data + kRecorderHeaderBytes + slot * sizeof(RecorderEntry);
    RecorderEntry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (IsEntry(entry, static_cast<uint64_t>(slot), log.header.capacity)) {
      log.entries.push_back(entry);
    } else if (!IsUnused(at)) {
      ++log.damaged;
    }
  }
  Order(&log);
  return log;
}

StatusOr<RecorderLog> ReadRecorder(const std::string& path) {
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rbe"), close);
  if (file == nullptr) return ErrnoStatus("cannot open " + path, errno);
  std::vector<std::byte> bytes;
  constexpr size_t kPiece = 1 << 20;
  for (size_t got = kPiece; got == kPiece && bytes.size() < kMaxFileBytes;) {
    const size_t filled = bytes.size();
    bytes.resize(filled + kPiece);
    got = std::fread(bytes.data() + filled, 1, kPiece, file.get());
    bytes.resize(filled + got);
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus("cannot read " + path, errno);
  StatusOr<RecorderLog> log = ParseRecorder({bytes.data(), static_cast<int64_t>(bytes.size())});
  if (log.ok()) log->path = path;
  return log;
}

}  // namespace gradwire
