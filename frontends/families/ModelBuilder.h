// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a family writes its graph with: one call per model op, weights by name. A layer becomes a function of its own, whose weights are
// arguments, so that equal layers are equal functions. The interface knows nothing of MLIR, so that a family's file is one for the
// readers, which build without it, and for the importer (frontends/import/), which is the one implementation.
//
// A graph is written entry by entry; inputs of an entry are those that its parts ask for.
// An encoder-decoder is written one after the other: what comes before beginDecoder() is the encoder, what comes behind it the decoder.
#ifndef HEDDLE_FRONTENDS_FAMILIES_MODELBUILDER_H
#define HEDDLE_FRONTENDS_FAMILIES_MODELBUILDER_H

#include "frontends/ModelConfig.h"
#include "frontends/families/DistanceBias.h"

#include <functional>

namespace heddle {

// A tensor of the graph that is being built; valid as long as its builder.
struct TensorHandle {
  void *value = nullptr;
};

// What attention computes with beside queries, keys and values.
struct AttentionTerms {
  DistanceBias positions;
  // Of an encoder: what each token gives to the scores of each head for each row of `positions`, which then has no table: as a query, and
  // behind that as a key; (batch, sequence, 2 * heads * number of rows). Null: nothing does.
  TensorHandle ofTokens;
  TensorHandle bias; // of a graph: added to scores, of one shape with them where its sizes are not 1; null: nothing is
  bool causal = false; // of a graph: a token sees those before it
  // Of an encoder with global tokens: heads of their queries, and of the keys and values that these see; else empty.
  std::vector<TensorHandle> global;
  std::string
      sinks; // the layer's weight (num_heads): a logit of each head that takes part in the sum alone; empty: there is none
};

// Scores by distances between tokens of a text and, behind them, others.
struct PageDistances {
  int64_t edge = -1;           // number of the box of a token; -1: its place in the text
  std::vector<int32_t> behind; // the same of the tokens behind the text
  DistanceBias buckets;        // the table is (heads, number of buckets)
  int64_t most = 0;            // distances beyond are this far
  double scale = 1.0;
};

// Attention within windows: each run of as many tokens as a window has is a sequence of its own.
struct WindowTerms {
  int64_t tokens = 0;             // of a window
  std::string table;              // the layer's weight (distances, heads), added to scores
  std::vector<int32_t> distances; // (tokens, tokens): the row of the table for each pair of a query and a key
  // (windows, tokens): the score of a pair of different regions is less by `across`; empty: all are of one.
  std::vector<int32_t> regions;
  float across = 100.0f;
};

// What linear attention computes with beside queries, keys and values.
struct LinearAttentionTerms {
  int64_t keyHeads = 0, valueHeads = 0; // the latter a multiple of the former
  double scale = 1.0;                   // of what a query reads
  // (batch, sequence, valueHeads): what the state is multiplied by, as a logarithm, and how much of the difference between a value and what the state
  // has for its key is added (delta rule); null: 1, and values are added as they are. Where `decay` is (batch, sequence, valueHeads * key dim), each
  // column of a key has its own.
  TensorHandle decay, beta;
};

class ModelBuilder {
public:
  using LayerBody = std::function<TensorHandle(TensorHandle)>;
  using LayerValues = std::vector<TensorHandle>;

  virtual ~ModelBuilder() = default;
  virtual const ModelConfig &config() const = 0;
  // Whether the model has this weight: the config asks for it. What else lies in the checkpoint takes no part.
  virtual bool has(const std::string &name) const = 0;

