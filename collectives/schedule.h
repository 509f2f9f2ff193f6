// Schedule: what one rank does in one run of one collective, as data. An algorithm is a pure
// function from (rank, world size, root) to a Schedule; the same data are executed, verified,
// costed and simulated.
#ifndef GRADWIRE_COLLECTIVES_SCHEDULE_H_
#define GRADWIRE_COLLECTIVES_SCHEDULE_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier
};
inline constexpr int kCollectives = 7;
std::string_view Name(Collective collective);
// Whether it adds, or whatever the operation is.
bool Reduces(Collective collective);
// Whether each rank has something for each: one of its arrays is counted in ranks.
bool GivesToAll(Collective collective);

// kInput and kOutput are the caller's arrays and may be the same memory (in place): a shard of the
// input and a shard of the output with the same logical number are then the same bytes, and
// schedules must be right both ways. All-to-all is the exception: its two arrays never overlap.
// kInput is only read. kScratch holds raw elements, kPayload encoded bytes.
enum class BufferRole : uint8_t { kInput, kOutput, kScratch, kPayload };
std::string_view Name(BufferRole role);

// A buffer is a row of shards. shard_ids[i] is the logical shard whose elements buffer shard i
// holds; the run's Partition says how many elements that is. Several shards of a buffer may hold
// the same logical shard (the payloads for one shard from every rank).
struct BufferDecl {
  BufferRole role;
  std::vector<int32_t> shard_ids;
};

// Consecutive shards of one buffer.
struct Region {
  uint8_t buffer = 0;
  int32_t first = 0;
  int32_t count = 0;
  bool operator==(const Region&) const = default;
};

enum class StepKind : uint8_t {
  kSend,        // src -> peer
  kRecv,        // peer -> dst
  kRecvReduce,  // dst = arg op (what arrives), fragment by fragment
  kReduce,      // dst = arg op src
  kCopy,        // dst = src
  kEncode,      // dst (payload) = codec(src); from the input it takes the residual along
  kDecode,      // dst = decoded src
  kDecodeAdd,   // dst += decoded src
};
std::string_view Name(StepKind kind);
inline bool IsRecv(StepKind kind) {
  return kind == StepKind::kRecv || kind == StepKind::kRecvReduce;
}
inline bool IsMessage(StepKind kind) { return kind == StepKind::kSend || IsRecv(kind); }

// Unused regions have count 0. `message` is unique among the messages from one rank to another in
// this schedule. A send or receive of no shards is a bare header: it says that this rank has
// started.
struct Step {
  StepKind kind = StepKind::kCopy;
  Region src, arg, dst;
  int32_t peer = -1;
  int32_t message = -1;
  int32_t round = 0;
  uint32_t deps_begin = 0,
           deps_count = 0;  // into Schedule::deps: steps that must be complete before this one
};

// The shards of the message a step sends or receives.
inline const Region& MessageRegion(const Step& step) {
  return step.kind == StepKind::kSend ? step.src : step.dst;
}

struct Schedule {
  Collective collective = Collective::kAllReduce;
  int rank = 0;
  int world_size = 1;
  int root = 0;
  int32_t logical_shards = 1;  // the run cuts its elements into this many
  std::vector<BufferDecl> buffers;
  std::vector<Step> steps;  // in an order that respects deps
  std::vector<int32_t> deps;
  uint64_t hash = 0;  // of everything above that must agree between ranks: algorithm, collective,
                      // world size, root

  std::span<const int32_t> DepsOf(const Step& step) const {
    return {deps.data() + step.deps_begin, step.deps_count};
  }
};

// Elements of each logical shard of one run: shard l holds [begin[l], begin[l + 1]).
struct Partition {
  std::vector<int64_t> begin;
  int64_t elems(int32_t shard) const { return begin[shard + 1] - begin[shard]; }
  int32_t shards() const { return static_cast<int32_t>(begin.size()) - 1; }
};

