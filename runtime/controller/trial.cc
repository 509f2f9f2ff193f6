#include "runtime/controller/trial.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace gradwire {
namespace {

constexpr int kMaxBlocks = 12;  // of four steps
constexpr double kEndsAfterOneBlock = 1.15;
constexpr int kLeastBlocks = 2;  // that have a spread
constexpr double kErrorsToReject = 0.5;
// Few blocks may agree by chance.
constexpr double kLeastDeviation = 0.02;
// Steps of one plan in one block this far apart: a rank was late in one of them. With 10 % of noise
// that is one pair in 250.
constexpr double kDisturbed = 1.5;

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of the distances from their mean.
double Squares(const std::vector<double>& values) {
  const double mean = Mean(values);
  return std::accumulate(values.begin(), values.end(), 0.0, [&](double sum, double value) {
    return sum + (value - mean) * (value - mean);
  });
}

}  // namespace

bool FarApart(double us, double other_us) {
  return std::max(us, other_us) > kDisturbed * std::min(us, other_us);
}

// Logarithms of the block's steps of a plan that tell how long it takes.
std::vector<double> Trial::TellingLogs(bool of_b, Parity parity) const {
  std::vector<double> logs;
  for (size_t i = 0; i < block_.size(); ++i) {
    const bool counts = parity == Parity::kBoth || (i % 2 == 1) == (parity == Parity::kOdd);
    if (counts && IsB(i) == of_b && Tells(i) && block_[i] > 0) logs.push_back(std::log(block_[i]));
  }
  return logs;
}

// Of those of a plan, of which there is one at least.
bool Trial::AreFarApart(bool of_b) const {
  const std::vector<double> logs = TellingLogs(of_b);
  const auto [least, most] = std::minmax_element(logs.begin(), logs.end());
  return FarApart(std::exp(*least), std::exp(*most));
}

// The logarithm of a plan's odd steps over its even ones.
double Trial::OddOverEven(bool of_b) const {
  return Mean(TellingLogs(of_b, Parity::kOdd)) - Mean(TellingLogs(of_b, Parity::kEven));
}

bool Trial::IsDisturbed() const {
  const bool a = AreFarApart(false), b = AreFarApart(true);
  // Every second step of the job is longer: as many of either plan, so that it cancels out.
  const bool alternates =
      a && b && !FarApart(std::exp(OddOverEven(false)), std::exp(OddOverEven(true)));
  return (a || b) && !alternates;
}

// The logarithm of B's time over A's, by those steps of the block that there are.
double Trial::RatioOfBlock() const { return Mean(TellingLogs(true)) - Mean(TellingLogs(false)); }

// What a plan's steps in a block differ by, where every second step of the job may be longer by as
// much in either plan.
void Trial::AddSpread() {
  const double longer = (OddOverEven(false) + OddOverEven(true)) / 2;
  for (const bool of_b : {false, true}) {
    std::vector<double> logs = TellingLogs(of_b, Parity::kEven);
    for (const double log : TellingLogs(of_b, Parity::kOdd)) logs.push_back(log - longer);
    squares_ += Squares(logs);
    freedom_ += std::ssize(logs) - 1;
  }
  --freedom_;
}

// What steps of B, and A's first ones, took longer than A does; 0: there is no A that tells.
double Trial::ExcessOfBlock() const {
  double a_us = 0, others_us = 0;
  int as = 0, others = 0;
  for (size_t i = 0; i < block_.size(); ++i) {
    const bool is_telling_a = !IsB(i) && Tells(i);
    (is_telling_a ? a_us : others_us) += block_[i];
    if (block_[i] > 0) ++(is_telling_a ? as : others);
  }
  return as > 0 ? others_us - others * a_us / as : 0;
}

double Trial::mean() const { return Mean(ratios_); }

bool Trial::IsWhole() const {
  return std::all_of(block_.begin(), block_.end(), [](double us) { return us > 0; });
}

// The first two steps of B than the A before them.
bool Trial::IsBFarSlower() const {
  const size_t first = in_a_row() / 2;
  const double a_us = block_[first - 1];
  return a_us > 0 && std::min(block_[first], block_[first + 1]) > kFarSlower * a_us;
}

// An unfinished block, if two steps of B tell how long it takes and one of A's does.
bool Trial::IsTooDear() const {
  const bool tells = TellingLogs(true).size() >= 2 && !TellingLogs(false).empty();
  if (IsWhole() || !tells || AreFarApart(true) || AreFarApart(false)) return false;
  return excess_us_ + ExcessOfBlock() > options_.budget_us &&
         RatioOfBlock() > options_.rule.reject_above;
}

Verdict Trial::Add(uint16_t index, double step_us) {
  const auto number = static_cast<uint16_t>(index / block_.size());
  if (number != block_number_) LeaveBlockFor(number);
  block_[index % block_.size()] = step_us;
  if (IsBFarSlower() || IsTooDear()) {
    excess_us_ += ExcessOfBlock();
    ratios_.push_back(RatioOfBlock());
    return Verdict::kReject;
  }
  if (!IsWhole()) return HasAllBlocks() ? Judge() : Verdict::kOpen;
  if (IsDisturbed()) {
    ++lost_blocks_;
    // What was spent is spent; but a late A pays for no B.
    excess_us_ += std::max(0.0, ExcessOfBlock());
  } else {
    excess_us_ += ExcessOfBlock();
    ratios_.push_back(RatioOfBlock());
    AddSpread();
  }
  return Judge();
}

void Trial::LeaveBlockFor(uint16_t number) {
  const bool is_whole = IsWhole();
  lost_blocks_ += number - block_number_ - (is_whole ? 1 : 0);
  if (!is_whole) excess_us_ += std::max(0.0, ExcessOfBlock());
  std::fill(block_.begin(), block_.end(), 0);
  block_number_ = number;
}

bool Trial::HasAllBlocks() const { return OfFourSteps(blocks() + lost_blocks_) >= kMaxBlocks; }

Verdict Trial::Judge() const {
  const bool last = HasAllBlocks();
  if (options_.may_end_after_one && blocks() == 1 && mean() > std::log(kEndsAfterOneBlock))
    return Verdict::kReject;
  const bool ends = last || excess_us_ > options_.budget_us;
  const int counted = OfFourSteps(blocks());
  if (counted < options_.min_blocks || blocks() < kLeastBlocks)
    return ends ? Verdict::kReject : Verdict::kOpen;
  const auto k = static_cast<double>(ratios_.size());
  const double deviation = std::sqrt(Squares(ratios_) / (k - 1));
  // Of a block's ratio by what its own steps differ by.
  const double spread = std::sqrt(squares_ / freedom_ * 2 / TellingSteps());
  const double error = std::max({deviation, spread, kLeastDeviation}) / std::sqrt(k);
  // Few steps tell little of their own spread: as Student's t, nearly.
  const double errors = 2 + 4 / (freedom_ + k - 1);
  const bool clear = mean() + errors * error < options_.rule.keep_below;
  const bool enough = counted >= options_.min_blocks + options_.lost_before || last;
  if (clear && enough) return Verdict::kKeep;
  const bool favours_b = options_.b_is_lighter && options_.lost_before == 0 && mean() < 0;
  if (last && favours_b) return Verdict::kKeep;
  if (mean() - kErrorsToReject * error > options_.rule.reject_above || ends)
    return Verdict::kReject;
  return Verdict::kOpen;
}

}  // namespace gradwire
