// Recorder entries in words, for reports.
#ifndef GRADWIRE_RUNTIME_RECORDER_ENTRY_TEXT_H_
#define GRADWIRE_RUNTIME_RECORDER_ENTRY_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/recorder/format.h"

namespace gradwire {

// The entry's text, fit for a terminal: control characters become '?'.
std::string EntryText(const RecorderEntry& entry);

// Operations submitted, of a kind whose `value` tells them; they count on past 2^31.
uint32_t OperationCount(const RecorderEntry& entry);
// `value` as it is meant: such a count, or a number that may be negative.
int64_t ValueOf(const RecorderEntry& entry);

// "slice 3 of operation #12 (all-reduce w1) done"; one line.
std::string DescribeEntry(const RecorderEntry& entry);

// "operation #12 (all-reduce w1)"; `text` may be empty.
std::string OperationText(uint32_t op_seq, std::string_view text);

// "2026-02-28 12:34:56.789" in UTC.
std::string UtcText(int64_t wall_ns);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_ENTRY_TEXT_H_
