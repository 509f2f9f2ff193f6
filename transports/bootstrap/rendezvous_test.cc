// The rendezvous cores without sockets, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "transports/bootstrap/rendezvous_guest.h"
#include "transports/bootstrap/rendezvous_host.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

RendezvousIdentity Identity(int rank, int world_size) {
  return {.rank = rank, .world_size = world_size, .job = 11, .secret = "the secret"};
}

// Rank 0 with what it has sent and closed.
struct Host : HostWires {
  explicit Host(int world_size)
      : core({.me = Identity(0, world_size), .blob = "zero"}, this), world_size(world_size) {}
  void Send(int conn, std::string bytes) override { sent[conn] += bytes; }
  void Close(int conn) override { closed.insert(conn); }

  void Connect(int conn) { core.OnConnect(conn, "peer:" + std::to_string(conn), now); }
  void Feed(int conn, const std::string& bytes) { core.OnBytes(conn, TextBytes(bytes), now); }
  std::string Take(int conn) { return std::exchange(sent[conn], {}); }

  // Lets `guest` talk on `conn` until neither has more to say. Returns what the guest sent.
  std::string Converse(int conn, RendezvousGuest* guest) {
    std::string all;
    for (;;) {
      const std::string out = guest->TakeOutput();
      const std::string in = Take(conn);
      if (out.empty() && in.empty()) return all;
      all += out;
      Feed(conn, out);
      guest->OnBytes(TextBytes(in), now);
    }
  }

  RendezvousHost core;
  int world_size;
  int64_t now = 0;
  std::map<int, std::string> sent;
  std::set<int> closed;
};

RendezvousGuest Guest(int rank, int world_size) {
  return RendezvousGuest(
      {.me = Identity(rank, world_size), .blob = "blob " + std::to_string(rank), .host = "host:1"});
}

TEST(Rendezvous, TwoRanksMeetByteByByte) {
  Host host(2);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 2);
  while (guest.outcome() == RendezvousGuest::Outcome::kPending) {
    for (const char c : guest.TakeOutput()) host.Feed(1, std::string(1, c));
    for (const char c : host.Take(1)) guest.OnBytes(TextBytes(std::string(1, c)), 0);
  }
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kDone) << guest.status().ToString();
  EXPECT_TRUE(host.core.done() && host.core.status().ok());
  EXPECT_EQ(guest.roster().blobs, (std::vector<std::string>{"zero", "blob 1"}));
  EXPECT_EQ(host.core.roster(), guest.roster());
}

TEST(Rendezvous, ReplayedConversationProvesNothing) {
  Host host(3);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 3);
  const std::string recorded = host.Converse(1, &guest);
  // Somebody who listened says the same again.
  host.Connect(2);
  host.Feed(2, recorded);
  EXPECT_TRUE(host.closed.contains(2));
  EXPECT_EQ(host.core.rejected(), 1);
  EXPECT_FALSE(host.core.done());
  // Even to a fresh rank 0.
  Host other(3);
  other.Connect(5);
  other.Feed(5, recorded);
  EXPECT_TRUE(other.closed.contains(5));
}

TEST(Rendezvous, OwnProofSentBackProvesNothing) {
  // A stranger opens two connections and plays them against each other.
  Host host(3);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 3);
  host.Feed(1, guest.TakeOutput());
  const std::string host_hello = host.Take(1);
  host.Connect(2);
  host.Feed(2, host_hello);
  const std::string second_hello = host.Take(2);
  EXPECT_EQ(second_hello.size(), 256u);
  host.Feed(2, EncodeControl({.fields = ProofFields{}}));
  EXPECT_TRUE(host.closed.contains(2));
}

TEST(Rendezvous, NobodyIsPushedOutBeforeItHadTimeForAProof) {
  Host host(2);
  constexpr int kMost = 64 + 2;
  for (int conn = 0; conn < kMost; ++conn) {
    EXPECT_EQ(host.core.ClosedUntilNs(), 0) << conn;
    host.Connect(conn);
    ++host.now;
  }
  EXPECT_EQ(host.core.ClosedUntilNs(), RendezvousHost::kYouthNs) << "of the oldest";
  host.now = RendezvousHost::kYouthNs;
  host.Connect(kMost);
  EXPECT_EQ(host.closed, std::set<int>{0});
  EXPECT_EQ(host.core.ClosedUntilNs(), 1 + RendezvousHost::kYouthNs) << "of the next one";
  // A rank that has proven itself takes no stranger's place.
  RendezvousGuest guest = Guest(1, 2);
  host.Converse(1, &guest);
  EXPECT_EQ(host.core.ClosedUntilNs(), 0);
}

