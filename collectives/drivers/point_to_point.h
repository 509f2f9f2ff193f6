// PointToPoint: messages that two ranks exchange by themselves (gwSend, gwRecv), beside the runs of
// schedules and outside of turns. Sans threads; the clock is given.
//
// The sends from one rank to another and the receives there are numbered alike, from 0. The
// receiver begins: READY says that the call of this number is there, and its count and type. The
// sender compares them and answers with the data, which go straight into the receiver's memory, or
// with a refusal. So nothing is ever copied aside, whoever is early, and both know of a mismatch.
// Who gives a call up says so, or will when the other's call comes: numbers never shift.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_POINT_TO_POINT_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_POINT_TO_POINT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/pause_watch.h"
#include "base/status.h"
#include "base/view.h"
#include "transports/transport.h"

namespace gradwire {

// One call of either side. `memory` belongs to it until `done`.
struct Transfer {
  enum class Kind : uint8_t { kSend, kRecv };
  Kind kind = Kind::kSend;
  int peer = -1;                // another rank
  std::byte* memory = nullptr;  // host; only read by a send
  int64_t count = 0;
  DType dtype = DType::kUint8;
  // Valid when `done`.
  Status status;
  std::atomic<bool> done{false};  // set last, with release order

  int64_t bytes() const { return count * SizeOf(dtype); }
};

// Told by whoever posts or polls. Must not call back.
class TransferListener {
 public:
  virtual ~TransferListener() = default;
  // A call that was posted has its status, and is not yet `done`.
  virtual void OnTransferEnd(const Transfer& transfer) = 0;
};

struct PointToPointCounters {
  int64_t sent_bytes = 0;  // headers included
  int64_t sent_frames = 0;
};

class PointToPoint {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    uint64_t job = 0;
    uint32_t epoch = 0;
    int64_t max_message_bytes = 0;  // longer data are cut into messages of this size
    int64_t timeout_ns = 0;         // without progress of the oldest call of its kind; 0: none
    // More between two CheckTimes is a pause of this process: all times begin anew.
    int64_t pause_ns = INT64_MAX;
    TransferListener* listener = nullptr;  // null: nobody listens
  };
  // `transport`, `clock` and the listener outlive it.
  PointToPoint(Transport* transport, const Clock* clock, const Options& options);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // Calls of one kind and peer meet the peer's in the order of posting.
  void Post(std::shared_ptr<Transfer> transfer);

  // Offers what can be sent. True if anything moved. Never blocks.
  bool Poll();
  // Offers the next fragment to this peer; true if there was one and it went.
  bool OfferNext(int peer);
  // There is one, as far as this rank knows.
  bool Waits(int peer) const { return !peers_[peer].frames.empty() || NextToSend(peer) != nullptr; }
  // Fails calls whose time is up, and drops words that the peer has not taken for as long: a late
  // call there, which they are about, meets nobody and ends by its own time. Needed only now and
  // then, though at least every pause_ns, and only while not idle. Reads the clock once.
  void CheckTimes();

  // Fails all calls with one rank, or with all.
  void FailPeer(int peer, const Status& why);
  void FailAll(const Status& why);
  // Ends a call that was never posted, of which nobody need hear; else `listener` does.
  static void End(Transfer* transfer, Status status, TransferListener* listener = nullptr);

  // No call is under way and nothing is to be said.
  bool idle() const { return open_ == 0 && unsent_ == 0; }
  // No source of an accepted fragment is in the transport's hands.
  bool Quiet() const { return flights_.empty(); }
  // How long the oldest call with this peer, or word to it, has stood still; 0: there is none.
  int64_t StillNs(int peer) const;
  PointToPointCounters counters() const { return counters_; }

