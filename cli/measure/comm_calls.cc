#include "cli/measure/comm_calls.h"

#include <nlohmann/json.hpp>
#include <string>

namespace gradwire {
namespace {

// Counters may gain digits between the call that asks for the size and the one that reads.
constexpr size_t kRoomForDigits = 256;

StatusOr<nlohmann::json> ReadJson(gwComm_t comm, gwResult_t (*get)(gwComm_t, char*, size_t*)) {
  size_t bytes = 0;
  GW_RETURN_IF_ERROR(CheckedResult(comm, get(comm, nullptr, &bytes)));
  bytes += kRoomForDigits;
  std::string text(bytes, '\0');
  GW_RETURN_IF_ERROR(CheckedResult(comm, get(comm, text.data(), &bytes)));
  auto json = nlohmann::json::parse(text.c_str(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status(gwInternalError, "the library gave no JSON object");
  return json;
}

}  // namespace

Status CheckedResult(gwComm_t comm, gwResult_t result) {
  if (result == gwSuccess) return Status::Ok();
  // It begins with the words of the code, as does the Status.
  std::string text = gwGetLastError(comm);
  const std::string code = std::string(gwGetErrorString(result)) + ": ";
  if (text.starts_with(code)) text.erase(0, code.size());
  return Status(result, text.empty() ? gwGetErrorString(result) : text);
}

Status AllReduceValues(gwComm_t comm, std::span<double> values, gwRedOp_t op) {
  return CheckedResult(
      comm, gwAllReduce(values.data(), values.data(), values.size(), gwFloat64, op, comm, nullptr));
}

StatusOr<nlohmann::json> ReadStats(gwComm_t comm) { return ReadJson(comm, gwCommGetStats); }

StatusOr<nlohmann::json> ReadLedger(gwComm_t comm) { return ReadJson(comm, gwCommGetLedger); }

}  // namespace gradwire
