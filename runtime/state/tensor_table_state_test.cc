// The table of all tensors: what a step leaves of them, and their state as bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "runtime/state/state_values.h"
#include "runtime/state/tensor_state.h"
#include "tests/lib/saved_state.h"

namespace gradwire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A table of three tensors: with residual, without, of no elements.
class TableTest : public testing::Test {
 protected:
  TableTest() {
    a_ = Add("a", {2, 3}, DType::kFloat32);
    b_ = Add("b", {4}, DType::kFloat16);
    Add("empty", {0}, DType::kFloat32);
  }
  TensorState* Add(const std::string& name, std::vector<int64_t> shape, DType dtype) {
    return AddTo(&table_, name, std::move(shape), dtype);
  }
  static TensorState* AddTo(TensorTable* table, const std::string& name, std::vector<int64_t> shape,
                            DType dtype) {
    auto tensor = std::make_unique<TensorState>();
    tensor->name = name;
    tensor->shape = std::move(shape);
    tensor->elems = 1;
    for (int64_t length : tensor->shape) tensor->elems *= length;
    tensor->dtype = dtype;
    return *table->Add(std::move(tensor));
  }
  Status Load(const std::string& text, int rank = 1, int world_size = 3) {
    return table_.Load(TextBytes(text), rank, world_size, true);
  }

  TensorTable table_;
  TensorState* a_;
  TensorState* b_;
};

TEST_F(TableTest, RefusesANameTwice) {
  auto again = std::make_unique<TensorState>();
  again->name = "a";
  EXPECT_EQ(table_.Add(std::move(again)).status().code(), gwInvalidArgument);
  EXPECT_EQ(table_.All().size(), 3u);
  table_.Remove(a_);
  EXPECT_EQ(table_.All().size(), 2u);
  EXPECT_THAT(table_.All(), testing::Contains(b_));
}

// The name seeds random rounding: from the first number on it would be the same once more.
TEST_F(TableTest, ANameThatIsAddedAgainGoesOnDrawing) {
  a_->free_ops = 5;
  b_->free_ops = 3;
  table_.Remove(a_);
  table_.Remove(b_);
  EXPECT_EQ(Add("a", {2, 3}, DType::kFloat32)->free_ops, 5u);
  ASSERT_TRUE(table_.BeginAnew(/*draws=*/9, /*transaction=*/true).ok());
  EXPECT_EQ(Add("b", {4}, DType::kFloat16)->free_ops, 9u);
}

TEST_F(TableTest, DigestDependsOnNamesShapesAndTypesNotOnOrder) {
  TensorTable same, shape, type, fewer;
  AddTo(&same, "empty", {0}, DType::kFloat32);
  AddTo(&same, "b", {4}, DType::kFloat16);
  AddTo(&same, "a", {2, 3}, DType::kFloat32);
  EXPECT_EQ(same.Digest(), table_.Digest());
  for (TensorTable* other : {&shape, &type, &fewer}) {
    AddTo(other, "b", {4}, DType::kFloat16);
    AddTo(other, "a", {2, other == &shape ? 4 : 3},
          other == &type ? DType::kBfloat16 : DType::kFloat32);
    if (other != &fewer) AddTo(other, "empty", {0}, DType::kFloat32);
    EXPECT_NE(other->Digest(), table_.Digest());
  }
}

TEST_F(TableTest, LoadsWhatItSaved) {
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  Fill(a_->residual.LiveInPlace(), 2.5f);
  Fill(a_->residual.next(), 9.0f);  // staged: not part of the state
  a_->committed_step = 41;
  b_->free_ops = 7;
  const std::string saved = table_.Save(1, 3);
  Fill(a_->residual.LiveInPlace(), 0);
  ASSERT_TRUE(b_->residual.Allocate(4, true).ok());
  a_->committed_step = 0;
  b_->free_ops = 0;
  ASSERT_TRUE(Load(saved).ok());
  EXPECT_EQ(Values(a_->residual.live()), std::vector<float>(6, 2.5f));
  EXPECT_EQ(a_->committed_step, 41u);
  EXPECT_EQ(b_->free_ops, 7u);
  EXPECT_FALSE(b_->residual.allocated()) << "it had none when it was saved";
  EXPECT_EQ(table_.Save(1, 3), saved);
}

