// Bounds: how far from the exact sum a codec leads a training, from what it loses of a gradient.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_
#define GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_

#include "runtime/controller/model.h"

namespace gradwire {

// What `candidate` has to keep below its bound; `relative_error`: |x - decoded|^2 / |x|^2, of a
// rank. Without feedback of |out - sum| / |sum| in one step, with feedback of
// |what is kept back| / |gradient|.
double Distance(const Candidate& candidate, double relative_error, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_
