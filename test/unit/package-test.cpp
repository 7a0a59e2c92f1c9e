// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/ReferenceModel.h"
#include "test/unit/TestPackage.h"

#include "bytes/Sha256.h"
#include "runtime/session/AttentionRecorder.h"
#include "runtime/session/Package.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

struct Parts {
  Bytes weights = readWeights();
  package::PackageT metadata = makeMetadata(weights);
};

// Opens a file of these bytes with code that belongs to `package`.
Status open(const Bytes &file, const Bytes &package, std::unique_ptr<Package> &out) {
  static heddle_model code;
  code = makeCode(package);
  return Package::openFile(writeFile("package", file), &code, {}, out);
}

Status open(const Bytes &package, const Bytes &weights) {
  std::unique_ptr<Package> out;
  return open(makeElf(package, weights), package, out);
}

// A variant like the package itself.
package::PackageT &addVariant(package::PackageT &metadata) {
  metadata.variants.push_back(std::make_unique<package::PackageT>(makeMetadata(readWeights())));
  return *metadata.variants.back();
}

void expectError(const Status &status, const char *fragment) {
  EXPECT_EQ(status.exitCode(), 1) << status.message();
  EXPECT_NE(status.message().find(fragment), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

TEST(Sha256, knownDigests) {
  auto hex = [](const std::string &text) {
    std::string out;
    for (uint8_t byte : sha256(text.data(), text.size()))
      out += format("%02x", byte);
    return out;
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Each length of a block's rest, and parts that end anywhere in a block.
TEST(Sha256, partsGiveTheDigestOfTheWhole) {
  Bytes bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = uint8_t(i * 37 + i / 5);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    Sha256 hash;
    for (size_t at = 0, part = 0; at < size; at += part) {
      part = std::min(size - at, (at * 7 + size) % 90 + 1);
      hash.update(bytes.data() + at, part);
    }
    ASSERT_EQ(hash.finish(), sha256(bytes.data(), size)) << size;
  }
}

TEST(Package, opensAndChecks) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights);
  std::unique_ptr<Package> opened;
  Status status = open(makeElf(package, parts.weights), package, opened);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_STREQ(opened->metadata().name()->c_str(), "reference");
  EXPECT_EQ(memcmp(opened->weights(), parts.weights.data(), parts.weights.size()), 0);
  EXPECT_TRUE(opened->check().isOk());
}

TEST(Package, sidecarHoldsTheWeights) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights, /*sidecar=*/true), file = makeElf(package, {});
  std::unique_ptr<Package> opened;
  expectError(open(file, package, opened),
              "package.weights: cannot be opened: No such file or directory (the weights of ");
  Bytes sidecar = makeSidecar(package, parts.weights);
  writeFile("package.weights", sidecar);
  Status status = open(file, package, opened);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_TRUE(opened->check().isOk());

  // Through a link from another folder.
  std::string links = scratchFolder() + "/links", link = links + "/package";
  mkdir(links.c_str(), 0700);
  ASSERT_EQ(symlink("../package", link.c_str()), 0);
  heddle_model code = makeCode(package);
  status = Package::openFile(link, &code, {}, opened);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(memcmp(opened->weights(), parts.weights.data(), parts.weights.size()), 0);
  unlink(link.c_str());
  rmdir(links.c_str());

  Bytes other = sidecar;
  other[40] ^= 1; // the weights' hash
  writeFile("package.weights", other);
  expectError(open(file, package, opened), "belong to another package");
  other = sidecar;
  other[8] = 3, other[12] = 0;
  writeFile("package.weights", other);
  expectError(open(file, package, opened), "package.weights: weights version 3.0 is newer than 2");
  other[0] ^= 1;
  writeFile("package.weights", other);
  expectError(open(file, package, opened), "package.weights: weights header: bad magic, expected HEDDLEWT");
  other = sidecar;
  other.resize(other.size() - 1);
  writeFile("package.weights", other);
  expectError(open(file, package, opened), "the file has");
  unlink((scratchFolder() + "/package.weights").c_str());
}

