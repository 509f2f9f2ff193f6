// Trial: two plans compared in blocks of steps, A B B A, or A A B B B B A A, so that a drift of the
// machine cancels out: in the first all of it, in the second, where first steps do not tell, all
// but that of a step and a third. A pure function of the step times.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_
#define GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_

#include <cstdint>
#include <vector>

#include "runtime/controller/plan.h"

namespace gradwire {

// Steps of a plan this much longer than those of the other next to them: no statistics are needed.
inline constexpr double kFarSlower = 1.5;

// Two times of one plan, further than noise takes them: a rank was late in one, or all is another.
bool FarApart(double us, double other_us);

enum class Verdict : uint8_t { kOpen, kKeep, kReject };

// Of the logarithm of B's time over A's.
struct TrialRule {
  double keep_below = 0, reject_above = 0;
};
// B must be faster. With 5 to 10 % of noise: a plan that makes no difference is kept 2 to 3 times
// of 100, one that is 5 % slower hardly ever, one that is 10 % faster 100 to 85 times; where plans
// settle 1 to 2, hardly ever, and 100 to 73.
inline constexpr TrialRule kMustBeFaster = {-0.010, -0.015};
// B has smaller errors: it may be slower by what nobody notices.
inline constexpr TrialRule kMayBeEqual = {0.015, 0.015};

class Trial {
 public:
  struct Options {
    TrialRule rule = kMustBeFaster;
    // Of four steps; one of eight is two of them. 2 at least.
    int min_blocks = 3;
    // The first step of either plan after the other takes longer, and not alike: it allocates, or
    // sends what the other has kept back. Only those behind it are compared, and for each there are
    // more of them.
    bool settles = false;
    // What is clearly slower in the first block: further ones would cost as much. Not where chance
    // must be left out.
    bool may_end_after_one = true;
    // B encodes less: what the last block leaves open goes to it, if it was the faster one and has
    // not lost before. Of plans that make no difference 17 to 34 of 100 are kept then, of those 5 %
    // slower 5 at most.
    bool b_is_lighter = false;
    // Trials that B has lost before: it takes as many blocks more to keep it, for what is tried
    // again and again wins by chance.
    int lost_before = 0;
    double budget_us = 0;  // what B's steps may take longer than A's, in all
  };
  explicit Trial(const Options& options) : options_(options), block_(size()) {}

  // The step at `index` of the pattern, counted from its first. A block with a step missing does
  // not count, nor one in which two steps of a plan that tell are far apart, unless every second
  // step of the job is as much longer: only what its B took longer does, in the budget.
  Verdict Add(uint16_t index, double step_us);
  uint8_t in_a_row() const { return options_.settles ? kInARowToSettle : kInARow; }
  // Whether the step at this index tells how long its plan takes.
  bool Tells(size_t index) const {
    return !options_.settles || index % in_a_row() != in_a_row() / 2;
  }
  // Mean of the logarithm of B's time over A's; negative: B is faster.
  double mean() const;
  int blocks() const { return static_cast<int>(ratios_.size()); }
  double excess_us() const { return excess_us_; }

 private:
  enum class Parity : uint8_t { kEven, kOdd, kBoth };

  size_t size() const { return static_cast<size_t>(2 * in_a_row()); }  // of a block
  bool IsB(size_t index) const { return IsOfB(static_cast<uint16_t>(index), in_a_row()); }
  std::vector<double> TellingLogs(bool of_b, Parity parity = Parity::kBoth) const;
  bool IsWhole() const;
  bool AreFarApart(bool of_b) const;
  double OddOverEven(bool of_b) const;
  bool IsDisturbed() const;
  bool IsBFarSlower() const;
  bool IsTooDear() const;
  double RatioOfBlock() const;
  void AddSpread();
  // Of either plan in a block.
  int TellingSteps() const { return in_a_row() - (options_.settles ? 1 : 0); }
  double ExcessOfBlock() const;
  void LeaveBlockFor(uint16_t number);
  int OfFourSteps(int blocks) const { return blocks * in_a_row() / kInARow; }
  bool HasAllBlocks() const;
  Verdict Judge() const;

  Options options_;
  std::vector<double> block_;  // 0: missing
  uint16_t block_number_ = 0;
  std::vector<double> ratios_;
  double squares_ = 0;   // of what steps of one plan in one block differ by, logarithms
  int freedom_ = 0;      // degrees of it
  int lost_blocks_ = 0;  // that do not count
  double excess_us_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_
