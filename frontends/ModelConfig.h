// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a model file says about the model, in the field's terms (Hugging Face's config names), whichever file said it.
// Readers fill it and check it (every value within its limits, heads divide, …), so that families can rely on it.
#ifndef HEDDLE_FRONTENDS_MODELCONFIG_H
#define HEDDLE_FRONTENDS_MODELCONFIG_H

#include "frontends/Checkpoint.h"

#include <array>
#include <optional>
#include <set>

namespace heddle {

struct Family;
struct Head;
struct OnnxModel;

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, QuickGelu, Tanh, SquaredRelu };
// In ModelConfig::layerRope: the layer does not rotate.
constexpr uint8_t noRope = 255;

enum class RopeScalingKind : uint8_t { None, Linear, Dynamic, Llama3, Yarn, Longrope };

// Rotary position embedding. Sources: Su et al. 2021 (arXiv:2104.09864); YaRN arXiv:2309.00071; LongRoPE
// arXiv:2402.13753.
struct RopeConfig {
  double theta = 10000.0;
  int64_t rotaryDim = 0;    // head_dim x partial_rotary_factor
  bool interleaved = false; // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
  bool reversed = false;    // frequencies are negative
  RopeScalingKind scaling = RopeScalingKind::None;
  double factor = 1.0;
  int64_t originalContext = 0;                                              // original_max_position_embeddings
  double lowFreqFactor = 1.0, highFreqFactor = 4.0;                         // llama3
  double betaFast = 32.0, betaSlow = 1.0, mscale = 0.0, mscaleAllDim = 0.0; // yarn
  bool truncate = true;                                                     // yarn
  std::optional<double> attentionFactor;
  std::optional<double> longAttentionFactor; // longrope: that of long contexts, where it is another one
  // floor not 0: cos and sin are also multiplied by 1 + growth log(1 + floor((position + 1) / floor)) (arXiv:2501.19399).
  double growth = 0.0;
  int64_t floor = 0;
  // longrope: (rotary_dim / 2) each. Without scaling, shortFactor holds GGUF's rope_freqs, if it has them: divisors.
  std::vector<double> shortFactor, longFactor;
  // (rotary_dim / 2) where a graph, or a layer that does not rotate, says the frequencies themselves: they are used as they are, with attentionFactor.
  std::vector<float> stated;
  // How many frequencies rotate by an image's time, row and column, in turn (Qwen2-VL, arXiv:2409.12191); empty: all by one position.
  std::vector<int64_t> sections;
  // Frequencies of sections alternate, as far as there are of each; the others rotate by the first.
  bool sectionsAlternate = false;

  // (rotary_dim / 2) inverse frequencies in f32 as the Hugging Face implementation computes them, scaling applied.
  // `longContext` selects longFactor. Also gives the factor that multiplies cos and sin. `maxPositions` matters to
  // Dynamic only: the length of the sequence, at most originalContext for the unscaled frequencies.
  std::vector<float> inverseFrequency(bool longContext, float &attentionFactor, int64_t maxPositions) const;
  // What YaRN multiplies attention scores by where it is not on cos and sin of the whole head: mscale(mscale_all_dim)^2.
  double scoreFactor() const;
};

