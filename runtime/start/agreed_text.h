// What all ranks of a communicator must have set alike: as rank 0 sends it, and read again.
#ifndef GRADWIRE_RUNTIME_START_AGREED_TEXT_H_
#define GRADWIRE_RUNTIME_START_AGREED_TEXT_H_

#include <cstdint>
#include <string_view>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/communicator/communicator.h"
#include "runtime/engine/operation.h"

namespace gradwire {

OpText AgreedText(const Settings& settings);

// A field that another process wrote. gwMismatch, which names it: it is missing, or no number from
// `least` to `most`.
StatusOr<uint64_t> NumberIn(const OpText& text, std::string_view field, uint64_t least,
                            uint64_t most);

// Of AgreedText, with what rank 0 has added: "one_host" and "end". gwMismatch: a number is missing
// or out of its setting's range, or an algorithm is not known here.
StatusOr<AgreedSettings> ParseAgreed(const OpText& text);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_AGREED_TEXT_H_
