#include "tests/fuzz/corpus.h"

#include <gtest/gtest.h>

namespace gradwire::fuzz {
namespace {

Input BytesOf(std::string_view text) { return {text.begin(), text.end()}; }

TEST(CorpusTest, ReadsDigitsTextsAndCounts) {
  EXPECT_EQ(ParseInput(""), Input());
  EXPECT_EQ(ParseInput("# nothing but this"), Input());
  EXPECT_EQ(ParseInput("00fF 7e\n80"), (Input{0x00, 0xFF, 0x7E, 0x80}));
  EXPECT_EQ(ParseInput("\"a # b\" # c\n\t\"\" 00"), BytesOf(std::string_view("a # b\0", 6)));
  EXPECT_EQ(ParseInput("\"ab\"*2 0102*3 ff*0"), (Input{'a', 'b', 'a', 'b', 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(ParseInput("00*1048576")->size(), size_t{1} << 20);
}

TEST(CorpusTest, RefusesEverythingElse) {
  for (const char* text :
       {"0", "0g", "xyz", "\"ab", "ab\"", "*3", "00*", "00*x", "00*-1", "00*2x", "00*2 *3",
        "\"a\"00", "00*1048577", "00*99999999999999999999", "00*1000000 00*1000000", "00\"a\""}) {
    EXPECT_FALSE(ParseInput(text)) << text;
  }
}

TEST(CorpusTest, WhereThereIsNoFolderNothingIsKept) {
  EXPECT_TRUE(ReadCorpus("no/such/folder").empty());
}

}  // namespace
}  // namespace gradwire::fuzz
