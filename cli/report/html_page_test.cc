#include "cli/report/html_page.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/report/line_plot.h"
#include "cli/report/svg_picture.h"

namespace gradwire {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

LinePlot TwoLines() {
  return {
      .heading = "a \"b\" <c>",
      .x = {.label = "x", .low = 0.0, .high = 10.0},
      .y = {.label = "y", .low = 0.0, .high = 1.0},
      .series = {{.name = "up", .points = {{0, 0}, {10, 1}}}, {.name = "down & out", .points = {}}},
      .target = PlotTarget{0.5, "half"}};
}

ReportSection OneSection() {
  return {.heading = "section",
          .plots = {TwoLines(), TwoLines()},
          .tables = {{.columns = {"name", "value"}, .rows = {{"up", "1"}, {"none", "<2>"}}}},
          .notes = {"a note"}};
}

TEST(LinePlotSvg, GoesThroughItsPoints) {
  const std::string svg = LinePlotSvg(TwoLines(), LooksOf(OneSection()));
  EXPECT_NE(svg.find("d=\"M56.0 348.0L602.0 16.0\""), std::string::npos) << svg;
  EXPECT_EQ(CountOf(svg, "<circle"), 2u);
  EXPECT_NE(svg.find("aria-label=\"a &quot;b&quot; &lt;c&gt;\""), std::string::npos) << svg;
  EXPECT_NE(svg.find(">half</text>"), std::string::npos) << svg;
}

TEST(LinePlotSvg, SaysWhichAxesAreLogarithmic) {
  LinePlot plot = TwoLines();
  plot.x.logarithmic = true;
  const std::string svg = LinePlotSvg(plot, LooksOf(OneSection()));
  EXPECT_NE(svg.find(">x (logarithmic)</text>"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">y</text>"), std::string::npos) << svg;
}

TEST(LinePlotSvg, HasNoDotsOnLongLines) {
  LinePlot plot = TwoLines();
  for (int i = 0; i < 1000; ++i) plot.series[0].points.push_back({i * 0.01, 0.5});
  const std::string svg = LinePlotSvg(plot, LooksOf({.plots = {plot}}));
  EXPECT_EQ(CountOf(svg, "<circle"), 0u);
}

TEST(LooksOf, GivesEachNameItsColour) {
  ReportSection section;
  LinePlot plot;
  for (unsigned i = 0; i < kPaletteSize + 1; ++i)
    plot.series.push_back({.name = std::to_string(i), .points = {}});
  plot.series.push_back({.name = "theirs", .points = {}, .colour = 2, .dashed = true});
  section.plots = {plot, plot};
  const SeriesLooks looks = LooksOf(section);
  EXPECT_EQ(looks.at("3").colour, 3u);
  EXPECT_FALSE(looks.at("3").dashed);
  EXPECT_EQ(looks.at("8").colour, 0u);
  EXPECT_TRUE(looks.at("8").dashed);
  EXPECT_EQ(looks.at("theirs").colour, 2u);
  EXPECT_TRUE(looks.at("theirs").dashed);
}

TEST(HtmlPage, ShowsAllOfIt) {
  const std::string html = HtmlPage({"title", "subtitle", {OneSection()}});
  EXPECT_NE(html.find("<h1>title</h1>"), std::string::npos);
  EXPECT_NE(html.find("<p>subtitle</p>"), std::string::npos);
  EXPECT_NE(html.find("<h2>section</h2>"), std::string::npos);
  EXPECT_EQ(CountOf(html, "<svg viewBox="), 2u);
  EXPECT_EQ(CountOf(html, "<li>"), 2u) << "a name is once in the legend";
  EXPECT_NE(html.find("<td>&lt;2&gt;</td>"), std::string::npos);
  EXPECT_NE(html.find("<p>a note</p>"), std::string::npos);
  // The key of a line stands in the legend and before its row.
  EXPECT_EQ(CountOf(html, R"html(<span class="key" style="--c:var(--line-0)"></span>up)html"), 2u);
}

TEST(HtmlPage, LeavesOutWhatXmlDoesNotHave) {
  const std::string html = HtmlPage({"a\x01 b\tc", "", {}});
  EXPECT_NE(html.find("<h1>a\uFFFD b\tc</h1>"), std::string::npos) << html;
}

TEST(SvgPicture, ShowsAllPlots) {
  const std::string svg = SvgPicture({"a title", "", {OneSection(), {.notes = {"no plots"}}}});
  EXPECT_NE(svg.find("aria-label=\"a title\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"heading\">section</text>"), std::string::npos) << svg;
  EXPECT_EQ(CountOf(svg, "aria-label=\"a &quot;b&quot; &lt;c&gt;\""), 2u);
  EXPECT_EQ(CountOf(svg, "class=\"label\">up</text>"), 1u) << "a name is once in the legend";
  EXPECT_EQ(CountOf(svg, "class=\"series\" style=\"--c:var(--line-0)\""), 2u);
}

TEST(SvgPicture, WrapsItsLegend) {
  LinePlot plot = TwoLines();
  for (char c = 'a'; c < 'a' + 12; ++c) plot.series.push_back({std::string(20, c), {}});
  const std::string one = SvgPicture({"", "", {{.plots = {TwoLines()}}}});
  const std::string svg = SvgPicture({"", "", {{.plots = {plot}}}});
  EXPECT_NE(one.find("height=\"502\""), std::string::npos) << one;
  EXPECT_NE(svg.find("height=\"554\""), std::string::npos) << svg;
}

TEST(Reports, NeedNothingElse) {
  const ReportPage page = {"title", "", {OneSection()}};
  std::string svg = SvgPicture(page);
  const std::string name_space = "xmlns=\"http://www.w3.org/2000/svg\"";
  ASSERT_EQ(CountOf(svg, name_space), 1u);
  svg.erase(svg.find(name_space), name_space.size());
  for (const std::string& text : {HtmlPage(page), svg}) {
    for (const char* foreign : {"http", "src=", "href=", "<script", "@import", "url("})
      EXPECT_EQ(text.find(foreign), std::string::npos) << foreign;
  }
}

}  // namespace
}  // namespace gradwire