struct MoeConfig {
  int64_t numExperts = 0; // 0: dense
  int64_t expertsPerToken = 0;
  int64_t intermediateSize = 0;
  bool normTopkProb = true;
  bool sigmoidScores = false;   // scoring_func
  bool hasCorrection = false;   // e_score_correction_bias takes part in the choice of experts
  double routedScale = 1.0;     // routed_scaling_factor
  std::optional<double> jitter; // router_jitter_noise: weights are those of a sparse mixer (arXiv:2409.12136)
  bool scalesInput = false;     // an expert's weight multiplies what it reads
  bool hasRouterBias = false;   // where a family has routers with a bias, and without
  bool splitGates = false;      // where a family has one matrix for gate and up of an expert: there are two (GGUF)
  int64_t capacity = 0;         // tokens of a sequence that an expert computes, the first that choose it; 0: all
  int64_t numGroups = 1, topGroups = 1; // n_group, topk_group
  // swiglu_limit: activation(alpha g) / alpha * (u + offset), g at most and |u| at most this; 0: activation(g) * u.
  double gateLimit = 0.0, gateAlpha = 1.0, upOffset = 0.0;
  int64_t sharedIntermediateSize = 0; // of the experts that every token passes, together; 0: none
  int64_t latentSize = 0;             // of what experts read and give, between two projections; 0: hidden_size
  bool averagesShared = false;        // what these give and what the chosen ones give are averaged, not added
  std::vector<bool> layerIsMoe;       // (num_hidden_layers)
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).
struct LatentConfig {
  bool enabled = false;
  int64_t kvLoraRank = 0;
  int64_t qLoraRank = 0; // 0: queries are projected in one step
  int64_t qkNopeHeadDim = 0, qkRopeHeadDim = 0, vHeadDim = 0;
  double normEps = 1e-6; // of the norms of both latents
  bool splitUps = false; // up-projections stored apart, that of keys transposed per head (GGUF)
};

// Embeddings of distances, one for each of ModelConfig::relativeBuckets, which stand in scores as tokens do (DeBERTa, arXiv:2006.03654).
struct DistanceConfig {
  int64_t buckets = 0; // position_buckets, of both sides together half of them for one distance each; 0: all are of one
  bool asKeys = false, asQueries = false; // "c2p", "p2c": a query meets them, a key does
  bool sharesProjections = false;         // share_att_key: those of tokens
  bool isNormed = false;                  // norm_rel_ebd
};

// Of a layer, where a model's layers differ.
struct LayerShape {
  int64_t numKvHeads = 0, headDim = 0, intermediateSize = 0;
  bool keysAreValues = false; // attention_k_eq_v: there is one projection for both
  int64_t numHeads = 0;       // of queries; 0: those of the model
};

// What becomes of what is read of a state: it is multiplied by its gate, before a norm of each group of heads, behind it, or without one.
enum class StateNorm : uint8_t { None, BehindGate, BeforeGate };

// Layers that keep a state of the tokens before.
struct RecurrentConfig {
  std::vector<bool> layers;       // (num_hidden_layers): which these are; empty: none
  bool hasConv = true;            // before their state
  int64_t convWidth = 0;          // tokens that it sees; 1 where there is none
  bool hasBias = false;           // of the convolution
  bool hasProjectionBias = false; // of the projections beside it
  bool hasOutputBias = false;     // of the one behind it, where a family has both apart
  // Of linear attention behind the convolution: key head h / (numValueHeads / numKeyHeads) is that of value head h.
  bool isLinear = false;
  int64_t numKeyHeads = 0, numValueHeads = 0, keyDim = 0, valueDim = 0;
  bool isSplit = false; // a matrix for queries, keys and values, and one for what gates heads; else one for all
  bool isTiled = false; // key head h % numKeyHeads is that of value head h instead (GGUF)
  bool ratesAreLogs =
      false; // a rate of decay is e to the power of what is stored; else it is stored with its sign, which is negative (GGUF)
  double betaScale = 1.0; // of how much of a difference is added to a state
  // Of what a projection widens to a step of each head (Mamba, arXiv:2312.00752); 0: steps are projected at once. And epsilon of norms of that, of keys
  // and of queries; 0: there are none.
  int64_t stepRank = 0;
  double partsEps = 0.0;
  StateNorm norm = StateNorm::BehindGate;
  Activation activation = Activation::Silu; // behind the convolution
  // What multiplies what is projected: gates, values, keys, queries, and a number of each head; all 1: nothing does.
  std::array<double, 5> scales = {1, 1, 1, 1, 1};
  bool isScaled() const;
  int64_t values() const { return numValueHeads * valueDim; }
  // Queries, keys and values side by side; with what gates these and a number of each head, one matrix for all.
  int64_t channels() const { return 2 * numKeyHeads * keyDim + values(); }
  int64_t inputs() const { return channels() + values() + numValueHeads; }
};

