// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/PreTokenizers.h"

namespace heddle {

#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES
#define WORD R"(|[^\r\n\p{L}\p{N}]?\p{L}+)"
#define LLAMA3 CONTRACTIONS WORD R"(|\p{N}{1,3})" TAIL
#define QWEN2 CONTRACTIONS WORD R"(|\p{N})" TAIL
// Words that change case inside are cut where they do (o200k, Tekken, Kimi), the first alternatives of a pattern.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED_WORD(upper, lower, ending)                                                                               \
  R"([^\r\n\p{L}\p{N}]?)" upper "*" lower "+" ending R"(|[^\r\n\p{L}\p{N}]?)" upper "+" lower "*" ending
#define CASED_TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES
#define GPT4O CASED_WORD(UPPER, LOWER, CONTRACTIONS "?") R"(|\p{N}{1,3})" CASED_TAIL
// Those letters that are not Han: what is in no other category.
#define UPPER_NOT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"
#define LOWER_NOT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"
// The cased letters that DeepSeek LLM lists; not quite a Unicode category.
#define CASED                                                                                                                 \
  R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373})"       \
  R"(\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481})"         \
  R"(\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"    \
  R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"                 \
  R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC})"          \
  R"(\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"         \
  R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"   \
  R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"  \
  R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})" \
  R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"               \
  R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
#define CJK R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"
#define IDEOGRAPHS_AND_KANA R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define DEEPSEEK3_WORD                                                                                                 \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
// Words end at punctuation of several scripts, which stays between them (BLOOM).
#define BLOOM R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"

const char *const gpt2Pattern = GPT2;

namespace {
struct Entry {
  std::vector<const char *> names;
  NamedPreTokenizer value;
};
} // namespace

static const std::vector<Entry> &entries() {
  using Bos = NamedPreTokenizer::Bos;
  constexpr bool ignoreMerges = true;
  static const std::vector<Entry> table = {
      {{"gpt-2",      "gpt2",         "default",    "phi-2",    "jina-es",  "jina-de",     "jina-v2-es",
        "jina-v2-de", "jina-v2-code", "jina-v1-en", "gigachat", "exaone4",  "roberta-bpe", "mpt",
        "olmo",       "jais",         "a.x-4.0",    "mellum",   "trillion", "modern-bert", "granite-docling"},
       {{GPT2}}},
      {{"llama3", "llama-bpe", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {{LLAMA3}, Bos::ByDefault, ignoreMerges}},
      {{"glm4", "glm5"}, {{LLAMA3}, Bos::AsTold, ignoreMerges}},
      {{"smaug-bpe", "dbrx", "chatglm-bpe"}, {{LLAMA3}}},
      {{"jais-2"},
       {{CONTRACTIONS WORD
         R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S))"
         R"(|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}}},
      {{"minicpm5"}, {{R"(\p{N}{1,3})", CONTRACTIONS WORD R"(|\p{N}+)" TAIL}, Bos::AsTold, ignoreMerges}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez", "kormo", "f2llmv2", "solar-open", "grok-2"},
       {{QWEN2}}},
      {{"qwen35"}, {{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" SPACES}}},
      {{"laguna"}, {{R"(\n+)", QWEN2}}},
      {{"ufakzeka"}, {{R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" TAIL}}},
      {{"seed-coder"}, {{CONTRACTIONS WORD R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" SPACES}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {{R"('(?i:[sdmt]|ll|ve|re))" WORD R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
      {{"exaone-moe"},
       {{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                      R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "granite", "exaone", "minerva-7b", "mellum2"},
       {{R"(\p{N})", GPT2}}},
      {{"falcon"}, {{R"([\p{P}\$\+<=>\^~\|`]+)", GPT2, R"([0-9][0-9][0-9])"}}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{BLOOM}}},
      {{"viking"}, {{BLOOM, R"(\p{N})"}}},
      {{"chameleon"},
       {{R"(<sentinel:[0-9]+>)", R"(IMGIMG[A-I]{1,4}Z)", R"([\t\n]|    |  )", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])",
         GPT2},
        Bos::ByDefault}},
      {{"superbpe"}, {{R"(\p{N}+)", R"((?=(?:\d{3})+(?!\d)))"}}},
      {{"deepseek-llm"},
       {{R"([\r\n])", R"(\s?[)" CASED R"(]+)",
         R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+$)", CJK,
         R"(\p{N}+)"}}},
      {{"deepseek-coder"}, {{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", CJK, R"(\p{N})"}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {{R"(\p{N}{1,3})", IDEOGRAPHS_AND_KANA, DEEPSEEK3_WORD R"([\r\n]*)" SPACES}}},
      // Runs of digits are cut by threes from their end; then several scripts without spaces.
      {{"afmoe"},
       {{R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))",
         R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
         R"(\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF})"
         R"(\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)",
         DEEPSEEK3_WORD R"([\r\n]*)" SPACES}}},
      {{"spark2_5"}, {{R"(\p{N}{1,3})", IDEOGRAPHS_AND_KANA, DEEPSEEK3_WORD R"(|[\r\n]|\s+(?!\S)|\s+)", R"(\p{N})"}}},
      {{"tekken"}, {{CASED_WORD(UPPER, LOWER, "") R"(|\p{N})" CASED_TAIL}, Bos::ByDefault, ignoreMerges}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {{GPT4O}}},
      {{"granite-embed-multi-97m"}, {{GPT4O}, Bos::AsTold, ignoreMerges}},
      // Behind a digit, \b is where no word goes on.
      {{"tiny_aya", "cohere2moe"}, {{R"(\d{1,3}(?=(?:\d{3})*(?!\w)))", GPT4O}}},
      {{"youtu"},
       {{R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A})"
         R"(\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|)" IDEOGRAPHS_AND_KANA,
         CASED_WORD(UPPER, LOWER, CONTRACTIONS "?") R"(|\p{N})" CASED_TAIL},
        Bos::AsTold,
        ignoreMerges}},
      {{"kimi-k2"},
       {{R"(\p{sc:Han}+|)" CASED_WORD(UPPER_NOT_HAN, LOWER_NOT_HAN, CONTRACTIONS "?") R"(|\p{N}{1,3})" TAIL}}},
      {{"gemma4", "granite-embed-multi-311m"}, {{R"(\n+)"}, Bos::Always, false, /*isByteLevel=*/false}},
      {{"sarvam-moe"}, {{R"(\n+)"}, Bos::AsTold, false, /*isByteLevel=*/false}},
  };
  return table;
}

const NamedPreTokenizer *findPreTokenizer(std::string_view name) {
  for (const Entry &entry : entries())
    for (const char *known : entry.names)
      if (name == known)
        return &entry.value;
  return nullptr;
}

std::string knownPreTokenizers() {
  std::string list;
  for (const Entry &entry : entries())
    for (const char *known : entry.names)
      list += (list.empty() ? "" : ", ") + std::string(known);
  return list;
}

} // namespace heddle