TEST(Package, damagedWeightsAreFoundByCheckOnly) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights), damaged = parts.weights;
  damaged[100000] ^= 1;
  std::unique_ptr<Package> opened;
  ASSERT_TRUE(open(makeElf(package, damaged), package, opened).isOk());
  expectError(opened->check(), "weight 'model.layers.0.self_attn.o_proj.weight'");
}

// What is loaded has a hash, whatever else is in the file.
TEST(Package, damagedCodeIsFoundByCheckOnly) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights), code(1000, 0x90);
  std::unique_ptr<Package> opened;
  Bytes whole = makeElf(package, parts.weights, code);
  ASSERT_TRUE(open(whole, package, opened).isOk());
  EXPECT_TRUE(opened->onDisk().hasCodeHash());
  EXPECT_TRUE(opened->check().isOk()) << opened->check().message();
  size_t at = std::search(whole.begin(), whole.end(), code.begin(), code.end()) - whole.begin();
  for (size_t byte : {size_t(0), code.size() - 1}) {
    Bytes damaged = whole;
    damaged[at + byte] ^= 1;
    ASSERT_TRUE(open(damaged, package, opened).isOk());
    expectError(opened->check(), "package: the code is damaged (SHA-256 ");
  }
  ASSERT_TRUE(open(makeElf(package, parts.weights), package, opened).isOk());
  EXPECT_FALSE(opened->onDisk().hasCodeHash());
}

TEST(PackageErrors, everyFlippedByteOfThePackageIsRefused) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights), weights = parts.weights;
  for (size_t at = 0; at < package.size(); at += at < 64 ? 1 : 37) {
    if (at >= 12 && at < 16)
      continue; // the minor version: newer ones are readable
    Bytes damaged = package;
    damaged[at] ^= 0x10;
    std::unique_ptr<Package> opened;
    EXPECT_FALSE(open(makeElf(damaged, weights), package, opened).isOk()) << "byte " << at;
  }
}

TEST(PackageErrors, everyTruncationOfTheFileIsRefused) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights), file = makeElf(package, parts.weights);
  for (size_t size = 0; size < file.size(); size += size < 256 ? 1 : 9973) {
    std::unique_ptr<Package> opened;
    EXPECT_FALSE(open(Bytes(file.begin(), file.begin() + size), package, opened).isOk()) << size << " bytes";
  }
}

TEST(PackageErrors, header) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights), newer = package, elf = makeElf(package, parts.weights);
  newer[8] = 3, newer[12] = 0;
  expectError(open(newer, parts.weights),
              "package version 3.0 is newer than 2, which is read here: a newer Heddle is needed");
  Bytes older = package, laterMinor = package;
  older[8] = 1, older[12] = 0;
  expectError(open(older, parts.weights),
              "package version 1.0 is older than 2, which is read here: compile the model again");
  laterMinor[12] = 9;
  EXPECT_TRUE(open(laterMinor, parts.weights).isOk());
  std::unique_ptr<Package> opened;
  Bytes machine = elf;
  machine[18] ^= 0xff; // e_machine
  expectError(open(machine, package, opened), "code for another machine");
  expectError(open(Bytes(1000, 'x'), package, opened), "not an ELF file");
  heddle_model code = makeCode(package);
  code.package_sha256[3] ^= 1;
  expectError(Package::openFile(writeFile("package", elf), &code, {}, opened), "does not belong to this code");
  code = makeCode(package);
  code.abi_version = 99;
  expectError(Package::openFile(writeFile("package", elf), &code, {}, opened), "code of ABI version 99");
}

// Makes the metadata those of an encoder that reads as many tokens as the decoder.
static void makeEncoder(package::PackageT &metadata) {
  metadata.task = package::Task::Encode;
  metadata.encoder = std::make_unique<package::EncoderT>();
  metadata.encoder->vocab_size = metadata.vocab_size;
  metadata.encoder->context = metadata.encoder->max_rows = metadata.context;
  metadata.encoder->outputs.push_back(std::make_unique<package::EncoderOutputT>());
  metadata.encoder->outputs[0]->name = "logits";
  metadata.encoder->outputs[0]->width = 8;
}

