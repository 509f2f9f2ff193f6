// Status: the one error type. Its codes are the public gwResult_t; nothing is translated at the C
// API.
#ifndef GRADWIRE_BASE_STATUS_H_
#define GRADWIRE_BASE_STATUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gradwire/gradwire.h"

namespace gradwire {

// Where an error happened and what to do about it. Empty strings and -1 mean "does not apply".
struct ErrorDetail {
  std::string message;  // what is wrong, one sentence without a full stop
  std::string op;       // "all-reduce", "send", "gwStepEnd", ...
  std::string tensor;   // registered name
  std::string hint;     // what to change or to run next
  std::string setting;  // whose value is refused; Settings::Explain says where that came from
  int rank = -1;        // whose error this is
  int peer = -1;        // the other rank, the culprit if there is one
  std::optional<uint64_t> op_seq;
  // For mismatches: two values, each with who or what holds it, "5 (rank 1)".
  std::string field, expected, actual;
};

// Success or an error. Success never allocates; an error owns its detail. Movable and copyable.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(gwResult_t code, ErrorDetail detail);
  Status(gwResult_t code, std::string message, std::string hint = {});

  static Status Ok() { return Status(); }

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return code_ == gwSuccess; }
  gwResult_t code() const { return code_; }
  const ErrorDetail& detail() const;

  // Fills in what the detail does not say yet; what is already there stays. No effect on success.
  Status&& WithOp(std::string op, std::optional<uint64_t> op_seq = std::nullopt) &&;
  Status&& WithTensor(std::string name) &&;
  Status&& WithRank(int rank) &&;
  Status&& WithPeer(int peer) &&;
  Status&& WithHint(std::string hint) &&;
  Status&& WithSetting(std::string name) &&;

  // One line: message, then every known part of the detail, then the hint.
  std::string ToString() const;

 private:
  gwResult_t code_ = gwSuccess;
  std::unique_ptr<ErrorDetail> detail_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// gwSystemError: what was tried, then the text of `error`, an errno.
Status ErrnoStatus(const std::string& what, int error);

// Text of a code ("invalid argument", ...); never null, also for unknown numbers.
const char* ResultText(gwResult_t code);

#define GW_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                               \
    if (::gradwire::Status gw_status_ = (expr); !gw_status_.ok()) return gw_status_; \
  } while (false)

}  // namespace gradwire

#endif  // GRADWIRE_BASE_STATUS_H_
