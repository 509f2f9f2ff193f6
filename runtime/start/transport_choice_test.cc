#include "runtime/start/transport_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/log_lines.h"

namespace gradwire {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

OpText Offer(const std::vector<std::string>& kinds, const std::vector<std::string>& missing = {}) {
  OpText text;
  for (const std::string& kind : kinds) text.emplace_back("end", kind + "|00");
  for (const std::string& kind : missing) text.emplace_back("no-end", kind + "|it is not here");
  return text;
}

// With the ends in this order; `-kind` is not installed, `!kind` is and does not work.
OpText OfferOf(const std::vector<std::string>& ends) {
  OpText text;
  for (const std::string& end : ends) {
    const std::string kind = end.substr(1);
    if (end[0] == '-') text.emplace_back("not-installed", kind + "|");
    if (end[0] == '-' || end[0] == '!') text.emplace_back("no-end", kind + "|it is broken");
    if (end[0] == '+') text.emplace_back("end", kind + "|00");
  }
  return text;
}

// What a choice tells of at the default level.
std::vector<std::string> Warnings(const std::vector<OpText>& offers, bool one_host) {
  const LogLines lines;
  EXPECT_TRUE(ChooseTransport(offers, one_host).ok());
  return lines.all();
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

TEST(TransportChoiceTest, WhatIsInstalledAndDoesNotWorkIsPassedOverWithAWarning) {
  const OpText whole = OfferOf({"+shm host", "+ucx anywhere", "+tcp anywhere"});
  const OpText broken = OfferOf({"+shm host", "!ucx anywhere", "+tcp anywhere"});
  const OpText absent = OfferOf({"+shm host", "-ucx anywhere", "+tcp anywhere"});
  const auto of_rank = [](const char* rank) {
    return ElementsAre(AllOf(HasSubstr("WARN"), HasSubstr("takes tcp and passes over ucx"),
                             HasSubstr(rank), HasSubstr("it is broken")));
  };
  EXPECT_THAT(Warnings({broken, broken}, false), of_rank("rank 0"));
  EXPECT_THAT(Warnings({whole, broken}, false), of_rank("rank 1"));
  EXPECT_THAT(Warnings({absent, broken}, false), of_rank("rank 1"));
  EXPECT_THAT(Warnings({absent, absent}, false), IsEmpty());
  EXPECT_THAT(Warnings({whole, absent}, false), IsEmpty());
  EXPECT_THAT(Warnings({whole, whole}, false), IsEmpty());
  EXPECT_THAT(Warnings({broken, broken}, true), IsEmpty()) << "shm is better in any case";
}

TEST(TransportChoiceTest, RanksOfAHostThatDoNotShareMemoryAreWarnedOnce) {
  const OpText no_shm = OfferOf({"!shm host", "!ucx host", "!ucx anywhere", "+tcp anywhere"});
  EXPECT_THAT(Warnings({no_shm, no_shm}, true),
              ElementsAre(HasSubstr("passes over shm"), HasSubstr("passes over ucx")));
  const OpText by_ucx = OfferOf({"!shm host", "+ucx host", "+ucx anywhere", "+tcp anywhere"});
  EXPECT_THAT(Warnings({by_ucx, by_ucx}, true),
              ElementsAre(HasSubstr("takes ucx and passes over shm")));
  EXPECT_THAT(Warnings({by_ucx, by_ucx}, false), IsEmpty()) << "shm reaches no other host";
}

TEST(TransportChoiceTest, AHostsTransportDoesNotReachOthers) {
  EXPECT_THAT(Chosen({Offer({"shm host"}), Offer({"shm host"})}, false),
              HasSubstr("transport shm stays within a host, and the ranks are on several"));
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

TEST(TransportChoiceTest, SaysWhereTheSettingOfAnEndIsFrom) {
  const Settings settings = *Settings::Load({.environment = {{"GRADWIRE_INTERFACE", "no-such"}}});
  StatusOr<TransportOffer> offer = TransportOffer::Make(
      "tcp", {.rank = 0, .world_size = 2, .job = 4715, .interface = settings.Text("interface")});
  ASSERT_TRUE(offer.ok()) << offer.status().ToString();
  offer->Explain(settings);
  EXPECT_THAT(EncodeOpText(offer->Text()),
              HasSubstr("setting 'interface' = 'no-such' (from GRADWIRE_INTERFACE): "));
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