TEST(Rendezvous, StrangerIsCutOffAtTheHelloDeadline) {
  Host host(2);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 2);
  const std::string hello = guest.TakeOutput();
  for (int i = 0; i < 255 && !host.closed.contains(1); ++i) {
    host.Feed(1, hello.substr(i, 1));
    host.now += kSecond / 10;
    host.core.Tick(host.now);
  }
  EXPECT_TRUE(host.closed.contains(1));
  EXPECT_EQ(host.now, 5 * kSecond);
  EXPECT_EQ(host.core.rejected(), 1);
  EXPECT_FALSE(host.core.done());
}

TEST(Rendezvous, FloodPushesOutTheOldestStrangerAndRanksStillJoin) {
  Host host(2);
  for (int conn = 100; conn < 1100; ++conn) {
    host.Connect(conn);
    host.now += 1;
  }
  EXPECT_EQ(host.closed.size(), 1000u - 64u - 2u);
  EXPECT_TRUE(host.closed.contains(100));
  EXPECT_FALSE(host.closed.contains(1099));
  RendezvousGuest guest = Guest(1, 2);
  host.Connect(1);
  host.Converse(1, &guest);
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kDone);
  EXPECT_EQ(host.core.rejected(), 1000);
}

TEST(Rendezvous, RanksThatCallAtTheSameTimeDoNotPushEachOtherOut) {
  constexpr int kRanks = 500;
  Host host(kRanks);
  std::vector<RendezvousGuest> guests;
  for (int rank = 1; rank < kRanks; ++rank) {
    host.Connect(rank);
    guests.push_back(Guest(rank, kRanks));
    host.Feed(rank, guests.back().TakeOutput());  // its hello; the proof takes an answer
  }
  EXPECT_EQ(host.core.rejected(), 0);
  for (int rank = 1; rank < kRanks; ++rank) host.Converse(rank, &guests[rank - 1]);
  for (int rank = 1; rank < kRanks; ++rank) host.Converse(rank, &guests[rank - 1]);
  EXPECT_TRUE(host.core.done() && host.core.status().ok()) << host.core.status().ToString();
}

TEST(Rendezvous, GuestThatIsCutOffBeforeProofCallsAgain) {
  RendezvousGuest guest = Guest(1, 2);
  guest.OnClosed();
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kRetry);
}

// Rank 0 says why it ends, unless it dies.
TEST(Rendezvous, GuestThatFailsAfterRankZeroDiedNamesRankZero) {
  bool used = false;
  RendezvousGuest guest({.me = Identity(1, 2),
                         .blob = "blob",
                         .use_roster =
                             [&](const Roster&) {
                               used = true;
                               return Status(gwTransportUnavailable, "no way to rank 2", "look");
                             },
                         .host = "host:1"});
  Host host(2);
  host.Connect(1);
  for (std::string out = guest.TakeOutput(); !used; out = guest.TakeOutput()) {
    ASSERT_FALSE(out.empty());
    host.Feed(1, out);
    guest.OnBytes(TextBytes(host.Take(1)), 0);
  }
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kPending);
  guest.OnClosed();
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kFailed);
  EXPECT_EQ(guest.status().code(), gwPeerLost);
  EXPECT_EQ(guest.status().detail().peer, 0);
  EXPECT_THAT(guest.status().ToString(),
              HasSubstr("rank 0 closed its connection during the start; rank 1 is not ready: "
                        "no way to rank 2"));
}

TEST(Rendezvous, GuestDoesNotTrustAHostWithoutTheSecret) {
  RendezvousIdentity impostor = Identity(0, 2);
  impostor.secret = "another";
  RendezvousGuest guest = Guest(1, 2);
  const ControlMessage hello = *MakeHello(impostor, SystemEntropy);
  guest.OnBytes(TextBytes(EncodeControl(hello)), 0);
  const std::string proof = EncodeControl({.job = 11, .fields = ProofFields{}});
  guest.OnBytes(TextBytes(proof), 0);
  EXPECT_EQ(guest.outcome(), RendezvousGuest::Outcome::kFailed);
  EXPECT_EQ(guest.status().code(), gwUnauthenticated);
}