// Multipliers of what a layer's parts read and give (maximal update parametrization, arXiv:2203.03466).
struct PartScales {
  double attentionInput = 1, attentionOutput = 1, stateInput = 1, stateOutput = 1;
  double gate = 1, down = 1; // of the feed-forward block, before its activation and behind it
  // Of what each part is added to.
  double attentionResidual = 1, stateResidual = 1, feedForwardResidual = 1;
};

// Several hidden states of a token, of which a layer computes one and mixes the others (AltUp, arXiv:2301.13310).
struct StreamConfig {
  int64_t count = 0, active = 0; // altup_num_inputs, altup_active_idx
  bool scalesCorrected = true;   // altup_correct_scale
  int64_t laurelRank = 0;        // of the residual beside attention (arXiv:2411.07501)
};

// Embeddings of a token for each layer.
struct LayerInputConfig {
  int64_t vocabSize = 0, size = 0; // vocab_size_per_layer_input, hidden_size_per_layer_input; ids beyond count as 0
};

// What the numbers of a classifier become: scores that add up to 1, scores of their own each, or nothing else.
enum class LabelScores : uint8_t { Softmax, Sigmoid, Plain };

// What stands for a text before the last layer of a classifier, where a family lets its config choose: its first token, the mean of its hidden
// states, or the mean of what the layers before the last one give for each token.
enum class ClassifierPooling : uint8_t { First, Mean, Late };

// How the hidden states of a text become its embedding, as the folder's sentence-transformers files say.
struct PoolingConfig {
  enum class Mode : uint8_t { Cls, Mean, Max, MeanSqrtLength, WeightedMean, LastToken };
  // A layer that what was pooled passes before it is normalised: activation(x W^T + bias).
  struct Dense {
    std::string path; // of its folder
    std::string name; // its tensors are name + ".weight" and, where it has a bias, name + ".bias"
    int64_t in = 0, out = 0;
    bool hasBias = false;
    std::optional<Activation> activation; // none: what the product gives
  };
  std::vector<Mode> modes;
  std::vector<Dense> dense;
  bool normalizes = false;
  int64_t maxTokens = 0; // of a text, special tokens included; 0: the model's
  std::string prompt;    // stands before every text
};

// Images that a model takes instead of ids: a sequence is special tokens, then patches.
struct ImageConfig {
  int64_t channels = 0, size = 0, patch = 0; // 0: it takes ids
  int64_t specialTokens = 0;
  bool padsPatches = false; // zeros fill patches that the image fills in part; else no token sees its last pixels
  int64_t window = 0;       // patches on a side of what a patch attends to within; 0: it attends to all
  int64_t frames = 1;       // that a patch is of
  bool hasAnySize = false;  // `size` is what the sides of an image are multiples of
  bool isWhole = false;     // such images are whole for who gives numbers instead of files, else cut into patches
  int64_t patchWidth() const { return channels * frames * patch * patch; }
  // What a token is given as: the numbers of its patch, then 1 where it is each special token, or a patch; else zeros.
  int64_t rowWidth() const { return patchWidth() + specialTokens + 1; }
  // Patches on a side.
  int64_t grid() const { return padsPatches ? (size + patch - 1) / patch : size / patch; }
  int64_t tokens() const { return specialTokens + grid() * grid(); }
};

// How a file of an image becomes the numbers that the model sees: resized, cropped in the middle, multiplied and normalized, in this order.
struct ImageProcessing {
  int64_t height = 0, width = 0,
          shortestEdge = 0; // resized to that size, or so that the shorter side has its own; all 0: not resized
  int64_t filter = 0;       // by Pillow's number
  int64_t longestEdge = 0;  // or so that the longer side has its own, as idefics3 rounds the other
  bool tiles = false;       // then cut into squares of the model's size, beside the whole
  int64_t minTiles = 0,
          maxTiles = 0; // or to the grid of so many such squares that is nearest to its ratio, beside the whole
  int64_t leastPixels = 0, mostPixels = 0; // or to the nearest multiples of the model's size within these
  // Or, where it is larger than height or width, within both, and then to the next multiples of the model's size.
  bool isAtMost = false;
  int64_t cropHeight = 0, cropWidth = 0; // 0: not cropped
  double factor = 1.0;
  std::vector<double> mean, deviation; // of each channel; none: not normalized
};

