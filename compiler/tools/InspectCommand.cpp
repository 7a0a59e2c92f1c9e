// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle inspect: a model file, or an executable, library, object or package that holds compiled ones.

#include "bytes/JsonSchema.h"
#include "compiler/tools/CompileArguments.h"
#include "frontends/read/Inspect.h"
#include "runtime/model/PackageFile.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;
using llvm::StringRef;
namespace json = llvm::json;

// Strings of a file are what it says: JSON wants UTF-8, a terminal no control bytes.
static std::string textOf(const flatbuffers::String *value) {
  return value ? json::fixUTF8(value->str()) : "";
}

static std::string printable(std::string text) {
  for (char &c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < ' ' || c == 0x7f))
      c = '?';
  return text;
}

template <typename List, typename Describe> static json::Array listOf(const List *list, Describe describe) {
  json::Array out;
  for (unsigned i = 0; list && i < list->size(); ++i)
    out.push_back(describe(list->Get(i)));
  return out;
}

static json::Object describeWeight(const package::Weight *weight) {
  json::Array shape;
  for (unsigned i = 0; weight->shape() && i < weight->shape()->size(); ++i)
    shape.push_back(weight->shape()->Get(i));
  return json::Object{
      {"name", textOf(weight->name())}, {"format", textOf(weight->format())},
      {"shape", std::move(shape)},      {"offset", weight->offset()},
      {"bytes", weight->size()},        {"sha256", hexadecimal(weight->sha256()->data(), weight->sha256()->size())}};
}

static json::Object describeKernel(const package::Kernel *kernel) {
  return json::Object{{"name", textOf(kernel->name())},
                      {"kind", textOf(kernel->kind())},
                      {"emitter", textOf(kernel->emitter())},
                      {"schedule", textOf(kernel->schedule())},
                      {"calls", kernel->calls()},
                      {"flops_per_row", kernel->flops_per_row()},
                      {"bytes_fixed", kernel->bytes_fixed()},
                      {"bytes_per_row", kernel->bytes_per_row()},
                      {"arithmetic", textOf(kernel->arithmetic())},
                      {"flops_per_row_and_key", kernel->flops_per_pair()},
                      {"bytes_per_key", kernel->bytes_per_key()},
                      {"window", kernel->window()}};
}

static json::Object describeTensor(const package::GraphTensor *tensor) {
  json::Array dims = tensor->dims() ? listOf(tensor->dims(), [](int64_t size) { return size; }) : json::Array();
  return json::Object{
      {"name", textOf(tensor->name())}, {"type", dataTypeName(tensor->type())}, {"shape", std::move(dims)}};
}

static json::Object describeEntry(const package::Graph *graph) {
  return json::Object{{"name", textOf(graph->name())},
                      {"inputs", listOf(graph->inputs(), describeTensor)},
                      {"outputs", listOf(graph->outputs(), describeTensor)}};
}

// What a model over rows of a ragged batch has beside the rest, whether it generates or encodes.
static void addRows(const package::Package &metadata, json::Object &out) {
  out["vocab_size"] = metadata.vocab_size();
  out["hidden_size"] = metadata.hidden_size();
  out["num_layers"] = metadata.num_layers();
  out["context"] = metadata.context();
  auto describeCache = [](const package::KvPlan &kv) {
    json::Object described{{"type", package::EnumNameKvType(kv.type())},
                           {"num_layers", kv.num_layers()},
                           {"num_kv_heads", kv.num_kv_heads()},
                           {"head_dim", kv.head_dim()},
                           {"page_bytes", kv.page_bytes()},
                           {"bytes_per_token", kv.bytes_per_token()},
                           {"state_bytes", kv.state_bytes()}};
    if (kv.shapes() && kv.shapes()->size()) {
      json::Array shapes;
      for (const package::KvShape *shape : *kv.shapes())
        shapes.push_back(json::Object{{"num_layers", shape->num_layers()},
                                      {"num_kv_heads", shape->num_kv_heads()},
                                      {"head_dim", shape->head_dim()}});
      described["shapes"] = std::move(shapes);
    }
    return described;
  };
  if (metadata.kv())
    out["kv_cache"] = describeCache(*metadata.kv());
  if (const package::Encoder *encoder = metadata.encoder()) {
    json::Object described{{"token_types", encoder->token_types()},
                           {"outputs", listOf(encoder->outputs(),
                                              [](const package::EncoderOutput *output) {
                                                return json::Object{
                                                    {"name", textOf(output->name())},
                                                    {"rows", output->of_sequences() ? "sequences" : "tokens"},
                                                    {"width", output->width()}};
                                              })},
                           {"context", encoder->context()},
                           {"max_rows", encoder->max_rows()}};
    if (encoder->cross())
      described["source_cache"] = describeCache(*encoder->cross());
    out["encoder"] = std::move(described);
  }
  const package::MemoryPlan &memory = *metadata.memory();
  out["activations"] = json::Object{{"fixed", memory.fixed()},
                                    {"per_row", memory.per_row()},
                                    {"max_rows", memory.max_rows()},
                                    {"per_thread", memory.per_thread()},
                                    {"waits", memory.waits()}};
  if (const package::Tokenizer *tokenizer = metadata.tokenizer())
    out["tokenizer"] = json::Object{{"model", package::EnumNameTokenizerModel(tokenizer->model())},
                                    {"pieces", tokenizer->pieces() ? tokenizer->pieces()->size() : 0}};
}

