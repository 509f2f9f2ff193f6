#include "cli/models/known_models.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "base/nearest_name.h"

namespace gradwire {
namespace {

// Collects tensors in forward order.
class TensorList {
 public:
  void Add(std::string name, std::vector<int64_t> lengths) {
    tensors_.push_back({std::move(name), std::move(lengths)});
  }
  // y = W x + b with W of outputs x inputs.
  void AddLinear(const std::string& name, int64_t inputs, int64_t outputs) {
    Add(name + ".weight", {outputs, inputs});
    Add(name + ".bias", {outputs});
  }
  // Batch or layer normalisation.
  void AddNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width});
    Add(name + ".bias", {width});
  }
  // Without bias: a normalisation follows.
  void AddConvolution(const std::string& name, int64_t inputs, int64_t outputs, int64_t side) {
    Add(name + ".weight", {outputs, inputs, side, side});
  }
  std::vector<TensorShape> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorShape> tensors_;
};

// The demo's network, docs/examples/train_fashion_mnist.
std::vector<TensorShape> FashionMlp() {
  constexpr std::array<int64_t, 4> kWidths = {784, 256, 128, 10};
  TensorList list;
  for (size_t layer = 1; layer < kWidths.size(); ++layer) {
    list.AddLinear(fmt::format("fc{}", layer), kWidths[layer - 1], kWidths[layer]);
  }
  return list.Take();
}

// A bottleneck block: 1x1 down to `width`, 3x3, 1x1 up to `outputs`.
void AddBottleneck(const std::string& name, int64_t inputs, int64_t width, int64_t outputs,
                   TensorList* list) {
  list->AddConvolution(name + ".conv1", inputs, width, 1);
  list->AddNorm(name + ".bn1", width);
  list->AddConvolution(name + ".conv2", width, width, 3);
  list->AddNorm(name + ".bn2", width);
  list->AddConvolution(name + ".conv3", width, outputs, 1);
  list->AddNorm(name + ".bn3", outputs);
  if (inputs == outputs) return;
  // Where the width changes, the shortcut is a convolution too.
  list->AddConvolution(name + ".downsample.0", inputs, outputs, 1);
  list->AddNorm(name + ".downsample.1", outputs);
}

std::vector<TensorShape> ResNet50() {
  constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
  constexpr int64_t kExpansion = 4, kClasses = 1000;
  TensorList list;
  int64_t width = 64, inputs = 64;
  list.AddConvolution("conv1", 3, inputs, 7);
  list.AddNorm("bn1", inputs);
  for (size_t layer = 0; layer < kBlocks.size(); ++layer, width *= 2) {
    for (int block = 0; block < kBlocks[layer]; ++block) {
      AddBottleneck(fmt::format("layer{}.{}", layer + 1, block), inputs, width, kExpansion * width,
                    &list);
      inputs = kExpansion * width;
    }
  }
  list.AddLinear("fc", inputs, kClasses);
  return list.Take();
}

// Matrices of a Conv1D layer are inputs x outputs.
void AddConv1D(const std::string& name, int64_t inputs, int64_t outputs, TensorList* list) {
  list->Add(name + ".weight", {inputs, outputs});
  list->Add(name + ".bias", {outputs});
}

// The output matrix is the embedding's: one tensor, one gradient.
std::vector<TensorShape> Gpt2() {
  constexpr int64_t kWidth = 768, kVocabulary = 50257, kPositions = 1024;
  constexpr int kLayers = 12;
  TensorList list;
  list.Add("wte.weight", {kVocabulary, kWidth});
  list.Add("wpe.weight", {kPositions, kWidth});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("h.{}", layer);
    list.AddNorm(name + ".ln_1", kWidth);
    AddConv1D(name + ".attn.c_attn", kWidth, 3 * kWidth, &list);
    AddConv1D(name + ".attn.c_proj", kWidth, kWidth, &list);
    list.AddNorm(name + ".ln_2", kWidth);
    AddConv1D(name + ".mlp.c_fc", kWidth, 4 * kWidth, &list);
    AddConv1D(name + ".mlp.c_proj", 4 * kWidth, kWidth, &list);
  }
  list.AddNorm("ln_f", kWidth);
  return list.Take();
}

void AddBertLayer(const std::string& name, int64_t width, TensorList* list) {
  for (const char* part : {"query", "key", "value"}) {
    list->AddLinear(fmt::format("{}.attention.self.{}", name, part), width, width);
  }
  list->AddLinear(name + ".attention.output.dense", width, width);
  list->AddNorm(name + ".attention.output.LayerNorm", width);
  list->AddLinear(name + ".intermediate.dense", width, 4 * width);
  list->AddLinear(name + ".output.dense", 4 * width, width);
  list->AddNorm(name + ".output.LayerNorm", width);
}

// With both heads of pre-training; the decoder's matrix is the word embedding's, its bias is not.
std::vector<TensorShape> BertLarge() {
  constexpr int64_t kWidth = 1024, kVocabulary = 30522, kPositions = 512, kTokenTypes = 2;
  constexpr int kLayers = 24;
  TensorList list;
  list.Add("embeddings.word_embeddings.weight", {kVocabulary, kWidth});
  list.Add("embeddings.position_embeddings.weight", {kPositions, kWidth});
  list.Add("embeddings.token_type_embeddings.weight", {kTokenTypes, kWidth});
  list.AddNorm("embeddings.LayerNorm", kWidth);
  for (int layer = 0; layer < kLayers; ++layer) {
    AddBertLayer(fmt::format("encoder.layer.{}", layer), kWidth, &list);
  }
  list.AddLinear("pooler.dense", kWidth, kWidth);
  list.AddLinear("cls.predictions.transform.dense", kWidth, kWidth);
  list.AddNorm("cls.predictions.transform.LayerNorm", kWidth);
  list.Add("cls.predictions.bias", {kVocabulary});
  list.AddLinear("cls.seq_relationship", kWidth, 2);
  return list.Take();
}

constexpr std::array kModels = {
    KnownModel{"resnet50", "ResNet-50 v1.5 for 1000 classes (He et al. 2015)", ResNet50},
    KnownModel{"bert-large", "BERT-large uncased with both pre-training heads (Devlin et al. 2018)",
               BertLarge},
    KnownModel{"gpt2", "GPT-2 small, output tied to the embedding (Radford et al. 2019)", Gpt2},
    KnownModel{"fashion-mlp", "784-256-128-10 with biases, as ./run demo trains", FashionMlp},
};

}  // namespace

std::span<const KnownModel> KnownModels() { return kModels; }

StatusOr<ModelShapes> FindModel(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownModel& model : kModels) {
    if (model.name == name) return ModelShapes{std::string(name), model.tensors()};
    names.push_back(model.name);
  }
  return Status(gwInvalidArgument, fmt::format("no model '{}'", name),
                DidYouMean(name, names,
                           fmt::format("There are {}; --shapes FILE takes any other",
                                       fmt::join(names, ", "))));
}

}  // namespace gradwire
