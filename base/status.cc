#include "base/status.h"

#include <fmt/format.h>

#include <cstring>

namespace gradwire {

Status::Status(gwResult_t code, ErrorDetail detail)
    : code_(code), detail_(std::make_unique<ErrorDetail>(std::move(detail))) {}

Status::Status(gwResult_t code, std::string message, std::string hint)
    : Status(code, ErrorDetail{.message = std::move(message), .hint = std::move(hint)}) {}

Status::Status(const Status& other) : code_(other.code_) {
  if (other.detail_) detail_ = std::make_unique<ErrorDetail>(*other.detail_);
}

Status& Status::operator=(const Status& other) {
  if (this != &other) *this = Status(other);
  return *this;
}

const ErrorDetail& Status::detail() const {
  static const ErrorDetail kNone;
  return detail_ ? *detail_ : kNone;
}

Status&& Status::WithOp(std::string op, std::optional<uint64_t> op_seq) && {
  if (detail_ && detail_->op.empty()) detail_->op = std::move(op);
  if (detail_ && !detail_->op_seq) detail_->op_seq = op_seq;
  return std::move(*this);
}

Status&& Status::WithTensor(std::string name) && {
  if (detail_ && detail_->tensor.empty()) detail_->tensor = std::move(name);
  return std::move(*this);
}

Status&& Status::WithRank(int rank) && {
  if (detail_ && detail_->rank < 0) detail_->rank = rank;
  return std::move(*this);
}

Status&& Status::WithPeer(int peer) && {
  if (detail_ && detail_->peer < 0) detail_->peer = peer;
  return std::move(*this);
}

Status&& Status::WithHint(std::string hint) && {
  if (detail_ && detail_->hint.empty()) detail_->hint = std::move(hint);
  return std::move(*this);
}

Status&& Status::WithSetting(std::string name) && {
  if (detail_ && detail_->setting.empty()) detail_->setting = std::move(name);
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return ResultText(code_);
  const ErrorDetail& d = detail();
  std::string text = fmt::format("{}: {}", ResultText(code_), d.message);
  if (d.rank >= 0) text += fmt::format("; rank {}", d.rank);
  if (d.peer >= 0 && d.peer != d.rank) text += fmt::format("; peer {}", d.peer);
  if (!d.op.empty()) text += fmt::format("; operation {}", d.op);
  if (d.op_seq) text += fmt::format(" #{}", *d.op_seq);
  if (!d.tensor.empty()) text += fmt::format("; tensor '{}'", d.tensor);
  if (!d.field.empty()) text += fmt::format("; {}: {}, {}", d.field, d.expected, d.actual);
  if (!d.hint.empty()) text += fmt::format(". {}", d.hint);
  return text;
}

Status ErrnoStatus(const std::string& what, int error) {
  return Status(gwSystemError, fmt::format("{}: {}", what, std::strerror(error)));
}

const char* ResultText(gwResult_t code) {
  switch (code) {
    case gwSuccess: return "no error";
    case gwUnhandledCudaError: return "unhandled CUDA error";
    case gwSystemError: return "system error";
    case gwInternalError: return "internal error";
    case gwInvalidArgument: return "invalid argument";
    case gwInvalidUsage: return "invalid usage";
    case gwRemoteError: return "remote error";
    case gwInProgress: return "in progress";
    case gwTimeout: return "timeout";
    case gwAborted: return "step aborted";
    case gwMismatch: return "ranks disagree";
    case gwDataCorrupt: return "data corrupt";
    case gwNonFinite: return "non-finite value";
    case gwPeerLost: return "peer lost";
    case gwRevoked: return "communicator revoked";
    case gwTransportUnavailable: return "transport unavailable";
    case gwUnauthenticated: return "unauthenticated";
  }
  return "unknown result code";
}

}  // namespace gradwire
