// For tests: recorders whose files lie in a folder of the test.
#ifndef GRADWIRE_RUNTIME_RECORDER_RECORDER_IN_FOLDER_H_
#define GRADWIRE_RUNTIME_RECORDER_RECORDER_IN_FOLDER_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "runtime/recorder/recorder.h"

namespace gradwire {

// That of the test that runs; there is nothing in it yet, nor does it exist.
inline std::string TestFolder() {
  const std::string dir = testing::TempDir() + "/recorder_" +
                          testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(dir);
  return dir;
}

inline std::unique_ptr<Recorder> OpenOrDie(const RecorderOptions& options) {
  auto recorder = Recorder::Open(options);
  EXPECT_TRUE(recorder.ok()) << recorder.status().ToString();
  return std::move(*recorder);
}

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_RECORDER_IN_FOLDER_H_
