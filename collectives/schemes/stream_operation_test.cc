// Slices of every scheme give the same bytes on a stream as from messages, several in flight.
#include "collectives/schemes/stream_operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "collectives/drivers/event_driver.h"
#include "collectives/drivers/stream_ends.h"
#include "collectives/schemes/linear/linear_slice.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_world.h"
#include "collectives/schemes/two_shot/two_shot_slice.h"
#include "compress/registry.h"
#include "transports/loopback/loopback_ends.h"

namespace gradwire {
namespace {

constexpr int64_t kSliceElems = 2048;
constexpr int64_t kRunBytes = 4096;  // so that a round of carriers has several runs

using Slices = std::vector<std::unique_ptr<SliceOp>>;  // of one rank

Status RunOnStreams(std::vector<Slices>* ranks) {
  return RunStreamEnds(static_cast<int>(ranks->size()), [&](int rank, MessageStream* stream) {
    StreamOperation operation((*ranks)[rank]);
    return operation.Issue(stream);
  });
}

// One rank's slices over an event driver, as an engine runs them.
class EventRank {
 public:
  EventRank(std::unique_ptr<Transport> transport, int rank, int n, Slices* slices)
      : transport_(std::move(transport)),
        driver_(transport_.get(), {.rank = rank,
                                   .world_size = n,
                                   .window = static_cast<int>(slices->size()),
                                   .max_message_bytes = 1 << 20}),
        slices_(slices),
        runs_(slices->size()) {}

  Status Begin() {
    for (size_t slice = 0; slice < slices_->size(); ++slice) GW_RETURN_IF_ERROR(Advance(slice));
    return Status::Ok();
  }
  // True when every slice is done.
  StatusOr<bool> Poll() {
    driver_.Poll();
    while (const std::optional<FinishedRun> run = driver_.TakeFinished()) {
      GW_RETURN_IF_ERROR(Status(run->status));
      GW_RETURN_IF_ERROR(Advance(run->key.slice));
    }
    if (const auto error = driver_.TakeProtocolError()) return error->status;
    return done_ == slices_->size() && driver_.Quiet();
  }

 private:
  Status Advance(size_t index) {
    SliceOp* const slice = (*slices_)[index].get();
    for (;;) {
      const StatusOr<SliceAction> action = slice->Next();
      if (!action.ok()) return action.status();
      if (action->kind == SliceAction::Kind::kRun) {
        driver_.Start({.key = {.slice = static_cast<uint32_t>(index), .run = runs_[index]++},
                       .schedule = action->schedule,
                       .work = slice});
        return Status::Ok();
      }
      if (action->kind == SliceAction::Kind::kDone) return ++done_, Status::Ok();
      for (bool finished = false; !finished;) {
        const StatusOr<bool> computed = slice->ComputeLocal();
        if (!computed.ok()) return computed.status();
        finished = *computed;
      }
    }
  }

  const std::unique_ptr<Transport> transport_;
  EventDriver driver_;
  Slices* const slices_;
  std::vector<uint8_t> runs_;  // begun, by slice
  size_t done_ = 0;
};

Status RunOnMessages(std::vector<Slices>* ranks) {
  const int n = static_cast<int>(ranks->size());
  auto ends = MakeLoopbackEnds(n);
  if (!ends.ok()) return ends.status();
  GW_RETURN_IF_ERROR(ConnectEnds(*ends));
  std::vector<std::unique_ptr<EventRank>> running;
  for (int rank = 0; rank < n; ++rank) {
    running.push_back(
        std::make_unique<EventRank>(std::move((*ends)[rank]), rank, n, &(*ranks)[rank]));
    GW_RETURN_IF_ERROR(running.back()->Begin());
  }
  for (bool done = false; !done;) {
    done = true;
    for (const auto& rank : running) {
      const StatusOr<bool> mine = rank->Poll();
      if (!mine.ok()) return mine.status();
      done &= *mine;
    }
  }
  return Status::Ok();
}

using Run = Status (*)(std::vector<Slices>*);
// What all ranks have got and kept, one array after the other.
using Bits = std::vector<std::byte>;

void Append(ConstBytes bytes, Bits* bits) {
  bits->insert(bits->end(), bytes.data, bytes.data + bytes.size);
}

std::vector<float> RandomFloats(RandomStream* random, int64_t elems) {
  std::vector<float> values(elems);
  for (float& value : values) value = static_cast<float>(random->Unit() - 0.5);
  return values;
}

// An exact all-reduce of random floats, in which the order of additions shows.
Bits AllReduce(const AlgorithmRow& row, int n, Run run) {
  constexpr int64_t kElems = 5 * kSliceElems + 77;
  RandomStream random(n);
  const auto schedules = PrepareAll(row, n);
  std::vector<std::vector<float>> arrays;
  std::vector<Slices> ranks(n);
  for (int rank = 0; rank < n; ++rank) arrays.push_back(RandomFloats(&random, kElems));
  for (int rank = 0; rank < n; ++rank) {
    const auto array = reinterpret_cast<std::byte*>(arrays[rank].data());
    const RawOp op = {.send = array, .recv = array, .count = kElems, .rank = rank, .world_size = n};
    for (int64_t first = 0; first < kElems; first += kSliceElems) {
      ranks[rank].push_back(std::make_unique<RawSlice>(
          op, first, std::min(kSliceElems, kElems - first), schedules[rank].get()));
    }
  }
  const Status status = run(&ranks);
  EXPECT_TRUE(status.ok()) << status.ToString();
  Bits bits;
  for (const auto& array : arrays) Append(FloatView(array.data(), kElems).AsBytes(), &bits);
  return bits;
}

TEST(StreamOperation, SameBytesAsMessagesForEveryAllReduce) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.encoded || row.collective != Collective::kAllReduce) continue;
    for (int n : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(row.name + " of " + std::to_string(n));
      EXPECT_EQ(AllReduce(row, n, RunOnStreams), AllReduce(row, n, RunOnMessages));
    }
  }
}