  // Of a graph: begins the entry `name`; `batch` names the first dimension of what it gives, "" nothing.
  virtual void beginEntry(const std::string &name, const std::string &batch) = 0;
  // Of a graph: its input `name`, (any number, width); `dim` names that number.
  virtual TensorHandle rows(const std::string &name, const std::string &dim, int64_t width) = 0;
  // Of a graph of texts: attention_mask, 1 where the input lacks it, as what scores get: (batch, 1, 1, sequence + more); nothing masks `more` tokens that
  // stand behind each text.
  virtual TensorHandle keyMask(int64_t more = 0) = 0;
  // Of a graph of runs of patches, of which some fill up a batch: the same of pixel_attention_mask.
  virtual TensorHandle patchMask() = 0;
  // Of such a graph, x being (images, patches, any width): what each place of a square of learned positions, `side` on a side, counts for each patch where the
  // square is resized, as an image is, to the rows and columns of patches that its input spatial_shapes, (images, 2), says; (images, patches, side * side).
  virtual TensorHandle placesOf(TensorHandle x, int64_t side) = 0;
  // Of a graph of texts on pages: rows of a table by number `corner` of its input bbox, (batch, sequence, 4), the left, upper, right and lower edge of what
  // each token stands in, less number `from` of it where that is one. `most` not 0: one below 0 counts
  // as 0, one above `most` as that.
  virtual TensorHandle embedBoxes(const std::string &name, int64_t corner, int64_t from = -1, int64_t most = 0) = 0;
  // `onto`, what scores get, (batch, 1 or heads, 1 or tokens, tokens), plus what the distances of tokens along a side of the page add: (batch, heads, tokens,
  // tokens).
  virtual TensorHandle pageDistances(const PageDistances &terms, TensorHandle onto) = 0;
  // Of a graph of texts: rows of a table by the number of tokens up to each whose id is not `padding`, behind row `padding`, which those have.
  virtual TensorHandle embedCounted(const std::string &name, int64_t padding) = 0;
  // Of such a graph: tokens of x, then those of y; and the first tokens of x, as many as texts have.
  virtual TensorHandle behind(TensorHandle x, TensorHandle y) = 0;
  virtual TensorHandle tokensOfTexts(TensorHandle x) = 0;
  // The token that stands for each text, (batch, width): the first with id `end`, that of the first column where none has it; without `end`
  // the first with the largest id.
  virtual TensorHandle endToken(TensorHandle x, std::optional<int64_t> end) = 0;

  // ids (batch, sequence) -> (batch, sequence, width of the table); position embeddings by position.
  virtual TensorHandle embedTokens(const std::string &name) = 0;
  virtual TensorHandle embedPositions(const std::string &name) = 0;
  // The same of another table, times `scale`; ids that it has no row for take the first one.
  virtual TensorHandle embedIds(const std::string &name, double scale) = 0;
  // Of a decoder that sees images: row `index` of those that stand behind the one of each token, zeros where a token is none of an image.
  virtual TensorHandle givenBeside(int64_t index) = 0;
  // Of an encoder of images or of sound: (batch, sequence, ModelConfig::inputWidth()).
  virtual TensorHandle patches() = 0;
  // Of a graph: pixel_values in patches, (batch, patches, channels * patch * patch), with zeros behind the image's last row and column.
  virtual TensorHandle pixelPatches() = 0;
  // Of an encoder, or of a graph of texts: token_type_ids.
  virtual TensorHandle embedTokenTypes(const std::string &name) = 0;

  // Runs `body` as function @layer_<index> of what it reads of others, that of a graph where it stands; each is (batch, sequence, width), or keys
  // or values that an earlier layer attended to and gave: the layer then attends to them where they are cached. Names in it are relative to `scope`.
  // The first product outside of such functions and behind those with attention begins the logits: its input is the last hidden state.
  virtual LayerValues layer(int64_t index, const std::string &scope, const LayerValues &inputs,
                            const std::function<LayerValues(const LayerValues &)> &body) = 0;
  // The same of (batch, sequence, hidden_size) alone.
  TensorHandle layer(int64_t index, const std::string &scope, TensorHandle x, const LayerBody &body) {
    return layer(index, scope, LayerValues{x},
                 [&](const LayerValues &values) { return LayerValues{body(values[0])}; })[0];
  }

