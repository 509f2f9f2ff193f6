#include "collectives/drivers/awaited_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/wrapping.h"
#include "collectives/drivers/submit_mismatch.h"

namespace gradwire {

const AwaitedRuns::Slice* AwaitedRuns::Find(const RunKey& key) const {
  const auto it = std::find_if(admitted_.begin(), admitted_.end(), [&](const Slice& s) {
    return s.op_seq == key.op_seq && s.slice == key.slice;
  });
  return it == admitted_.end() ? nullptr : &*it;
}

void AwaitedRuns::Admit(uint32_t op_seq, uint32_t slice, int64_t slices) {
  last_admitted_ = admitted_.emplace_back(Slice{op_seq, slice});
  last_admitted_slices_ = slices;
}

void AwaitedRuns::Begin(const RunKey& key) {
  for (Slice& s : admitted_) {
    if (s.op_seq == key.op_seq && s.slice == key.slice) ++s.runs;
  }
}

void AwaitedRuns::Retire(uint32_t op_seq, uint32_t slice) {
  std::erase_if(admitted_, [&](const Slice& s) { return s.op_seq == op_seq && s.slice == slice; });
}

Status AwaitedRuns::Check(int peer, const RunKey& key) const {
  GW_RETURN_IF_ERROR(CheckIncomplete(peer, key));
  if (!submitted_ || IsBefore(key.op_seq, *submitted_)) return Status();
  return SubmitMismatch(fmt::format("{} (rank {})", *submitted_, rank_),
                        fmt::format("{}{} (rank {})", kAtLeast, key.op_seq + 1, peer));
}

Status AwaitedRuns::CheckIncomplete(int peer, const RunKey& key) const {
  if (IsBefore(key.op_seq, completed_below_)) {
    return Status(gwMismatch,
                  fmt::format("rank {} still sends for operation #{}, which is complete here", peer,
                              key.op_seq));
  }
  if (!last_admitted_) return Status();
  if (IsBefore(last_admitted_->op_seq, key.op_seq)) return Status();
  const bool is_last = key.op_seq == last_admitted_->op_seq;
  if (is_last && key.slice >= last_admitted_slices_) {
    return Status(gwMismatch, fmt::format("rank {} sends slice {} of operation #{}, which has {} "
                                          "here",
                                          peer, key.slice, key.op_seq, last_admitted_slices_));
  }
  if (is_last && key.slice > last_admitted_->slice) return Status();
  const Slice* admitted = Find(key);
  if (admitted != nullptr && static_cast<int8_t>(key.run - admitted->runs) >= 0) return Status();
  const std::string run = admitted == nullptr ? "" : fmt::format("run {} of ", key.run);
  return Status(
      gwMismatch,
      fmt::format("rank {} still sends for {}slice {} of operation #{}, which is complete here",
                  peer, run, key.slice, key.op_seq));
}

}  // namespace gradwire