TEST(Rendezvous, GuestNamesAnotherProgramAtThePort) {
  for (const std::string& greeting :
       {std::string(300, 'H'), std::string("SSH-2.0-OpenSSH_9.2\r\n") + std::string(300, 'x')}) {
    RendezvousGuest guest = Guest(1, 2);
    guest.OnBytes(TextBytes(greeting), 0);
    EXPECT_EQ(guest.status().code(), gwRemoteError);
    EXPECT_THAT(guest.status().ToString(), HasSubstr("host:1 is not rank 0"));
  }
}

TEST(Rendezvous, WrongMessagesAfterTheProofFailTheStartWithTheName) {
  Host host(3);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 3);
  host.Converse(1, &guest);
  host.Feed(1, EncodeControl({.src = 1, .job = 11, .fields = ReadyFields{}}));
  EXPECT_EQ(host.core.status().code(), gwPeerLost);
  EXPECT_EQ(host.core.status().detail().peer, 1);
}

TEST(Rendezvous, RankOutOfRangeIsEverybodysError) {
  Host host(3);
  host.Connect(1);
  RendezvousGuest two = Guest(2, 3);
  host.Converse(1, &two);
  host.Connect(2);
  RendezvousGuest seven = Guest(7, 3);
  host.Converse(2, &seven);
  two.OnBytes(TextBytes(host.Take(1)), 0);
  for (const Status& status : {host.core.status(), two.status(), seven.status()}) {
    EXPECT_EQ(status.code(), gwMismatch) << status.ToString();
    EXPECT_EQ(status.detail().field, "rank");
    EXPECT_EQ(status.detail().actual, "7 (of that rank)");
  }
}

TEST(Rendezvous, RanksThatCallSoonAfterAFailureAreToldWhy) {
  Host host(4);
  host.Connect(1);
  RendezvousGuest one = Guest(1, 4);
  host.Converse(1, &one);
  host.core.OnClosed(1);
  EXPECT_EQ(host.core.status().detail().peer, 1);
  host.core.Tick(host.now);
  for (const int rank : {2, 3}) {
    EXPECT_FALSE(host.core.done());
    host.Connect(rank);
    RendezvousGuest late = Guest(rank, 4);
    host.Converse(rank, &late);
    EXPECT_EQ(late.status().code(), gwPeerLost) << late.status().ToString();
    EXPECT_THAT(late.status().ToString(), HasSubstr("rank 1 at peer:1 was lost during the start"));
  }
  EXPECT_TRUE(host.core.done()) << "everybody knows";
}

TEST(Rendezvous, FailureIsNotHeldBackForLong) {
  Host host(4);
  host.core.Fail(Status(gwSystemError, "no memory"));
  host.core.Tick(host.now);
  EXPECT_EQ(host.core.NextNs(), kSecond / 2);
  host.core.Tick(kSecond / 2);
  EXPECT_TRUE(host.core.done());
}

// Of whom nothing is proven nothing is believed; where a rank is missing, it is told.
TEST(Rendezvous, WhoDidNotProveItselfIsToldBesideTheMissing) {
  Host host(4);
  const auto call = [&](int conn, int rank) {
    host.Connect(conn);
    host.Feed(conn, Guest(rank, 4).TakeOutput());
  };
  call(1, 1);
  host.core.OnClosed(1);
  call(2, 2);  // and says nothing more
  host.Connect(3);
  RendezvousIdentity stranger = Identity(3, 4);
  stranger.secret = "another";
  RendezvousGuest three({.me = stranger, .blob = "blob", .host = "host:1"});
  host.Converse(3, &three);
  EXPECT_EQ(three.status().code(), gwUnauthenticated);
  for (const int rank : {0, 4, -1}) {  // none of whom is missing
    call(10 + rank, rank);
    host.core.OnClosed(10 + rank);
  }
  host.now = 5 * kSecond;
  host.core.Tick(host.now);
  EXPECT_EQ(host.core.rejected(), 6);
  EXPECT_TRUE(host.core.status().ok());
  host.now = 60 * kSecond;
  host.core.Tick(host.now);
  EXPECT_EQ(host.core.status().code(), gwTimeout);
  EXPECT_EQ(host.core.status().detail().message,
            "ranks 1, 2, 3 of 4 did not join within 60 s; "
            "rank 1, or somebody in its name, called from peer:1 and left before it had proven "
            "itself; "
            "rank 2, or somebody in its name, called from peer:2 and had not proven itself after 5 "
            "s; "
            "rank 3, or somebody in its name, called from peer:3 and did not know this job's "
            "secret");
}

