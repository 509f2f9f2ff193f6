#include "runtime/engine/slice_window.h"

#include <algorithm>
#include <cmath>

namespace gradwire {
namespace {

// What a full slice counts: the least has a sixteenth, so that kLeast full ones make room for
// kMost.
constexpr int kFullLoad = SliceWindow::kMost / SliceWindow::kLeast;

// Operations of a kind with a slice that is alone: the least time of the last ones counts, for one
// may have waited for a late rank, and a way may become another. Where there is a window already
// that of another kind waits until it is there to stay: what is on trial is not to be slowed.
constexpr int64_t kFirstAlone = 4, kAloneEvery = 64, kBeforeAnother = 16;

// Of the time of a slice alone. Four that share a link without latency take two to four times that.
constexpr double kHardlyLonger = 1.5;
// Twice is what the others' smaller windows make of a slice.
constexpr double kTooLong = 3;
// One slow batch may have waited for a rank that was late.
constexpr int kSlowBatches = 2;

}  // namespace

SliceWindow::SliceWindow(int fixed) : fixed_(fixed > 0), size_(fixed > 0 ? fixed : kLeast) {}

int SliceWindow::LoadOf(double fill) const {
  if (fixed_) return kFullLoad;
  return std::clamp(static_cast<int>(std::ceil(fill * kFullLoad)), 1, kFullLoad);
}

SliceWindow::Kind* SliceWindow::Find(uint64_t kind) {
  const auto it =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) { return k.kind == kind; });
  return it == kinds_.end() ? nullptr : &*it;
}

bool SliceWindow::WantsAlone(uint64_t kind) {
  if (fixed_) return false;
  Kind* known = Find(kind);
  if (known == nullptr) {
    known = std::min_element(kinds_.begin(), kinds_.end(), [](const Kind& a, const Kind& b) {
      return a.asked_last < b.asked_last;
    });
    *known = {.kind = kind, .operations = asked_ == 0 ? 0 : kAloneEvery - kBeforeAnother};
  }
  known->asked_last = ++asked_;
  const int64_t operation = known->operations++;
  return operation < kFirstAlone || operation % kAloneEvery == 0;
}

bool SliceWindow::HasRoom(int load, bool alone) {
  if (slices_ == 0) return true;
  if (alone || alone_) return false;
  if (slices_ < most() && load_ + load <= size_ * kFullLoad) return true;
  had_no_room_ = true;
  return false;
}

void SliceWindow::Begin(int load, bool alone) {
  load_ += load;
  ++slices_;
  alone_ = alone;
}

void SliceWindow::End(int load) {
  load_ -= load;
  --slices_;
  alone_ = false;
}

void SliceWindow::NoteTime(uint64_t kind, int64_t took_ns) {
  Kind* const known = Find(kind);
  if (fixed_ || known == nullptr) return;
  if (alone_) {
    known->alone_ns[known->next_alone++ % known->alone_ns.size()] = std::max<int64_t>(took_ns, 1);
  } else if (stale_ > 0) {
    --stale_;
  } else if (known->next_alone > 0) {
    const size_t times = std::min(known->next_alone, known->alone_ns.size());
    const int64_t alone_ns =
        *std::min_element(known->alone_ns.begin(), known->alone_ns.begin() + times);
    longer_[static_cast<size_t>(batch_++)] =
        static_cast<double>(took_ns) / static_cast<double>(alone_ns);
    if (batch_ == size_) EndBatch();
  }
}

void SliceWindow::EndBatch() {
  const auto begin = longer_.begin(), middle = begin + batch_ / 2;
  std::nth_element(begin, middle, begin + batch_);
  const double longer = *middle;
  slow_batches_ = longer > kTooLong ? slow_batches_ + 1 : 0;
  if (had_no_room_ && longer < kHardlyLonger && size_ < kMost) {
    Resize(2 * size_);
  } else if (slow_batches_ == kSlowBatches && size_ > kLeast) {
    Resize(size_ / 2);
  }
  batch_ = 0;
  had_no_room_ = false;
}

// What is in flight has begun among more or fewer others.
void SliceWindow::Resize(int size) {
  size_ = size;
  stale_ = std::max(slices_ - 1, 0);  // without the one that ends
  slow_batches_ = 0;
}

}  // namespace gradwire
