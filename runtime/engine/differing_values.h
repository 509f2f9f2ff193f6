// What ranks that disagree are shown of their values.
#ifndef GRADWIRE_RUNTIME_ENGINE_DIFFERING_VALUES_H_
#define GRADWIRE_RUNTIME_ENGINE_DIFFERING_VALUES_H_

#include <string>

namespace gradwire {

struct DifferingValues {
  std::string expected, actual;
};

// As they are where they are short. Of long ones, as lists of names are, what begins with the first
// item that differs, cut: a reason that travels to other ranks has little room, and what they have
// in common would fill it.
DifferingValues FromWhereTheyDiffer(const std::string& expected, const std::string& actual);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_DIFFERING_VALUES_H_
