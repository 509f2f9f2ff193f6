#include "collectives/reduce/loops.h"

namespace gradwire {

constinit const ReduceKernels kBaselineReduceKernels = Loops();

}  // namespace gradwire