// `elems` cut into `shards` nearly equal parts, borders at multiples of `quantum` (the last part
// takes the rest).
Partition EvenPartition(int64_t elems, int32_t shards, int64_t quantum = 1);

// Builds a schedule from steps in program order. Dependencies are derived: a step depends on the
// last writer of what it reads, and on the last writer and all readers since of what it writes,
// with input and output shards of the same logical number taken as the same memory (invariant I1 by
// construction). Rounds and messages are the caller's.
class ScheduleBuilder {
 public:
  ScheduleBuilder(Collective collective, int rank, int world_size, int root,
                  int32_t logical_shards);

  int rank() const { return schedule_.rank; }
  int world_size() const { return schedule_.world_size; }

  // Returns the buffer's number. At most 255 buffers.
  uint8_t AddBuffer(BufferRole role, std::vector<int32_t> shard_ids);

  int32_t Send(int peer, int32_t message, int32_t round, Region src);
  int32_t Recv(int peer, int32_t message, int32_t round, Region dst);
  int32_t RecvReduce(int peer, int32_t message, int32_t round, Region arg, Region dst);
  int32_t Local(StepKind kind, int32_t round, Region src, Region dst, Region arg = {});
  // Adds an order that no data flow implies. `before` must be an earlier step.
  void Order(int32_t before, int32_t after);

  // `algorithm` goes into the hash.
  Schedule Build(std::string_view algorithm) &&;

 private:
  struct Cell {
    int32_t writer = -1;
    std::vector<int32_t> readers;
  };
  int32_t Add(Step step);
  void Touch(int32_t step, const Region& region, bool writes, std::vector<int32_t>* deps);
  Cell& CellOf(uint8_t buffer, int32_t shard);

  Schedule schedule_;
  std::vector<std::vector<int32_t>> step_deps_;
  std::vector<std::vector<Cell>> cells_;  // per buffer; the caller's arrays share caller_cells_
  std::vector<Cell> caller_cells_;        // per logical shard
};

// What all ranks together send in one run, in closed form (invariant I6).
struct WireTotals {
  int64_t messages = 0;  // with the bare headers
  int64_t shards = 0;    // logical shards carried, raw or encoded
};

// One algorithm of the registry.
struct AlgorithmRow {
  std::string name;  // "ring", "tree", ...
  Collective collective;
  bool encoded;     // its schedules hold encode and decode steps
  std::string doc;  // steps and bytes, paper
  // Rank's schedule. Precondition: 0 <= rank < world_size, 0 <= root < world_size.
  Schedule (*make)(int rank, int world_size, int root);
  WireTotals (*totals)(int world_size);
};

// All algorithms of this build. collectives/registry.cc.
std::span<const AlgorithmRow> Algorithms();
// By name; an unknown name is an error that suggests the nearest and lists the collective's
// algorithms.
StatusOr<const AlgorithmRow*> FindAlgorithm(Collective collective, std::string_view name,
                                            bool encoded = false);

struct AlgorithmNeed {
  Collective collective = Collective::kAllReduce;
  int world_size = 1;
  int64_t bytes = 0;      // of the whole operation
  bool one_host = false;  // all ranks are on it
  bool encoded = false;
};

// The default: a pure function of the need, the same on all ranks. gwInvalidArgument: there is none
// (of encoded ones there are all-reduces and reduce-scatters).
StatusOr<const AlgorithmRow*> ChooseAlgorithm(const AlgorithmNeed& need);

// What a job's operations take: the algorithm that is set for their collective, or the default.
struct AlgorithmRule {
  int world_size = 1;
  bool one_host = false;
  const AlgorithmRow* exact = nullptr;  // null: none is set
  const AlgorithmRow* encoded = nullptr;

  StatusOr<const AlgorithmRow*> For(Collective collective, int64_t bytes, bool is_encoded) const;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEDULE_H_
