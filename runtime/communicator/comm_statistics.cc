#include "runtime/communicator/comm_statistics.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "runtime/json_text.h"
#include "runtime/operations/operations.h"

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
  return fmt::format(
      "{{\"rank\": {}, \"world_size\": {}, \"one_host\": {}, \"transport\": {}, \"algorithm\": {}, "
      "\"encodes_per_elem\": {}, "
      "\"slice_elems\": {}, \"window\": {}, \"operations\": {}, \"raw_bytes\": {}, "
      "\"payload_bytes\": {}, "
      "\"sent_bytes\": {}, "
      "\"sent_frames\": {}, \"framing_bytes\": {}, \"control_bytes\": {}, \"received_bytes\": {}, "
      "\"staged_bytes\": {}, \"stale_frames\": {}, "
      "\"encode_ns\": {}, "
      "\"decode_ns\": {}, \"operation_ns\": {}, \"relerr\": {}, \"commits\": {}, \"skips\": {}, "
      "\"aborts\": {}}}",
      facts.rank, facts.world_size, hosts_ == Hosts::kOne, JsonText(facts.transport),
      JsonText(algorithm), encodes, facts.slice_elems, facts.window, operations_, raw_bytes_,
      payload_bytes_, facts.driver.sent_bytes, facts.driver.sent_frames, facts.driver.framing_bytes,
      facts.control_bytes, facts.driver.received_bytes, facts.driver.staged_bytes,
      facts.driver.stale_frames, encode_ns_, decode_ns_, op_ns_,
      sum_p2_ > 0 ? std::sqrt(sum_err2_ / sum_p2_) : 0.0, commits_, skips_, aborts_);
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
  return fmt::format(
      "{{\"measured\": {}, \"step_ms\": {}, \"compute_ms\": {}, \"exposed_comm_ms\": {}}}",
      steps.steps(), medians->step_ms, medians->compute_ms, medians->exposed_comm_ms);
}

}  // namespace

std::string LedgerJson(const LedgerFacts& facts, const StepClock& steps,
                       const std::vector<TensorState*>& tensors, const std::string& controller) {
  std::string rows;
  for (const TensorState* tensor : tensors) {
    rows += fmt::format(
        "{}{{\"name\": {}, \"elems\": {}, \"datatype\": {}, \"spec\": {}, \"auto\": {}, "
        "\"feedback\": {}, \"keeps_state\": {}, \"residual_bytes\": {}, \"method_bytes\": {}, "
        "\"held_bytes\": {}, \"scheme\": {}, \"note\": {}, "
        "\"ops\": {}, "
        "\"payload_bytes\": {}, \"encode_ns\": {}, \"decode_ns\": {}, \"relerr\": {}, "
        "\"committed_step\": {}}}",
        rows.empty() ? "" : ",\n ", JsonText(tensor->name), tensor->elems,
        JsonText(Name(tensor->dtype)), JsonText(tensor->codec.spec),
        JsonText(tensor->automatic ? tensor->automatic->spec : ""), tensor->MayKeepResidual(),
        KeepsState(*tensor, facts.world_size), ResidualBytes(*tensor, facts),
        MethodBytes(*tensor, facts), HeldBytes(*tensor), JsonText(Name(SchemeOf(*tensor))),
        JsonText(NoteOf(*tensor)), tensor->ops, tensor->payload_bytes, tensor->encode_ns,
        tensor->decode_ns, tensor->last_relerr, tensor->committed_step);
  }
  return fmt::format(
      "{{\"rank\": {}, \"transaction\": {}, \"steps\": {},\n \"tensors\": [{}],\n "
      "\"controller\": {}}}",
      facts.rank, facts.transaction, StepsJson(steps), rows, controller);
}

}  // namespace gradwire