// One variant of the package at hand.
static json::Object describePackage(const PackageFile &file, const package::Package &metadata) {
  auto text = [](const flatbuffers::String *value) { return textOf(value); };
  json::Object out{{"name", textOf(metadata.name())},
                   {"architecture", textOf(metadata.architecture())},
                   {"task", package::EnumNameTask(metadata.task())},
                   {"source", textOf(metadata.source_name())},
                   {"source_sha256", textOf(metadata.source_sha256())},
                   {"license", textOf(metadata.license())},
                   {"package_sha256", hexadecimal(file.metadataSha256(), 32)},
                   {"compiler", textOf(metadata.compiler_version())},
                   {"target", textOf(metadata.target())},
                   {"cpu_features", listOf(metadata.cpu_features(), text)},
                   {"precision", textOf(metadata.precision())},
                   {"passes", listOf(metadata.passes(), text)},
                   {"config", listOf(metadata.config(), text)},
                   {"kernels", listOf(metadata.kernels(), describeKernel)},
                   {"weights_bytes", metadata.weights_size()},
                   {"bytes_per_token", metadata.bytes_per_token()},
                   {"sidecar", file.hasSidecar()},
                   {"weights", listOf(metadata.weights(), describeWeight)}};
  if (metadata.task() == package::Task::Graph) {
    out["entries"] = listOf(metadata.graphs(), describeEntry);
  } else {
    addRows(metadata, out);
  }
  return out;
}

// The first variant, and in it the others.
static json::Object describeVariants(const PackageFile &file) {
  json::Object out = describePackage(file, file.variant(0));
  if (file.numVariants() == 1)
    return out;
  PackageFile::WeightShares shares = file.weightShares();
  json::Array others;
  for (size_t i = 1; i < file.numVariants(); ++i) {
    others.push_back(describePackage(file, file.variant(i)));
    (*others.back().getAsObject())["own_weights_bytes"] = shares.own[i];
  }
  out["variants"] = std::move(others);
  out["own_weights_bytes"] = shares.own[0];
  out["shared_weights_bytes"] = shares.shared;
  return out;
}

static void printWeight(const package::Weight *weight, llvm::raw_ostream &out) {
  std::string shape;
  for (unsigned d = 0; weight->shape() && d < weight->shape()->size(); ++d)
    shape += (d ? "," : "") + std::to_string(weight->shape()->Get(d));
  out << llvm::formatv("{0,-18} {1,-60} {2,-7} {3,-24} {4,14}\n", "weight", textOf(weight->name()),
                       textOf(weight->format()), "[" + shape + "]", weight->size());
}

// Each weight where it is first read.
static void printPackage(const PackageFile &file, llvm::raw_ostream &out) {
  out << packageText(file);
  llvm::DenseSet<uint64_t> places;
  unsigned count = 0;
  for (size_t v = 0; v < file.numVariants(); ++v) {
    const auto *weights = file.variant(v).weights();
    for (unsigned i = 0; weights && i < weights->size(); ++i) {
      bool isNew = places.insert(weights->Get(i)->offset()).second;
      if (v > 0 && !isNew)
        continue;
      printWeight(weights->Get(i), out);
      ++count;
    }
  }
  out << count << " weights, " << file.metadata().weights_size() << " bytes in "
      << (file.hasSidecar() ? file.path() + HEDDLE_SIDECAR_SUFFIX : "this file") << "\n";
}

