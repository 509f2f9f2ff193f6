#include "transports/control/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/byte_stream.h"

namespace gradwire {
namespace {

// One of each type, with every field set.
std::vector<ControlMessage> Samples() {
  HelloFields hello{.library_version = 100, .world_size = 4, .rank = 3};
  hello.nonce.fill(0xA5);
  ProofFields proof{.wait_ms = 1234};
  proof.tag.fill(0x5A);
  const std::vector<ControlFields> fields = {
      hello,
      proof,
      RosterFields{.offset_bytes = 10, .total_bytes = 15},
      ReadyFields{},
      HeartbeatFields{.slices_done = 1ull << 40,
                      .submitted = 7,
                      .op_seq = 5,
                      .signature = 1ull << 63,
                      .looks = 8,
                      .is_through = 1},
      RevokeFields{.op_seq = 9, .culprit = 3, .scope = RevokeScope::kEpoch, .step = 1ull << 50},
      VoteFields{.step = 6,
                 .digest = 1,
                 .table_digest = 2,
                 .submitted = 3,
                 .plan_epoch = 4,
                 .ok = 1,
                 .nonfinite = kInResult | kInGradient,
                 .no_wait = 1,
                 .unfinished = 1,
                 .draws = 5},
      ResultFields{.step = 6,
                   .plan_epoch = 4,
                   .culprit = 2,
                   .outcome = StepOutcome::kAbort,
                   .new_plan = 1,
                   .begins_anew = 1,
                   .draws = 5},
      ByeFields{.code = gwPeerLost},
  };
  std::vector<ControlMessage> samples;
  for (const ControlFields& f : fields) {
    samples.push_back(
        {.src = 1, .dst = kAllRanks, .turn = 65535, .epoch = 3, .job = 1ull << 63, .fields = f});
    const bool bodiless = std::holds_alternative<HelloFields>(f);
    if (!bodiless) samples.back().body = std::string("b\0dy", 4);
  }
  return samples;
}

TEST(ControlMessage, EveryTypeSurvivesTheWireByteByByte) {
  std::string stream;
  for (const ControlMessage& m : Samples()) stream += EncodeControl(m);
  for (const size_t piece : {1, 7, 255, 256, 257, 100000}) {
    MessageReader reader;
    reader.AllowBodies();
    std::vector<ControlMessage> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const std::string part = stream.substr(at, piece);
      ConstBytes bytes = TextBytes(part);
      ControlMessage message;
      for (;;) {
        const StatusOr<bool> complete = reader.Next(&bytes, &message);
        ASSERT_TRUE(complete.ok()) << complete.status().ToString();
        if (!*complete) break;
        got.push_back(message);
      }
      EXPECT_EQ(bytes.size, 0);
    }
    EXPECT_EQ(got, Samples()) << "pieces of " << piece;
    EXPECT_FALSE(reader.partial());
  }
}

TEST(ControlMessage, HeadIs256BytesAndNamed) {
  EXPECT_EQ(EncodeControl({.fields = HelloFields{}}).size(), 256u);
  EXPECT_STREQ(Samples()[0].TypeName(), "HELLO");
  EXPECT_STREQ(Samples()[8].TypeName(), "BYE");
}

TEST(ControlMessage, EveryFlippedBitIsNoticed) {
  for (const ControlMessage& m : Samples()) {
    const std::string good = EncodeControl(m);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      MessageReader reader;
      reader.AllowBodies();
      ConstBytes bytes = TextBytes(bad);
      ControlMessage message;
      const StatusOr<bool> complete = reader.Next(&bytes, &message);
      ASSERT_FALSE(complete.ok()) << m.TypeName() << " bit " << bit;
      EXPECT_EQ(complete.status().code(), gwDataCorrupt);
    }
  }
}

TEST(ControlMessage, StrangersGetNoBody) {
  MessageReader reader;
  const std::string wire = EncodeControl(Samples()[4]);
  ConstBytes bytes = TextBytes(wire);
  ControlMessage message;
  EXPECT_EQ(reader.Next(&bytes, &message).status().code(), gwDataCorrupt);
  EXPECT_EQ(reader.Next(&bytes, &message).status().code(), gwDataCorrupt) << "must stay broken";
}

TEST(ControlMessage, BodyOverTheBoundIsRefusedBeforeItCounts) {
  ControlMessage m{.fields = VoteFields{}, .body = std::string(kMaxControlBodyBytes + 1, 'x')};
  MessageReader reader;
  reader.AllowBodies();
  const std::string wire = EncodeControl(m);
  ConstBytes bytes = TextBytes(wire);
  ControlMessage message;
  EXPECT_EQ(reader.Next(&bytes, &message).status().code(), gwDataCorrupt);
  m.body.pop_back();
  MessageReader fresh;
  fresh.AllowBodies();
  const std::string fits = EncodeControl(m);
  bytes = TextBytes(fits);
  const StatusOr<bool> complete = fresh.Next(&bytes, &message);
  ASSERT_TRUE(complete.ok() && *complete);
  EXPECT_EQ(message, m);
}

TEST(ControlMessage, ValuesOutOfRangeAreRefused) {
  const std::vector<ControlFields> wrong = {
      RosterFields{.offset_bytes = 2, .total_bytes = 1},
      RevokeFields{.scope = static_cast<RevokeScope>(2)},
      VoteFields{.ok = 2},
      VoteFields{.unfinished = 2},
      VoteFields{.ok = 1, .op_seq = 0},
      ResultFields{.outcome = static_cast<StepOutcome>(3)},
      ResultFields{.begins_anew = 2},
  };
  for (const ControlFields& f : wrong) {
    const std::string wire = EncodeControl({.fields = f});
    ControlHead head;
    std::memcpy(head.data(), wire.data(), head.size());
    EXPECT_EQ(ParseControlHead(head).status().code(), gwDataCorrupt) << f.index();
  }
}

TEST(ControlMessage, RandomBytesNeverParse) {
  const uint64_t seed = testing::UnitTest::GetInstance()->random_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  uint64_t state = seed;
  for (int i = 0; i < 2000; ++i) {
    ControlHead head;
    for (std::byte& b : head)
      b = static_cast<std::byte>((state = state * 6364136223846793005u + 1) >> 56);
    EXPECT_FALSE(ParseControlHead(head).ok());
  }
}

TEST(ControlStatus, SurvivesTheWire) {
  const Status status(gwMismatch, ErrorDetail{.message = "ranks disagree",
                                              .op = "all-reduce",
                                              .tensor = "w",
                                              .hint = "use one count",
                                              .rank = 2,
                                              .peer = 1,
                                              .op_seq = 17,
                                              .field = "count",
                                              .expected = "4",
                                              .actual = "5"});
  EXPECT_EQ(DecodeStatus(EncodeStatus(status)).ToString(), status.ToString());
}

TEST(ControlStatus, AnyBytesDecodeToAnError) {
  const std::string good = EncodeStatus(Status(gwPeerLost, "gone"));
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_EQ(DecodeStatus(good.substr(0, n)).code(), gwDataCorrupt) << n;
  }
  for (const int code : {0, -1, 9, 99, 123, 127, 1 << 30}) {
    std::string bad = good;
    std::memcpy(bad.data(), &code, 4);
    EXPECT_EQ(DecodeStatus(bad).code(), gwDataCorrupt) << code;
  }
  const Status long_text(gwPeerLost, std::string(1 << 20, 'x'));
  EXPECT_LE(EncodeStatus(long_text).size(), 4096u);
}

}  // namespace
}  // namespace gradwire