// One of the stages of a model whose tokens become fewer and wider from one to the next; they stand for its layers.
struct StageConfig {
  int64_t depth = 0; // blocks
  int64_t numHeads = 0, width = 0, intermediateSize = 0;
};

// Where tokens stand on a page, along each of its sides, as boxes (arXiv:1912.13318).
struct PageConfig {
  int64_t places = 0; // max_2d_position_embeddings; 0: tokens stand nowhere
  // Of embeddings of edges and of widths and heights, where these stand side by side.
  int64_t coordinateSize = 0, shapeSize = 0;
  int64_t buckets = 0, distance = 0; // as ModelConfig::relativeBuckets, of distances along a side
};

// Linear layers of an encoder in groups, each of which computes its part of the columns from the same part of what it reads (arXiv:2006.11316).
struct GroupConfig {
  int64_t query = 1, key = 1, value = 1, output = 1, up = 1, down = 1;
};

// Sound that an encoder takes instead of ids, as frames of a log-mel spectrogram. Two convolutions over time, whose kernels are `taps` frames
// wide, make a token of every two frames: the second one has a stride of 2.
struct AudioConfig {
  static constexpr int64_t taps = 3;
  int64_t melBins = 0; // num_mel_bins; 0: it takes none
  int64_t samplingRate = 16000, fftSize = 400,
          hop = 160;   // of the spectrogram: Hz, samples of a frame, and from one to the next
  int64_t samples = 0; // of a window
  // Numbers under the first convolution's kernel: (num_mel_bins, taps).
  int64_t windowWidth() const { return taps * melBins; }
  // What a token is given as: for each tap of the second convolution the numbers under the first one's kernel there, then 1 where that place
  // lies within the sound; else zeros.
  int64_t rowWidth() const { return taps * (windowWidth() + 1); }
};

// A second stack of layers: the encoder of an encoder-decoder, whose decoder is what ModelConfig says elsewhere and has its width, norms and
// activation; or the tower that sees images, beside one that reads texts.
struct EncoderConfig {
  int64_t numLayers = 0; // 0: there is none
  int64_t numHeads = 0, intermediateSize = 0;
  int64_t contextLength = 0;    // tokens of the longest source, or of an image
  std::vector<bool> layerIsMoe; // (num_layers); empty: no layer is
  // Of a tower:
  int64_t hiddenSize = 0;
  double normEps = 0;
  Activation activation = Activation::Silu;
};

// Which tokens ask a decoder for what of the sound that its encoder hears.
struct SpeechConfig {
  std::vector<std::pair<std::string, int64_t>> languages, tasks; // by name, "de" and "transcribe"
  // What stands behind the decoder's start where nobody asks for a language or a task; the one without a value is the language that is heard.
  std::vector<std::optional<int64_t>> forced;
  std::optional<int64_t> noTimestampsId; // the one that asks for no times, which are the tokens behind it
  std::optional<int64_t> maxInitialTimestamp;
  bool givesTimestamps = false; // where nobody asks
  std::string language, task;   // that are asked for where nobody asks; empty: none
};

// How an image is written in a prompt: each `marker` becomes `whole`, in which the image's token stands once for all rows of it. Of an image that is cut
// into tiles, and of one of any size, whose tiles are its tokens: `tile` for each, with {row} and {column}, `betweenRows` where a row of them follows
// another, then `behindTiles` and `whole`. No marker: its token stands for it.
struct SeenText {
  std::string marker, unmentioned; // what a prompt that mentions no image begins with
  std::string whole, tile, betweenRows, behindTiles;
  std::string beforeTiles, tiledWhole; // the latter instead of `whole`, unless it is empty
  bool startsBehind = false;           // the token that a text starts with stands behind the last image
  std::string end;                     // stands behind a prompt with images
};

