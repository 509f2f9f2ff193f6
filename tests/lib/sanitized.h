// Whether this build has a sanitizer, under which long tests take fewer of their cases: the plain
// build takes all.
#ifndef GRADWIRE_TESTS_LIB_SANITIZED_H_
#define GRADWIRE_TESTS_LIB_SANITIZED_H_

#if defined(__has_feature)
#define GRADWIRE_HAS_FEATURE(name) __has_feature(name)
#else
#define GRADWIRE_HAS_FEATURE(name) 0
#endif

namespace gradwire {

inline constexpr bool kSanitized =
    GRADWIRE_HAS_FEATURE(address_sanitizer) || GRADWIRE_HAS_FEATURE(thread_sanitizer);

}  // namespace gradwire

#undef GRADWIRE_HAS_FEATURE

#endif  // GRADWIRE_TESTS_LIB_SANITIZED_H_