  // x W^T (+ <name>.bias where the model has one), W being <name>.weight (out, in). Rows that a file stores in another order (StoredOrder)
  // are read in the graph's.
  virtual TensorHandle linear(TensorHandle x, const std::string &name) = 0;
  // x W^T (+ bias), both by their own names; `bias` empty: none. `rows` not 0: of rows [begin, begin + rows) of both alone.
  virtual TensorHandle linear(TensorHandle x, const std::string &weight, const std::string &bias, int64_t begin = 0,
                              int64_t rows = 0) = 0;
  // Norms with <name>.weight (and <name>.bias); one of which the model has no weight multiplies by 1. `eps` 0: the config's.
  virtual TensorHandle rmsNorm(TensorHandle x, const std::string &name, double eps = 0) = 0;
  // One whose weight is stored as it multiplies, whatever is added to those of others.
  virtual TensorHandle rmsNormAsStored(TensorHandle x, const std::string &name) = 0;
  // One whose weight is stored less 1, whatever those of others are.
  virtual TensorHandle rmsNormLessOne(TensorHandle x, const std::string &name, double eps) = 0;
  virtual TensorHandle layerNorm(TensorHandle x, const std::string &name, double eps = 0) = 0;
  virtual TensorHandle add(TensorHandle a, TensorHandle b) = 0;
  virtual TensorHandle multiply(TensorHandle a, TensorHandle b) = 0; // element by element
  // x times a number, and x within [-limit, limit]; x itself for 1, and for limit 0.
  virtual TensorHandle scale(TensorHandle x, double factor) = 0;
  virtual TensorHandle clip(TensorHandle x, double limit) = 0;
  // The sum of `parts`, each times a number of the token's own: column begin + i of `weights` for part i.
  virtual TensorHandle weightedSum(const std::vector<TensorHandle> &parts, TensorHandle weights, int64_t begin) = 0;
  // x of each token times a number, so that its mean square is that of `like`; one below `least` counts as that.
  virtual TensorHandle withMagnitudeOf(TensorHandle x, TensorHandle like, double least) = 0;
  // What each number of a token is above its mean and so many of its standard deviations; 0 where it is below.
  virtual TensorHandle aboveCutoff(TensorHandle x, double deviations) = 0;
  // The config's activation of `gate`, or that of this kind, times `up`; without the factor.
  virtual TensorHandle glu(TensorHandle gate, TensorHandle up) = 0;
  virtual TensorHandle glu(TensorHandle gate, TensorHandle up, Activation kind) = 0;
  TensorHandle activation(TensorHandle x) { return glu(x, TensorHandle()); }
  virtual TensorHandle activation(TensorHandle x, Activation kind) = 0;
  // xIELU (arXiv:2411.13010) with the numbers of the vector `name`, which are ActivationTerms.
  virtual TensorHandle xielu(TensorHandle x, const std::string &name) = 0;
  // Columns [begin, end) of the last dimension.
  virtual TensorHandle columns(TensorHandle x, int64_t begin, int64_t end) = 0;
  // Token `place` of every sequence, each of which has more, and the mean of its tokens: (batch, width).
  virtual TensorHandle tokensAt(TensorHandle x, int64_t place) = 0;
  TensorHandle firstTokens(TensorHandle x) { return tokensAt(x, 0); }
  // The last one, of a graph: (batch, width).
  virtual TensorHandle lastTokens(TensorHandle x) = 0;
  virtual TensorHandle meanToken(TensorHandle x) = 0;

  // Of a graph, x being (batch, tokens, width) for a number of tokens that is known. Which tokens stand where: `tokens` of x, for -1 zeros or the
  // vector `other`, and `group` of them side by side as one, (batch, size of tokens / group, group * width). And x plus
  // the table (tokens, width) `name`, the same one for every image, or as much of it as texts have tokens.
  virtual TensorHandle gatherTokens(TensorHandle x, const std::vector<int32_t> &tokens, int64_t group = 1,
                                    const std::string &other = "") = 0;
  virtual TensorHandle addTable(TensorHandle x, const std::string &name) = 0;
  // Each column times its number of the vector `name`; and the numbers of each part behind those of the part before it.
  virtual TensorHandle scaleColumns(TensorHandle x, const std::string &name) = 0;
  virtual TensorHandle sideBySide(const std::vector<TensorHandle> &parts) = 0;
  // All columns so many times side by side: (batch, sequence, times * width).
  virtual TensorHandle repeatColumns(TensorHandle x, int64_t times) = 0;
  // Of a graph that takes runs of patches, any number of runs of one length: its input `name`, (runs, patches, width), whose length is `length`, or of the
  // call (0). All runs as one, (1, runs * patches, width), and back; and so many tokens of a run side by side as one, or `byColumn` their numbers of a column.
  virtual TensorHandle runs(const std::string &name, int64_t length, int64_t width) = 0;
  virtual TensorHandle joinRuns(TensorHandle x) = 0;
  virtual TensorHandle splitRuns(TensorHandle x, int64_t length) = 0;
  virtual TensorHandle groupTokens(TensorHandle x, int64_t group, bool byColumn = false) = 0;
  // (runs, heads, patches, head_dim) rotated by halves, whose cosines and sines, those of the first half less than 0, are (runs, patches, head_dim);
  // and a number of each patch, (runs, patches, 1), as what scores get for it as a key.
  virtual TensorHandle rotated(TensorHandle heads, TensorHandle cosines, TensorHandle sines) = 0;
  virtual TensorHandle keyBias(TensorHandle x) = 0;
  // Each row divided by its Euclidean length; and x y^T times e to the power of the stored number `scale`, plus the stored number `bias` unless it is
  // empty, (rows of x, rows of y).
  virtual TensorHandle unitRows(TensorHandle x) = 0;
  virtual TensorHandle similarities(TensorHandle x, TensorHandle y, const std::string &scale,
                                    const std::string &bias) = 0;
  // All three are (batch, windows * tokens, heads * head_dim), as is what it gives.
  virtual TensorHandle windowAttention(TensorHandle q, TensorHandle k, TensorHandle v, int64_t heads,
                                       const WindowTerms &terms) = 0;

