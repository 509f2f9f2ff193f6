// The table of registered tensors as text, for ranks that compare theirs.
#ifndef GRADWIRE_RUNTIME_ENGINE_TENSOR_LIST_H_
#define GRADWIRE_RUNTIME_ENGINE_TENSOR_LIST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gradwire {

// Names and what they stand for, {"layer2.weight", "[128,64] float"}, in the order of the names.
using TensorList = std::vector<std::pair<std::string, std::string>>;

// At most `max_bytes` (at least 32), never empty. What does not fit is left out at the end, and the
// text says so.
std::string EncodeTensorList(const TensorList& list, int64_t max_bytes);

struct TensorListDifference {
  std::vector<std::string> names;  // of the tensors that are not the same on all ranks, in order
  // By rank, what it has of the first of them: "tensor w [2,3] float" or "no tensor w". Ranks whose
  // list ends before it are left out.
  std::vector<std::pair<int, std::string>> first;
};

// `texts`: by rank, of EncodeTensorList; any bytes are fine.
TensorListDifference CompareTensorLists(const std::vector<std::string>& texts);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_TENSOR_LIST_H_
