#include "runtime/recorder/engine_notes.h"

#include <string>

#include "runtime/recorder/recorded_text.h"

namespace gradwire {

void EngineNotes::Add(RecorderEvent event) const {
  if (recorder_ == nullptr) return;
  if (event.time_ns == 0) event.time_ns = clock_->NowNs();
  recorder_->Record(event);
}

void EngineNotes::Add(RecorderEvent event, const Status& status) const {
  if (status.ok()) return Add(event);
  const std::string text = RecordedText(status.detail());
  event.peer = status.detail().peer;
  event.status = status.code();
  event.text = text;
  Add(event);
}

}  // namespace gradwire
