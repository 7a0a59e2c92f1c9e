// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/TestPackage.h"

#include "bytes/Safetensors.h"
#include "bytes/Sha256.h"
#include "runtime/model/PackageHeader.h"
#include "runtime/model/WeightsHash.h"
#include "test/unit/ReferenceModel.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <unistd.h>

namespace heddle::reference {
namespace {

template <typename T> void appendStruct(Bytes &bytes, const T &value) {
  const auto *begin = reinterpret_cast<const uint8_t *>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

void append(Bytes &bytes, const Bytes &more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

void align(Bytes &bytes, size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

[[noreturn]] void give(const std::string &message) {
  fprintf(stderr, "%s\n", message.c_str());
  exit(1);
}

// One piece per byte; the three first are UNK, BOS and EOS.
std::unique_ptr<package::TokenizerT> makeTokenizer() {
  auto tokenizer = std::make_unique<package::TokenizerT>();
  tokenizer->model = package::TokenizerModel::ByteLevelBpe;
  const char *specials[] = {"<unk>", "<s>", "</s>"};
  for (uint32_t id = 0; id < vocabSize; ++id) {
    std::string text = id < 3 ? specials[id] : std::string(1, char(id));
    package::TokenKind kind = id < 3 ? package::TokenKind::Control : package::TokenKind::Normal;
    uint8_t flags = id < 3 ? uint8_t(package::PieceFlag::Special) | uint8_t(package::PieceFlag::Added) : 0;
    tokenizer->pieces.emplace_back(tokenizer->text.size(), text.size(), 0.0f, kind, flags, 0);
    tokenizer->text.insert(tokenizer->text.end(), text.begin(), text.end());
  }
  tokenizer->bos = 1;
  tokenizer->eos = 2;
  tokenizer->prefix = {1};
  tokenizer->chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n"
                             "{{ raise_exception('no secrets') if m.content == 'secret' }}{% endfor %}[assistant]";
  return tokenizer;
}

} // namespace

Bytes readWeights() {
  SafetensorsFile file;
  if (Status status = file.open(HEDDLE_TEST_MODELS "/llama/model.safetensors"); !status.isOk())
    give(status.message());
  Bytes weights;
  for (const WeightSlot &slot : weightSlots) {
    const StoredTensor *tensor = file.find(slot.name);
    if (!tensor || tensor->size != slot.count * sizeof(float))
      give(std::string("model.safetensors: ") + slot.name);
    weights.insert(weights.end(), tensor->data, tensor->data + tensor->size);
  }
  return weights;
}

package::PackageT makeMetadata(const Bytes &weights) {
  package::PackageT metadata;
  metadata.name = "reference";
  metadata.architecture = "llama";
  metadata.task = package::Task::Generate;
  metadata.source_name = "llama";
  metadata.source_sha256 = "0000";
  metadata.target = "generic";
  metadata.precision = "precise";
  metadata.license = "Apache-2.0 WITH LLVM-exception";
  metadata.vocab_size = vocabSize;
  metadata.hidden_size = hiddenSize;
  metadata.num_layers = numLayers;
  metadata.context = context;
  metadata.weights_size = metadata.bytes_per_token = weights.size();
  metadata.memory = std::make_unique<package::MemoryPlanT>();
  metadata.memory->fixed = 0;
  metadata.memory->per_row = rowBytes;
  metadata.memory->max_rows = maxRows;
  metadata.kv = std::make_unique<package::KvPlanT>();
  metadata.kv->page_bytes = pageBytes;
  metadata.kv->num_layers = numLayers;
  metadata.kv->num_kv_heads = numKvHeads;
  metadata.kv->head_dim = headDim;
  metadata.kv->bytes_per_token = pageBytes / HEDDLE_KV_PAGE_SIZE;
  auto rope = std::make_unique<package::RopeTableT>();
  rope->rotary_dim = headDim;
  for (int i = 0; i < headDim / 2; ++i)
    rope->inverse_frequency.push_back(float(1.0 / std::pow(10000.0, 2.0 * i / headDim)));
  metadata.rope.push_back(std::move(rope));
  metadata.generation = std::make_unique<package::GenerationT>();
  metadata.generation->eos = {2};
  metadata.generation->bos = 1;
  metadata.generation->pad = 0;
  metadata.tokenizer = makeTokenizer();
  uint64_t offset = 0;
  for (const WeightSlot &slot : weightSlots) {
    auto weight = std::make_unique<package::WeightT>();
    weight->name = slot.name;
    weight->format = "f32";
    weight->shape = {slot.count};
    weight->offset = offset;
    weight->size = slot.count * sizeof(float);
    if (offset + weight->size <= weights.size()) {
      Sha256Digest digest = sha256(weights.data() + offset, weight->size);
      weight->sha256.assign(digest.begin(), digest.end());
    }
    offset += weight->size;
    metadata.weights.push_back(std::move(weight));
  }
  auto kernel = std::make_unique<package::KernelT>();
  kernel->name = "reference_step";
  kernel->kind = "everything";
  kernel->emitter = "hand";
  kernel->calls = 1;
  metadata.kernels.push_back(std::move(kernel));
  metadata.config = {"hidden_size=64", "num_hidden_layers=2"};
  return metadata;
}

Bytes makePackage(const package::PackageT &metadata, const Bytes &weights, bool sidecar) {
  flatbuffers::FlatBufferBuilder builder;
  package::FinishPackageBuffer(builder, package::Package::Pack(builder, &metadata));
  Bytes buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  heddle_package_header header = {};
  memcpy(header.magic, HEDDLE_PACKAGE_MAGIC, sizeof header.magic);
  header.major = HEDDLE_PACKAGE_MAJOR;
  header.minor = HEDDLE_PACKAGE_MINOR;
  header.metadata_size = buffer.size();
  header.weights_size = sidecar ? 0 : weights.size();
  Sha256Digest digest = sha256(buffer.data(), buffer.size());
  memcpy(header.sha256, digest.data(), digest.size());
  Bytes package;
  appendStruct(package, header);
  append(package, buffer);
  return package;
}

namespace {

// Sections of an ELF file, in the order in which they are added.
class ElfWriter {
public:
  void add(const char *name, uint32_t type, uint64_t flags, const Bytes &bytes) {
    align(file, 64);
    Elf64_Shdr section = {};
    section.sh_name = uint32_t(names.size());
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    section.sh_addralign = 64;
    sections.push_back(section);
    names.append(name).push_back('\0');
    append(file, bytes);
  }

  Bytes finish() {
    std::string name = ".shstrtab";
    std::string all = names + name + '\0';
    add(name.c_str(), SHT_STRTAB, 0, Bytes(all.begin(), all.end()));
    align(file, 64);
    Elf64_Ehdr elf = {};
    memcpy(elf.e_ident, ELFMAG, SELFMAG);
    elf.e_ident[EI_CLASS] = ELFCLASS64;
    elf.e_ident[EI_DATA] = ELFDATA2LSB;
    elf.e_ident[EI_VERSION] = EV_CURRENT;
    elf.e_type = ET_DYN;
#if defined(__aarch64__)
    elf.e_machine = EM_AARCH64;
#else
    elf.e_machine = EM_X86_64;
#endif
    elf.e_version = EV_CURRENT;
    elf.e_shoff = file.size();
    elf.e_ehsize = sizeof elf;
    elf.e_shentsize = sizeof(Elf64_Shdr);
    elf.e_shnum = uint16_t(sections.size());
    elf.e_shstrndx = uint16_t(sections.size() - 1);
    memcpy(file.data(), &elf, sizeof elf);
    for (const Elf64_Shdr &section : sections)
      appendStruct(file, section);
    return file;
  }

private:
  Bytes file = Bytes(sizeof(Elf64_Ehdr));
  std::string names = std::string(1, '\0');
  std::vector<Elf64_Shdr> sections = std::vector<Elf64_Shdr>(1);
};

} // namespace

Bytes makeElf(const Bytes &package, const Bytes &weights, const Bytes &code) {
  ElfWriter elf;
  if (!code.empty()) {
    Sha256Digest ofSection = sha256(code.data(), code.size()), digest = sha256(ofSection.data(), ofSection.size());
    elf.add(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code);
    elf.add(HEDDLE_CODE_SECTION, SHT_PROGBITS, 0, Bytes(digest.begin(), digest.end()));
  }
  elf.add(HEDDLE_PACKAGE_SECTION, SHT_PROGBITS, 0, package);
  if (!weights.empty())
    elf.add(HEDDLE_WEIGHTS_SECTION, SHT_PROGBITS, 0, weights);
  return elf.finish();
}

Bytes makeSidecar(const Bytes &package, const Bytes &weights) {
  heddle_sidecar_header header = {};
  memcpy(header.magic, HEDDLE_SIDECAR_MAGIC, sizeof header.magic);
  header.major = HEDDLE_PACKAGE_MAJOR;
  header.weights_offset = sizeof header;
  header.weights_size = weights.size();
  WeightsHash hash;
  for (const package::Weight *weight : *package::GetPackage(package.data() + sizeof(heddle_package_header))->weights())
    hash.add(weight->offset(), weight->size(), weight->sha256()->data());
  Sha256Digest digest = hash.finish();
  memcpy(header.weights_sha256, digest.data(), digest.size());
  Bytes file;
  appendStruct(file, header);
  append(file, weights);
  return file;
}

std::string scratchFolder() {
  static std::string folder = [] {
    char pattern[] = "/tmp/heddle-unit-XXXXXX";
    if (!mkdtemp(pattern))
      give("mkdtemp failed");
    static const std::string made = pattern;
    atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(made, ignored);
    });
    return made;
  }();
  return folder;
}

std::string writeFile(const std::string &name, const Bytes &bytes) {
  std::string path = scratchFolder() + "/" + name;
  unlink(path.c_str()); // a mapping of an earlier file keeps its bytes
  FILE *file = fopen(path.c_str(), "wb");
  if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file) != 0)
    give(path + " cannot be written");
  return path;
}

void addImages(package::PackageT &metadata, uint32_t rows, int64_t width) {
  auto graph = std::make_unique<package::GraphT>();
  graph->name = "image";
  for (auto *tensors : {&graph->inputs, &graph->outputs})
    tensors->push_back(std::make_unique<package::GraphTensorT>());
  graph->inputs[0]->name = "pixel_values";
  graph->inputs[0]->dims = {-1, 3, 8, 8};
  graph->outputs[0]->name = "image_features";
  graph->outputs[0]->dims = {-1, rows, width};
  metadata.graphs.push_back(std::move(graph));
  metadata.given = std::make_unique<package::GivenRowsT>();
  metadata.given->count = rows;
  metadata.given->token = 5;
}

heddle_model makeCode(const Bytes &package) {
  heddle_model code = {};
  code.abi_version = HEDDLE_MODEL_ABI_VERSION;
  code.name = "reference";
  memcpy(code.package_sha256, reinterpret_cast<const heddle_package_header *>(package.data())->sha256, 32);
  code.step = step;
  return code;
}

} // namespace heddle::reference
