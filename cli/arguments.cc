#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/subcommand.h"

namespace gradwire {

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::InRange(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Argument& Argument::NotNegative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Argument& Argument::OneOf(const std::vector<std::string>& texts) {
  option_->check(CLI::IsMember(texts));
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
    : app_(std::make_shared<CLI::App>(description, program)) {}

CommandLine::CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

template <class T>
Argument CommandLine::Add(const std::string& names, T* value, const std::string& doc) {
  return Argument(app_->add_option(names, *value, doc));
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

CommandLine CommandLine::AddChoice(const std::string& name) {
  CLI::Option_group* group = app_->add_option_group(name);
  group->require_option(1);
  // The group belongs to the whole, which it keeps.
  return CommandLine(std::shared_ptr<CLI::App>(app_, group));
}

std::optional<int> CommandLine::Parse(std::span<const std::string> args) {
  // CLI11 takes them last first.
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app_->parse(reversed);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kExitOk : kExitUsage;
  }
}

SplitArguments SplitAtDashes(std::span<const std::string> args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  SplitArguments split{{args.begin(), dashes}, {}};
  if (dashes != args.end()) split.command.assign(dashes + 1, args.end());
  return split;
}

}  // namespace gradwire