// What a decoder takes of a tower: some of its hidden states, side by side, as tokens of a prompt.
struct SeenConfig {
  const Family *joint = nullptr; // the row that joins the two; null: the config is of no such tower
  std::vector<int64_t> layers; // of hidden states: 0 what the first layer reads, i what layer i - 1 gives; behind these
                               // what the tower gives, behind its norm
  bool skipsFirst = false;     // all tokens but the first
  int64_t token = 0;           // the id that stands for each of them in a prompt
  int64_t side = 1;            // patches on a side of those that become one token
  bool sideBySide = false;     // which then has all their numbers, instead of one for each column
  bool seesAhead = false;      // tokens of an image see each other, whichever comes first
  bool promptSeesAhead = false; // so do all of a prompt with images, instead
  double theta = 0;             // of the rotation by a patch's place, of images of any size
  bool alternates = false;      // the frequencies of rows and columns, there, take turns instead of being the same
  // Of an image that is seen whole and in tiles: heights and widths one of which it is fitted into, and cut.
  std::vector<std::pair<int64_t, int64_t>> resolutions;
  // Layers of the tower that give rows of their own beside those of the last: they are added behind the first layers of the decoder, one each.
  std::vector<int64_t> deepLayers;
  int64_t placesOnSide = 0; // of a square of learned positions, between which those of patches lie; 0: there are none
  std::set<int64_t> layersOfAll; // where patches attend within windows: the layers in which they attend to all
  SeenText text;
};

// What a decoder is read for. Stated: what the files beside it say.
// Text: as Generate, without what sees images beside it.
enum class DecoderUse : uint8_t { Stated, Generate, Encode, Text };

constexpr int64_t defaultTopK = 50; // of Hugging Face's generate, where a model asks for samples and names no top_k

// What xIELU computes with: x > 0 gives t[0] x^2 + t[2] x, other x t[1] (e^min(x, t[3]) - 1 - x) + t[2] x.
using ActivationTerms = std::array<float, 4>;

