// What a rank of a trial does: reaches its phase, says so, and works until a call fails.
#ifndef GRADWIRE_TESTS_FAULT_RANK_PROGRAM_H_
#define GRADWIRE_TESTS_FAULT_RANK_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fault/fault_trial.h"
#include "tests/fault/rank_processes.h"

namespace gradwire {

class RankProgram {
 public:
  // Both outlive it.
  RankProgram(const FaultTrial& trial, RankSide* side) : trial_(trial), side_(side) {}
  void Run();

 private:
  gwResult_t Start();
  gwResult_t Register();
  gwResult_t Work(int64_t round);
  gwResult_t Collectives(int64_t round);
  gwResult_t Step(uint64_t step);
  gwResult_t WorkUntilError();
  void Leave();

  const FaultTrial& trial_;
  RankSide* const side_;
  gwComm_t comm_ = nullptr;
  std::string call_;  // the operation of the last call, as errors name it
  std::vector<gwTensor_t> tensors_;
  std::vector<float> data_ = std::vector<float>(50'000, 0.5f), out_ = data_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FAULT_RANK_PROGRAM_H_
