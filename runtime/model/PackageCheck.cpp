// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/ModelAbi.h"
#include "runtime/model/PackageChecks.h"
#include "runtime/model/PackageFile.h"
#include "runtime/model/PackageHeader.h"

#include <cmath>

namespace heddle {
namespace {

// Limits that no model comes near; products of two of them fit into 64 bits.
constexpr uint32_t maxDimension = 1u << 24;
constexpr uint32_t maxOutputs = 64; // of an encoder
constexpr uint32_t maxContext = HEDDLE_MAX_CONTEXT;
constexpr uint64_t maxBytes = uint64_t(1) << 44, maxThreadBytes = uint64_t(1) << 30;
constexpr uint64_t maxBadWordTokens = HEDDLE_MAX_BAD_WORD_TOKENS;

Status checkFrequencies(const std::string &path, const char *field, const flatbuffers::Vector<float> *values,
                        uint32_t rotaryDim) {
  if (!values || values->size() != rotaryDim / 2)
    return wrong(path, field, values ? values->size() : 0, "rotary_dim / 2 values");
  for (float value : *values)
    if (!std::isfinite(value)) // a negative one turns its pair backwards
      return wrong(path, field, value, "finite frequencies");
  return Status();
}

Status checkRope(const std::string &path, const package::RopeTable &rope, uint32_t &commonContext) {
  uint32_t rotaryDim = rope.rotary_dim();
  if (rotaryDim == 0 || rotaryDim % 2 != 0 || rotaryDim > 65536)
    return wrong(path, "rope.rotary_dim", rotaryDim, "an even number up to 65536");
  HEDDLE_RETURN_IF_ERROR(checkFrequencies(path, "rope.inverse_frequency", rope.inverse_frequency(), rotaryDim));
  constexpr uint8_t mostAxes = 3;
  if (const auto *axes = rope.axes())
    if (axes->size() != rotaryDim / 2 ||
        std::any_of(axes->begin(), axes->end(), [](uint8_t axis) { return axis >= mostAxes; }))
      return wrong(path, "rope.axes", axes->size(), "half of rotary_dim, each below 3");
  if (!std::isfinite(rope.attention_factor()) || !std::isfinite(rope.long_attention_factor()))
    return wrong(path, "rope.attention_factor", rope.attention_factor(), "a finite number");
  if (!std::isfinite(rope.growth()))
    return wrong(path, "rope.growth", rope.growth(), "a finite number");
  switch (rope.scaling()) {
  case package::RopeScaling::None:
    return Status();
  case package::RopeScaling::Longrope:
    HEDDLE_RETURN_IF_ERROR(
        checkFrequencies(path, "rope.long_inverse_frequency", rope.long_inverse_frequency(), rotaryDim));
    break;
  case package::RopeScaling::Dynamic:
    if (!std::isfinite(rope.theta()) || rope.theta() <= 0)
      return wrong(path, "rope.theta", rope.theta(), "a positive number");
    if (!std::isfinite(rope.factor()) || rope.factor() < 1)
      return wrong(path, "rope.factor", rope.factor(), "a number from 1");
    if (rotaryDim == 2)
      return wrong(path, "rope.rotary_dim", rotaryDim, "at least 4 with dynamic scaling");
    break;
  default:
    return wrong(path, "rope.scaling", double(rope.scaling()), "None, Longrope or Dynamic");
  }
  if (rope.original_context() == 0 || (commonContext && rope.original_context() != commonContext))
    return wrong(path, "rope.original_context", rope.original_context(),
                 "the same positive number in all scaled tables");
  commonContext = rope.original_context();
  return Status();
}

// Decoders and encoders fill them alike.
Status checkRopes(const package::Package &root, const std::string &path) {
  uint32_t commonContext = 0;
  if (root.rope())
    for (const package::RopeTable *rope : *root.rope())
      HEDDLE_RETURN_IF_ERROR(checkRope(path, *rope, commonContext));
  return Status();
}

Status checkToken(const std::string &path, const char *field, int32_t id, uint32_t vocabSize) {
  return id >= -1 && id < int64_t(vocabSize) ? Status() : wrong(path, field, id, "an id of the vocabulary or -1");
}

// A list has no element that stands for none.
Status checkTokens(const std::string &path, const char *field, const flatbuffers::Vector<int32_t> *ids,
                   uint32_t vocabSize) {
  for (unsigned i = 0; ids && i < ids->size(); ++i)
    if (ids->Get(i) < 0 || uint32_t(ids->Get(i)) >= vocabSize)
      return wrong(path, field, ids->Get(i), "tokens of the vocabulary");
  return Status();
}

// Many words may be one table of the file: the bound is on what they say together.
Status checkBadWords(const std::string &path, const package::Generation &generation, uint32_t vocabSize) {
  uint64_t total = 0;
  for (size_t word = 0; generation.bad_words() && word < generation.bad_words()->size(); ++word) {
    const auto *ids = generation.bad_words()->Get(word)->ids();
    if (!ids || !ids->size())
      return damagedFile(format("%s: package: generation.bad_words[%zu] is empty", path.c_str(), word));
    total += ids->size();
    if (total > maxBadWordTokens)
      return wrong(path, "the number of tokens of generation.bad_words", double(total), "at most 2^20");
    HEDDLE_RETURN_IF_ERROR(checkTokens(path, "generation.bad_words", ids, vocabSize));
  }
  return Status();
}

Status checkGeneration(const std::string &path, const package::Generation &generation, uint32_t vocabSize) {
  HEDDLE_RETURN_IF_ERROR(checkTokens(path, "generation.eos", generation.eos(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkTokens(path, "generation.suppressed", generation.suppressed(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkTokens(path, "generation.suppressed_first", generation.suppressed_first(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkBadWords(path, generation, vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkToken(path, "generation.bos", generation.bos(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkToken(path, "generation.pad", generation.pad(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkToken(path, "generation.decoder_start", generation.decoder_start(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkToken(path, "generation.forced_bos", generation.forced_bos(), vocabSize));
  HEDDLE_RETURN_IF_ERROR(checkToken(path, "generation.forced_eos", generation.forced_eos(), vocabSize));
  if (generation.num_beams() < 1 || generation.num_beams() > 256)
    return wrong(path, "generation.num_beams", generation.num_beams(), "a number from 1 to 256");
  if (!std::isfinite(generation.length_penalty()))
    return wrong(path, "generation.length_penalty", generation.length_penalty(), "a finite number");
  if (generation.no_repeat_ngram() > maxContext)
    return wrong(path, "generation.no_repeat_ngram", generation.no_repeat_ngram(), "0 … 2^26");
  if (!(generation.temperature() >= 0) || !std::isfinite(generation.temperature()))
    return wrong(path, "generation.temperature", generation.temperature(), "a number from 0");
  if (generation.top_k() < 0)
    return wrong(path, "generation.top_k", generation.top_k(), "a number from 0");
  if (!(generation.top_p() > 0 && generation.top_p() <= 1))
    return wrong(path, "generation.top_p", generation.top_p(), "a number in (0, 1]");
  if (!(generation.min_p() >= 0 && generation.min_p() <= 1))
    return wrong(path, "generation.min_p", generation.min_p(), "a number in [0, 1]");
  if (!(generation.repetition_penalty() > 0) || !std::isfinite(generation.repetition_penalty()))
    return wrong(path, "generation.repetition_penalty", generation.repetition_penalty(), "a positive number");
  return Status();
}

Status checkWeightTable(const std::string &path, const package::Package &root) {
  if (!root.weights())
    return Status();
  for (const package::Weight *weight : *root.weights()) {
    if (!weight->name() || !weight->format() || !weight->sha256() || weight->sha256()->size() != 32)
      return damagedFile(path + ": package: a weight lacks its name, format or SHA-256");
    if (weight->offset() > root.weights_size() || weight->size() > root.weights_size() - weight->offset())
      return damagedFile(format("%s: package: weight '%s' of %llu bytes at %llu exceeds weights_size %llu",
                                path.c_str(), weight->name()->c_str(), (unsigned long long)weight->size(),
                                (unsigned long long)weight->offset(), (unsigned long long)root.weights_size()));
  }
  return Status();
}

Status checkGraphTensors(const std::string &path, const char *field,
                         const flatbuffers::Vector<flatbuffers::Offset<package::GraphTensor>> *tensors) {
  if (!tensors)
    return damagedFile(path + ": package: " + field + " is missing");
  for (const package::GraphTensor *tensor : *tensors) {
    if (!tensor->name())
      return damagedFile(path + ": package: " + field + ": a tensor lacks its name");
    if (tensor->type() > package::DataType::MAX)
      return wrong(path, field, double(tensor->type()), "a known type");
    unsigned rank = tensor->dims() ? tensor->dims()->size() : 0;
    if (tensor->dim_names() && tensor->dim_names()->size() != rank)
      return wrong(path, field, tensor->dim_names()->size(), "a name for each dimension");
    if (tensor->optional() && !tensor->dim_names())
      return damagedFile(path + ": package: " + field + ": an optional tensor lacks names of its dimensions");
    for (unsigned i = 0; i < rank; ++i)
      if (tensor->dims()->Get(i) < -1)
        return wrong(path, field, double(tensor->dims()->Get(i)), "sizes from 0, or -1");
  }
  return Status();
}

// What a model over rows of a ragged batch has, whether it generates or encodes.
Status checkRows(const package::Package &root, const std::string &path) {
  if (!root.memory())
    return damagedFile(path + ": package: memory is missing");
  if (root.vocab_size() == 0 || root.vocab_size() > maxDimension)
    return wrong(path, "vocab_size", root.vocab_size(), "1 … 2^24");
  const package::Tokenizer *tokenizer = root.tokenizer();
  if (tokenizer && tokenizer->pieces() && tokenizer->pieces()->size() > root.vocab_size())
    return wrong(path, "tokenizer.pieces", tokenizer->pieces()->size(), "at most vocab_size");
  if (tokenizer) // it ends answers, also where there are no pieces
    HEDDLE_RETURN_IF_ERROR(checkToken(path, "tokenizer.eos", tokenizer->eos(), root.vocab_size()));
  if (root.hidden_size() == 0 || root.hidden_size() > maxDimension)
    return wrong(path, "hidden_size", root.hidden_size(), "1 … 2^24");
  if (root.context() == 0 || root.context() > maxContext)
    return wrong(path, "context", root.context(), "1 … 2^26");
  if (root.position_offset() < 0 || uint32_t(root.position_offset()) > maxContext)
    return wrong(path, "position_offset", root.position_offset(), "0 … 2^26");
  const package::MemoryPlan &memory = *root.memory();
  if (memory.max_rows() == 0 || memory.max_rows() > maxContext)
    return wrong(path, "memory.max_rows", memory.max_rows(), "1 … 2^26");
  if (memory.fixed() > maxBytes || memory.per_row() > maxBytes / memory.max_rows())
    return wrong(path, "memory.fixed + per_row * max_rows",
                 double(memory.fixed()) + double(memory.per_row()) * memory.max_rows(), "at most 2^44 bytes");
  if (memory.per_thread() > maxThreadBytes)
    return wrong(path, "memory.per_thread", double(memory.per_thread()), "at most 2^30 bytes");
  return Status();
}

Status checkOutputs(const package::Encoder &encoder, const std::string &path) {
  const auto *outputs = encoder.outputs();
  if (!outputs || outputs->size() == 0 || outputs->size() > maxOutputs)
    return wrong(path, "encoder.outputs", outputs ? outputs->size() : 0, "1 … 64 of them");
  for (const package::EncoderOutput *output : *outputs) {
    if (!output->name() || output->name()->size() == 0)
      return damagedFile(path + ": package: an output of the encoder has no name");
    if (output->width() == 0 || output->width() > maxDimension || (output->squeezed() && output->width() != 1))
      return wrong(path, "encoder.outputs.width", output->width(), output->squeezed() ? "1" : "1 … 2^24");
  }
  return Status();
}

const package::EncoderOutput *outputNamed(const package::Encoder &encoder, const char *name) {
  for (const package::EncoderOutput *output : *encoder.outputs())
    if (output->name()->string_view() == name)
      return output;
  return nullptr;
}

// What the commands over texts and images rely on.
Status checkUses(const package::Encoder &encoder, const std::string &path) {
  bool ofSequences = encoder.task() == package::EncoderTask::Classify;
  if (ofSequences || encoder.task() == package::EncoderTask::ClassifyTokens) {
    const package::EncoderOutput *logits = outputNamed(encoder, "logits");
    uint32_t labels = encoder.labels() ? encoder.labels()->size() : 0;
    if (!logits || logits->of_sequences() != ofSequences || logits->width() != labels)
      return wrong(path, "encoder.labels", labels, "one for each of the logits");
  }
  const char *ofTokens[] = {"logits", "start_logits", "end_logits"};
  for (const char *name : ofTokens) {
    bool isMask = name == ofTokens[0];
    if (encoder.task() != (isMask ? package::EncoderTask::FillMask : package::EncoderTask::Answer))
      continue;
    const package::EncoderOutput *output = outputNamed(encoder, name);
    if (!output || output->of_sequences() || output->width() != (isMask ? encoder.vocab_size() : 1))
      return damagedFile(path + ": package: encoder.outputs has no '" + name + "' of tokens");
  }
  if (const package::Embedding *embedding = encoder.embedding()) {
    const package::EncoderOutput *hidden = outputNamed(encoder, "last_hidden_state");
    uint32_t modes = embedding->pooling() ? embedding->pooling()->size() : 0;
    if (!hidden || hidden->of_sequences() || modes == 0 || modes > maxOutputs)
      return wrong(path, "encoder.embedding.pooling", modes, "1 … 64 ways to pool hidden states of tokens");
    for (auto mode : *embedding->pooling())
      if (package::Pooling(mode) > package::Pooling::LastToken)
        return wrong(path, "encoder.embedding.pooling", double(mode), "a way to pool");
  }
  return Status();
}

Status checkImage(const package::Package &root, const std::string &path) {
  const package::ImageInput *image = root.encoder()->image();
  if (!image)
    return Status();
  constexpr uint32_t mostPixels = 1 << 14; // of a side
  if (image->channels() == 0 || image->channels() > maxOutputs)
    return wrong(path, "encoder.image.channels", image->channels(), "1 … 64");
  if (image->size() == 0 || image->size() > mostPixels || image->patch() == 0 || image->patch() > image->size())
    return wrong(path, "encoder.image.patch", image->patch(), "at most the image's size, which is at most 2^14");
  uint64_t side = image->size() / image->patch();
  if (image->special_tokens() > maxOutputs || side * side + image->special_tokens() > root.context())
    return wrong(path, "encoder.image.special_tokens", image->special_tokens(),
                 "no more than context less the patches");
  return Status();
}

// What --audio relies on.
Status checkSpeech(const package::Encoder &encoder, const std::string &path) {
  const package::Speech *speech = encoder.speech();
  if (!speech)
    return damagedFile(path + ": package: encoder.speech is missing");
  for (auto [name, tokens] :
       {std::pair{"encoder.speech.languages", speech->languages()}, {"encoder.speech.tasks", speech->tasks()}})
    for (unsigned i = 0; tokens && i < tokens->size(); ++i)
      if (int32_t id = tokens->Get(i)->id(); !tokens->Get(i)->name() || id < 0 || uint32_t(id) >= encoder.vocab_size())
        return wrong(path, name, id, "names of tokens of the vocabulary");
  unsigned languages = speech->languages() ? speech->languages()->size() : 0;
  for (unsigned i = 0; speech->forced() && i < speech->forced()->size(); ++i)
    if (int32_t id = speech->forced()->Get(i);
        id < (i == 0 && languages ? -1 : 0) || id >= int64_t(encoder.vocab_size()))
      return wrong(path, "encoder.speech.forced", id, "tokens of the vocabulary");
  HEDDLE_RETURN_IF_ERROR(
      checkToken(path, "encoder.speech.no_timestamps", speech->no_timestamps(), encoder.vocab_size()));
  return speech->max_initial_timestamp() >= -1 ? Status()
                                               : wrong(path, "encoder.speech.max_initial_timestamp",
                                                       speech->max_initial_timestamp(), "a number from 0, or -1");
}

Status checkAudio(const package::Encoder &encoder, const std::string &path) {
  constexpr uint32_t mostBins = 1024, mostRate = 384000, mostSamples = 8192;
  const package::AudioInput *audio = encoder.audio();
  if (!audio)
    return Status();
  auto check = [&](const char *name, uint32_t value, uint32_t least, uint32_t most) {
    return value >= least && value <= most ? Status() : wrong(path, name, value, "a number within its limits");
  };
  HEDDLE_RETURN_IF_ERROR(check("encoder.audio.mel_bins", audio->mel_bins(), 1, mostBins));
  HEDDLE_RETURN_IF_ERROR(check("encoder.audio.sampling_rate", audio->sampling_rate(), 1, mostRate));
  HEDDLE_RETURN_IF_ERROR(check("encoder.audio.n_fft", audio->n_fft(), 2, mostSamples));
  HEDDLE_RETURN_IF_ERROR(check("encoder.audio.hop_length", audio->hop_length(), 1, mostSamples));
  if (audio->n_fft() % 2)
    return wrong(path, "encoder.audio.n_fft", audio->n_fft(), "an even number");
  if (audio->window_samples() <= audio->n_fft() / 2 ||
      audio->window_samples() / audio->hop_length() != 2 * uint64_t(encoder.context()))
    return wrong(path, "encoder.audio.window_samples", audio->window_samples(), "those of 2 * context frames");
  return checkSpeech(encoder, path);
}

Status checkEncoding(const package::Package &root, const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(checkRows(root, path));
  if (!root.encoder())
    return damagedFile(path + ": package: encoder is missing");
  const package::Encoder &encoder = *root.encoder();
  if (encoder.token_types() > maxDimension)
    return wrong(path, "encoder.token_types", encoder.token_types(), "0 … 2^24");
  if (encoder.globals() > package::GlobalTokens::MAX)
    return wrong(path, "encoder.globals", int64_t(encoder.globals()), "a known kind");
  if (encoder.vocab_size() > maxDimension || (encoder.vocab_size() == 0 && !encoder.image()))
    return wrong(path, "encoder.vocab_size", encoder.vocab_size(), "1 … 2^24");
  HEDDLE_RETURN_IF_ERROR(checkOutputs(encoder, path));
  HEDDLE_RETURN_IF_ERROR(checkUses(encoder, path));
  HEDDLE_RETURN_IF_ERROR(checkImage(root, path));
  HEDDLE_RETURN_IF_ERROR(checkAudio(encoder, path));
  if (encoder.max_rows() == 0 || encoder.max_rows() > maxContext ||
      root.memory()->per_row() > maxBytes / encoder.max_rows())
    return wrong(path, "encoder.max_rows", encoder.max_rows(), "1 … 2^26");
  // A sequence is computed at once.
  if (encoder.context() == 0 || encoder.context() > encoder.max_rows())
    return wrong(path, "encoder.context", encoder.context(), "1 … encoder.max_rows");
  return Status();
}

Status checkCache(const package::KvPlan &kv, const std::string &path, const std::string &name) {
  if (kv.page_bytes() == 0 || kv.page_bytes() > maxBytes ||
      kv.bytes_per_token() > kv.page_bytes() / HEDDLE_KV_PAGE_SIZE)
    return wrong(path, (name + ".page_bytes").c_str(), double(kv.page_bytes()), "at least 64 * bytes_per_token");
  if (kv.state_bytes() > kv.page_bytes())
    return wrong(path, (name + ".state_bytes").c_str(), double(kv.state_bytes()), "at most page_bytes");
  uint64_t layers = 0, bytes = 0;
  for (unsigned i = 0; kv.shapes() && i < kv.shapes()->size(); ++i) {
    const package::KvShape &shape = *kv.shapes()->Get(i);
    if (shape.layer_bytes() == 0 || shape.num_layers() > (kv.page_bytes() - bytes) / shape.layer_bytes())
      return wrong(path, (name + ".shapes").c_str(), i, "layers of a page");
    layers += shape.num_layers();
    bytes += shape.num_layers() * shape.layer_bytes();
  }
  if (layers && (layers != kv.num_layers() || bytes != kv.page_bytes()))
    return wrong(path, (name + ".shapes").c_str(), double(layers), "all layers, which fill a page");
  if (kv.windows() && kv.windows()->size() &&
      (kv.windows()->size() != kv.num_layers() || (!layers && kv.page_bytes() % kv.num_layers())))
    return wrong(path, (name + ".windows").c_str(), kv.windows()->size(),
                 "one for each of the layers, which divide a page");
  if (kv.type() > package::KvType::MAX)
    return wrong(path, (name + ".type").c_str(), double(kv.type()), "a known type");
  return Status();
}

Status checkGenerating(const package::Package &root, const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(checkRows(root, path));
  if (!root.kv())
    return damagedFile(path + ": package: kv is missing");
  HEDDLE_RETURN_IF_ERROR(checkCache(*root.kv(), path, "kv"));
  for (unsigned i = 0; root.adapters() && i < root.adapters()->size(); ++i)
    if (!root.adapters()->Get(i)->size())
      return damagedFile(path + ": package: an adapter lacks its name");
  if (const auto *counts = root.virtual_tokens()) {
    if (!root.adapters() || counts->size() != root.adapters()->size())
      return damagedFile(path + ": package: virtual_tokens are not those of the adapters");
    for (uint32_t count : *counts)
      if (count > maxContext - root.context())
        return wrong(path, "virtual_tokens", count, "at most 2^26 with the context");
  }
  if (root.generation())
    HEDDLE_RETURN_IF_ERROR(checkGeneration(path, *root.generation(), root.vocab_size()));
  return Status();
}

// The layers behind pooling take what it gives, and give one vector for each text.
Status checkDense(const package::Package &root, const std::string &path) {
  const package::Embedding *embedding = root.encoder() ? root.encoder()->embedding() : nullptr;
  if (!embedding || !embedding->dense())
    return Status();
  uint64_t width = uint64_t(outputNamed(*root.encoder(), "last_hidden_state")->width()) * embedding->pooling()->size();
  const package::Graph *graph = root.graphs() && root.graphs()->size() ? root.graphs()->Get(0) : nullptr;
  auto isMatrix = [](const flatbuffers::Vector<flatbuffers::Offset<package::GraphTensor>> *tensors) {
    return tensors && tensors->size() == 1 && tensors->Get(0)->type() == package::DataType::F32 &&
           tensors->Get(0)->dims() && tensors->Get(0)->dims()->size() == 2 && tensors->Get(0)->dims()->Get(0) < 0;
  };
  if (!graph || !isMatrix(graph->inputs()) || !isMatrix(graph->outputs()) ||
      graph->inputs()->Get(0)->dims()->Get(1) != int64_t(width) || graph->outputs()->Get(0)->dims()->Get(1) < 1)
    return wrong(path, "encoder.embedding.dense", true, "a graph from what is pooled to one vector for each text");
  return Status();
}

// What a session is given is what its graph gives.
Status checkGiven(const package::Package &root, const std::string &path) {
  const package::GivenRows *given = root.given();
  if (!given)
    return Status();
  if (!root.graphs() || given->graph() >= root.graphs()->size())
    return wrong(path, "given.graph", given->graph(), "one of the graphs");
  const auto *outputs = root.graphs()->Get(given->graph())->outputs();
  const package::GraphTensor *rows = outputs && outputs->size() == 1 ? outputs->Get(0) : nullptr;
  const package::GivenGrid *grid = given->grid();
  if (!rows || rows->type() != package::DataType::F32 || !rows->dims() || rows->dims()->size() != 3 ||
      (!grid && rows->dims()->Get(1) != int64_t(given->count())) ||
      rows->dims()->Get(2) != int64_t(root.hidden_size()) * (1 + int64_t(given->deep())))
    return wrong(path, "given.count", given->count(), "that of the graph's one output, of hidden_size numbers each");
  constexpr uint32_t mostDeep = 64, mostPlaces = 1 << 8;
  if (given->deep() > (grid ? mostDeep : 0))
    return wrong(path, "given.deep", given->deep(), "at most 64, and 0 of images of one size");
  if (grid && grid->places() > mostPlaces)
    return wrong(path, "given.grid.places", grid->places(), "at most 256");
  if (!grid && (given->count() == 0 || given->count() > maxContext))
    return wrong(path, "given.count", given->count(), "1 … 2^26");
  HEDDLE_RETURN_IF_ERROR(checkGivenText(*given, path));
  if (grid)
    HEDDLE_RETURN_IF_ERROR(checkGrid(root, *grid, path));
  if (const package::GivenTiles *tiles = given->tiles())
    HEDDLE_RETURN_IF_ERROR(checkTiles(root, *given, *tiles, path));
  if (given->token() < 0)
    return wrong(path, "given.token", given->token(), "an id of the vocabulary");
  return checkToken(path, "given.token", given->token(), root.vocab_size());
}

// An encoder-decoder has what both have, and a cache between them.
Status checkAnswering(const package::Package &root, const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(checkEncoding(root, path));
  HEDDLE_RETURN_IF_ERROR(checkGenerating(root, path));
  if (!root.encoder()->cross())
    return damagedFile(path + ": package: encoder.cross is missing");
  if (!root.generation() || root.generation()->decoder_start() < 0)
    return damagedFile(path + ": package: generation.decoder_start is missing");
  return checkCache(*root.encoder()->cross(), path, "encoder.cross");
}

Status checkGraphs(const std::string &path, const flatbuffers::Vector<flatbuffers::Offset<package::Graph>> &graphs) {
  for (unsigned i = 0; i < graphs.size(); ++i) {
    const package::Graph &graph = *graphs[i];
    std::string field = "graphs[" + std::to_string(i) + "]";
    if (!graph.name() || !graph.name()->size())
      return damagedFile(format("%s: package: %s lacks its name", path.c_str(), field.c_str()));
    for (unsigned j = 0; j < i; ++j)
      if (graphs[j]->name()->string_view() == graph.name()->string_view())
        return damagedFile(format("%s: package: two graphs are named '%s'", path.c_str(), graph.name()->c_str()));
    HEDDLE_RETURN_IF_ERROR(checkGraphTensors(path, (field + ".inputs").c_str(), graph.inputs()));
    HEDDLE_RETURN_IF_ERROR(checkGraphTensors(path, (field + ".outputs").c_str(), graph.outputs()));
  }
  return Status();
}

// What a graph has whose numbers stand for labels, or that reads texts.
Status checkGraphUses(const package::Package &root, const std::string &path) {
  const package::Tokenizer *tokenizer = root.tokenizer();
  if (tokenizer && (root.vocab_size() == 0 || root.vocab_size() > maxDimension ||
                    (tokenizer->pieces() && tokenizer->pieces()->size() > root.vocab_size())))
    return wrong(path, "vocab_size", root.vocab_size(), "1 … 2^24, at least as many as pieces");
  if (tokenizer)
    HEDDLE_RETURN_IF_ERROR(checkToken(path, "tokenizer.eos", tokenizer->eos(), root.vocab_size()));
  if (tokenizer && (root.context() == 0 || root.context() > maxContext))
    return wrong(path, "context", root.context(), "1 … 2^26");
  uint32_t labels = root.labels() ? root.labels()->size() : 0;
  if (!labels)
    return Status();
  for (const package::Graph *graph : *root.graphs())
    for (const package::GraphTensor *output : *graph->outputs())
      if (output->name()->string_view() == "logits" && output->dims() && output->dims()->size() == 2 &&
          output->dims()->Get(1) == int64_t(labels) && output->type() == package::DataType::F32)
        return Status();
  return wrong(path, "labels", labels, "one for each of the logits");
}

} // namespace

// A package, or one of its variants.
static Status checkVariant(const package::Package &root, const std::string &path) {
  if (!root.name())
    return damagedFile(path + ": package: the name is missing");
  if (root.weights_size() > maxBytes)
    return wrong(path, "weights_size", double(root.weights_size()), "at most 2^44");
  if (root.task() == package::Task::Graph) {
    if (!root.graphs() || !root.graphs()->size())
      return damagedFile(path + ": package: the graph is missing");
  } else if (root.task() == package::Task::Generate) {
    HEDDLE_RETURN_IF_ERROR(checkGenerating(root, path));
  } else if (root.task() == package::Task::Encode) {
    HEDDLE_RETURN_IF_ERROR(checkEncoding(root, path));
  } else if (root.task() == package::Task::Seq2Seq) {
    HEDDLE_RETURN_IF_ERROR(checkAnswering(root, path));
  } else {
    return wrong(path, "task", double(root.task()), "generate, encode, seq2seq or graph");
  }
  // What reads an encoder asks whether there is one, not what the task is.
  if (root.encoder() && root.task() != package::Task::Encode && root.task() != package::Task::Seq2Seq)
    return damagedFile(path + ": package: a model that does not encode has an encoder");
  HEDDLE_RETURN_IF_ERROR(checkRopes(root, path));
  if (root.graphs())
    HEDDLE_RETURN_IF_ERROR(checkGraphs(path, *root.graphs()));
  if (root.task() == package::Task::Graph)
    HEDDLE_RETURN_IF_ERROR(checkGraphUses(root, path));
  HEDDLE_RETURN_IF_ERROR(checkGiven(root, path));
  HEDDLE_RETURN_IF_ERROR(checkDense(root, path));
  HEDDLE_RETURN_IF_ERROR(checkImageProcessing(root, path));
  if (root.kernels())
    for (const package::Kernel *kernel : *root.kernels())
      if (!kernel->name())
        return damagedFile(path + ": package: a kernel lacks its name");
  return checkWeightTable(path, root);
}

Status checkMetadata(const package::Package &root, const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(checkVariant(root, path));
  for (unsigned i = 0; root.variants() && i < root.variants()->size(); ++i) {
    const package::Package &variant = *root.variants()->Get(i);
    HEDDLE_RETURN_IF_ERROR(checkVariant(variant, path));
    if (variant.variants())
      return damagedFile(path + ": package: a variant has variants");
    if (variant.task() != root.task() || variant.name()->string_view() != root.name()->string_view())
      return damagedFile(path + ": package: a variant is of another model");
    if (variant.weights_size() != root.weights_size())
      return wrong(path, "weights_size of a variant", double(variant.weights_size()), "that of the package");
  }
  return Status();
}

} // namespace heddle