struct ModelConfig {
  const Family *family = nullptr; // its row; null for a graph, which has none
  // Of a decoder: it gives last_hidden_state of whole texts, without a cache and without its head; and a token of these attends to all of its
  // text instead of those before it.
  bool embedsTexts = false, attendsAhead = false;
  std::string architecture;     // Hugging Face's model_type: "llama", "qwen2", "gemma3_text", "gpt2", …
  std::string source;           // "gguf" | "huggingface"
  std::string ggufArchitecture; // general.architecture of a GGUF file, which its keys begin with
  std::string name;
  std::string license; // as the files state it; empty where they do not
  int64_t vocabSize = 0, hiddenSize = 0, intermediateSize = 0;
  int64_t numHiddenLayers = 0, numHeads = 0, numKvHeads = 0;
  int64_t numPredictionLayers = 0;     // behind the last, which no program reads
  int64_t headDim = 0;                 // of queries and keys
  int64_t valueDim = 0;                // of values in the files; 0: head_dim
  std::vector<LayerShape> layerShapes; // (num_hidden_layers); empty: all layers are of the sizes above
  int64_t contextLength = 0;           // max_position_embeddings
  int64_t attendedLength = 0;          // of the longest text whose tokens see all others; 0: of any
  double normEps = 1e-6;
  double normWeightOffset = 0.0; // norms multiply by (offset + weight): 1 for Hugging Face's gemma, else 0
  Activation activation = Activation::Silu;
  bool tieWordEmbeddings = false;
  int64_t embeddingSize = 0;     // of embeddings that a projection widens to hidden_size; 0: there is none
  int64_t firstPosition = 0;     // row of position 0 in the table of learned positions
  bool parallelResidual = false; // attention and feed-forward of a layer read the same input
  bool hasNormEach = false;      // through a norm of their own each
  bool hasAlibi = false;         // positions are slopes of the scores, not rotations, where a family has both
  double alibiMaxBias = 8.0;     // the exponent of the last slope
  bool normsBefore = true;       // a layer's norms stand before attention and feed-forward, not behind their residuals
  bool hasNormsBehind = false; // there are norms of what attention and feed-forward give, where a family may do without
  bool hasFinalNorm = true;    // there is a norm behind the last layer
  bool hasEmbeddingNorm = false; // there is a norm before the first layer
  bool hasOwnEmbeddings = false; // the stacks of an encoder-decoder embed tokens by a table each
  bool hasPositionTable = false; // of patches: there are learned positions, where a family may do without
  bool hasLayerScales = false;   // each channel of a block is scaled before it is added, where a family may do without
  bool sharesDistances = false;  // all layers have one table of distances, where a family may have one of each
  bool hasLogitsBias = false;    // the checkpoint has a vector that is added to logits
  // Of an encoder: type_vocab_size, 0: it knows no types; whether the checkpoint has what gives pooler_output; what computes further outputs,
  // null: nothing does; what the numbers of a classifier stand for.
  int64_t tokenTypes = 0;
  int64_t taskTypes = 0; // task_type_vocab_size; 0: tokens have no type of their task
  PageConfig page;
  GroupConfig groups;
  int64_t headInput = 0; // of the matrix that makes logits over the vocabulary, where a family has it
  // Tokens with this id have embeddings of zeros, for which those of the others make up.
  std::optional<int64_t> droppedId;
  int64_t adapterSize = 0; // of what each layer has for every language
  std::string language;    // the one whose adapters are read
  bool hasPooler = false;
  std::optional<Activation> poolerActivation = Activation::Tanh; // none: config.json names one that is not known
  int64_t poolerSize = 0;       // of pooler_output, where config.json says it; 0: hidden_size
  bool hasGlobalTokens = false; // some tokens see all others and are seen by all, whatever the windows
  int64_t separatorId = -1;     // of a model with global tokens: what a question ends with
  const Head *head = nullptr;
  std::vector<std::string> labels;
  LabelScores labelScores = LabelScores::Softmax;
  std::optional<PoolingConfig> pooling;
  ImageConfig image;
  std::optional<ImageProcessing> imageProcessing;
  std::shared_ptr<ModelConfig> tower; // of a decoder that sees images: the config of what sees them, else null
  SeenConfig seen;                    // of such a tower
  int64_t projectionSize = 0;         // of what texts and images are compared by; 0: they are not
  std::optional<int64_t> endOfText;   // the first of these ids stands for a text; none: the largest of all does
  std::vector<StageConfig>
      stages; // (num_hidden_layers), or empty: layers are of one width, which is that of the last stage
  AudioConfig audio;
  // The position of the first token, in a table of contextLength + positionOffset rows. Where there is a positionPadding, ids that are not
  // this one are numbered, else columns.
  int64_t positionOffset = 0;
  std::optional<int64_t> positionPadding;
  bool attentionBias = false;       // of q, k and v
  bool attentionOutputBias = false; // of o
  bool noKeyBias = false;           // nor of k
  bool mlpBias = false;
  bool hasRmsNorms = false;                     // where a family has LayerNorms, and RMS norms
  bool hasNormBias = false;                     // where a family has LayerNorms with a bias, and without
  bool hasHeadBias = false;                     // the same of what stands before the last layer of a head
  Activation headActivation = Activation::Silu; // behind that, where a head has one of its own
  ClassifierPooling pooledBy = ClassifierPooling::First;
  bool gatesFeedForward = false; // where a family has feed-forward blocks with a gate, and without
  bool gatesElements = false;    // of what attention gives, instead of its heads, where a family's models differ
  // Of a family whose scores depend on distances through buckets: how many there are, and the distance at which the last begins.
  int64_t relativeBuckets = 0, relativeDistance = 0;
  DistanceConfig distances;
  // Of an encoder: a convolution over each token and those beside it stands beside the first layer, and ends with this activation.
  std::optional<Activation> neighbourConv;
  // Of xIELU (arXiv:2411.13010), whose numbers are learned: tensors of each layer hold them as they are stored; or, once they are
  // read, (num_hidden_layers) of what it computes with.
  bool hasActivationTensors = false;
  std::vector<ActivationTerms> activationTerms;
  double attentionScale = 0.0; // 0: 1 / sqrt(head_dim); gemma: query_pre_attn_scalar ^ -0.5
  bool scaleByLayer = false;   // layer i divides attentionScale by i + 1 (gpt2: scale_attn_by_inverse_layer_idx)
  double embeddingScale = 1.0; // gemma: sqrt(hidden_size)
  double residualScale = 1.0;  // of what a block adds to the residual
  double logitScale = 1.0;
  double clipQkv = 0.0; // bound of queries, keys and values before they are rotated; 0: none
  double attentionSoftcap = 0.0, finalSoftcap = 0.0;
  std::vector<int64_t> layerWindow; // (num_hidden_layers): sliding window in tokens, 0 for full attention
  bool windowsAreChunks =
      false; // a layer with a window sees its token's chunk of as many tokens, instead of the last ones
  bool residualIsNormed =
      false;               // blocks are added to what they read, behind the norm, instead of to what that reads (bloom)
  bool normsHeads = false; // queries and keys of a head, where a family's models differ
  bool headNormsApart = false;    // their weights are a tensor of each head
  std::vector<uint8_t> layerRope; // (num_hidden_layers): index into ropes, or noRope
  bool rotatesValues = false;     // as queries and keys, where a family's models differ
  std::vector<RopeConfig> ropes;  // empty: no rotary embedding (gpt2: learned positions)
  MoeConfig moe;
  LatentConfig latent;
  RecurrentConfig recurrent;
  PartScales partScales;
  std::vector<bool> attending; // (num_hidden_layers): which layers attend; empty: those that keep no state
  StreamConfig streams;
  LayerInputConfig layerInputs;
  std::vector<int64_t> keyLayers; // (num_hidden_layers): whose keys and values a layer attends to; empty: its own
  std::vector<std::optional<double>> gateCutoffs; // (num_hidden_layers): what its gates keep, in standard deviations
                                                  // above their mean; none: all
  EncoderConfig encoder;
  SpeechConfig speech;
  std::optional<int64_t> bosId, padId, decoderStartId;
  std::optional<int64_t> forcedBosId, forcedEosId; // of an answer: its first new token, its last one
  std::vector<int64_t> eosIds;
  // Defaults of sampling, of generation_config.json, config.json or GGUF's general.sampling keys; greedy where nothing asks for samples.
  bool doSample = false;
  double temperature = 1.0, topP = 1.0, minP = 0.0, repetitionPenalty = 1.0;
  int64_t topK = 0;
  int64_t numBeams = 1, noRepeatNgram = 0;          // 0: any n-gram may come again
  std::vector<int64_t> suppressed, suppressedFirst; // tokens that never follow, and that do not follow the prompt
  std::vector<std::vector<int64_t>> badWords;       // that never follow as a whole
  // Tokens before which no answer ends, the prompt's counted or not, and those at which it does; 0: none are said.
  int64_t minLength = 0, minNewTokens = 0, maxLength = 0, maxNewTokens = 0;
  double lengthPenalty = 1.0;
  bool earlyStopping = false, neverStopsEarly = false, renormalizesLogits = false; // of beams
  // Where in its file each value that was read lies, in bytes, by placeKey(): for messages about it.
  std::map<std::string, uint64_t> valueOffsets;
  // Keys of the family that its file calls by another name (Family::aliases), and that name.
  std::map<std::string, std::string> spelled;
  std::string samplingSource; // what of the model's files names them; empty: nothing does
  std::string samplingFile;   // where they stand
  // What else stands there, and would change what is generated, but is not applied: "num_beams 4".
  std::vector<std::string> notApplied;

