// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All that is known of a model family: its names, the keys that its files may leave out, the tensors that must be there with their
// shapes, what its config files say that no other family's do, and its graph. Readers and importer ask the row, never for a name.
// The rows are in frontends/families/, one file for each family and its next of kin.
#ifndef HEDDLE_FRONTENDS_FAMILY_H
#define HEDDLE_FRONTENDS_FAMILY_H

#include "frontends/ModelConfig.h"

#include <array>
#include <vector>

namespace heddle {

class GgufKeys;
class JsonObject;
class ModelBuilder;
struct TensorHandle;

// A dimension of a tensor in terms of the config.
enum class ConfigDim : uint8_t {
  None,
  Vocab,
  Positions /* of learned positions, with the rows before that of position 0 */,
  TokenTypes /* type_vocab_size */,
  TaskTypes,
  PagePlaces /* along a side */,
  PageCoordinate,
  PageShape,
  PageBuckets,
  HeadInput /* of the matrix that makes logits over the vocabulary */,
  Labels /* of a classifier */,
  PatchWidth /* channels x patch size x patch size */,
  // Of a stage, or of the first where the rule is of none:
  StageWidth,
  StageHeads,
  StageIntermediate,
  MergedWidth /* of four tokens side by side */,
  NextStageWidth,
  WindowDistances /* between two patches of a window, of which each pair has one in both directions */,
  MelWindow /* num_mel_bins x the width of a kernel */,
  HiddenWindow /* hidden_size x the same */,
  One,
  Two,
  Hidden,
  TwiceHidden /* a token beside a mean of others */,
  Registers /* learned tokens behind the class token */,
  Embedding /* hidden_size, or less where a projection widens embeddings */,
  Heads,
  KvHeads,
  Buckets /* of distances */,
  Queries /* num_heads x head_dim */,
  KeyValues /* num_kv_heads x head_dim */,
  Values /* num_kv_heads x what a head of values has */,
  HeadValues /* num_heads x the same */,
  QueriesKeysValues,
  HeadDim,
  Intermediate,
  // Of a group of each linear layer, what it reads:
  QueryGroup,
  KeyGroup,
  ValueGroup,
  OutputGroup,
  UpGroup,
  DownGroup,
  EncoderPositions /* of an encoder-decoder, or a second tower */,
  EncoderIntermediate,
  EncoderHidden /* of a second tower */,
  EncoderQueriesKeysValues /* 3 x that */,
  Projection /* projection_dim of two towers; of one beside a decoder the width of that */,
  Seen /* hidden states of such a tower side by side */,
  DeepLayers /* of such a tower */,
  GateAndUp /* 2 x intermediate_size */,
  Experts,
  ExpertIntermediate,
  ExpertGateAndUp /* 2 x that of an expert */,
  ExpertInput /* what experts read and give: moe_latent_size, or hidden_size */,
  SharedIntermediate,
  QueryRank /* q_lora_rank */,
  LatentRank /* kv_lora_rank */,
  LatentAndRope /* kv_lora_rank + qk_rope_head_dim */,
  LatentUps /* num_heads x (qk_nope_head_dim + v_head_dim) */,
  LatentKeyUps /* num_heads x kv_lora_rank */,
  LatentOutput /* num_heads x v_head_dim */,
  NopeDim /* qk_nope_head_dim */,
  Streams /* of a token */,
  OtherStreams /* than the first */,
  StreamPairs,
  LaurelRank /* of a residual of low rank */,
  LayerInput /* hidden_size_per_layer_input */,
  LayerInputs /* that of all layers */,
  LayerInputVocab,
  ConvWidth /* tokens that a convolution sees */,
  ThriceHidden,
  GatedQueries /* queries and what gates their heads */,
  // Of linear attention:
  StateHeads,
  TwiceStateHeads,
  StateHeadDim /* of values */,
  StateValues /* of all heads */,
  StateKeys /* the same of keys */,
  StateChannels /* queries, keys and values */,
  StateChannelsAndGates,
  StateInputs /* these and a number of each head */,
  StepRank /* of what becomes steps of all heads */,
  StepRankAndKeys /* and a key and a query */,
};

// When a tensor is required. `Dense`, `Sparse`, `Correction`, `Shared`, `SharedBias` and `Merged` speak of a layer.
enum class When : uint8_t {
  Always,
  Tied,
  Untied,
  OwnEmbeddings /* ModelConfig::hasOwnEmbeddings */,
  FinalNorm /* behind the last layer */,
  Serial /* feed-forward reads what attention was added to */,
  Projected /* embeddings narrower than hidden_size */,
  SharedNorm /* not NormEach */,
  NormEach /* attention and feed-forward of a parallel residual have a norm each */,
  SequentialNorm /* no parallel residual */,
  EmbeddingNorm /* before the first layer */,
  LogitsBias,
  AttentionBias,
  KeyBias /* of an encoder-decoder: biases of keys, which some leave out */,
  OutputBias,
  MlpBias,
  HeadNorms /* of query and key heads, where a family has models with them and without */,
  HeadNormsApart /* a tensor for each head, which become one */,
  NormsBehind /* blocks, where a family has models with norms there and without */,
  NormBias /* of LayerNorms, where a family has them with biases and without */,
  HeadBias /* of what stands before the last layer of a head */,
  BehindFirst /* not of the first layer */,
  Last /* of the last layer alone */,
  Windowed /* the layer sees a window */,
  HeadGates /* what attention gives is gated, each head by one number */,
  ElementGates /* or each number by its own */,
  NormBiasBehindFirst,
  Dense,
  Sparse,
  Correction /* e_score_correction_bias of a sparse layer */,
  Shared /* shared experts of a sparse layer */,
  SharedBias,
  ExpertLatent /* the experts of a sparse layer read less than hidden_size */,
  ExpertLatentBias,
  RouterBias /* of a sparse layer */,
  FusedGates /* gate and up of an expert are one matrix */,
  SplitGates,
  QueryLora,
  QueryLoraBias,
  NoQueryLora,
  WholeUps /* kv_b_proj in one tensor */,
  SplitUps,
  Pooler,
  Gated /* activations of the feed-forward block are multiplied with what a second matrix gives */,
  Ungated,
  PositionTable,
  TokenTypes,
  TaskTypes,
  Distances /* embeddings of them */,
  DistancesEach /* a table of each layer */,
  DistancesShared /* one of all layers */,
  PageDistances /* along the sides of a page */,
  LayerScales,
  DistanceNorm,
  NeighbourConv /* beside the first layer */,
  DistanceKeys /* projected for the layer alone, as are queries */,
  DistanceQueries,
  Texts /* of a model that sees images: it reads texts as well */,
  Merged /* another stage follows */,
  OwnKeys /* the layer attends to keys and values of its own */,
  OwnKeyBias,
  OwnValues /* and has a projection of values */,
  OwnValueBias,
  LayerInputs /* each layer gets an embedding of its own for each token */,
  ActivationTensors /* ModelConfig::hasActivationTensors */,
  Attends /* ModelConfig::attends */,
  Recurrent /* the layer keeps a state */,
  Alone /* neither, and it is dense: feed-forward is all that it does */,
  AloneBias,
  RecurrentBias /* of its convolution */,
  StateProjectionBias,
  StateOutputBias,
  StateNorm /* of what is read of a state */,
  SplitStates /* RecurrentConfig::isSplit */,
  FusedStates,
};

// How Hugging Face's files store a tensor whose rows the graph reads as (out_features, in_features).
enum class StoredOrder : uint8_t {
  Plain,
  Conv1d, // (in_features, out_features)
  ByKvHead,
  ByShard, // RowOrder of q, k and v in one; the graph reads them by part
  // RowOrder of others, of which GGUF files have the same.
  ByGate,
  ByStateHead,
  ByStateTerm,
  ByStatePart,
  Flattened, // with more dimensions, those of a convolution or of a batch of one, which are read as (rows, columns), or as a vector
};

// A tensor: '#' stands for the layer, '%' for one of the encoder of an encoder-decoder or of a second tower, '@' for the expert, the block of a stage
// or one of as many as `parts` says. Where `name` has an '@' and `gguf` has none, GGUF stacks the experts in one tensor (experts, out, in).
struct TensorRule {
  const char *name;
  const char *gguf;
  ConfigDim rows;
  ConfigDim columns = ConfigDim::None; // None: a vector
  When when = When::Always;
  StoredOrder order = StoredOrder::Plain;
  ConfigDim parts = ConfigDim::None;
};

// A tensor that checkpoints of the family may hold and no program reads: '#' stands for a layer, '+' for one of those behind the last that predict,
// '*' for anything. Whatever is neither read nor listed is refused, since what is dropped in silence changes results.
struct UnreadTensor {
  const char *pattern;
  bool isLoss = false; // the whole model computes something with it, which is left out: a warning says so
};

// The elements of a constant array.
template <typename T> struct Listing {
  constexpr Listing() = default;
  template <size_t n> constexpr Listing(const T (&elements)[n]) : first(elements), count(n) {}
  const T *begin() const { return first; }
  const T *end() const { return first + count; }
  const T *first = nullptr;
  size_t count = 0;
};
using TensorRules = Listing<TensorRule>;
using UnreadTensors = Listing<UnreadTensor>;

// What a key of the common names (Hugging Face's) is called in the files of a family that calls it something else.
struct KeyName {
  const char *name, *huggingFace;
  const char *gguf = nullptr; // null: as in every family
};

using KeyNames = Listing<KeyName>;

// Another name that the reference takes for a key of config.json: where a file has it, it counts, whatever `own` says.
struct KeyAlias {
  const char *alias, *own;
};

// Values of keys that config files may leave out; 0 for none. They are the defaults of Hugging Face's config classes.
struct ConfigDefaults {
  int64_t vocabSize = 0, numHeads = 0;
  int64_t numKvHeads = 0; // 0: num_attention_heads
  int64_t headDim = 0;    // 0: hidden_size / num_attention_heads
  int64_t context = 2048, slidingWindow = 0;
  int64_t widening = 0; // intermediate_size is hidden_size times this where config.json does not say it
  double normEps = 1e-6, ropeTheta = 10000.0;
  double partialRotary = 1.0; // partial_rotary_factor
  double attentionSoftcap = 0.0, finalSoftcap = 0.0;
  Activation activation = Activation::Silu;
  bool tied = false;
  // Of a part of a larger config, which says only what its class does not.
  int64_t hiddenSize = 0, intermediateSize = 0, numLayers = 0;
  bool scalesEmbedding = false; // scale_embedding
  bool layersOfEncoder =
      false; // an encoder-decoder has as many layers in both stacks where config.json does not say it
};

enum class NormKind : uint8_t { Rms, Layer /* without a weight where the rules have none */ };

// Where query and key are normed, if the rules have norms for them.
enum class HeadNorms : uint8_t {
  EachHead,
  AllHeads, // of a token, as one vector
  Rotated   // each head behind its rotation
};

// What the parts of attention are called, behind the name of their block.
struct AttentionNames {
  const char *block = "self_attn.", *q = "q_proj", *k = "k_proj", *v = "v_proj", *output = "o_proj";
  const char *qNorm = "q_norm", *kNorm = "k_norm";
};

// The same of a feed-forward block; `gate` null: it has none.
struct FeedForwardNames {
  const char *block = "mlp.", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

// Which linear layers have biases.
struct BiasRules {
  const char *attentionKey = nullptr; // of config.json, which says whether attention has them
  bool attentionDefault = false;      // where it does not say it
  bool inOutput = true;               // o has one, too
  const char *outputKey = nullptr;    // or a key of its own says whether it has; without the key it has none
  bool alwaysInQkv = false;           // q, k and v, whatever config.json says
  const char *mlpKey = nullptr;       // the same of the feed-forward block
  bool mlpDefault = false;
  bool mlpInGguf = false; // GGUF has no key for that: where its tensors are there
};

// When config.json's sliding_window counts.
enum class WindowUse : uint8_t { Never, Stated, Switched /* if use_sliding_window is true */ };

// Which layers see the last tokens only.
struct WindowRules {
  WindowUse use = WindowUse::Never;
  bool inGguf = true;           // GGUF's attention.sliding_window counts
  bool slidesAlways = false;    // a file that names no window means the default's
  bool readsLayerTypes = false; // config.json's layer_types counts
  // Of fullEvery layers the last one sees all tokens (0: none), and sliding_window_pattern may say another number.
  int64_t fullEvery = 0;
  bool fullFirst = false; // the first of them does, instead
  bool statesFullEvery = false;
  // The same of GGUF's attention.sliding_window_pattern, where it differs from config.json's: of how many layers one sees all tokens in a file that does
  // not say it, and whether that is their first. 0: it does not differ.
  int64_t ggufFullEvery = 0;
  bool ggufFullFirst = false;
  // The first max_window_layers layers see all tokens: so many where config.json does not say it. 0: the key does not count.
  int64_t fullLayersFirst = 0;
  // The same, but for the layers from that one on.
  int64_t slidingLayersFirst = 0;
  // What layer_types calls layers that keep a state in the place of attention, which those are that nothing says otherwise; null: there are none. No
  // other layer has a window then.
  const char *recurrentType = nullptr;
};

struct RopeRules {
  bool hasRope = true;
  bool interleaved = false;       // the model rotates pairs (2i, 2i + 1)
  bool interleavedInGguf = false; // the writer permutes rows of q and k for interleaved rotary embedding
  bool partial = false;           // partial_rotary_factor counts
  bool longropeOnly = false;      // no other scaling is known; "yarn" means it
  const char *yarn = nullptr;     // another name that files have for it
  int64_t originalContext = 0;    // what longrope stretches where config.json does not say it; 0: what the scaling says
};

// Names of a layer's experts: block + router is the router, block + "experts.@." + gate that of an expert; `gate` null: nothing multiplies the
// activation of up.
struct ExpertNames {
  const char *block = "mlp.", *gate = "gate_proj", *up = "up_proj", *down = "down_proj", *router = "gate";
  const char *gateAndUp = nullptr; // one matrix instead of gate and up, whose rows are theirs in turn
  bool gateThenUp = false;         // or all of the gate's, then those of up
  const char *expert = "experts."; // before the number of one
  // Those that every token passes, and what gives the number whose sigmoid multiplies what they give; null: nothing does.
  const char *shared = "shared_experts", *sharedGate = nullptr;
  const char *correction = "gate.e_score_correction_bias"; // what is added to scores where experts are chosen
  const char *scales = nullptr; // numbers that multiply the weights of those that are chosen; null: there are none
  // Of a layer ('#'), behind which stand `gate`, `up` and `down`: matrices (experts x intermediate, hidden) that hold all experts, one below another;
  // null: there are none.
  const char *rowsOfAll = nullptr;
  // What checkpoints call experts of a layer that lie in two tensors, (experts, gate then up, hidden) and (experts, hidden, intermediate), behind its
  // name; and shared ones, if they have two matrices, too.
  const char *fusedGateAndUp = "mlp.experts.gate_up_proj", *fusedDown = "mlp.experts.down_proj";
  const char *fusedSharedGateAndUp = nullptr, *fusedSharedDown = nullptr;
};

// What the files of a family say that no rule above can; null where there is nothing of the kind. A failure goes to `object` or `keys`.
struct ConfigReaders {
  // All sizes and epsilon, of a family whose files have none of the common keys.
  void (*huggingFaceAllSizes)(JsonObject &object, ModelConfig &config) = nullptr;
  // Heads, widths and epsilon, once vocab_size, hidden_size, num_hidden_layers, num_attention_heads and context are read, instead of
  // the common keys; from GGUF, once all common keys are.
  void (*huggingFaceSizes)(JsonObject &object, ModelConfig &config) = nullptr;
  void (*ggufSizes)(GgufKeys &keys, ModelConfig &config) = nullptr;
  // config.ropes, and of config.layerRope (all 0 before) what differs, instead of the common keys.
  void (*huggingFaceRopes)(JsonObject &object, ModelConfig &config) = nullptr;
  // Experts and scales, after everything else; sizes are bounded by then, config.ropes is empty where something failed.
  void (*huggingFaceRest)(JsonObject &object, ModelConfig &config) = nullptr;
  void (*ggufRest)(GgufKeys &keys, ModelConfig &config) = nullptr;
  // Of a row that joins a tower to a decoder, whose own rows have read text_config and vision_config.
  void (*huggingFaceJoint)(JsonObject &object, ModelConfig &text, ModelConfig &tower) = nullptr;
};

// What a head is for. The numbers of those that classify stand for labels.
enum class HeadTask : uint8_t { None, Classify, ClassifyTokens, FillMask, Answer };

// Which tokens of a model with global ones are global where nothing says it.
enum class GlobalDefault : uint8_t { None, First, Question /* those before the first separator */ };

// What an encoder computes beyond its hidden states, as one of transformers' classes does.
struct Head {
  const char *architecture; // in config.json's architectures
  TensorRules rules;
  // `pooled` is null where the checkpoint has no pooler.
  void (*build)(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled) = nullptr;
  HeadTask task = HeadTask::None;
  GlobalDefault globals = GlobalDefault::None;
};

struct Family {
  const char *modelType = nullptr; // Hugging Face's model_type
  const char *wrapper = nullptr;   // model_type of a config that keeps this one in text_config; null: there is none
  const char *gguf = nullptr;      // general.architecture; null: another row stands for the family's GGUF files
  // Of rows with one name in GGUF, the one that is meant where the file has this tensor; null: where no other row's is there.
  const char *ggufMark = nullptr;
  bool isGgufOnly = false; // Hugging Face folders of the family bring code of their own, and are not read
  // The same of models whose tokens attend to all of their text; null: their files say it otherwise.
  const char *ggufAhead = nullptr;
  // use_bidirectional_attention counts: with it a decoder's tokens attend to all of their text, and it generates nothing.
  bool mayAttendAhead = false;
  bool isEncoder = false;        // a token attends to all of its sequence, and nothing is generated
  bool isGraph = false;          // its graph is an entry over whole tensors: tokens are those of an image of one size
  bool isEncoderDecoder = false; // the graph is an encoder, and a decoder that attends to what it gives
  const char *pooler = nullptr;  // of an encoder: the tensor of a checkpoint that gives pooler_output
  const char *logitsBias = nullptr; // the tensor of a checkpoint that is added to logits where it is there
  const char *imageProcessor =
      nullptr;            // of what sees images: transformers' class that reads them where a folder names none
  bool padsTexts = false; // of a graph that reads texts: they are filled up to its context
  bool interpolatesPositions = false; // images may have another size than the one that positions were learned for
  Listing<Head> heads;     // of what generates nothing: the first that config.json's architectures name is compiled
  bool hasExperts = false; // of two rows with one name in GGUF, the one that is meant where the file has experts
  const char *embedding = "model.embed_tokens.weight";
  const char *head = "lm_head.weight";
  bool scalesInputs =
      false; // embeddingScale is of what enters the first layer, whoever gives it, not of the table's rows
  // Of an encoder-decoder: what a checkpoint may hold besides, of the encoder and of the decoder, equal to it or, where it holds both, tables of
  // their own.
  Listing<const char *> embeddingCopies;
  bool headIfStored = false;       // embeddings are tied where a checkpoint holds no head, whatever its config says
  bool correctionIfStored = false; // experts are chosen by their scores alone where a checkpoint holds no correction
  std::array<TensorRules, 10> rules = {};
  UnreadTensors unread;
  ConfigDefaults defaults;
  // Every head has its own key and value and hidden_size / num_attention_heads values, whatever else config.json says.
  bool plainHeads = false;
  KeyNames keyNames;
  Listing<KeyAlias> aliases;
  const char *activationKey = "hidden_act"; // null: it is the default's
  NormKind norm = NormKind::Rms;
  double normWeightOffset = 0.0; // Hugging Face stores norm weights less this
  const char *finalNorm = "model.norm";
  HeadNorms headNorms = HeadNorms::EachHead;
  AttentionNames attention;
  FeedForwardNames feedForward;
  bool parallelResidual = false; // of every model of the family
  // A token's position counts the tokens before it that are not masked, instead of all.
  bool positionsSkipMasked = false;
  BiasRules biases;
  bool layersDiffer =
      false; // a GGUF file may say heads, those of keys and the width of feed-forward blocks of each layer
  bool layersMayNotAttend = false; // and that a layer has no heads, and no attention
  WindowRules windows;
  RopeRules rope;
  ExpertNames experts;
  ConfigReaders readers;
  // Adds tensors that no checkpoint holds, since the config says what is in them, or gives some another order; null: there are none.
  Status (*addTensors)(Model &model) = nullptr;
  void (*build)(ModelBuilder &b) = nullptr;
  // Of a tower that sees images: its hidden states, as SeenConfig numbers them.
  std::vector<TensorHandle> (*hiddenStates)(ModelBuilder &b) = nullptr;
  // Of a row that joins a tower to a decoder: what either is where the config does not say it. Its first head is what stands between them.
  const char *textModel = nullptr, *towerModel = nullptr;
  // What names of its tensors begin with, or the same behind "model.": those of the tower, and of what stands between.
  const char *towerPrefix = "vision_tower.", *projectorPrefix = "multi_modal_projector.";
  // Of a tower: its model_type in older files of a larger model; null: there is none.
  const char *olderPart = nullptr;
  bool mayBeFlat = false;  // files may have the decoder's keys beside vision_config
  bool capsLogits = false; // final_logit_softcapping of text_config counts
  // What text_config says of use_bidirectional_attention is of prompts, which see ahead anyway.
  bool promptSeesAhead = false;
};

using FamilyList = std::vector<const Family *>;

const Family *findFamily(const FamilyList &families, std::string_view modelType);
const Family *findGgufFamily(const FamilyList &families, std::string_view name, bool hasExperts,
                             const Checkpoint &tensors);
// The table that embeds the tokens of a stack of an encoder-decoder.
const char *embeddingOf(const ModelConfig &config, bool isDecoder);
// "gemma2, gemma3_text, …", for messages.
std::string knownFamilies(const FamilyList &families);
std::string knownGgufFamilies(const FamilyList &families);

// `pattern` with its '#' or '%' and its '@' replaced.
std::string tensorName(const char *pattern, int64_t layer, int64_t expert);

// The value of `dim` for a tensor of the layer; 1 for None. All sizes are bounded by validateSizes, so that products do not wrap.
int64_t dimension(ConfigDim dim, const ModelConfig &config, int64_t layer);

// How many an '@' of the rule stands for: experts, or blocks of a stage, where the rule does not say it.
int64_t partsOf(const TensorRule &rule, const ModelConfig &config, int64_t layer);

// Of a stored weight of q, k and v in one: runs of rows, each (first row, how many), in the order in which the graph reads them.
using RowRuns = std::vector<std::pair<int64_t, int64_t>>;
RowOrder rowOrderOf(const TensorRule &rule);
RowRuns rowRuns(RowOrder order, const ModelConfig &config);

// Whether a rule applies to a layer (any layer for rules without '#').
bool applies(const TensorRule &rule, const ModelConfig &config, int64_t layer);

// The entry of the tensor in the family's list, or in that of all, of those that no program reads; null if it is in none.
const UnreadTensor *findUnread(const ModelConfig &config, std::string_view name);

// Calls visit(rule, layer, expert) for each tensor that the config asks for, until it returns a failure.
template <typename Visit> Status forEachTensor(const ModelConfig &config, Visit visit) {
  std::vector<TensorRules> all(config.family->rules.begin(), config.family->rules.end());
  if (config.head)
    all.push_back(config.head->rules);
  for (const TensorRules &rules : all) {
    for (const TensorRule &rule : rules) {
      std::string_view name = rule.name;
      int64_t layers = name.find('#') != std::string_view::npos   ? config.numHiddenLayers
                       : name.find('%') != std::string_view::npos ? config.encoder.numLayers
                                                                  : 1;
      for (int64_t layer = 0; layer < layers; ++layer) {
        int64_t parts = name.find('@') == std::string_view::npos ? 1 : partsOf(rule, config, layer);
        for (int64_t part = 0; part < parts && applies(rule, config, layer); ++part)
          HEDDLE_RETURN_IF_ERROR(visit(rule, layer, part));
      }
    }
  }
  return Status();
}

} // namespace heddle

#endif