  // (batch, sequence, heads * head_dim) <-> (batch, heads, sequence, head_dim)
  virtual TensorHandle splitHeads(TensorHandle x, int64_t heads) = 0;
  virtual TensorHandle mergeHeads(TensorHandle x) = 0;
  // Rotary embedding (from dimension `offset` of a head on; x itself where the layer has none) and attention of the layer that is being built.
  virtual TensorHandle rope(TensorHandle x, int64_t offset = 0) = 0;
  virtual TensorHandle attention(TensorHandle q, TensorHandle k, TensorHandle v,
                                 const AttentionTerms &terms = AttentionTerms()) = 0;
  // x (batch, sequence, channels): of each channel the sum of its last tokens times <name>.weight (channels, 1, width), plus <name>.bias where
  // the model has it; `activation` of that.
  virtual TensorHandle causalConv(TensorHandle x, const std::string &name, std::optional<Activation> activation) = 0;
  // Of each sequence and value head h, S += k[h / (valueHeads / keyHeads)] (x) v[h] token by token, and scale S^T q: q and k are (batch, sequence, keyHeads *
  // key dim), v and what it gives (batch, sequence, valueHeads * value dim).
  virtual TensorHandle linearAttention(TensorHandle q, TensorHandle k, TensorHandle v,
                                       const LinearAttentionTerms &terms) = 0;
  // 1 / (1 + e^-x), and log(1 + e^(x + b)), b being the column's number of the vector `bias`; empty: 0.
  virtual TensorHandle sigmoid(TensorHandle x) = 0;
  virtual TensorHandle softplus(TensorHandle x, const std::string &bias) = 0;
  // What LinearAttentionTerms::decay is of steps of these lengths: each column times -e^a, or times a itself where RecurrentConfig::ratesAreLogs does
  // not hold, a being its number of `rates`, or its head's where there are fewer; where there are more, it becomes a column for each.
  virtual TensorHandle decay(TensorHandle steps, const std::string &rates) = 0;
  // x (batch, sequence, heads * any width), each head times its number: of the token, (batch, sequence, heads), or of the vector `name` (heads).
  virtual TensorHandle scaleHeads(TensorHandle x, TensorHandle factors) = 0;
  virtual TensorHandle scaleHeads(TensorHandle x, const std::string &name) = 0;
  // In a layer of a decoder: heads of keys, then of values, that `project` computes of its encoder's last hidden state. That is done once for
  // a source, whatever the decoder does with it; attention to them sees all of it.
  virtual TensorHandle ofSource(const LayerBody &project) = 0;
  // Keys and values from a latent and a rotary key of one head, with one matrix per head each.
  virtual TensorHandle latentAttention(TensorHandle q, TensorHandle latent, TensorHandle keyRope,
                                       const std::vector<TensorHandle> &keyUps,
                                       const std::vector<TensorHandle> &valueUps) = 0;
  // Rows [begin, begin + rows) of the matrix `name`, as a weight of its own; `transposed`: as (columns, rows).
  virtual TensorHandle weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed = false) = 0;
  // The experts of the layer, under the family's names for them; `block`: ExpertNames::block of this layer. Where the config corrects scores,
  // ExpertNames::correction does. `routed`: what the router reads; null: x.
  virtual TensorHandle moe(TensorHandle x, const std::string &block, TensorHandle routed = {}) = 0;
  // The one expert `expert`, times the sigmoid of what `gate`, a matrix of one row, gives.
  virtual TensorHandle gatedExpert(TensorHandle x, const std::string &expert, const std::string &gate) = 0;

  // Ends @forward with logits (batch, sequence, vocab_size), x W^T of the head (+ `bias`, where the model has it), scaled and softcapped as
  // the config says.
  virtual void finish(TensorHandle x, const std::string &head, const std::string &bias = "lm_head.bias") = 0;
  // An output of an encoder or a graph under Hugging Face's name: of tokens, (batch, sequence, width), or of sequences, (batch, width). `squeezed`: the
  // width is 1, and the output has no dimension for it.
  virtual void output(const std::string &name, TensorHandle x, bool squeezed = false) = 0;
  // Ends the encoder of an encoder-decoder with its last hidden state, (batch, sequence, hidden_size).
  virtual void beginDecoder(TensorHandle lastHiddenState) = 0;
};

} // namespace heddle

#endif
