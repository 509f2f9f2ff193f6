// What all subcommands do with their command lines.
#ifndef GRADWIRE_CLI_ARGUMENTS_H_
#define GRADWIRE_CLI_ARGUMENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

// CLI11 is seen by arguments.cc alone: its header takes ten seconds to compile.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gradwire {

// The longest time on a command line, a year: its nanoseconds fit their type.
inline constexpr double kMaxSeconds = 365.0 * 24 * 3600;

// What else is to be said of an option. Valid as long as its CommandLine.
class Argument {
 public:
  Argument& Required();
  // Of a whole number.
  Argument& InRange(int64_t least, int64_t most);
  // Also with K, M, G or T, as 64K; not negative.
  Argument& Size();
  // Where scripts give it a variable: '' is refused, rather than taken for an absent option.
  Argument& NotEmpty();
  // From 0 to kMaxSeconds.
  Argument& Seconds();
  Argument& OneOf(const std::vector<std::string>& texts);
  Argument& ExistingFile();
  Argument& Excludes(const Argument& other);
  // An option that may be repeated takes one value each time, not all that follow.
  Argument& OneValueEach();

 private:
  friend class CommandLine;
  explicit Argument(CLI::Option* option) : option_(option) {}

  CLI::Option* option_;  // the command line's
};

// The options of a subcommand, then its arguments.
class CommandLine {
 public:
  // `program`: as the user writes it, "gradwire perf".
  CommandLine(const std::string& description, const std::string& program);

  // `names`: "-n,--ranks"; without dashes a positional argument. `*value` is its default, outlives
  // the parsing and may be an int, int64_t, uint64_t, double, string or vector of strings.
  template <class T>
  Argument Add(const std::string& names, T* value, const std::string& doc);
  Argument AddFlag(const std::string& names, bool* value, const std::string& doc);
  // --json: `*path` stays empty without it, and is "-" (standard output) where no file follows.
  // `names`: "--json", perhaps with a short name.
  void AddJson(const std::string& names, std::string* path);
  // What comes behind the first "--" goes there: a program and its arguments. There must be one.
  // `usage`: what the help shows behind this program's name, "[OPTIONS] -- COMMAND [ARGS]".
  void AddProgram(std::vector<std::string>* program, const std::string& usage);
  // Options added to this part exclude each other, and one must be given.
  CommandLine AddChoice(const std::string& name);

  // An exit code, with help or the error already printed, where the subcommand is to end at once;
  // nothing where it is to go on.
  std::optional<int> Parse(std::span<const std::string> args);

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app);

  // What is wrong with arguments that nothing takes.
  std::string TellExtras() const;
  std::string TellRequired() const;

  std::shared_ptr<CLI::App> app_;
  std::vector<const CLI::App*> choices_;         // of which one option each must be given
  std::vector<std::string>* program_ = nullptr;  // the caller's; null: there is to be none
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ARGUMENTS_H_
