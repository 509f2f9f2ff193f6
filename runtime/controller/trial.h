// Trial: two plans compared in blocks of four steps, A B B A, so that a drift of the machine
// cancels out. A pure function of the step times.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_
#define GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_

#include <array>
#include <cstdint>
#include <vector>

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
// B must be faster. With 5 to 10 % of noise: a plan that makes no difference is kept 4 to 8 times
// of 100, one that is 5 % slower once at most, one that is 10 % faster 100 to 90 times; where plans
// settle 5 to 8, 3 at most, and 99 to 69.
inline constexpr TrialRule kMustBeFaster = {-0.010, -0.015};
// B has smaller errors: it may be slower by what nobody notices.
inline constexpr TrialRule kMayBeEqual = {0.015, 0.015};

class Trial {
 public:
  struct Options {
    TrialRule rule = kMustBeFaster;
    int min_blocks = 3;  // 2 at least
    // The first step of either plan after the other takes longer, and not alike: it allocates, or
    // sends what the other has kept back. Only the second ones are compared.
    bool settles = false;
    // B encodes less: what the last block leaves open goes to it, if it was the faster one and has
    // not lost before. Of plans that make no difference 28 to 39 of 100 are kept then, of those 5 %
    // slower 9 at most.
    bool b_is_lighter = false;
    // Trials that B has lost before: it takes as many blocks more to keep it, for what is tried
    // again and again wins by chance.
    int lost_before = 0;
    double budget_us = 0;  // what B's steps may take longer than A's, in all
  };
  explicit Trial(const Options& options) : options_(options) {}

  // The step at `index` of the pattern, counted from its first. A block with a step missing does
  // not count, nor one in which two steps of a plan are far apart, unless those of the other are
  // as far apart the other way round: only what its B took longer does, in the budget. Where plans
  // settle, steps are far apart where the second of a pair is the longer one.
  Verdict Add(uint16_t index, double step_us);
  // Whether the step at this index tells how long its plan takes.
  bool Tells(uint16_t index) const { return !options_.settles || index % 2 == 0; }
  // Mean of the logarithm of B's time over A's; negative: B is faster.
  double mean() const;
  int blocks() const { return static_cast<int>(ratios_.size()); }
  double excess_us() const { return excess_us_; }

 private:
  using Block = std::array<double, 4>;

  bool IsDisturbed() const;
  double LogOfB() const;
  double RatioOfBlock() const;
  double ExcessOfBlock() const;
  void LeaveBlockFor(uint16_t number);
  Verdict Judge() const;

  Options options_;
  Block block_ = {};  // 0: missing
  uint16_t block_number_ = 0;
  std::vector<double> ratios_;
  int lost_blocks_ = 0;  // that do not count
  double excess_us_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_TRIAL_H_
