// ShortSpec: a spec as people write it.
#ifndef GRADWIRE_COMPRESS_SHORT_SPEC_H_
#define GRADWIRE_COMPRESS_SHORT_SPEC_H_

#include <string>

namespace gradwire {

// Of a canonical spec, one that MakeCodec makes the same codec from, without the arguments that
// have their defaults; but a codec's first one, its strength, stays. "qsgd(bits=8)". Other text is
// returned as it is. Makes some codecs: not for the data path.
std::string ShortSpec(const std::string& canonical);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_SHORT_SPEC_H_
