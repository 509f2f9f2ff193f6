#include "runtime/controller/trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradwire {
namespace {

constexpr int kMaxBlocks = 12;
// Few blocks may agree by chance.
constexpr double kLeastDeviation = 0.02;
// Steps of one plan in one block this far apart: a rank was late in one of them. With 10 % of noise
// that is one pair in 250.
constexpr double kDisturbed = 1.5;

}  // namespace

bool FarApart(double us, double other_us) {
  return std::max(us, other_us) > kDisturbed * std::min(us, other_us);
}

bool Trial::IsDisturbed() const {
  const auto [a1, b1, b2, a2] = block_;
  // Where plans settle their first steps may be as long as they like.
  const bool a = options_.settles ? a1 > kDisturbed * a2 : FarApart(a1, a2);
  const bool b = options_.settles ? b2 > kDisturbed * b1 : FarApart(b1, b2);
  // Every second step of the job is longer: one of either plan, so that it cancels out.
  const bool alternates = a && b && !FarApart(a1 * b1, a2 * b2);
  return (a || b) && !alternates;
}

double Trial::LogOfB() const {
  const auto [a1, b1, b2, a2] = block_;
  return options_.settles ? std::log(b2) : (std::log(b1) + std::log(b2)) / 2;
}

// The logarithm of B's time over A's.
double Trial::RatioOfBlock() const {
  const auto [a1, b1, b2, a2] = block_;
  return LogOfB() - (options_.settles ? std::log(a1) : (std::log(a1) + std::log(a2)) / 2);
}

// What the block took longer than four steps of A would have.
double Trial::ExcessOfBlock() const {
  const auto [a1, b1, b2, a2] = block_;
  return options_.settles ? b1 + b2 + a2 - 3 * a1 : b1 + b2 - a1 - a2;
}

double Trial::mean() const {
  if (ratios_.empty()) return 0;
  return std::accumulate(ratios_.begin(), ratios_.end(), 0.0) / static_cast<double>(ratios_.size());
}

Verdict Trial::Add(uint16_t index, double step_us) {
  const auto number = static_cast<uint16_t>(index / block_.size());
  if (number != block_number_) LeaveBlockFor(number);
  block_[index % block_.size()] = step_us;
  const auto [a1, b1, b2, a2] = block_;
  if (a1 > 0 && b1 > kFarSlower * a1 && b2 > kFarSlower * a1) {
    excess_us_ += b1 + b2 - 2 * a1;
    ratios_.push_back(LogOfB() - std::log(a1));
    return Verdict::kReject;
  }
  if (std::any_of(block_.begin(), block_.end(), [](double us) { return us <= 0; }))
    return blocks() + lost_blocks_ >= kMaxBlocks ? Judge() : Verdict::kOpen;
  if (IsDisturbed()) {
    ++lost_blocks_;
    // What was spent is spent; but a late A pays for no B.
    excess_us_ += std::max(0.0, ExcessOfBlock());
  } else {
    excess_us_ += ExcessOfBlock();
    ratios_.push_back(RatioOfBlock());
  }
  return Judge();
}

void Trial::LeaveBlockFor(uint16_t number) {
  const auto [a1, b1, b2, a2] = block_;
  const bool is_whole = std::all_of(block_.begin(), block_.end(), [](double us) { return us > 0; });
  lost_blocks_ += number - block_number_ - (is_whole ? 1 : 0);
  // What is there of a block tells what its B took longer, if there is an A.
  const double a_us = a1 > 0 && a2 > 0 ? (a1 + a2) / 2 : std::max(a1, a2);
  if (!is_whole && a_us > 0) excess_us_ += std::max(0.0, b1 - a_us) + std::max(0.0, b2 - a_us);
  block_ = {};
  block_number_ = number;
}

Verdict Trial::Judge() const {
  const bool last = blocks() + lost_blocks_ >= kMaxBlocks;
  const bool ends = last || excess_us_ > options_.budget_us;
  if (blocks() < options_.min_blocks) return ends ? Verdict::kReject : Verdict::kOpen;
  double squares = 0;
  for (const double q : ratios_) squares += (q - mean()) * (q - mean());
  const auto k = static_cast<double>(ratios_.size());
  const double deviation = std::sqrt(squares / (k - 1));
  const double error = std::max(deviation, kLeastDeviation) / std::sqrt(k);
  // Few blocks tell little of their own spread: as Student's t, nearly.
  const double errors = 2 + 2 / (k - 1);
  const bool clear = mean() + errors * error < options_.rule.keep_below;
  const bool enough = blocks() >= options_.min_blocks + options_.lost_before || last;
  if (clear && enough) return Verdict::kKeep;
  const bool favours_b = options_.b_is_lighter && options_.lost_before == 0 && mean() < 0;
  if (last && favours_b) return Verdict::kKeep;
  if (mean() - error > options_.rule.reject_above || ends) return Verdict::kReject;
  return Verdict::kOpen;
}

}  // namespace gradwire