static void addBadWord(package::PackageT &metadata, const std::vector<int32_t> &ids) {
  metadata.generation->bad_words.push_back(std::make_unique<package::TokenSequenceT>());
  metadata.generation->bad_words.back()->ids = ids;
}

// And of a decoder, with a cache of sources like its own.
static void makeEncoderDecoder(package::PackageT &metadata) {
  makeEncoder(metadata);
  metadata.task = package::Task::Seq2Seq;
  metadata.encoder->cross = std::make_unique<package::KvPlanT>(*metadata.kv);
}

// Of one output, which stands for a number.
static void addGraph(package::PackageT &metadata) {
  metadata.task = package::Task::Graph;
  metadata.graphs.push_back(std::make_unique<package::GraphT>());
  metadata.graphs[0]->name = "graph";
  metadata.graphs[0]->outputs.push_back(std::make_unique<package::GraphTensorT>());
  metadata.graphs[0]->outputs[0]->name = "y";
}

static void makeImageEncoder(package::PackageT &metadata) {
  makeEncoder(metadata);
  metadata.encoder->image = std::make_unique<package::ImageInputT>();
  metadata.encoder->image->channels = 3;
  metadata.encoder->image->size = 8;
  metadata.encoder->image->patch = 4;
}

struct Case {
  const char *fragment;
  void (*change)(package::PackageT &metadata);
};

// Metadata that is valid FlatBuffers, but makes no sense. `prepare` comes before each change.
template <size_t numCases>
void expectErrors(const Case (&cases)[numCases], void (*prepare)(package::PackageT &metadata) = nullptr) {
  for (const Case &c : cases) {
    Parts parts;
    if (prepare)
      prepare(parts.metadata);
    c.change(parts.metadata);
    expectError(open(makePackage(parts.metadata, parts.weights), parts.weights), c.fragment);
  }
}

TEST(PackageErrors, rotationsOutOfRange) {
  const Case cases[] = {
      {"rope.rotary_dim is 15", [](package::PackageT &m) { m.rope[0]->rotary_dim = 15; }},
      {"rope.inverse_frequency is 7", [](package::PackageT &m) { m.rope[0]->inverse_frequency.pop_back(); }},
      {"rope.inverse_frequency is nan", [](package::PackageT &m) { m.rope[0]->inverse_frequency[3] = NAN; }},
      {"rope.long_inverse_frequency",
       [](package::PackageT &m) { m.rope[0]->scaling = package::RopeScaling::Longrope; }},
      {"rope.theta", [](package::PackageT &m) { m.rope[0]->scaling = package::RopeScaling::Dynamic; }},
      {"rope.original_context is 0, expected the same positive number",
       [](package::PackageT &m) {
         m.rope[0]->scaling = package::RopeScaling::Dynamic;
         m.rope[0]->theta = 10000;
         m.rope[0]->factor = 2;
       }},
  };
  expectErrors(cases);
  expectErrors(cases, makeEncoder);
}

