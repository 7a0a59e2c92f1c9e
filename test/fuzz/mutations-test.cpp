// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A few thousand changes of good inputs, the same ones every time. The fuzzers go on from there.
#include "runtime/Package.h"
#include "test/fuzz/Mutator.h"
#include "test/fuzz/Targets.h"
#include "test/unit/TestPackage.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;
using fuzz::Mutator;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << path;
  return bytes;
}

std::string withLength(const std::string &header, const std::string &data) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i)
    length[i] = char(header.size() >> 8 * i);
  return length + header + data;
}

std::string tinySafetensors() {
  std::string header = R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                       R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"empty":{"dtype":"I64","shape":[0],"data_offsets":[32,32]}})";
  return withLength(header, std::string(32, '\1'));
}

TEST(Mutations, safetensorsHeaders) {
  const std::string file = tinySafetensors(), header = file.substr(8, file.size() - 40), data = file.substr(file.size() - 32);
  ASSERT_EQ(fuzz::safetensors(file), "");
  Mutator mutator(1, {"\"shape\":", "\"dtype\":", "\"data_offsets\":", "[", "]", "{", "}", ",", ":", "\"", "\\", "\\u0000", "\"F8_E4M3\"",
                      "\"__metadata__\":", "[0,0]", "null", "true", "1e5", "\xff", std::string(1, '\0')});
  for (int i = 0; i < 3000; ++i) {
    // The length fits the header, so that this is what is read; now and then any byte of the file changes.
    std::string bytes = i % 8 ? withLength(mutator.mutate(header), data) : mutator.mutate(file);
    ASSERT_EQ(fuzz::safetensors(bytes), "") << "case " << i << ": " << bytes;
  }
}

TEST(Mutations, checkpoints) {
  std::string config = readFile(HEDDLE_TEST_MODELS "/llama/config.json");
  std::string split = {char(config.size()), char(config.size() >> 8)};
  Mutator mutator(2, {"null", "true", "[]", "{}", "-1", "0", "1e400", "\"llama\"", "\"hidden_size\":", "\"num_key_value_heads\":",
                      "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.0},", "\"sliding_window\":4,", "[[[[[[[["});
  for (int i = 0; i < 1500; ++i) {
    std::string changed = mutator.mutate(config), length = {char(changed.size()), char(changed.size() >> 8)};
    ASSERT_EQ(fuzz::huggingFace(length + changed + tinySafetensors()), "") << "case " << i << ": " << changed;
  }
}

TEST(Mutations, chatTemplates) {
  const std::string sources[] = {
      "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message.content | trim + '<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      "{%- set ns = namespace(found=false, count=0) -%}{%- for m in messages -%}{%- if loop.first and m.role == 'system' -%}"
      "{%- set ns.found = true -%}[{{ loop.index0 }}/{{ loop.length }}]{%- elif not loop.last -%}{{ m.content[:2] ~ m.content[::-1] }}"
      "{%- else -%}{{ raise_exception('odd ' ~ ns.count) if ns.count % 2 else m.content | upper | replace('H', 'J') }}{%- endif -%}"
      "{%- set ns.count = ns.count + 1 -%}{%- endfor -%}",
      "{% macro show(x, depth=2) %}{{ x | tojson(indent=depth) }}{% if depth > 0 %}{{ show(x, depth - 1) }}{% endif %}{% endmacro %}"
      "{{ show(tools) }}{# note #}{{ [1, 2.5, 'a', {'k': none}] | join(', ') }}{{ range(3) | list | length // 2 }}{{ 'x' in 'xyz' }}"};
  Mutator mutator(3, {"{{", "}}", "{%", "%}", "{%-", "-%}", "{#", "#}", "|", "(", ")", "[", "]", "'", "\"", "~", "**", "//", "%", " not ",
                      " in ", " is defined", "range(1000000000)", "messages", "loop", "self", "__class__", " * 1000000", "{% for x in y %}",
                      "{% endfor %}", "{% if true %}", "{% endif %}", "\\x", "\xf0\x9f", std::string(1, '\0'), "\1{\"messages\": [[[["});
  for (const std::string &source : sources)
    for (int i = 0; i < 1500; ++i) {
      std::string changed = mutator.mutate(source);
      ASSERT_EQ(fuzz::chatTemplate(changed), "") << "case " << i << ": " << changed;
    }
}

struct PackageParts {
  reference::Bytes weights = reference::readWeights();
  reference::Bytes bytes = reference::makePackage(reference::makeMetadata(weights), weights);
  heddle_model code = reference::makeCode(bytes);
};

std::vector<std::string> binaryWords() {
  std::vector<std::string> words;
  for (size_t size : {2, 4, 8})
    for (char fill : {'\0', '\1', '\x7f', '\xff'})
      words.push_back(std::string(size, fill));
  return words;
}

TEST(Mutations, packageMetadata) {
  PackageParts parts;
  std::string metadata(parts.bytes.begin() + sizeof(heddle_package_header), parts.bytes.end());
  ASSERT_EQ(fuzz::packageMetadata(metadata), "");
  Mutator mutator(4, binaryWords());
  for (int i = 0; i < 3000; ++i)
    ASSERT_EQ(fuzz::packageMetadata(mutator.mutate(metadata)), "") << "case " << i;
}

// Every change of header or metadata is found at load.
TEST(Mutations, packagesOnDisk) {
  PackageParts parts;
  const std::string good(parts.bytes.begin(), parts.bytes.end());
  Mutator mutator(5, binaryWords());
  for (int i = 0; i < 300; ++i) {
    std::string changed = mutator.mutate(good);
    if (changed == good)
      continue;
    reference::Bytes file = reference::makeElf(reference::Bytes(changed.begin(), changed.end()), parts.weights);
    std::unique_ptr<Package> opened;
    Status status = Package::openFile(reference::writeFile("mutated", file), &parts.code, opened);
    ASSERT_FALSE(status.isOk()) << "case " << i;
    ASSERT_EQ(fuzz::wrongMessage(status.message()), "") << "case " << i;
  }
}

} // namespace