  // Of a layer, or of what is of none.
  LayerShape shapeOf(int64_t layer) const {
    bool isKnown = layer >= 0 && static_cast<size_t>(layer) < layerShapes.size();
    return isKnown ? layerShapes[static_cast<size_t>(layer)] : LayerShape{numKvHeads, headDim, intermediateSize};
  }
  int64_t headsOf(int64_t layer) const {
    int64_t own = shapeOf(layer).numHeads;
    return own ? own : numHeads;
  }
  bool isRecurrent(int64_t layer) const {
    return static_cast<size_t>(layer) < recurrent.layers.size() && recurrent.layers[static_cast<size_t>(layer)];
  }
  bool hasStates() const;
  bool attends(int64_t layer) const {
    return attending.empty() ? !isRecurrent(layer)
                             : static_cast<size_t>(layer) < attending.size() && attending[static_cast<size_t>(layer)];
  }
  // Whether some layer does.
  bool hasAttention() const;
  // Whether some layer's tokens attend within a window.
  bool hasWindows() const;
  // Whether it gives hidden states of whole texts and generates nothing: an encoder, or a decoder that embeds texts.
  bool encodes() const;

  // The configs of all that a model has rules of tensors for: itself and, where there is one, its tower.
  std::vector<const ModelConfig *> parts() const {
    return tower ? std::vector<const ModelConfig *>{this, tower.get()} : std::vector<const ModelConfig *>{this};
  }
  // The config of what sees images.
  const ModelConfig &seeing() const { return tower ? *tower : *this; }
  // Of an encoder that takes no ids: numbers that a token is given as; 0: it takes ids.
  int64_t inputWidth() const { return image.size ? image.rowWidth() : audio.melBins ? audio.rowWidth() : 0; }
  // Tokens of the longest sequence: contextLength, or what dynamic rotary scaling stretches it to.
  int64_t longestContext() const;
};