TEST(PackageErrors, fieldsOutOfRange) {
  const Case cases[] = {
      {"vocab_size is 0", [](package::PackageT &m) { m.vocab_size = 0; }},
      {"tokenizer.pieces is 256, expected at most vocab_size", [](package::PackageT &m) { m.vocab_size = 255; }},
      {"tokenizer.eos is 256, expected an id of the vocabulary",
       [](package::PackageT &m) {
         m.tokenizer->pieces.clear();
         m.tokenizer->model = package::TokenizerModel::None;
         m.tokenizer->eos = 256;
       }},
      {"tokenizer.eos is -2", [](package::PackageT &m) { m.tokenizer->eos = -2; }},
      {"context is 0", [](package::PackageT &m) { m.context = 0; }},
      {"memory is missing", [](package::PackageT &m) { m.memory.reset(); }},
      {"kv is missing", [](package::PackageT &m) { m.kv.reset(); }},
      {"virtual_tokens are not those of the adapters", [](package::PackageT &m) { m.virtual_tokens = {3}; }},
      {"virtual_tokens is 67108864, expected at most 2^26 with the context",
       [](package::PackageT &m) {
         m.adapters = {"a"};
         m.virtual_tokens = {1 << 26};
       }},
      {"an adapter lacks its name", [](package::PackageT &m) { m.adapters = {""}; }},
      {"encoder is missing", [](package::PackageT &m) { m.task = package::Task::Encode; }},
      {"encoder.token_types is 16777217",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->token_types = (1 << 24) + 1;
       }},
      {"encoder.outputs is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->outputs.clear();
       }},
      {"an output of the encoder has no name",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->outputs[0]->name.clear();
       }},
      {"encoder.outputs.width is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->outputs[0]->width = 0;
       }},
      {"encoder.outputs.width is 8, expected 1",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->outputs[0]->squeezed = true;
       }},
      {"encoder.labels is 0, expected one for each of the logits",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->task = package::EncoderTask::Classify;
       }},
      {"encoder.outputs has no 'logits' of tokens",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->task = package::EncoderTask::FillMask;
       }},
      {"encoder.outputs has no 'start_logits' of tokens",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->task = package::EncoderTask::Answer;
       }},
      {"encoder.embedding.pooling is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->embedding = std::make_unique<package::EmbeddingT>();
       }},
      {"encoder.embedding.pooling is 9, expected a way to pool",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->outputs[0]->name = "last_hidden_state";
         m.encoder->embedding = std::make_unique<package::EmbeddingT>();
         m.encoder->embedding->pooling = {package::Pooling(9)};
       }},
      {"encoder.image.channels is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->image = std::make_unique<package::ImageInputT>();
       }},
      {"encoder.image.patch is 65, expected at most the image's size",
       [](package::PackageT &m) {
         makeImageEncoder(m);
         m.encoder->image->patch = 65;
       }},
      {"encoder.image.special_tokens is 65",
       [](package::PackageT &m) {
         makeImageEncoder(m);
         m.encoder->image->special_tokens = 65;
       }},
      {"a model that does not encode has an encoder",
       [](package::PackageT &m) {
         makeImageEncoder(m);
         m.encoder->image->patch = 0;
         m.task = package::Task::Generate;
       }},
      {"a model that does not encode has an encoder",
       [](package::PackageT &m) {
         m.encoder = std::make_unique<package::EncoderT>();
         m.encoder->embedding = std::make_unique<package::EmbeddingT>();
         m.encoder->embedding->dense = true;
       }},
      {"a model that does not encode has an encoder",
       [](package::PackageT &m) {
         addGraph(m);
         m.encoder = std::make_unique<package::EncoderT>();
         m.encoder->embedding = std::make_unique<package::EmbeddingT>();
         m.encoder->embedding->dense = true;
       }},
      {"encoder.vocab_size is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->vocab_size = 0;
       }},
      {"encoder.max_rows is 0",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->max_rows = 0;
       }},
      {"expected 1 … encoder.max_rows",
       [](package::PackageT &m) {
         makeEncoder(m);
         m.encoder->max_rows = m.context - 1;
       }},
      {"encoder.cross is missing",
       [](package::PackageT &m) {
         makeEncoderDecoder(m);
         m.encoder->cross.reset();
       }},
      {"encoder.cross.page_bytes is 0",
       [](package::PackageT &m) {
         makeEncoderDecoder(m);
         m.generation->decoder_start = 1;
         m.encoder->cross->page_bytes = 0;
       }},
      {"generation.decoder_start is missing", [](package::PackageT &m) { makeEncoderDecoder(m); }},
      {"generation.forced_bos is 256", [](package::PackageT &m) { m.generation->forced_bos = 256; }},
      {"generation.bad_words is 256", [](package::PackageT &m) { addBadWord(m, {1, 256}); }},
      {"generation.bad_words is -1", [](package::PackageT &m) { addBadWord(m, {-1}); }},
      {"the number of tokens of generation.bad_words is 1048577, expected at most 2^20",
       [](package::PackageT &m) {
         addBadWord(m, std::vector<int32_t>(1 << 20, 7));
         addBadWord(m, {7});
       }},
      {"generation.bad_words[0] is empty", [](package::PackageT &m) { addBadWord(m, {}); }},
      {"generation.num_beams is 0", [](package::PackageT &m) { m.generation->num_beams = 0; }},
      {"generation.length_penalty is inf", [](package::PackageT &m) { m.generation->length_penalty = INFINITY; }},
      {"memory.max_rows is 0", [](package::PackageT &m) { m.memory->max_rows = 0; }},
      {"memory.fixed + per_row", [](package::PackageT &m) { m.memory->per_row = UINT64_MAX; }},
      {"kv.page_bytes is 0", [](package::PackageT &m) { m.kv->page_bytes = 0; }},
      {"kv.page_bytes", [](package::PackageT &m) { m.kv->bytes_per_token = m.kv->page_bytes; }},
      {"kv.shapes is 0, expected layers of a page",
       [](package::PackageT &m) { m.kv->shapes.emplace_back(m.kv->num_layers, 1, 8, m.kv->page_bytes + 1); }},
      {"kv.shapes", [](package::PackageT &m) { m.kv->shapes.emplace_back(m.kv->num_layers, 1, 8, 1); }},
      {"generation.eos is 256", [](package::PackageT &m) { m.generation->eos = {256}; }},
      {"generation.eos is -1", [](package::PackageT &m) { m.generation->eos = {5, -1}; }},
      {"generation.top_p is 0", [](package::PackageT &m) { m.generation->top_p = 0; }},
      {"generation.min_p is 2", [](package::PackageT &m) { m.generation->min_p = 2; }},
      {"exceeds weights_size", [](package::PackageT &m) { m.weights[2]->offset = UINT64_MAX - 8; }},
      {"lacks its name, format or SHA-256", [](package::PackageT &m) { m.weights[2]->sha256.pop_back(); }},
      {"the header says", [](package::PackageT &m) { m.weights_size += 64; }},
      {"lacks does-not-exist", [](package::PackageT &m) { m.cpu_features = {"does-not-exist"}; }},
      {"vocab_size is 0", [](package::PackageT &m) { addVariant(m).vocab_size = 0; }},
      {"a variant has variants", [](package::PackageT &m) { addVariant(addVariant(m)); }},
      {"a variant is of another model", [](package::PackageT &m) { addVariant(m).name = "other"; }},
      {"weights_size of a variant", [](package::PackageT &m) { addVariant(m).weights_size += 64; }},
  };
  expectErrors(cases);
}

