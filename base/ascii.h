// Letters of ASCII, whatever the locale.
#ifndef GRADWIRE_BASE_ASCII_H_
#define GRADWIRE_BASE_ASCII_H_

namespace gradwire {

constexpr char LowerAscii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr char UpperAscii(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_ASCII_H_