// A weight that its file holds in parts, by a method of quantising that is no type of a tensor, as it is read.
struct RestoredWeight {
  std::string name;
  TensorType type;
  // What rounding to `type` changed in its numbers: sums of squares of the differences and of the numbers, and the largest difference. All
  // 0 where they are those of the file.
  double differences = 0, squares = 0, largest = 0;
  // Root mean square of the differences, relative to that of the numbers.
  double relative() const;
};

struct Model {
  ModelConfig config;
  Checkpoint checkpoint;
  std::string sourcePath; // the GGUF file or the Hugging Face folder, as given
  // Of an ONNX file, which has no config: its graph. The checkpoint then holds the graph's initialisers.
  std::shared_ptr<const OnnxModel> onnx;
  // Of a quantised Hugging Face folder: quant_method, and the weights that it was applied to.
  std::string quantMethod{};
  std::vector<RestoredWeight> restored{};
};

// The checks of every reader, in two steps. The first bounds the sizes, before anything is allocated by them; `file` is
// where the config stands. The second compares everything: config with itself, with the tensors, and tensor types with
// their use.
Status validateSizes(const ModelConfig &config, const std::string &file);
Status validate(const Model &model, const std::string &file);
// The part of the second step that generation_config.json can spoil: token ids and sampling defaults.
Status validateGeneration(const ModelConfig &config, const std::string &file);

// What of a decoder has no form without a cache, for messages; null: it can embed texts.
const char *withoutEncoding(const ModelConfig &config);

// Whether two tensors hold the same numbers in the same form.
bool isSameTensor(const Checkpoint &checkpoint, const TensorInfo &a, const TensorInfo &b);

// Of the value of `key`, as the file spells it, in `file`.
inline std::string placeKey(const std::string &file, std::string_view key) {
  return file + ":" + std::string(key);
}
// "FILE: WHAT", with the byte at which the value of `key` lies there.
Status errorOf(const ModelConfig &config, const std::string &file, std::string_view key, const std::string &what);

// What `name`, a Hugging Face key, is called in the file that the config was read from: "llama.block_count", "n_layer", …
std::string fieldName(const ModelConfig &config, std::string_view name);

} // namespace heddle

#endif