static const char *machineName(uint16_t machine) {
  return machine == EM_X86_64 ? "x86-64" : machine == EM_AARCH64 ? "aarch64" : "unknown";
}

// Every package of `file`, in its order.
static Status inspectPackages(PackageFile &file, bool check, json::Array &outDescriptions, std::string &outText) {
  llvm::raw_string_ostream text(outText);
  for (bool found = true; found;) {
    HEDDLE_RETURN_IF_ERROR(file.readMetadata());
    if (check) {
      HEDDLE_RETURN_IF_ERROR(file.findWeights());
      HEDDLE_RETURN_IF_ERROR(file.checkWeights());
      HEDDLE_RETURN_IF_ERROR(file.checkCode());
    }
    outDescriptions.push_back(describeVariants(file));
    text << "\n";
    printPackage(file, text);
    if (check)
      text << (file.hasCodeHash() ? "all hashes match\n" : "all hashes match; the code of an object has none\n");
    HEDDLE_RETURN_IF_ERROR(file.next(found));
  }
  return Status();
}

static int inspectCompiled(const std::string &path, bool asJson, bool check) {
  PackageFile file;
  json::Array packages;
  std::string text;
  Status status = file.open(path, EM_NONE);
  if (status.isOk())
    status = inspectPackages(file, check, packages, text);
  if (!status.isOk())
    return failCommand(Status(StatusCode::InvalidInput, printable(status.message())));
  const char *kind = file.elfHeader().e_type == ET_REL ? "object" : "program or library";
  const char *machine = machineName(file.elfHeader().e_machine);
  if (asJson) {
    json::Object out{{"schema", schema::binaryInspection},
                     {"file", json::fixUTF8(path)},
                     {"kind", kind},
                     {"machine", machine},
                     {"bytes", file.size()},
                     {"checked", check},
                     {"code_sha256", file.codeSha256()},
                     {"packages", std::move(packages)}};
    llvm::outs() << llvm::formatv("{0:2}", json::Value(std::move(out))) << "\n";
  } else {
    llvm::outs() << path << ": " << kind << " for " << machine << ", " << file.size() << " bytes\n" << printable(text);
  }
  return 0;
}

static bool isElf(const std::string &path) {
  MappedFile file;
  return file.open(path).isOk() &&
         StringRef(reinterpret_cast<const char *>(file.data()), file.size()).starts_with(ELFMAG);
}

static constexpr char help[] = R"(heddle inspect FILE [--json] [--check]

Shows what is in FILE: the metadata, tensors and sizes of a model (GGUF, a Hugging Face folder, ONNX), or, of a program, library,
object or package that Heddle made, the model in it, its target, kernels, weights and memory.

  --json    one JSON object instead of text
  --check   of what was compiled: compare the hashes of the code and of every weight, a sidecar's too

Example:
  heddle inspect model.gguf
  heddle compile model.gguf -o model && heddle inspect model --check

Exit code: 0 done, 2 the file or the command line is at fault.
)";

int heddle::runInspectCommand(int argc, char **argv) {
  std::string path;
  bool asJson = false, check = false;
  for (int i = 0; i < argc; ++i) {
    StringRef word = argv[i];
    if (word == "--help" || word == "-h") {
      llvm::outs() << help;
      return 0;
    }
    if (word == "--json")
      asJson = true;
    else if (word == "--check")
      check = true;
    else if (word.starts_with("-"))
      return refuseCommand(("inspect: unknown option '" + word + "'; known: --json, --check").str());
    else if (path.empty())
      path = word.str();
    else
      return refuseCommand(("inspect: one file expected, got '" + path + "' and '" + word + "'").str());
  }
  if (path.empty())
    return refuseCommand("inspect: no model given");
  if (isElf(path))
    return inspectCompiled(path, asJson, check);
  if (check)
    return refuseCommand(path + ": --check compares the hashes of what was compiled; a model file has none");
  return inspectModel(path, asJson);
}