struct Tensor {
  std::vector<float> grad, out, e_in, e_out;
  std::vector<std::byte> replicated_in, replicated_out;
};

// Tensors of several sizes under one spec, with residuals, by the scheme of the spec.
class Compressed {
 public:
  Compressed(const std::string& spec, int n) : codec_(*MakeCodec(spec)), ranks_(n) {
    RandomStream random(n);
    for (Rank& rank : ranks_) {
      for (int64_t elems : {9000, 300, 4096}) rank.tensors.push_back(MakeTensor(&random, elems));
      for (Tensor& tensor : rank.tensors) rank.parts.push_back(PartOf(&tensor, rank.parts.size()));
    }
  }

  Bits Step(Run run) {
    const int n = static_cast<int>(ranks_.size());
    const auto schedules =
        PrepareAll(**FindAlgorithm(Collective::kAllReduce, codec_.payload ? "two_shot" : "ring",
                                   /*encoded=*/codec_.payload != nullptr),
                   n);
    std::vector<Slices> slices(n);
    for (int rank = 0; rank < n; ++rank) {
      const PartContext context = {.rank = rank, .world_size = n, .clock = &SteadyClock()};
      for (const auto& cut : CutIntoSlices(ranks_[rank].parts, kSliceElems)) {
        slices[rank].push_back(MakeSlice(ranks_[rank].parts, context, cut, schedules[rank].get()));
      }
      EXPECT_GT(slices[rank].size(), 2u);
    }
    const Status status = run(&slices);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return TakeBits();
  }

 private:
  struct Rank {
    std::vector<Tensor> tensors;
    std::vector<TensorPart> parts;
  };

  Tensor MakeTensor(RandomStream* random, int64_t elems) const {
    Tensor t = {.grad = RandomFloats(random, elems), .out = std::vector<float>(elems)};
    if (codec_.feedback == Feedback::kOn) t.e_in = RandomFloats(random, elems);
    t.e_out.resize(t.e_in.size());
    if (codec_.carrier == nullptr) return t;
    t.replicated_in.resize(
        codec_.carrier->ReplicatedBytes({.elems = elems}, static_cast<int>(ranks_.size())));
    t.replicated_out.resize(t.replicated_in.size());
    return t;
  }

  TensorPart PartOf(Tensor* t, uint64_t id) const {
    const auto elems = static_cast<int64_t>(t->grad.size());
    const auto kept = static_cast<int64_t>(t->e_in.size());
    const auto bytes = static_cast<int64_t>(t->replicated_in.size());
    TensorPart part = {.grad = FloatView(std::as_const(t->grad).data(), elems),
                       .out = FloatView(t->out.data(), elems),
                       .e_in = FloatView(std::as_const(t->e_in).data(), kept),
                       .e_out = FloatView(t->e_out.data(), kept),
                       .replicated_in = {t->replicated_in.data(), bytes},
                       .replicated_out = {t->replicated_out.data(), bytes},
                       .tensor_id = id,
                       .codec = codec_.payload.get(),
                       .method = codec_.carrier.get(),
                       .has_residual = kept > 0};
    if (part.method != nullptr) {
      part.quantum_elems = part.method->QuantumElems({}, static_cast<int>(ranks_.size()));
    }
    return part;
  }

  static std::unique_ptr<SliceOp> MakeSlice(std::span<const TensorPart> parts,
                                            const PartContext& context, std::span<const Piece> cut,
                                            const PreparedSchedule* schedule) {
    if (parts[0].codec != nullptr) {
      return std::make_unique<TwoShotSlice>(parts, context, cut, schedule);
    }
    return std::make_unique<LinearSlice>(parts, context, cut, schedule, kRunBytes);
  }

  Bits TakeBits() const {
    Bits bits;
    for (const Rank& rank : ranks_) {
      for (const TensorPart& part : rank.parts) {
        Append(part.out.AsBytes(), &bits);
        Append(part.e_out.AsBytes(), &bits);
        Append(part.replicated_out, &bits);
      }
    }
    return bits;
  }

  const Codec codec_;
  std::vector<Rank> ranks_;
};

TEST(StreamOperation, SameBytesAsMessagesForEveryScheme) {
  for (const char* spec : {"bf16", "qsgd(bits=4,feedback=on)", "efsign", "none",
                           "qsgd(bits=8,sum=carrier)", "terngrad", "randk(0.1)", "topk(0.05)"}) {
    for (int n : {2, 3, 4}) {
      SCOPED_TRACE(std::string(spec) + " of " + std::to_string(n));
      EXPECT_EQ(Compressed(spec, n).Step(RunOnStreams), Compressed(spec, n).Step(RunOnMessages));
    }
  }
}

}  // namespace
}  // namespace gradwire
