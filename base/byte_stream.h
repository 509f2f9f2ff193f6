// Numbers and texts one behind the other, as they lie in memory (little-endian, without padding),
// and back from any bytes.
#ifndef GRADWIRE_BASE_BYTE_STREAM_H_
#define GRADWIRE_BASE_BYTE_STREAM_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/view.h"

namespace gradwire {

inline ConstBytes TextBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), static_cast<int64_t>(text.size())};
}

inline std::string_view BytesText(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data), static_cast<size_t>(bytes.size)};
}

class ByteWriter {
 public:
  template <typename... T>
  void Put(T... values) {
    static_assert(((std::is_arithmetic_v<T> || std::has_unique_object_representations_v<T>)&&...),
                  "padding would leak memory");
    (bytes_.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  }
  void Append(ConstBytes bytes) { bytes_ += BytesText(bytes); }
  // With their number before them, which fits `Length`.
  template <typename Length = uint64_t>
  void PutBytes(ConstBytes bytes) {
    Put(static_cast<Length>(bytes.size));
    Append(bytes);
  }
  template <typename Length = uint64_t>
  void PutText(std::string_view text) {
    PutBytes<Length>(TextBytes(text));
  }

  const std::string& bytes() const { return bytes_; }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the end everything reads as zero, and ok() is false. What is read stays where it is: the
// bytes outlive the reader and what GetBytes gave.
class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : bytes_(bytes) {}
  explicit ByteReader(std::string_view bytes) : ByteReader(TextBytes(bytes)) {}

  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const ConstBytes part = Take(sizeof(T));
    if (ok_) std::memcpy(&value, part.data, sizeof(T));
    return value;
  }
  template <typename... T>
  void Get(T*... values) {
    ((*values = Get<T>()), ...);
  }
  template <typename Length = uint64_t>
  ConstBytes GetBytes() {
    return Take(Get<Length>());
  }
  template <typename Length = uint64_t>
  std::string GetText() {
    return std::string(BytesText(GetBytes<Length>()));
  }

  bool ok() const { return ok_; }
  bool at_end() const { return at_ == bytes_.size; }

 private:
  ConstBytes Take(uint64_t bytes) {
    if (!ok_ || bytes > static_cast<uint64_t>(bytes_.size - at_)) {
      ok_ = false;
      return {};
    }
    at_ += static_cast<int64_t>(bytes);
    return bytes_.Sub(at_ - static_cast<int64_t>(bytes), static_cast<int64_t>(bytes));
  }

  const ConstBytes bytes_;
  int64_t at_ = 0;
  bool ok_ = true;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_BYTE_STREAM_H_
