// What an entry of the flight recorder keeps of an error.
#ifndef GRADWIRE_RUNTIME_RECORDER_RECORDED_TEXT_H_
#define GRADWIRE_RUNTIME_RECORDER_RECORDED_TEXT_H_

#include <string>

#include "base/status.h"

namespace gradwire {

// The message; of a mismatch "op: sum (rank 0), max (rank 1)", within kRecorderTextBytes: field and
// values are cut in the middle.
std::string RecordedText(const ErrorDetail& detail);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_RECORDED_TEXT_H_
