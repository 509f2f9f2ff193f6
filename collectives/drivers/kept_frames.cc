#include "collectives/drivers/kept_frames.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradwire {

KeptFrames::KeptFrames(int world_size, int64_t limit_bytes)
    : limit_bytes_(limit_bytes), bytes_of_(world_size) {}

Status KeptFrames::Keep(int peer, const FrameHeader& header, ConstBytes fragment) {
  Frame frame = {.peer = peer, .header = header, .bytes = {}};
  if (bytes_of_[peer] + frame.size() + fragment.size > limit_bytes_) {
    return Status(gwMismatch,
                  fmt::format("rank {} runs further ahead than the window allows", peer),
                  "All ranks must submit the same operations in the same order");
  }
  GW_RETURN_IF_ERROR(frame.bytes.EnsureBytes(fragment.size));
  std::copy_n(fragment.data, fragment.size, frame.bytes.data());
  bytes_of_[peer] += frame.size();
  runs_[{header.turn, KeyOf(header)}].push_back(std::move(frame));
  return Status();
}

std::vector<KeptFrames::Frame> KeptFrames::Take(uint16_t turn, const RunKey& key) {
  auto node = runs_.extract({turn, key});
  if (node.empty()) return {};
  Release(node.mapped());
  return std::move(node.mapped());
}

void KeptFrames::Release(const std::vector<Frame>& frames) {
  for (const Frame& frame : frames) bytes_of_[frame.peer] -= frame.size();
}

void KeptFrames::Drop(uint16_t turn) {
  std::erase_if(runs_, [&](const auto& run) {
    if (run.first.first != turn) return false;
    Release(run.second);
    return true;
  });
}

void KeptFrames::DropAllBut(uint16_t turn) {
  std::erase_if(runs_, [&](const auto& run) {
    if (run.first.first == turn) return false;
    Release(run.second);
    return true;
  });
}

}  // namespace gradwire
