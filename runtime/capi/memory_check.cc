#include "runtime/capi/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace gradwire {
namespace {

struct Written {
  AddressRange range;
  size_t index;
};

Status Overlap(const char* what, size_t a, size_t b) {
  return Status(gwInvalidArgument,
                fmt::format("{} of tensors {} and {} of the group overlap", what, a, b),
                "Use separate buffers; only a tensor's own send and recv may be the same");
}

// In the order of their addresses, so that neighbours tell.
std::vector<Written> SortedRecvs(std::span<const BufferPair> group) {
  std::vector<Written> recvs;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].bytes > 0) recvs.push_back({{group[i].recv, group[i].bytes}, i});
  }
  std::sort(recvs.begin(), recvs.end(),
            [](const Written& a, const Written& b) { return a.range.begin < b.range.begin; });
  return recvs;
}

}  // namespace

Status CheckGroupMemory(std::span<const BufferPair> group) {
  const std::vector<Written> recvs = SortedRecvs(group);
  for (size_t i = 1; i < recvs.size(); ++i) {
    const Written &a = recvs[i - 1], &b = recvs[i];
    const bool twice = group[a.index].tensor == group[b.index].tensor;
    if (!twice && a.range.Overlaps(b.range)) return Overlap("recv", a.index, b.index);
  }
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].bytes == 0) continue;
    const AddressRange send(group[i].send, group[i].bytes);
    auto recv = std::partition_point(recvs.begin(), recvs.end(),
                                     [&](const Written& w) { return w.range.end <= send.begin; });
    for (; recv != recvs.end() && recv->range.begin < send.end; ++recv) {
      const bool in_place = recv->range.begin == send.begin;
      const bool same = group[recv->index].tensor == group[i].tensor;
      if (!same || !in_place) return Overlap("send and recv", i, recv->index);
    }
  }
  return Status();
}

Status CheckReduceScatterMemory(const void* send, const void* recv, int64_t shard_bytes, int rank,
                                int ranks) {
  const AddressRange sends(send, shard_bytes * ranks), recvs(recv, shard_bytes);
  const bool in_place = recvs.begin == sends.begin + static_cast<uintptr_t>(shard_bytes * rank);
  if (in_place || !sends.Overlaps(recvs)) return Status();
  return Status(gwInvalidArgument, "send and recv overlap, and not as in-place does",
                "Use separate buffers, or this rank's shard of send as recv");
}

}  // namespace gradwire