// Keys of 4096 heads of 2^52 bytes each would be 0 bytes in 64 bits.
TEST(PackageErrors, attentionsBeyondTheModel) {
  for (uint64_t headBytes : {uint64_t(HEDDLE_KV_PAGE_SIZE) * headDim * sizeof(float), uint64_t(1) << 52}) {
    bool isSound = headBytes < pageBytes;
    Parts parts;
    uint32_t heads = isSound ? numKvHeads : 4096;
    uint64_t width = uint64_t(heads) * headDim * sizeof(float);
    parts.metadata.memory->fixed = width * parts.metadata.memory->max_rows;
    parts.metadata.kernels.push_back(std::make_unique<package::KernelT>());
    parts.metadata.kernels.back()->name = "attention";
    auto attention = std::make_unique<package::AttentionT>();
    attention->num_heads = attention->num_kv_heads = heads;
    attention->head_dim = headDim;
    attention->kernels = {0};
    attention->query = std::make_unique<package::Place>(0, 0, width);
    attention->cached = true;
    attention->key_head_bytes = headBytes;
    parts.metadata.attentions.push_back(std::move(attention));
    std::unique_ptr<Package> opened;
    Bytes package = makePackage(parts.metadata, parts.weights);
    ASSERT_TRUE(open(makeElf(package, parts.weights), package, opened).isOk());
    Status status = AttentionRecorder(*opened, nullptr).prepare(3, 0);
    EXPECT_EQ(status.message(), isSound ? "" : "package: attention 0 does not fit the model");
  }
}

