// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A few thousand changes of good inputs, the same ones every time. The fuzzers go on from there.
#include "runtime/session/Package.h"
#include "test/fuzz/SafetensorsMutations.h"
#include "test/fuzz/Targets.h"
#include "test/unit/TestPackage.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace heddle;
using fuzz::Mutator;

namespace {

TEST(Mutations, tensorsOfARequest) {
  EXPECT_EQ(fuzz::mutateSafetensors(fuzz::request), "");
}

// Changed files of images are refused in one line, or are images.
TEST(Mutations, images) {
  for (const char *name : {"photo.jpg", "progressive.jpg", "cmyk.jpg", "turned.jpg", "palette.png", "interlaced.png"}) {
    std::ifstream file(std::string(HEDDLE_TEST_DIR "/models/images/files/") + name, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    ASSERT_GT(bytes.str().size(), 0u) << name;
    Mutator mutator(5, {"\xff\xd8", "\xff\xc0", "\xff\xc2", "\xff\xc4", "\xff\xda", "\xff\xd9", "\xff\xdb", "\xff\xee",
                        "IHDR", "IDAT", "PLTE", "tRNS", "eXIf", "IEND", "Adobe", "II*"});
    for (int i = 0; i < 250; ++i) {
      std::string changed = mutator.mutate(bytes.str());
      ASSERT_EQ(fuzz::image(changed), "") << name << ", case " << i;
    }
  }
}

TEST(Mutations, chatTemplates) {
  const std::string sources[] = {"{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + "
                                 "'\n' + message.content | trim + '<|im_end|>\n' }}"
                                 "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
                                 "{%- set ns = namespace(found=false, count=0) -%}{%- for m in messages -%}{%- if "
                                 "loop.first and m.role == 'system' -%}"
                                 "{%- set ns.found = true -%}[{{ loop.index0 }}/{{ loop.length }}]{%- elif not "
                                 "loop.last -%}{{ m.content[:2] ~ m.content[::-1] }}"
                                 "{%- else -%}{{ raise_exception('odd ' ~ ns.count) if ns.count % 2 else m.content | "
                                 "upper | replace('H', 'J') }}{%- endif -%}"
                                 "{%- set ns.count = ns.count + 1 -%}{%- endfor -%}",
                                 "{% macro show(x, depth=2) %}{{ x | tojson(indent=depth) }}{% if depth > 0 %}{{ "
                                 "show(x, depth - 1) }}{% endif %}{% endmacro %}"
                                 "{{ show(tools) }}{# note #}{{ [1, 2.5, 'a', {'k': none}] | join(', ') }}{{ range(3) "
                                 "| list | length // 2 }}{{ 'x' in 'xyz' }}"};
  Mutator mutator(3, {"{{",
                      "}}",
                      "{%",
                      "%}",
                      "{%-",
                      "-%}",
                      "{#",
                      "#}",
                      "|",
                      "(",
                      ")",
                      "[",
                      "]",
                      "'",
                      "\"",
                      "~",
                      "**",
                      "//",
                      "%",
                      " not ",
                      " in ",
                      " is defined",
                      "range(1000000000)",
                      "messages",
                      "loop",
                      "self",
                      "namespace({1: 2})",
                      " | sort",
                      " | tojson(sort_keys=true)",
                      "{##}",
                      "__class__",
                      " * 1000000",
                      "{% for x in y %}",
                      "{% endfor %}",
                      "{% if true %}",
                      "{% endif %}",
                      "\\x",
                      "\xf0\x9f",
                      std::string(1, '\0'),
                      "\1{\"messages\": [[[["});
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
    Status status = Package::openFile(reference::writeFile("mutated", file), &parts.code, {}, opened);
    ASSERT_FALSE(status.isOk()) << "case " << i;
    ASSERT_EQ(fuzz::wrongMessage(status.message()), "") << "case " << i;
  }
}

} // namespace
