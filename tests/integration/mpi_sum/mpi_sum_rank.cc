// A rank of an MPI job: fills carriers of every method, lets MPI_Allreduce add them, absorbs the
// sums, and compares with what the plain sum of all ranks' carriers gives, in each round and at the
// end: in the first step and in those that follow from its state. Rank 0 prints a line for each
// spec.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/conformance/carrier_world.h"

namespace gradwire {
namespace {

// Float carriers are added in another order: a few units in the last place of the largest.
constexpr double kRounding = 1e-5;

// Enough for a start that is late by a step and both of acp's turns after it.
constexpr int kSteps = 3;

MPI_Datatype TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kUint32: return MPI_UINT32_T;
    case DType::kInt32: return MPI_INT32_T;
    case DType::kInt8: return MPI_INT8_T;
    case DType::kFloat32: return MPI_FLOAT;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op OpOf(ReduceOp op) { return op == ReduceOp::kMax ? MPI_MAX : MPI_SUM; }

bool IsInteger(DType dtype) { return !IsFloat(dtype); }

// All ranks know all gradients, so each can check by itself.
std::vector<EncodeCase> CasesOf(int ranks, const std::vector<int64_t>& shape, bool feedback) {
  RandomStream random(1);
  std::vector<EncodeCase> cases;
  for (int r = 0; r < ranks; ++r) {
    EncodeCase c{.mode = feedback ? ResidualMode::kSeparate : ResidualMode::kNone,
                 .dither = {.seed = 7, .tensor = 11, .step = 3},
                 .shape = shape};
    c.grad = MakeGrad(Kind::kGaussian, shape[0] * shape[1], DType::kFloat32, &random);
    c.e_in = MakeResidual(shape[0] * shape[1], &random);
    cases.push_back(std::move(c));
  }
  return cases;
}

using ByteArray = std::vector<std::byte>;

// What the plain sum of all ranks' carriers gives.
struct Plain {
  std::vector<CarrierRank> ranks;
  std::vector<ByteArray> sums;  // by round
};

Plain RunPlain(const CarrierMethod& method, const std::vector<EncodeCase>& cases) {
  Plain plain;
  plain.ranks = RunCarriers(method, cases, InOrder(static_cast<int>(cases.size())), 1.0f,
                            [&](int, ByteArray* sum) { plain.sums.push_back(*sum); });
  return plain;
}

template <typename T>
std::vector<T> ValuesOf(const ByteArray& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Empty: equal to rounding.
std::string FarApart(const char* what, const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size())
    return fmt::format("{} of {} and {} elements", what, a.size(), b.size());
  float largest = 0;
  for (float value : a) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= kRounding * largest)) {
      return fmt::format("{} {} is {} and {}", what, i, a[i], b[i]);
    }
  }
  return "";
}

// Of state words that are counts, as floats subnormal, none may differ.
std::string OtherCounts(const ByteArray& a, const ByteArray& b) {
  const auto x = ValuesOf<uint32_t>(a), y = ValuesOf<uint32_t>(b);
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const bool counts = !std::isnormal(std::bit_cast<float>(x[i]));
    if (counts && x[i] != y[i]) return fmt::format("state word {} is {} and {}", i, x[i], y[i]);
  }
  return "";
}

std::string OtherZeros(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] == 0) != (b[i] == 0)) return fmt::format("element {} is in one of them only", i);
  }
  return "";
}

std::string FirstOf(std::initializer_list<std::string> differences) {
  for (const std::string& difference : differences) {
    if (!difference.empty()) return difference;
  }
  return "";
}

// Of the sums of a round. Empty: the same bytes where it adds integers; else equal to rounding.
std::string SumDifference(const ByteArray& plain, const ByteArray& mpi, bool integer) {
  if (integer) return plain == mpi ? "" : "other sums of integers";
  return FarApart("the sum at", ValuesOf<float>(plain), ValuesOf<float>(mpi));
}

// Of what a rank ends with. Empty: the same bytes where all carriers are integers; else zero at the
// same places of the output, and all equal to rounding.
std::string Difference(const CarrierRank& plain, const CarrierRank& mpi, bool integer) {
  if (!mpi.absorbed.ok()) return mpi.absorbed.ToString();
  if (integer) {
    const bool same = plain.out == mpi.out && plain.replicated == mpi.replicated &&
                      plain.e_out == mpi.e_out && plain.local == mpi.local;
    return same ? "" : "other bytes";
  }
  const auto a = ValuesOf<float>(plain.out), b = ValuesOf<float>(mpi.out);
  return FirstOf(
      {FarApart("element", a, b), OtherZeros(a, b), FarApart("residual", plain.e_out, mpi.e_out),
       FarApart("local state", plain.local, mpi.local),
       FarApart("state", ValuesOf<float>(plain.replicated), ValuesOf<float>(mpi.replicated)),
       OtherCounts(plain.replicated, mpi.replicated)});
}

ByteArray Gather(const ByteArray& mine, int ranks) {
  const int bytes = static_cast<int>(mine.size());
  ByteArray all(mine.size() * static_cast<size_t>(ranks));
  MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
  return all;
}

std::string CheckStep(const CarrierMethod& method, const std::vector<EncodeCase>& cases,
                      const Plain& plain, int rank) {
  const int ranks = static_cast<int>(cases.size());
  bool integer = true;
  size_t round = 0;
  std::string difference;
  const auto add = [&](const RoundSpec& spec, const ByteArray& mine) {
    integer &= IsInteger(spec.dtype);
    ByteArray sum(mine.size());
    if (method.Gathers()) {
      sum = Gather(mine, ranks);
    } else {
      MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(spec.elems), TypeOf(spec.dtype),
                    OpOf(spec.op), MPI_COMM_WORLD);
    }
    difference =
        FirstOf({difference, SumDifference(plain.sums[round++], sum, IsInteger(spec.dtype))});
    return sum;
  };
  const CarrierRank mpi = RunCarrier(method, cases[rank], rank, ranks, add);
  return FirstOf({difference, Difference(plain.ranks[rank], mpi, integer)});
}

// All ranks run all steps, also after a difference: the others wait for them.
std::string Check(const std::string& spec, const std::vector<int64_t>& shape, int rank, int ranks) {
  const Codec codec = *MakeCodec(spec);
  std::vector<EncodeCase> cases = CasesOf(ranks, shape, codec.feedback == Feedback::kOn);
  std::string differences;
  for (int step = 0; step < kSteps; ++step) {
    const Plain plain = RunPlain(*codec.carrier, cases);
    const std::string difference = CheckStep(*codec.carrier, cases, plain, rank);
    if (!difference.empty()) differences += fmt::format(" step {}: {}", step, difference);
    // The plain sum's state, which every rank knows: what MPI rounds otherwise changes no later
    // step.
    TakeStep(plain.ranks, &cases);
  }
  return differences;
}

int Main() {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int failures = 0;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (MakeCodec(spec)->carrier == nullptr) continue;
      const std::string difference = Check(spec, {96, 130}, rank, ranks);
      if (!difference.empty()) {
        std::printf("rank %d: %s:%s\n", rank, spec.c_str(), difference.c_str());
        ++failures;
      }
      if (rank == 0) std::printf("%s\n", spec.c_str());
    }
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all == 0 && !::testing::Test::HasFailure() ? 0 : 1;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = gradwire::Main();
  MPI_Finalize();
  return code;
}
