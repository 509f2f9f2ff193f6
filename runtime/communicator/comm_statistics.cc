#include "runtime/communicator/comm_statistics.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "runtime/json_text.h"
#include "runtime/operations/tensor_groups.h"

namespace gradwire {

void CommStatistics::NoteDone(const Operation& operation) {
  if (operation.submit_ns >= last_submit_ns_) {
    last_submit_ns_ = operation.submit_ns;
    last_ = operation.course;
  }
  ++operations_;
  raw_bytes_ += operation.bytes;
  payload_bytes_ += operation.stats.payload_bytes;
  encode_ns_ += operation.stats.encode_ns;
  decode_ns_ += operation.stats.decode_ns;
  op_ns_ += operation.complete_ns - operation.submit_ns;
  sum_p2_ += operation.stats.sum_p2;
  sum_err2_ += operation.stats.sum_err2;
}

void CommStatistics::NoteOutcome(StepOutcome outcome) {
  switch (outcome) {
    case StepOutcome::kCommit: ++commits_; break;
    case StepOutcome::kSkip: ++skips_; break;
    case StepOutcome::kAbort: ++aborts_; break;
  }
}

std::string CommStatistics::Json(const CommFacts& facts, ScheduleCache* schedules) const {
  const AlgorithmRow* const last = last_.algorithm;
  const std::string algorithm = last == nullptr ? "" : last->name;
  const int encodes = (last_.is_filled ? 1 : 0) +
                      (last == nullptr ? 0 : schedules->EncodesPerElem(*last, last_.root));
  return JsonObject()
      .Add("rank", facts.rank)
      .Add("world_size", facts.world_size)
      .Add("one_host", hosts_ == Hosts::kOne)
      .Add("transport", facts.transport)
      .Add("algorithm", algorithm)
      .Add("encodes_per_elem", encodes)
      .Add("slice_elems", facts.slice_elems)
      .Add("window", facts.window)
      .Add("operations", operations_)
      .Add("raw_bytes", raw_bytes_)
      .Add("payload_bytes", payload_bytes_)
      .Add("sent_bytes", facts.driver.sent_bytes)
      .Add("sent_frames", facts.driver.sent_frames)
      .Add("framing_bytes", facts.driver.framing_bytes)
      .Add("control_bytes", facts.control_bytes)
      .Add("received_bytes", facts.driver.received_bytes)
      .Add("staged_bytes", facts.driver.staged_bytes)
      .Add("stale_frames", facts.driver.stale_frames)
      .Add("encode_ns", encode_ns_)
      .Add("decode_ns", decode_ns_)
      .Add("operation_ns", op_ns_)
      .Add("relerr", sum_p2_ > 0 ? std::sqrt(sum_err2_ / sum_p2_) : 0.0)
      .Add("commits", commits_)
      .Add("skips", skips_)
      .Add("aborts", aborts_)
      .Text();
}

namespace {

bool KeepsState(const TensorState& tensor, int world_size) {
  return tensor.automatic != nullptr || tensor.feedback() || tensor.keeps_local() ||
         ReplicatedBytes(tensor, world_size) > 0;
}

// Of its residual, as soon as it has one.
int64_t ResidualBytes(const TensorState& tensor, const LedgerFacts& facts) {
  return facts.world_size > 1 && tensor.MayKeepResidual()
             ? FloatSlots::BytesFor(tensor.elems, facts.transaction)
             : 0;
}

// Of what codecs keep besides (averages, bases), as soon as they have it.
int64_t MethodBytes(const TensorState& tensor, const LedgerFacts& facts) {
  if (tensor.elems == 0 || facts.world_size == 1) return 0;
  int64_t local = 0, replicated = 0;
  const auto add = [&](const Codec& codec) {
    const CarrierMethod* method = codec.carrier.get();
    if (method == nullptr) return;
    // One array, whichever of them is in effect.
    if (method->KeepsLocal()) local = FloatSlots::BytesFor(tensor.elems, facts.transaction);
    replicated += kReplicatedSlots * method->ReplicatedBytes(MetaOf(tensor), facts.world_size);
  };
  if (tensor.automatic == nullptr) {
    add(tensor.codec);
  } else {
    for (const Rung& rung : tensor.automatic->ladder) add(rung.codec);
  }
  return local + replicated;
}

int64_t HeldBytes(const TensorState& tensor) {
  return tensor.residual.held_bytes() + tensor.local.held_bytes() + tensor.replicated_bytes();
}

std::string NoteOf(const TensorState& tensor) {
  const CarrierMethod* method = tensor.codec.carrier.get();
  if (!tensor.exemption.empty() || method == nullptr) return tensor.exemption;
  return method->Note(MetaOf(tensor));
}

std::string StepsJson(const StepClock& steps) {
  const std::optional<StepMedians> medians = steps.Medians();
  if (!medians) return "null";
  return JsonObject()
      .Add("measured", steps.steps())
      .Add("step_ms", medians->step_ms)
      .Add("compute_ms", medians->compute_ms)
      .Add("exposed_comm_ms", medians->exposed_comm_ms)
      .Text();
}

std::string TensorJson(const TensorState& tensor, const LedgerFacts& facts) {
  return JsonObject()
      .Add("name", tensor.name)
      .Add("elems", tensor.elems)
      .Add("datatype", Name(tensor.dtype))
      .Add("spec", tensor.codec.spec)
      .Add("auto", tensor.automatic ? tensor.automatic->spec : "")
      .Add("feedback", tensor.MayKeepResidual())
      .Add("keeps_state", KeepsState(tensor, facts.world_size))
      .Add("residual_bytes", ResidualBytes(tensor, facts))
      .Add("method_bytes", MethodBytes(tensor, facts))
      .Add("held_bytes", HeldBytes(tensor))
      .Add("scheme", Name(SchemeOf(tensor)))
      .Add("note", NoteOf(tensor))
      .Add("ops", tensor.ops)
      .Add("payload_bytes", tensor.payload_bytes)
      .Add("encode_ns", tensor.encode_ns)
      .Add("decode_ns", tensor.decode_ns)
      .Add("relerr", tensor.last_relerr)
      .Add("committed_step", tensor.committed_step)
      .Text();
}

}  // namespace

std::string LedgerJson(const LedgerFacts& facts, const StepClock& steps,
                       const std::vector<TensorState*>& tensors, const std::string& controller) {
  std::vector<std::string> rows;
  for (const TensorState* tensor : tensors) rows.push_back(TensorJson(*tensor, facts));
  return fmt::format(
      "{{\"rank\": {}, \"transaction\": {}, \"steps\": {},\n \"tensors\": [{}],\n "
      "\"controller\": {}}}",
      facts.rank, facts.transaction, StepsJson(steps), fmt::join(rows, ",\n "), controller);
}

}  // namespace gradwire