TEST(Rendezvous, WhoJoinsAtTheSecondCallIsNotToldAsMissing) {
  Host host(3);
  host.Connect(1);
  host.Feed(1, Guest(1, 3).TakeOutput());
  host.core.OnClosed(1);
  host.now = 59 * kSecond;
  host.Connect(2);
  RendezvousGuest one = Guest(1, 3);
  host.Converse(2, &one);
  host.now = 60 * kSecond;
  host.core.Tick(host.now);
  EXPECT_EQ(host.core.status().detail().message, "rank 2 of 3 did not join within 60 s");
}

// However many there are.
TEST(Rendezvous, StrangersDoNotMakeTheErrorLonger) {
  constexpr int kRanks = 300;
  Host host(kRanks);
  for (int i = 0; i < 10 * kRanks; ++i) {
    host.Connect(i);
    host.Feed(i, Guest(1 + i % (kRanks - 1), kRanks).TakeOutput());
    host.core.OnClosed(i);
  }
  host.now = 60 * kSecond;
  host.core.Tick(host.now);
  const std::string message = host.core.status().detail().message;
  EXPECT_THAT(message, HasSubstr("; rank 4, or somebody in its name"));
  EXPECT_THAT(message, testing::Not(HasSubstr("; rank 5, or somebody")));
}

TEST(Rendezvous, LateReadyIsNamed) {
  Host host(2);
  host.Connect(1);
  RendezvousGuest guest = Guest(1, 2);
  host.Feed(1, guest.TakeOutput());
  guest.OnBytes(TextBytes(host.Take(1)), 0);
  host.Feed(1, guest.TakeOutput());
  guest.OnBytes(TextBytes(host.Take(1)), 0);
  host.Feed(1, guest.TakeOutput());  // joined, but never confirms
  host.now = 60 * kSecond;
  host.core.Tick(host.now);
  EXPECT_EQ(host.core.status().code(), gwTimeout);
  EXPECT_THAT(host.core.status().ToString(), HasSubstr("rank 1 of 2 did not confirm the roster"));
}

TEST(Rendezvous, WhoCannotBeLetInIsNotBlamed) {
  for (const bool room_again : {false, true}) {
    Host host(2);
    host.core.NoteNoRoom("Too many open files");
    if (room_again) host.Connect(1);
    host.now = 60 * kSecond;
    host.core.Tick(host.now);
    const Status late = host.core.status();
    EXPECT_EQ(late.code(), room_again ? gwTimeout : gwSystemError);
    EXPECT_THAT(late.ToString(), HasSubstr("rank 1 of 2 did not join"));
    if (room_again) continue;
    EXPECT_THAT(late.ToString(), HasSubstr("rank 0 could not take connections: Too many open"));
    EXPECT_THAT(late.ToString(), HasSubstr("ulimit -n"));
  }
}

// Rank 1 of three, as far as it gets while rank 2 is missing.
struct Joined {
  Joined() {
    host.Connect(1);
    host.Converse(1, &guest);
  }
  // A second of ticks, and what each side has to say reaches the other unless that is stopped.
  void Second(bool host_runs, bool guest_runs) {
    host.now += kSecond;
    if (host_runs) host.core.Tick(host.now);
    if (guest_runs) guest.Tick(host.now);
    const std::string down = host.Take(1), up = guest.TakeOutput();
    if (!down.empty() && guest_runs) guest.OnBytes(TextBytes(down), host.now);
    if (!up.empty() && host_runs) host.Feed(1, up);
  }
  Host host{3};
  RendezvousGuest guest = Guest(1, 3);
};

