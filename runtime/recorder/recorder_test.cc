#include "runtime/recorder/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/unique_fd.h"
#include "runtime/recorder/recorder_in_folder.h"
#include "runtime/recorder/recorder_log.h"

namespace gradwire {
namespace {

RecorderLog ParseOrDie(const Recorder& recorder) {
  auto log = ParseRecorder(recorder.memory());
  EXPECT_TRUE(log.ok()) << log.status().ToString();
  return *log;
}

TEST(SaturatedCount, TellsOfMoreThanItHolds) {
  EXPECT_EQ(SaturatedCount(0), 0);
  EXPECT_EQ(SaturatedCount(65535), 65535);
  EXPECT_EQ(SaturatedCount(65536), 65535) << "and not none";
}

TEST(Recorder, FileTellsOfTheRankAndWhenItBegan) {
  const std::string dir = TestFolder();
  auto recorder = OpenOrDie({.dir = dir,
                             .job = 0x4d2,
                             .rank = 3,
                             .world_size = 5,
                             .epoch = 7,
                             .host = "node-a",
                             .start_wall_ns = 1'700'000'000'000'000'000,
                             .start_time_ns = 1000});
  EXPECT_EQ(recorder->path(), dir + "/gradwire-00000000000004d2-3.rec");
  EXPECT_EQ(recorder->recorded(), 1u);

  const auto log = ReadRecorder(recorder->path());
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  EXPECT_EQ(log->header.job, 0x4d2u);
  EXPECT_EQ(log->header.rank, 3);
  EXPECT_EQ(log->header.world_size, 5);
  EXPECT_EQ(log->header.epoch, 7u);
  EXPECT_EQ(log->header.pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(TextOf(log->header.host), "node-a");
  EXPECT_EQ(log->WallNs(2000), 1'700'000'000'000'001'000);
  ASSERT_EQ(log->entries.size(), 1u);
  EXPECT_EQ(log->entries[0].kind, RecordKind::kOpen);
  EXPECT_EQ(log->entries[0].dtype, 0xFF);
}

TEST(Recorder, FileHoldsAllOfAnEvent) {
  auto recorder = OpenOrDie({.dir = TestFolder()});
  recorder->Record({.kind = RecordKind::kSubmit,
                    .time_ns = 2000,
                    .turn = 9,
                    .op_seq = 12,
                    .slice = 2,
                    .step = 77,
                    .peer = 4,
                    .bytes = 4096,
                    .dtype = DType::kBfloat16,
                    .signature = 0xABCDEF,
                    .status = gwTimeout,
                    .value = -5,
                    .progress = {1, 2, 3, 4},
                    .text = "all-reduce",
                    .tensor = "w1"});
  EXPECT_EQ(recorder->recorded(), 2u);

  const auto log = ReadRecorder(recorder->path());
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  EXPECT_EQ(log->damaged, 0);
  EXPECT_EQ(log->overwritten, 0u);
  ASSERT_EQ(log->entries.size(), 2u);
  const RecorderEntry& e = log->entries[1];
  EXPECT_EQ(e.seq, 2u);
  EXPECT_EQ(e.time_ns, 2000);
  EXPECT_EQ(e.kind, RecordKind::kSubmit);
  EXPECT_EQ(e.turn, 9);
  EXPECT_EQ(e.op_seq, 12u);
  EXPECT_EQ(e.slice, 2u);
  EXPECT_EQ(e.step, 77u);
  EXPECT_EQ(e.peer, 4);
  EXPECT_EQ(e.bytes, 4096);
  EXPECT_EQ(e.dtype, static_cast<uint8_t>(DType::kBfloat16));
  EXPECT_EQ(e.signature, 0xABCDEFu);
  EXPECT_EQ(e.status, gwTimeout);
  EXPECT_EQ(e.value, -5);
  EXPECT_EQ(e.progress, (RecordProgress{1, 2, 3, 4}));
  EXPECT_EQ(TextOf(e.text), "all-reduce w1");
}

TEST(Recorder, KeepsTheLastEntries) {
  auto recorder = OpenOrDie({.capacity = 8});
  for (int i = 1; i <= 20; ++i) recorder->Record({.kind = RecordKind::kSliceDone, .time_ns = i});
  const RecorderLog log = ParseOrDie(*recorder);
  ASSERT_EQ(log.entries.size(), 8u);
  EXPECT_EQ(log.overwritten, 13u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(log.entries[i].seq, 14 + i);
    EXPECT_EQ(log.entries[i].time_ns, static_cast<int64_t>(13 + i));
  }
}

TEST(Recorder, DefaultRingHasItsSize) {
  auto recorder = OpenOrDie({});
  EXPECT_EQ(recorder->memory().size, 4096 + 4096 * 128);
  EXPECT_EQ(recorder->path(), "");
}

TEST(Recorder, LongTextsAreCut) {
  auto recorder = OpenOrDie({.capacity = 8});
  const std::string digits =
      "0123456789012345678901234567890123456789012345678901234567890123456789";
  recorder->Record({.text = digits});
  recorder->Record({.text = "all-reduce", .tensor = digits});
  recorder->Record({.text = digits.substr(0, 52)});
  recorder->Record({.text = digits.substr(0, 51), .tensor = "w"});
  recorder->Record({.text = digits.substr(0, 50), .tensor = "w"});
  recorder->Record({.tensor = "w"});
  const RecorderLog log = ParseOrDie(*recorder);
  ASSERT_EQ(log.entries.size(), 7u);
  EXPECT_EQ(TextOf(log.entries[1].text), digits.substr(0, 51) + "~");
  EXPECT_EQ(TextOf(log.entries[2].text), "all-reduce ~" + digits.substr(digits.size() - 40));
  EXPECT_EQ(TextOf(log.entries[3].text), digits.substr(0, 52));
  EXPECT_EQ(TextOf(log.entries[4].text), digits.substr(0, 51));
  EXPECT_EQ(TextOf(log.entries[5].text), digits.substr(0, 50) + " w");
  EXPECT_EQ(TextOf(log.entries[6].text), " w");
}

TEST(Recorder, LongHostNamesAreCut) {
  auto recorder = OpenOrDie({.host = std::string(300, 'h'), .capacity = 1});
  EXPECT_EQ(TextOf(ParseOrDie(*recorder).header.host),
            std::string(sizeof(RecorderHeader::host), 'h'));
}

TEST(Recorder, RefusesNonsense) {
  for (const int64_t capacity : {int64_t{0}, int64_t{-1}, int64_t{3}, kMaxRecorderEntries * 2}) {
    EXPECT_EQ(Recorder::Open({.capacity = capacity}).status().code(), gwInvalidArgument);
  }
  EXPECT_EQ(Recorder::Open({.rank = 2, .world_size = 2}).status().code(), gwInvalidArgument);
  EXPECT_EQ(Recorder::Open({.rank = -1}).status().code(), gwInvalidArgument);
}

TEST(Recorder, FolderThatCannotBeIsAnErrorWithAHint) {
  const auto recorder = Recorder::Open({.dir = "/proc/none/such", .rank = 1, .world_size = 2});
  ASSERT_FALSE(recorder.ok());
  EXPECT_EQ(recorder.status().code(), gwSystemError);
  EXPECT_NE(recorder.status().ToString().find("/proc/none/such"), std::string::npos);
  EXPECT_NE(recorder.status().ToString().find("GRADWIRE_RECORDER_DIR"), std::string::npos);
  EXPECT_EQ(recorder.status().detail().rank, 1);
}

TEST(Recorder, FileIsPrivateAndReplacesAnOlderOne) {
  const std::string dir = TestFolder();
  auto old = OpenOrDie({.dir = dir, .capacity = 8});
  auto young = OpenOrDie({.dir = dir, .capacity = 4});
  old->Record({.text = "still mapped"});  // a truncated file would end the process here
  EXPECT_EQ(ParseOrDie(*old).entries.size(), 2u);
  const auto log = ReadRecorder(young->path());
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->entries.size(), 1u);
  struct stat info;
  ASSERT_EQ(stat(young->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(Recorder, DoesNotFollowALink) {
  const std::string dir = TestFolder();
  std::filesystem::create_directory(dir);
  const std::string target = dir + "/precious";
  std::ofstream(target) << "keep";
  std::filesystem::create_symlink(target, dir + "/" + RecorderFileName(0, 0));
  auto recorder = OpenOrDie({.dir = dir});
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "keep");
  EXPECT_TRUE(ReadRecorder(recorder->path()).ok());
}

// ---- what the process leaves behind ----

// A child that records without end after it has told so through the pipe.
pid_t RecordForever(const RecorderOptions& options, int ready_fd) {
  const pid_t child = fork();
  if (child != 0) return child;
  auto recorder = Recorder::Open(options);
  if (!recorder.ok()) _exit(1);
  for (int i = 0;; ++i) {
    (*recorder)->Record({.kind = RecordKind::kSliceDone,
                         .time_ns = i,
                         .op_seq = static_cast<uint32_t>(i),
                         .signature = ~static_cast<uint64_t>(i),
                         .text = "all-reduce",
                         .tensor = "weight"});
    if (i == 100 && write(ready_fd, "x", 1) != 1) _exit(1);
  }
}

TEST(Recorder, SurvivesSigkillAtAnyMoment) {
  const std::string dir = TestFolder();
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    Pipe pipe;
    ASSERT_TRUE(pipe.Open().ok());
    const pid_t child =
        RecordForever({.dir = dir, .rank = round, .world_size = 30}, pipe.write_end.get());
    ASSERT_GT(child, 0);
    char byte;
    ASSERT_EQ(read(pipe.read_end.get(), &byte, 1), 1);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    const auto log = ReadRecorder(dir + "/" + RecorderFileName(0, round));
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    EXPECT_EQ(log->header.pid, static_cast<uint32_t>(child));
    EXPECT_LE(log->damaged, 1);  // the one being written
    ASSERT_GE(log->entries.size(), 100u);
    const RecorderEntry& last = log->entries.back();
    EXPECT_EQ(log->entries.size() + static_cast<size_t>(log->damaged),
              std::min<uint64_t>(last.seq + static_cast<uint64_t>(log->damaged), 4096));
    for (const RecorderEntry& e : log->entries) {
      if (e.kind == RecordKind::kOpen) continue;
      ASSERT_EQ(e.signature, ~uint64_t{e.op_seq});
      ASSERT_EQ(e.seq, uint64_t{e.op_seq} + 2);
    }
  }
}

// ---- reading damaged files ----

std::vector<std::byte> Copy(const Recorder& recorder) {
  const ConstBytes memory = recorder.memory();
  return {memory.data, memory.data + memory.size};
}

StatusOr<RecorderLog> Parse(const std::vector<std::byte>& bytes) {
  return ParseRecorder({bytes.data(), static_cast<int64_t>(bytes.size())});
}

class DamagedFile : public testing::Test {
 protected:
  DamagedFile() {
    auto recorder = OpenOrDie({.job = 9, .rank = 1, .world_size = 2, .capacity = 8});
    for (int i = 1; i < 11; ++i) recorder->Record({.time_ns = i, .text = "event"});
    file_ = Copy(*recorder);
  }
  std::byte* Slot(int64_t slot) { return file_.data() + kRecorderHeaderBytes + slot * 128; }

  std::vector<std::byte> file_;  // entries 4 .. 11; 9, 10, 11 in slots 0, 1, 2
};

TEST_F(DamagedFile, EveryFlippedBitOfAnEntryIsSeen) {
  for (int bit = 0; bit < 128 * 8; ++bit) {
    std::byte& byte = Slot(5)[bit / 8];
    byte ^= std::byte{1} << (bit % 8);
    const auto log = Parse(file_);
    byte ^= std::byte{1} << (bit % 8);
    ASSERT_TRUE(log.ok());
    ASSERT_EQ(log->damaged, 1) << bit;
    ASSERT_EQ(log->entries.size(), 7u);
  }
}

TEST_F(DamagedFile, EveryFlippedBitOfTheHeaderIsRefused) {
  for (size_t bit = 0; bit < sizeof(RecorderHeader) * 8; ++bit) {
    file_[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_EQ(Parse(file_).status().code(), gwDataCorrupt) << bit;
    file_[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(Parse(file_).ok());
}

TEST_F(DamagedFile, HalfWrittenEntryIsLeftOut) {
  std::memset(Slot(3), 0, 8);  // entry 4, about to be replaced by 12
  const auto log = Parse(file_);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->damaged, 1);
  ASSERT_EQ(log->entries.size(), 7u);
  EXPECT_EQ(log->entries.front().seq, 5u);
  EXPECT_EQ(log->entries.back().seq, 11u);
}

TEST_F(DamagedFile, EntryInAnotherSlotIsNone) {
  std::memcpy(Slot(4), Slot(5), 128);
  const auto log = Parse(file_);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->damaged, 1);
  EXPECT_EQ(log->entries.size(), 7u);
}

TEST_F(DamagedFile, CutFilesGiveWhatIsThere) {
  for (size_t size = 0; size <= file_.size(); size += 31) {
    const auto log = ParseRecorder({file_.data(), static_cast<int64_t>(size)});
    if (size < sizeof(RecorderHeader)) {
      EXPECT_EQ(log.status().code(), gwDataCorrupt);
      continue;
    }
    ASSERT_TRUE(log.ok()) << size;
    const size_t ring = size < 4096 ? 0 : size - 4096;
    EXPECT_EQ(log->entries.size(), ring / 128);
  }
}

TEST_F(DamagedFile, UnknownKindOrStatusIsDamage) {
  RecorderEntry entry;
  std::memcpy(&entry, Slot(6), sizeof entry);
  entry.kind = static_cast<RecordKind>(kRecordKinds);
  entry.crc = Crc32c(&entry, 124);
  std::memcpy(Slot(6), &entry, sizeof entry);
  std::memcpy(&entry, Slot(7), sizeof entry);
  entry.status = -1;
  entry.crc = Crc32c(&entry, 124);
  std::memcpy(Slot(7), &entry, sizeof entry);
  const auto log = Parse(file_);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->damaged, 2);
  EXPECT_EQ(log->entries.size(), 6u);
}

TEST_F(DamagedFile, FileThatIsNotThere) {
  EXPECT_EQ(ReadRecorder(testing::TempDir() + "/none.rec").status().code(), gwSystemError);
  EXPECT_EQ(ReadRecorder(testing::TempDir()).status().code(), gwSystemError);  // a folder
}

}  // namespace
}  // namespace gradwire
