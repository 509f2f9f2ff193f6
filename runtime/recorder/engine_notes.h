// EngineNotes: what an engine writes to its flight recorder.
#ifndef GRADWIRE_RUNTIME_RECORDER_ENGINE_NOTES_H_
#define GRADWIRE_RUNTIME_RECORDER_ENGINE_NOTES_H_

#include "base/clock.h"
#include "base/status.h"
#include "runtime/recorder/recorder.h"

namespace gradwire {

class EngineNotes {
 public:
  // Both outlive this. A null recorder: nothing is recorded.
  EngineNotes(Recorder* recorder, const Clock* clock) : recorder_(recorder), clock_(clock) {}

  // Without a time it is now.
  void Add(RecorderEvent event) const;
  // With how it ended: of an error its code, its peer and its words.
  void Add(RecorderEvent event, const Status& status) const;

 private:
  Recorder* const recorder_;
  const Clock* const clock_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_ENGINE_NOTES_H_
