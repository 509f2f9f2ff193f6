#include "runtime/transport_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

using testing::HasSubstr;

OpText Offer(const std::vector<std::string>& kinds, const std::vector<std::string>& missing = {}) {
  OpText text;
  for (const std::string& kind : kinds) text.emplace_back("end", kind + "|00");
  for (const std::string& kind : missing) text.emplace_back("no-end", kind + "|it is not here");
  return text;
}

std::string Chosen(const std::vector<OpText>& offers, bool one_host) {
  StatusOr<std::string> kind = ChooseTransport(offers, one_host);
  return kind.ok() ? *kind : kind.status().ToString();
}

TEST(TransportChoiceTest, TakesTheFirstThatAllHaveAndThatReachesThem) {
  const std::vector<OpText> offers = {Offer({"shm host", "ucx anywhere", "tcp anywhere"}),
                                      Offer({"shm host", "tcp anywhere"})};
  EXPECT_EQ(Chosen(offers, true), "shm host");
  EXPECT_EQ(Chosen(offers, false), "tcp anywhere");
}

TEST(TransportChoiceTest, NoEndWithinTheHostIsNotReplacedInSilence) {
  const OpText whole = Offer({"ucx host", "ucx anywhere"});
  const OpText half = Offer({"ucx anywhere"}, {"ucx host"});
  EXPECT_THAT(Chosen({whole, half}, true), HasSubstr("rank 1 lacks ucx: it is not here"));
  EXPECT_EQ(Chosen({whole, half}, false), "ucx anywhere");
}

TEST(TransportChoiceTest, AHostsTransportDoesNotReachOthers) {
  EXPECT_THAT(Chosen({Offer({"shm host"}), Offer({"shm host"})}, false),
              HasSubstr("stays within a host"));
}

TEST(TransportChoiceTest, AKindMayHoldAnything) {
  const std::string kind = "faulty(loopback,delay=0.1) host";
  const OpText offer = DecodeOpText(EncodeOpText(Offer({kind})));
  EXPECT_EQ(Chosen({offer, offer}, true), kind);
  EXPECT_EQ(TransportName(kind), "faulty(loopback,delay=0.1)");
}

TEST(TransportChoiceTest, OffersWhatItTakes) {
  StatusOr<TransportOffer> offer =
      TransportOffer::Make("loopback", {.rank = 0, .world_size = 1, .job = 4712});
  ASSERT_TRUE(offer.ok()) << offer.status().ToString();
  const std::vector<OpText> offers = {offer->Text()};
  StatusOr<std::string> kind = ChooseTransport(offers, true);
  ASSERT_TRUE(kind.ok()) << kind.status().ToString();
  auto transport = std::move(*offer).Take(*kind, offers);
  EXPECT_TRUE(transport.ok()) << transport.status().ToString();
}

TEST(TransportChoiceTest, AutomaticMeansProcesses) {
  StatusOr<TransportOffer> offer =
      TransportOffer::Make("auto", {.rank = 0, .world_size = 2, .job = 4713});
  ASSERT_TRUE(offer.ok()) << offer.status().ToString();
  const std::string text = EncodeOpText(offer->Text());
  EXPECT_THAT(text, HasSubstr("end=shm host|"));
  EXPECT_THAT(text, testing::Not(HasSubstr("loopback")));
}

TEST(TransportChoiceTest, RefusesWhatIsNone) {
  EXPECT_EQ(TransportOffer::Make("shmm", {.world_size = 2}).status().code(), gwInvalidArgument);
  StatusOr<TransportOffer> offer =
      TransportOffer::Make("loopback", {.rank = 0, .world_size = 1, .job = 4714});
  ASSERT_TRUE(offer.ok());
  const std::vector<OpText> offers = {offer->Text()};
  EXPECT_EQ(std::move(*offer).Take("ucx host", offers).status().code(), gwInternalError);
}

}  // namespace
}  // namespace gradwire
