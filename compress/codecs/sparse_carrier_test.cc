// What specs of sparse methods accept, and which tensors.
#include "compress/codecs/sparse_carrier.h"

#include <gtest/gtest.h>

#include <string>

#include "compress/codecs/randk/randk_codec.h"
#include "compress/codecs/topk/topk_codec.h"

namespace gradwire {
namespace {

StatusOr<Codec> Make(const std::string& spec) {
  const SpecText text = *ParseSpecText(spec);
  return text.name == "randk" ? RandkRow().make(text) : TopkRow().make(text);
}

TEST(SparseSpecs, SayWhatTheyAccept) {
  for (const std::string spec :
       {"randk(density=0)", "randk(density=1.5)", "topk(density=-1)", "topk(density=x)",
        "topk(feedback=off)", "topk(agreement=votes)", "topk(density=1e-4,agreement=owners)",
        "topk(agreement=owners,feedback=off)", "topk(momentum=0.9)", "topk(warmup=10)",
        "topk(agreement=gather,momentum=1)", "topk(agreement=gather,warmup=-1)"}) {
    EXPECT_EQ(Make(spec).status().code(), gwInvalidArgument) << spec;
  }
  EXPECT_NE(
      Make("topk(agreement=votes)").status().ToString().find("Accepted: speakers, owners, gather"),
      std::string::npos);
  EXPECT_EQ(Make("topk")->spec, "topk(density=0.01,agreement=speakers,feedback=on)");
  EXPECT_EQ(Make("topk(agreement=owners)")->spec,
            "topk(density=0.01,agreement=owners,feedback=on)");
  EXPECT_EQ(Make("topk(agreement=gather)")->spec,
            "topk(density=0.01,agreement=gather,momentum=0,warmup=0,feedback=on)");
  EXPECT_TRUE(Make("topk(density=0.000123,agreement=owners)").ok());
  EXPECT_EQ(Make("randk(feedback=off)")->spec, "randk(density=0.01,feedback=off)");
}

// The least density that is named selects one element; half of one is rounded up.
TEST(SparseSpecs, RefuseTensorsOfWhichNothingIsSelected) {
  for (const std::string name : {"randk", "topk"}) {
    const auto method = Make(name + "(density=0.01)")->carrier;
    for (int64_t elems : {0, 50, 51, 100000}) {
      EXPECT_TRUE(method->Check({.elems = elems}, 4).ok()) << elems;
    }
    EXPECT_EQ(method->Check({.elems = int64_t{1} << 32}, 4).code(), gwInvalidArgument);
    for (int64_t elems : {1, 7, 49}) {
      const Status refused = method->Check({.elems = elems}, 4);
      EXPECT_EQ(refused.code(), gwInvalidArgument);
      const std::string text = refused.ToString(), from = "for this tensor: ";
      const size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << text;
      const std::string least =
          text.substr(at + from.size(), text.find(" to ", at) - at - from.size());
      const auto accepting = Make(name + "(density=" + least + ")")->carrier;
      EXPECT_TRUE(accepting->Check({.elems = elems}, 4).ok()) << text;
      EXPECT_NE(text.find("min_numel=50 "), std::string::npos) << text;
    }
  }
}

// As a payload it asks the same of a tensor, but its indices are those of a block.
TEST(SparseSpecs, OwnersRefuseTensorsOfWhichNothingIsSelected) {
  const Codec owners = *Make("topk(density=0.01,agreement=owners)");
  for (const int64_t elems : {int64_t{0}, int64_t{50}, int64_t{4097}, int64_t{1} << 33}) {
    EXPECT_TRUE(owners.Check({.elems = elems}, 4).ok()) << elems;
  }
  for (const int64_t elems : {1, 49}) {
    EXPECT_EQ(owners.Check({.elems = elems}, 4).code(), gwInvalidArgument) << elems;
  }
  EXPECT_EQ(owners.Check({.elems = 49}, 4).ToString(),
            Make("topk(density=0.01)")->Check({.elems = 49}, 4).ToString());
  // The least that a block takes: of a longer tensor that is an element too.
  EXPECT_TRUE(
      Make("topk(density=0.0001220703125,agreement=owners)")->Check({.elems = 4096}, 4).ok());
}

TEST(SparseSpecs, NoteWhatRoundingChanges) {
  for (const std::string spec : {"randk(density=0.01)", "topk(density=0.01,agreement=gather)"}) {
    const auto method = Make(spec)->carrier;
    EXPECT_EQ(method->Note({.elems = 100'000}), "");
    EXPECT_EQ(method->Note({.elems = 0}), "");
    EXPECT_EQ(method->Note({.elems = 60}), "density 0.01 is rounded to 1 of 60 elements");
  }
}

TEST(SparseSpecs, NoteThatEachSpeakerNamesAnElement) {
  const auto note = [](double density, int64_t elems) {
    return Make("topk(density=" + std::to_string(density) + ")")->carrier->Note({.elems = elems});
  };
  EXPECT_EQ(note(0.01, 100'000), "");
  EXPECT_EQ(note(0.01, 0), "");
  EXPECT_EQ(note(0.01, 1600), "");
  EXPECT_EQ(note(1, 5), "") << "all of them are sent anyway";
  EXPECT_EQ(note(0.001, 2000),
            "up to 8 elements are sent, as each of up to 8 speakers names 1 at least");
  EXPECT_EQ(note(0.01, 900),
            "up to 16 elements are sent, as each of up to 8 speakers names 2 at least");
  EXPECT_EQ(note(0.01, 60),
            "density 0.01 is rounded to 1 of 60 elements; "
            "up to 8 elements are sent, as each of up to 8 speakers names 1 at least");
}

}  // namespace
}  // namespace gradwire