// An aborted step may have begun on some ranks only.
TEST_F(TableTest, KeepsResidualsOfCommittedStepsOnly) {
  for (bool transaction : {true, false}) {
    ASSERT_TRUE(a_->residual.Allocate(6, transaction).ok());
    a_->fresh = a_->staged = true;
    table_.EndStep(1, /*commit=*/false);
    EXPECT_FALSE(a_->residual.allocated());
    ASSERT_TRUE(a_->residual.Allocate(6, transaction).ok());
    a_->fresh = a_->staged = true;
    Fill(a_->residual.next(), 2.5f);
    table_.EndStep(2, /*commit=*/true);
    table_.EndStep(3, /*commit=*/false);
    EXPECT_EQ(Values(a_->residual.live()), std::vector<float>(6, 2.5f));
  }
}

// Residuals are each rank's own; what must be alike on all ranks is not known to be any more.
TEST_F(TableTest, BeginsAnewWithWhatRanksHaveAlike) {
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  Fill(a_->residual.LiveInPlace(), 2.5f);
  ASSERT_TRUE(a_->replicated.Allocate(8, kReplicatedSlots).ok());
  a_->free_ops = 3;
  b_->free_ops = 70000;
  b_->SetCodec(*MakeCodec("efsign"));
  ASSERT_TRUE(table_.BeginAnew(70002, true).ok());
  EXPECT_FALSE(a_->replicated.allocated());
  EXPECT_EQ(Values(a_->residual.live()), std::vector<float>(6, 2.5f));
  EXPECT_EQ(a_->free_ops, 70002u) << "ranks may have counted differently";
  EXPECT_EQ(b_->free_ops, 70002u);
  EXPECT_TRUE(b_->residual.allocated()) << "another rank may have completed what began it";
  ASSERT_TRUE(table_.BeginAnew(5, true).ok());
  EXPECT_EQ(a_->free_ops, 70002u) << "no draw comes twice, nor one of a state that was loaded";
}

// A rank that did not come to the end of the operation that sent it still has one, and whether
// there is one decides what travels.
TEST_F(TableTest, BeginsAnewWithResidualsThatWereSent) {
  const auto begin_anew_after = [&](bool commit) {
    a_->sent_free = true;
    table_.EndStep(1, commit);
    EXPECT_TRUE(table_.BeginAnew(4, true).ok());
    const bool has_one = a_->residual.allocated();
    a_->residual.Release();
    return has_one;
  };
  EXPECT_TRUE(begin_anew_after(/*commit=*/false));
  EXPECT_FALSE(begin_anew_after(/*commit=*/true)) << "then all ranks have come to the end";
  EXPECT_FALSE(b_->residual.allocated());
}

// It is in units of the sum, not of a codec.
TEST_F(TableTest, ResidualsAreLoadedUnderAnySpec) {
  a_->SetCodec(*MakeCodec("efsign"));
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  Fill(a_->residual.LiveInPlace(), 2.5f);
  const std::string saved = table_.Save(1, 3);
  a_->SetCodec(*MakeCodec("qsgd(bits=4,feedback=on)"));
  a_->residual.Release();
  ASSERT_TRUE(Load(saved).ok());
  EXPECT_EQ(Values(a_->residual.live()), std::vector<float>(6, 2.5f));
}

TEST_F(TableTest, RefusesAnotherRanksState) {
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  const std::string saved = table_.Save(1, 3);
  EXPECT_EQ(Load(saved, 2, 3).code(), gwMismatch);
  EXPECT_EQ(Load(saved, 1, 4).code(), gwMismatch);
}

// Without residuals and local state nothing is one rank's own.
TEST_F(TableTest, LoadsWhatAllRanksHaveAlikeAnywhere) {
  a_->SetCodec(*MakeCodec("intsgd"));
  ASSERT_TRUE(a_->replicated.Allocate(ReplicatedBytes(*a_, 3), kReplicatedSlots).ok());
  a_->replicated.LiveInPlace().data[0] = std::byte{7};
  a_->committed_step = 41;
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  Fill(a_->residual.LiveInPlace(), 2.5f);
  const std::string saved = WithoutOwnParts(table_.Save(1, 3));
  a_->replicated.Release();
  a_->committed_step = 0;
  ASSERT_TRUE(Load(saved, 4, 5).ok());
  EXPECT_EQ(a_->replicated.live().data[0], std::byte{7});
  EXPECT_EQ(a_->committed_step, 41u);
  EXPECT_FALSE(a_->residual.allocated()) << "it begins at zero";
}

