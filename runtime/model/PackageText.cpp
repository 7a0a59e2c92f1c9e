// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/PackageFile.h"

namespace heddle {

const char *dataTypeName(package::DataType type) {
  return package::EnumNameDataType(type);
}

std::string outputNames(const package::Encoder &encoder, const char *separator) {
  std::string names;
  for (const package::EncoderOutput *output : *encoder.outputs())
    names += (names.empty() ? "" : separator) + output->name()->str();
  return names;
}

std::string declaredShape(const package::GraphTensor &tensor) {
  std::string text = "(";
  for (unsigned i = 0; tensor.dims() && i < tensor.dims()->size(); ++i) {
    int64_t dim = tensor.dims()->Get(i);
    std::string name = tensor.dim_names() ? tensor.dim_names()->Get(i)->str() : "";
    text += (i ? ", " : "") + (dim >= 0 ? std::to_string(dim) : name.empty() ? "?" : name);
  }
  return text + ")";
}

std::string packageFact(const char *key, const std::string &value) {
  return format("%-18s %s\n", key, value.c_str());
}

std::string modelName(const package::Package &metadata) {
  const flatbuffers::String *source = metadata.source_name();
  return source && source->size() ? source->str() : metadata.name()->str();
}

// What no option of sampling changes.
static std::string answerRules(const package::Generation *generation) {
  std::string text;
  if (!generation)
    return text;
  if (generation->forced_bos() >= 0)
    text += format(", %d as the first token", generation->forced_bos());
  if (generation->forced_eos() >= 0)
    text += format(", %d as the last token that there is room for", generation->forced_eos());
  if (generation->min_length())
    text += format(", no end before %u tokens", generation->min_length());
  if (generation->min_new_tokens())
    text += format(", no end before %u new tokens", generation->min_new_tokens());
  if (generation->max_new_tokens())
    text += format(", an end at %u new tokens", generation->max_new_tokens());
  else if (generation->max_length())
    text += format(", an end at %u tokens", generation->max_length());
  if (generation->bad_words() && generation->bad_words()->size())
    text += format(", %u sequences of tokens never", generation->bad_words()->size());
  if (generation->no_repeat_ngram())
    text += format(", no %u tokens twice", generation->no_repeat_ngram());
  return text;
}

std::string samplingDefaults(const package::Package &metadata) {
  const package::Generation *generation = metadata.generation();
  const flatbuffers::String *source = generation ? generation->sampling_source() : nullptr;
  std::string rules = answerRules(generation);
  if (!source || !source->size())
    return "--temp 0 (greedy)" + rules + ", for the model names no defaults of sampling";
  std::string search;
  if (generation->num_beams() > 1)
    search = format(" --beam %d --length-penalty %g", generation->num_beams(), generation->length_penalty()) +
             (generation->early_stopping() ? " --early-stopping" : "") +
             (generation->never_stops_early() ? ", as long as a longer answer may be better" : "") +
             (generation->renormalizes() ? ", probabilities of what may follow adding up to 1" : "");
  return format("--temp %g --top-k %d --top-p %g --min-p %g --repeat-penalty %g", generation->temperature(),
                generation->top_k(), generation->top_p(), generation->min_p(), generation->repetition_penalty()) +
         search + rules + ", from the model's " + source->str();
}

namespace {

std::string orDash(const flatbuffers::String *text) {
  return text && text->size() ? text->str() : "-";
}

void add(std::string &out, const char *key, const std::string &value) {
  out += packageFact(key, value);
}

std::string joined(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *list) {
  std::string text;
  for (size_t i = 0; list && i < list->size(); ++i)
    text += (i ? " " : "") + list->Get(i)->str();
  return text.empty() ? "-" : text;
}

// What a model over rows of a ragged batch has, whether it generates or encodes.
void addRows(const package::Package &metadata, std::string &out) {
  add(out, "vocabulary", std::to_string(metadata.vocab_size()));
  add(out, "hidden size", std::to_string(metadata.hidden_size()));
  add(out, "layers", std::to_string(metadata.num_layers()));
  add(out, "context", std::to_string(metadata.context()) + " tokens");
  const package::Encoder *encoder = metadata.encoder();
  bool isSeq2Seq = metadata.task() == package::Task::Seq2Seq;
  if (isSeq2Seq)
    add(out, "source context", std::to_string(encoder->context()) + " tokens");
  if (encoder && encoder->audio())
    add(out, "source", format("frames of %u mel bins", encoder->audio()->mel_bins()));
  add(out, "weights",
      format("%llu bytes, %llu read per token", (unsigned long long)metadata.weights_size(),
             (unsigned long long)metadata.bytes_per_token()));
  auto addCache = [&](const char *key, const package::KvPlan *kv) {
    if (!kv)
      return;
    std::string heads = format("%u KV heads of %u", kv->num_kv_heads(), kv->head_dim());
    if (kv->shapes() && kv->shapes()->size()) {
      heads.clear();
      for (const package::KvShape *shape : *kv->shapes()) {
        heads += format("%s%u layers ", heads.empty() ? "" : ", ", shape->num_layers());
        heads += shape->num_kv_heads() ? format("of %u KV heads of %u", shape->num_kv_heads(), shape->head_dim())
                                       : format("with a state of %u numbers", shape->head_dim());
      }
    }
    add(out, key,
        format("%s, %s, %llu bytes per token", package::EnumNameKvType(kv->type()), heads.c_str(),
               (unsigned long long)kv->bytes_per_token()));
  };
  addCache("kv cache", metadata.kv());
  addCache("source cache", encoder ? encoder->cross() : nullptr);
  if (encoder && !isSeq2Seq)
    add(out, "outputs", outputNames(*encoder, " "));
  const package::MemoryPlan &memory = *metadata.memory();
  add(out, "activations",
      std::to_string(memory.fixed() + memory.per_row() * memory.max_rows()) +
          format(" bytes for chunks of %u tokens", memory.max_rows()) +
          (memory.per_thread() ? format(", %llu for each thread", (unsigned long long)memory.per_thread()) : ""));
  if (memory.waits())
    add(out, "waits", format("%u for all threads in a step of one token", memory.waits()));
  const package::Tokenizer *tokenizer = metadata.tokenizer();
  bool hasTokenizer = tokenizer && tokenizer->model() != package::TokenizerModel::None;
  add(out, "tokenizer",
      hasTokenizer ? format("%s, %u pieces", package::EnumNameTokenizerModel(tokenizer->model()),
                            tokenizer->pieces() ? tokenizer->pieces()->size() : 0)
                   : "-");
}

// One of several entries is listed under its name.
void addGraph(const package::Graph &graph, bool isOneOfMany, std::string &out) {
  if (isOneOfMany)
    add(out, "entry", graph.name()->str());
  auto addTensors = [&](const char *key, const auto &tensors) {
    for (const package::GraphTensor *tensor : tensors)
      add(out, key, tensor->name()->str() + " " + dataTypeName(tensor->type()) + " " + declaredShape(*tensor));
  };
  addTensors("input", *graph.inputs());
  addTensors("output", *graph.outputs());
}

void addKernels(const package::Package &metadata, std::string &out) {
  for (size_t i = 0; metadata.kernels() && i < metadata.kernels()->size(); ++i) {
    const package::Kernel &kernel = *metadata.kernels()->Get(i);
    add(out, "kernel",
        kernel.name()->str() + " (" + orDash(kernel.kind()) + ", " + orDash(kernel.emitter()) + ", " +
            std::to_string(kernel.calls()) + " calls) " + (kernel.schedule() ? kernel.schedule()->str() : ""));
  }
}

// The CPUs that a file has code for. What else is said is of the one that runs, or of the first.
void addVariants(const PackageFile &file, std::string &out) {
  if (file.numVariants() == 1)
    return;
  PackageFile::WeightShares shares = file.weightShares();
  for (size_t i = 0; i < file.numVariants(); ++i) {
    const package::Package &variant = file.variant(i);
    bool isIt = file.isVariantSelected() && i == file.selectedVariant();
    add(out, "variant",
        orDash(variant.target()) + " (" + joined(variant.cpu_features()) +
            format("): %llu bytes of weights of its own", (unsigned long long)shares.own[i]) +
            (isIt ? ", chosen here" : ""));
  }
  add(out, "shared weights", format("%llu bytes", (unsigned long long)shares.shared));
}

} // namespace

std::string packageText(const PackageFile &file) {
  const package::Package &metadata = file.metadata();
  std::string out;
  add(out, "name", metadata.name()->str());
  add(out, "architecture", orDash(metadata.architecture()));
  add(out, "task", package::EnumNameTask(metadata.task()));
  add(out, "source", orDash(metadata.source_name()));
  add(out, "source sha256", orDash(metadata.source_sha256()));
  add(out, "license", metadata.license() && metadata.license()->size() ? metadata.license()->str() : "unknown");
  add(out, "package sha256", hexadecimal(file.metadataSha256(), 32));
  add(out, "compiler", orDash(metadata.compiler_version()));
  add(out, "target", orDash(metadata.target()));
  add(out, "cpu features", joined(metadata.cpu_features()));
  addVariants(file, out);
  add(out, "precision", orDash(metadata.precision()));
  if (metadata.task() == package::Task::Graph)
    add(out, "weights", format("%llu bytes", (unsigned long long)metadata.weights_size()));
  else
    addRows(metadata, out);
  for (unsigned i = 0; metadata.graphs() && i < metadata.graphs()->size(); ++i)
    addGraph(*metadata.graphs()->Get(i), metadata.graphs()->size() > 1, out);
  if (metadata.task() == package::Task::Generate || metadata.task() == package::Task::Seq2Seq)
    add(out, "sampling", samplingDefaults(metadata));
  if (metadata.adapters())
    add(out, "adapters", joined(metadata.adapters()));
  if (const auto *counts = metadata.virtual_tokens()) {
    std::string text;
    for (uint32_t count : *counts)
      text += (text.empty() ? "" : " ") + std::to_string(count);
    add(out, "virtual tokens", text);
  }
  add(out, "passes", joined(metadata.passes()));
  for (size_t i = 0; metadata.config() && i < metadata.config()->size(); ++i)
    add(out, "config", metadata.config()->Get(i)->str());
  bool isOfAll = file.numVariants() > 1 && !file.isVariantSelected();
  if (!isOfAll)
    addKernels(metadata, out);
  for (size_t i = 0; isOfAll && i < file.numVariants(); ++i) {
    add(out, "kernels of", orDash(file.variant(i).target()));
    addKernels(file.variant(i), out);
  }
  return out;
}

} // namespace heddle
