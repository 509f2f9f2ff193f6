// Syntax of spec strings.
#include <algorithm>
#include <cctype>

#include "compress/registry.h"

namespace gradwire {
namespace {

// A spec comes from users and files: a bound keeps the error text readable.
constexpr size_t kMaxSpecChars = 4096;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool IsControl(char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

constexpr const char* kForm =
    "Write NAME or NAME(VALUE, KEY=VALUE, ...), as in qsgd(bits=4,block=256)";

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  StatusOr<SpecText> Parse() {
    SpecText spec;
    if (text_.size() > kMaxSpecChars) return Fail("is longer than 4096 characters");
    spec.name = Name();
    if (spec.name.empty()) return Fail("must begin with the name of a codec");
    if (Take('(') && !Take(')')) {
      do {
        if (Status s = Argument(&spec); !s.ok()) return s;
      } while (Take(','));
      if (!Take(')')) return Fail("has \"(\" without \")\"");
    }
    SkipBlanks();
    if (at_ != text_.size()) return Fail("has more text behind its end");
    return spec;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }

  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string Name() {
    SkipBlanks();
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // VALUE or KEY=VALUE.
  Status Argument(SpecText* spec) {
    const size_t begin = at_;
    std::string key = Name();
    if (key.empty() || !Take('=')) {
      key.clear();
      at_ = begin;
    }
    std::string value;
    GW_RETURN_IF_ERROR(Value(&value));
    spec->args.emplace_back(std::move(key), std::move(value));
    return Status::Ok();
  }

  // Up to the next comma or closing parenthesis, or anything in quotes.
  Status Value(std::string* value) {
    SkipBlanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const size_t end = text_.find(text_[at_], at_ + 1);
      if (end == std::string_view::npos) return Fail("has a quote that does not end");
      *value = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      if (value->find('"') != std::string::npos) return Fail("has a quote inside a value");
      // Specs stand in lines of logs and tables.
      if (std::any_of(value->begin(), value->end(), IsControl)) {
        return Fail("has a control character inside quotes");
      }
      return Status::Ok();
    }
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ',' || c == ')') break;
      if (c == '(') {
        return Fail("has a value with a parenthesis and no quotes",
                    "Write it in quotes, as in auto(allow=\"topk(0.01),powersgd(rank=4)\")");
      }
      if (c == '=' || c == '"' || c == '\'') return Fail("has a stray \"=\" or quote");
      if (IsBlank(c)) continue;
      if (IsControl(c)) return Fail("has a control character");
      value->push_back(c);
    }
    if (value->empty()) return Fail("has an empty argument");
    return Status::Ok();
  }

  Status Fail(const std::string& what, const char* hint = kForm) const {
    return Status(gwInvalidArgument, "spec \"" + std::string(text_.substr(0, 80)) + "\" " + what,
                  hint);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

StatusOr<SpecText> ParseSpecText(std::string_view text) { return Parser(text).Parse(); }

}  // namespace gradwire