TEST_F(TableTest, RefusesAnotherTable) {
  const std::string saved = table_.Save(1, 3);
  const auto refused = [&] {
    const Status loaded = Load(saved);
    EXPECT_EQ(loaded.code(), gwMismatch);
    return loaded.detail().tensor;
  };
  TensorState* const more = Add("c", {1}, DType::kFloat32);
  EXPECT_EQ(refused(), "c");
  table_.Remove(b_);
  EXPECT_EQ(refused(), "b") << "as many tensors, another name";
  table_.Remove(more);
  EXPECT_EQ(refused(), "b") << "fewer";
}

TEST_F(TableTest, NamesTheLastTensorToo) {
  const std::string saved = table_.Save(1, 3);
  Add("more", {1}, DType::kFloat32);
  EXPECT_EQ(Load(saved).detail().tensor, "more");
}

// Every bit and every length: an error, and nothing changes.
TEST_F(TableTest, DamageIsAnErrorWithoutEffect) {
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  Fill(a_->residual.LiveInPlace(), 2.5f);
  const std::string saved = table_.Save(1, 3);
  Fill(a_->residual.LiveInPlace(), 1.5f);
  const std::string before = table_.Save(1, 3);
  for (size_t bit = 0; bit < 8 * saved.size(); ++bit) {
    std::string damaged = saved;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ASSERT_EQ(Load(damaged).code(), gwDataCorrupt) << "bit " << bit;
  }
  for (size_t size = 0; size < saved.size(); ++size) {
    ASSERT_EQ(Load(saved.substr(0, size)).code(), gwDataCorrupt) << size << " bytes";
  }
  EXPECT_EQ(Load(saved + saved).code(), gwDataCorrupt);
  EXPECT_EQ(table_.Save(1, 3), before);
}

// Formats up to 5 had another magic, and their number behind it.
TEST_F(TableTest, AnotherFormatIsNamedAndIsNoDamage) {
  const std::string older("GWS1\5\0\0\0\1\0\0\0", 12);
  std::string later = table_.Save(1, 3);
  later.at(4 + 8 + 4) = 7;  // behind magic, length and kind
  SealState(&later);
  for (const auto& [state, words] : {std::pair{older, "the state has format 5, not 6"},
                                     std::pair{later, "the state has format 7, not 6"}}) {
    const Status status = Load(state);
    EXPECT_EQ(status.code(), gwMismatch);
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr(words), HasSubstr("the version of gradwire that saved it")));
  }
  EXPECT_EQ(Load("GWS1").code(), gwDataCorrupt);
  EXPECT_EQ(Load("GWS1" + table_.Save(1, 3).substr(4)).code(), gwDataCorrupt) << "no such format";
}

// Forged with right checksums: the lengths inside lie.
TEST_F(TableTest, LyingLengthsAreAnErrorWithoutEffect) {
  ASSERT_TRUE(a_->residual.Allocate(6, true).ok());
  const std::string saved = table_.Save(1, 3);
  Fill(a_->residual.LiveInPlace(), 1.5f);
  a_->committed_step = 41;
  b_->free_ops = 7;
  const std::string before = table_.Save(1, 3);
  int refused = 0;
  for (size_t at = 4; at + 8 <= saved.size(); ++at) {
    for (uint64_t lie : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 40}) {
      std::string forged = saved;
      std::memcpy(forged.data() + at, &lie, sizeof(lie));
      SealState(&forged);
      // Some bytes are values and may be anything; all others are refused. Never out of bounds.
      const Status status = Load(forged);
      if (status.ok()) {
        ASSERT_TRUE(Load(before).ok());
      } else {
        ASSERT_TRUE(status.code() == gwDataCorrupt || status.code() == gwMismatch);
        ++refused;
      }
      ASSERT_EQ(table_.Save(1, 3), before) << "byte " << at << ": " << status.ToString();
    }
  }
  EXPECT_GT(refused, 0);
  ASSERT_TRUE(Load(saved).ok());
  EXPECT_EQ(table_.Save(1, 3), saved);
}

}  // namespace
}  // namespace gradwire