// Code for three machines, of which nobody has the last.
struct FatPackage {
  FatPackage() {
    parts.metadata.target = "least";
    package::PackageT &more = addVariant(parts.metadata), &never = addVariant(parts.metadata);
    more.target = "more";
#if defined(__x86_64__)
    more.cpu_features = {"sse3"};
#else
    more.cpu_features = {"neon"};
#endif
    more.context = 7;
    never.target = "never";
    never.cpu_features = {"does-not-exist", "nor-does-this"};
    bytes = makePackage(parts.metadata, parts.weights);
    code = moreCode = neverCode = makeCode(bytes);
    code.variants = variants;
  }

  Status open(std::string_view cpu, std::unique_ptr<Package> &out) {
    OpenOptions options;
    options.cpu = cpu;
    return Package::openFile(writeFile("package", makeElf(bytes, parts.weights)), &code, options, out);
  }

  Parts parts;
  Bytes bytes;
  heddle_model code, moreCode, neverCode;
  const heddle_model *variants[2] = {&moreCode, &neverCode};
};

TEST(PackageVariants, theBestThatThisMachineHasRuns) {
  FatPackage fat;
  std::unique_ptr<Package> opened;
  Status status = fat.open("", opened);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(&opened->code(), &fat.moreCode);
  EXPECT_EQ(opened->metadata().context(), 7u);
  std::string text = packageText(opened->onDisk());
  EXPECT_NE(text.find("variant            least (-): 0 bytes of weights of its own\n"), text.npos) << text;
  EXPECT_NE(
      text.find("bytes of weights of its own, chosen here\nvariant            never (does-not-exist nor-does-this)"),
      text.npos)
      << text;
  EXPECT_NE(text.find("shared weights     " + std::to_string(fat.parts.weights.size()) + " bytes\n"), text.npos)
      << text;
}

TEST(PackageVariants, oneCanBeAskedFor) {
  FatPackage fat;
  std::unique_ptr<Package> opened;
  ASSERT_TRUE(fat.open("least", opened).isOk());
  EXPECT_EQ(&opened->code(), &fat.code);
  expectError(fat.open("never", opened), "cpu never: this machine lacks does-not-exist, nor-does-this");
  Status unknown = fat.open("other", opened);
  EXPECT_EQ(unknown.exitCode(), 2);
  EXPECT_EQ(unknown.message(), "cpu 'other': the code is for least, more and never");
}

TEST(PackageVariants, codeWithoutThemIsRefused) {
  FatPackage fat;
  std::unique_ptr<Package> opened;
  fat.code.variants = nullptr;
  expectError(fat.open("", opened), "the code lacks a variant of the package");
  fat.code.variants = fat.variants;
  fat.moreCode.package_sha256[3] ^= 1;
  expectError(fat.open("", opened), "the package does not belong to this code");
}

// Code of an older compiler has no such field: it is not looked at.
TEST(PackageVariants, olderCodeEndsBeforeThem) {
  Parts parts;
  Bytes package = makePackage(parts.metadata, parts.weights);
  heddle_model code = makeCode(package);
  memset(static_cast<void *>(&code.variants), 0xff, sizeof code.variants);
  std::unique_ptr<Package> opened;
  Status status = Package::openFile(writeFile("package", makeElf(package, parts.weights)), &code, {}, opened);
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(&opened->code(), &code);
}

// A weight that only another variant reads is checked all the same, and so is the sidecar's hash of all.
TEST(PackageVariants, weightsOfAllAreChecked) {
  Parts parts;
  package::PackageT &variant = addVariant(parts.metadata);
  std::unique_ptr<package::WeightT> last = std::move(parts.metadata.weights.back());
  parts.metadata.weights.pop_back();
  variant.cpu_features = {"does-not-exist"};
  Bytes package = makePackage(parts.metadata, parts.weights);
  std::unique_ptr<Package> opened;
  ASSERT_TRUE(open(makeElf(package, parts.weights), package, opened).isOk());
  EXPECT_TRUE(opened->check().isOk());
  EXPECT_EQ(opened->onDisk().weightShares().own, (std::vector<uint64_t>{0, last->size}));
  Bytes damaged = parts.weights;
  damaged[last->offset] ^= 1;
  ASSERT_TRUE(open(makeElf(package, damaged), package, opened).isOk());
  expectError(opened->check(), "is damaged: SHA-256 differs");
}

} // namespace
