#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/nearest_name.h"
#include "cli/size_text.h"
#include "cli/subcommand.h"

namespace gradwire {
namespace {

void AppendOptions(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names->push_back("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; }))
    AppendOptions(*group, names);
}

// For the first unknown option; empty where what is unknown is none, or near none.
std::string SuggestOption(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& text) { return text.starts_with("--"); });
  if (option == unknown.end()) return {};
  std::vector<std::string> known;
  AppendOptions(app, &known);
  const std::vector<std::string_view> names(known.begin(), known.end());
  return DidYouMean(option->substr(0, option->find('=')), names);
}

// CLI11 knows nothing of what is behind "--".
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string name) const override {
    return fmt::format("{}: {} {}\n", get_label("Usage"), name, usage_);
  }

 private:
  std::string usage_;
};

// Of the check that each number has, which InRange makes stricter.
constexpr char kNumberCheck[] = "number";

// These give "", or what is wrong with the text.

std::string CheckUnsigned(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return {};
  return fmt::format("'{}' is no whole number from 0 to {}", text,
                     std::numeric_limits<uint64_t>::max());
}

template <class T>
std::string CheckNumber(const std::string& text) {
  T value = 0;
  if (CLI::detail::lexical_cast(text, value)) return {};
  return std::is_integral_v<T> ? fmt::format("'{}' is no whole number, or too large a one", text)
                               : fmt::format("'{}' is no number", text);
}

std::string CheckRange(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
  return fmt::format("'{}' is no whole number from {} to {}", text, least, most);
}

}  // namespace

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::InRange(int64_t least, int64_t most) {
  option_->get_validator(kNumberCheck)
      ->operation([=](const std::string& text) { return CheckRange(text, least, most); })
      .description(fmt::format("{}..{}", least, most));
  return *this;
}

Argument& Argument::Size() {
  const auto spell_out = [](std::string& text) {
    const std::optional<int64_t> size = ParseSize(text);
    if (!size) return fmt::format("'{}' is no size, as 1000 or 64K", text);
    text = std::to_string(*size);
    return std::string();
  };
  // In front of the other checks.
  option_->transform(CLI::Validator(spell_out, ""))->type_name("SIZE");
  return *this;
}

Argument& Argument::NotEmpty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? "its value is empty" : std::string();
  };
  option_->check(check);
  return *this;
}

Argument& Argument::Seconds() {
  const auto check = [](const std::string& text) {
    double seconds = -1;
    // Written so that NaN is refused.
    const bool fits =
        CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= kMaxSeconds;
    return fits ? std::string() : fmt::format("'{}' is not from 0 to {:.0f} s", text, kMaxSeconds);
  };
  option_->check(check, "SECONDS");
  return *this;
}

Argument& Argument::OneOf(const std::vector<std::string>& texts) {
  const auto check = [texts](const std::string& text) {
    if (std::ranges::find(texts, text) != texts.end()) return std::string();
    const std::vector<std::string_view> names(texts.begin(), texts.end());
    const std::string hint = DidYouMean(text, names);
    return fmt::format("'{}' is none of {}{}{}", text, fmt::join(texts, ", "),
                       hint.empty() ? "" : ". ", hint);
  };
  option_->check(check, fmt::format("{{{}}}", fmt::join(texts, ",")));
  return *this;
}

Argument& Argument::ExistingFile() {
  option_->check(CLI::ExistingFile);
  return *this;
}

Argument& Argument::Excludes(const Argument& other) {
  option_->excludes(other.option_);
  return *this;
}

Argument& Argument::OneValueEach() {
  option_->allow_extra_args(false);
  return *this;
}

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : app_(std::make_shared<CLI::App>(description, program)) {
  app_->failure_message([](const CLI::App* app, const CLI::Error& error) {
    return fmt::format("{0}: {1}\n{0} --help says more\n", app->get_name(), error.what());
  });
}

CommandLine::CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

template <class T>
Argument CommandLine::Add(const std::string& names, T* value, const std::string& doc) {
  CLI::Option* const option = app_->add_option(names, *value, doc);
  if constexpr (std::is_same_v<T, uint64_t>) {
    // CLI11 takes -1 for the largest, and so what is larger.
    option->check(CheckUnsigned, "", kNumberCheck);
  } else if constexpr (std::is_arithmetic_v<T>) {
    option->check(CheckNumber<T>, "", kNumberCheck);
  }
  return Argument(option);
}

