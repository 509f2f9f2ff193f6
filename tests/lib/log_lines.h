// For tests: the lines of this process's log.
#ifndef GRADWIRE_TESTS_LIB_LOG_LINES_H_
#define GRADWIRE_TESTS_LIB_LOG_LINES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/log.h"

namespace gradwire {

// Those that are written while it lives, by one thread at a time. The last line must have been
// written when it goes.
class LogLines {
 public:
  explicit LogLines(LogLevel level = LogLevel::kWarn) {
    const auto keep = [](void* user, gwLogLevel_t, const char* line) {
      static_cast<std::vector<std::string>*>(user)->emplace_back(line);
    };
    EXPECT_TRUE(ConfigureLog({.level = level}).ok());
    SetLogCallback(keep, &lines_);
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() {
    SetLogCallback(nullptr, nullptr);
    EXPECT_TRUE(ConfigureLog({}).ok());
  }

  const std::vector<std::string>& all() const { return lines_; }
  // Those with `text`.
  std::vector<std::string> With(const std::string& text) const {
    std::vector<std::string> with;
    for (const std::string& line : lines_) {
      if (line.find(text) != std::string::npos) with.push_back(line);
    }
    return with;
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_LOG_LINES_H_