TEST(Rendezvous, HeartbeatsKeepWhoWaits) {
  Joined start;
  for (int second = 0; second < 50; ++second) start.Second(true, true);
  EXPECT_TRUE(start.host.core.status().ok()) << start.host.core.status().ToString();
  EXPECT_EQ(start.guest.outcome(), RendezvousGuest::Outcome::kPending);
  // And they are in nobody's way.
  start.host.Connect(2);
  RendezvousGuest two = Guest(2, 3);
  start.host.Converse(2, &two);
  start.host.Converse(1, &start.guest);
  start.host.Converse(2, &two);
  EXPECT_EQ(start.guest.outcome(), RendezvousGuest::Outcome::kDone);
  EXPECT_EQ(two.outcome(), RendezvousGuest::Outcome::kDone);
}

TEST(Rendezvous, AStoppedRankIsNamedWhenItIsSilentForTooLong) {
  Joined start;
  for (int second = 0; second < 12; ++second) start.Second(true, false);
  EXPECT_EQ(start.host.core.status().code(), gwPeerLost) << start.host.core.status().ToString();
  EXPECT_EQ(start.host.core.status().detail().peer, 1);
  EXPECT_THAT(start.host.core.status().ToString(), HasSubstr("silent for 10000 ms"));
}

TEST(Rendezvous, AStoppedRankZeroIsNamedWhenItIsSilentForTooLong) {
  Joined start;
  for (int second = 0; second < 12; ++second) start.Second(false, true);
  EXPECT_EQ(start.guest.status().code(), gwPeerLost) << start.guest.status().ToString();
  EXPECT_EQ(start.guest.status().detail().peer, 0);
}

// What comes after READY is read by the communicator, whose messages have another job's number.
TEST(Rendezvous, AReadyRankSaysNothingMore) {
  Host host(3);
  RendezvousGuest one = Guest(1, 3), two = Guest(2, 3);
  host.Connect(1);
  host.Converse(1, &one);
  host.Connect(2);
  host.Converse(2, &two);
  one.OnBytes(TextBytes(host.Take(1)), 0);
  EXPECT_NE(one.TakeOutput(), "") << "READY";
  for (int second = 1; second < 9; ++second) one.Tick(second * kSecond);
  EXPECT_EQ(one.TakeOutput(), "");
  EXPECT_EQ(one.outcome(), RendezvousGuest::Outcome::kPending);
}

TEST(Rendezvous, NothingIsDrawnFromTheWireBeforeProof) {
  // A body in front of any proof, and sizes that would cost memory.
  for (const ControlFields& fields : {ControlFields(HelloFields{}), ControlFields(ProofFields{}),
                                      ControlFields(RosterFields{.total_bytes = UINT32_MAX})}) {
    Host host(2);
    host.Connect(1);
    host.Feed(1, EncodeControl({.fields = fields, .body = std::string(1000, 'x')}));
    EXPECT_TRUE(host.closed.contains(1));
    EXPECT_EQ(host.core.rejected(), 1);
  }
}

TEST(Roster, AnyTextDecodesOrIsCorrupt) {
  const Roster roster{.settings = "s", .blobs = {"a", "", std::string(1000, 'b')}};
  const std::string text = EncodeRoster(roster);
  EXPECT_EQ(*DecodeRoster(text, 3), roster);
  EXPECT_EQ(DecodeRoster(text, 2).status().code(), gwDataCorrupt);
  EXPECT_EQ(DecodeRoster(text, 4).status().code(), gwDataCorrupt);
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_EQ(DecodeRoster(text.substr(0, n), 3).status().code(), gwDataCorrupt);
  }
}

TEST(Roster, PartsThatDoNotFitAreRefused) {
  auto part = [](uint32_t offset, uint32_t total, const char* body) {
    return ControlMessage{.fields = RosterFields{.offset_bytes = offset, .total_bytes = total},
                          .body = body};
  };
  PartAssembler good(100);
  EXPECT_FALSE(*good.Add(part(0, 5, "abc")));
  EXPECT_TRUE(*good.Add(part(3, 5, "de")));
  EXPECT_EQ(good.text(), "abcde");
  for (const ControlMessage& wrong : {part(1, 5, "a"), part(0, 101, "a"), part(0, 2, "abc"),
                                      part(0, 5, ""), ControlMessage{.fields = ReadyFields{}}}) {
    EXPECT_EQ(PartAssembler(100).Add(wrong).status().code(), gwDataCorrupt);
  }
}

}  // namespace
}  // namespace gradwire