template Argument CommandLine::Add(const std::string&, int*, const std::string&);
template Argument CommandLine::Add(const std::string&, int64_t*, const std::string&);
template Argument CommandLine::Add(const std::string&, uint64_t*, const std::string&);
template Argument CommandLine::Add(const std::string&, double*, const std::string&);
template Argument CommandLine::Add(const std::string&, std::string*, const std::string&);
template Argument CommandLine::Add(const std::string&, std::vector<std::string>*,
                                   const std::string&);

Argument CommandLine::AddFlag(const std::string& names, bool* value, const std::string& doc) {
  return Argument(app_->add_flag(names, *value, doc));
}

void CommandLine::AddJson(const std::string& names, std::string* path) {
  const auto set = [path](const CLI::results_t& values) {
    // CLI11 shows an option without its value as one empty text.
    *path = values.empty() || values[0].empty() ? "-" : values[0];
    return true;
  };
  app_->add_option(names, set, "write JSON to this file; without one, or with -, to stdout")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

void CommandLine::AddProgram(std::vector<std::string>* program, const std::string& usage) {
  program_ = program;
  app_->formatter(std::make_shared<UsageFormatter>(usage));
}

CommandLine CommandLine::AddChoice(const std::string& name) {
  CLI::Option_group* group = app_->add_option_group(name);
  group->require_option(1);
  choices_.push_back(group);
  // The group belongs to the whole, which it keeps.
  return CommandLine(std::shared_ptr<CLI::App>(app_, group));
}

// All that must be given and is not, or a choice that was made twice.
std::string CommandLine::TellRequired() const {
  std::vector<std::string> missing;
  for (const CLI::App* group : choices_) {
    std::vector<std::string> names;
    size_t given = 0;
    for (const CLI::Option* option : group->get_options()) {
      if (option == group->get_help_ptr()) continue;
      names.push_back(option->get_name());
      given += option->count() > 0 ? 1 : 0;
    }
    if (given > 1) return fmt::format("{} exclude each other", fmt::join(names, " and "));
    if (given == 0) missing.push_back(fmt::format("{}", fmt::join(names, " or ")));
  }
  for (const CLI::Option* option : app_->get_options()) {
    if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
  }
  return fmt::format("{} {} required", fmt::join(missing, ", and "),
                     missing.size() == 1 ? "is" : "are");
}

std::string CommandLine::TellExtras() const {
  const std::vector<std::string> extras = app_->remaining();
  const bool begins_a_program = program_ != nullptr && !extras.front().starts_with('-');
  const std::string hint =
      begins_a_program ? "Write the program and its arguments behind --" : SuggestOption(*app_);
  return fmt::format("not expected: {}{}{}", fmt::join(extras, " "), hint.empty() ? "" : ". ",
                     hint);
}

std::optional<int> CommandLine::Parse(std::span<const std::string> args) {
  const auto dashes = program_ != nullptr ? std::ranges::find(args, "--") : args.end();
  // CLI11 takes them last first.
  std::vector<std::string> reversed(std::make_reverse_iterator(dashes), args.rend());
  const auto fail = [this](const CLI::Error& error) {
    return app_->exit(error) == 0 ? kExitOk : kExitUsage;
  };
  try {
    app_->parse(reversed);
    if (program_ != nullptr) {
      if (dashes != args.end()) program_->assign(dashes + 1, args.end());
      if (program_->empty()) throw CLI::ParseError("no program; write it behind --", kExitUsage);
    }
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    return fail(CLI::ParseError(TellExtras(), kExitUsage));
  } catch (const CLI::ArgumentMismatch& error) {
    // In CLI11's words the name comes first.
    const std::string text = error.what();
    return fail(CLI::ParseError(text.substr(0, text.find(':')) + " takes one value", kExitUsage));
  } catch (const CLI::RequiredError&) {
    // What is required may be among them, misspelt.
    if (!app_->remaining().empty()) return fail(CLI::ParseError(TellExtras(), kExitUsage));
    return fail(CLI::ParseError(TellRequired(), kExitUsage));
  } catch (const CLI::ParseError& error) {
    return fail(error);
  }
}

}  // namespace gradwire