  // A frame with kFramePointToPoint that CheckFrame has found valid.
  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment);
  // Something from `peer` was damaged, perhaps data or a word of a transfer: those with it are
  // given up, here and there, also receives whose send is still to be called.
  void OnDamage(int peer, const Status& why);
  static bool Owns(SendToken token) { return (token & kTokenBit) != 0; }
  void OnSent(SendToken token);

 private:
  static constexpr SendToken kTokenBit = SendToken{1} << 63;
  // FrameHeader::message. READY and kGivenUp number the calls of their receiver's sends, kData and
  // kRefused those of their sender's. kGivenUp speaks of all receives up to its number. kDamaged
  // has none: something that its receiver sent was not understood, and the sends that it may have
  // been about have ended.
  enum Message : uint32_t { kData = 0, kReady = 1, kGivenUp = 2, kRefused = 3, kDamaged = 4 };
  // What travels with all but data: the sender's own view of its call.
  struct Words {
    uint64_t count = 0;
    uint32_t dtype = 0;
    int32_t code = gwSuccess;  // why it is given up or refused
  };
  static_assert(sizeof(Words) == 16);

  struct Call {
    std::shared_ptr<Transfer> transfer;
    uint32_t number = 0;
    int64_t in_flight = 0;         // fragments not locally complete
    std::vector<std::byte> next;   // send: a copy of the fragment that found no room
    FrameHeader header;            // send: its header, sealed
    bool is_ready = false;         // send: the receiver waits for it; receive: READY is out
    int64_t moved_bytes = 0;       // send: offered; receive: that came
    uint32_t message = 0;          // send: the next to offer from
    std::vector<int64_t> arrived;  // receive: bytes of each message
    bool moved_all = false;
  };
  using CallPtr = std::shared_ptr<Call>;
  struct Lane {  // calls of one kind with one peer
    std::deque<CallPtr> calls;
    uint32_t next = 0;     // number of the next call
    int64_t moved_ns = 0;  // when the oldest came to be that, or last moved
  };
  struct Frame {  // all but data, on its way
    Message message;
    uint32_t number;
    Words words;
    int64_t said_ns = 0;
  };
  struct Peer {
    Lane sends, recvs;
    // By the receiver before this rank's sends were called: READYs by number, and the last call
    // that it has given up.
    std::map<uint32_t, Words> ready;
    std::optional<std::pair<uint32_t, Words>> given_up;
    std::deque<Frame> frames;
    int64_t frames_ns = 0;  // when the oldest came to be that, or one before it left
    int32_t in_flight = 0;
  };
  struct Flight {  // an accepted frame that is not locally complete
    int peer;
    CallPtr call;  // null: not data
    // What the transport reads. Data are copied: the caller has its memory back when the call
    // fails, however long the transport holds the fragment.
    Words words;
    std::vector<std::byte> data;
    ConstBytes fragment() const {
      if (call == nullptr) return {reinterpret_cast<const std::byte*>(&words), sizeof words};
      return {data.data(), static_cast<int64_t>(data.size())};
    }
  };

  static Words WordsOf(const Transfer& transfer, gwResult_t code);
  Status Mismatch(const Transfer& mine, const Words& theirs) const;
  static Status GivenUp(const Transfer& mine, int32_t code);
  static Lane& LaneOf(Peer& peer, Transfer::Kind kind) {
    return kind == Transfer::Kind::kSend ? peer.sends : peer.recvs;
  }
  static CallPtr Find(const Lane& lane, uint32_t number);
  int64_t MessageBytes(const Transfer& transfer, uint32_t message) const;
  uint32_t Messages(const Transfer& transfer) const;

  CallPtr NextToSend(int peer) const;

  void Say(int peer, const Frame& frame);
  void Announce(int peer);
  void HearReady(int peer, const CallPtr& send, const Words& words);
  Status OnData(int peer, const FrameHeader& header, ConstBytes fragment);
  Status OnWords(int peer, const FrameHeader& header, ConstBytes fragment);
  Status OnReady(int peer, uint32_t number, const Words& words);
  Status OnGivenUp(int peer, uint32_t number, const Words& words);
  Status OnRefused(int peer, uint32_t number, const Words& words);
  Status OnDamaged(int peer, const Words& words);
  bool OfferFrame(int peer);
  bool OfferData(int peer);
  FrameHeader Sealed(FrameHeader header, ConstBytes fragment) const;
  SendOutcome Offer(int peer, const FrameHeader& header, Flight flight);
  void RestartTimes(int64_t now_ns);
  void CheckLane(int peer, Transfer::Kind kind, int64_t now_ns);
  void DropFrames(int peer);
  void GiveUpLane(int peer, Transfer::Kind kind, const Status& why);
  void EndLane(int peer, Transfer::Kind kind, const Status& why);
  void Moved(int peer, Transfer::Kind kind);
  void FinishIfOver(int peer, const CallPtr& call);
  void Finish(int peer, const CallPtr& call, Status status);

  Transport* const transport_;
  const Clock* const clock_;
  const Options options_;
  std::vector<Peer> peers_;
  std::map<SendToken, Flight> flights_;  // a node stays where it is
  SendToken next_token_ = 0;
  PauseWatch pause_;
  int64_t open_ = 0;    // calls
  int64_t unsent_ = 0;  // frames
  PointToPointCounters counters_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_POINT_TO_POINT_H_
