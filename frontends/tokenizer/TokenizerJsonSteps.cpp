// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/PreTokenizers.h"
#include "frontends/tokenizer/StepRecipes.h"
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"

namespace heddle {

using package::SplitBehavior;
using package::TextOp;

namespace {

// Reads one of the three pipelines; an object with "type", or a Sequence of them.
class StepReader {
public:
  StepReader(TokenizerDraft &draft, const char *field, std::vector<StepDraft> &steps)
      : draft(draft), field(field), steps(steps) {}

  Status readNormalizer(JsonValue step);
  Status readPreTokenizer(JsonValue step);
  Status readDecoder(JsonValue step);
  bool byteLevel = false;

private:
  static constexpr size_t maxSteps = 64;
  Status fail(const std::string &what) const { return errorIn(draft.file, field + ": " + what); }
  Status unsupported(JsonValue type) const {
    return fail("type " + printable(type.raw(), 40) + " is not supported").as(StatusCode::Unsupported);
  }
  Status push(StepDraft step);
  Status sequence(JsonValue step, const char *key, Status (StepReader::*read)(JsonValue));
  Status pattern(JsonValue step, StepDraft &out) const;
  Status behavior(JsonValue step, SplitBehavior standard, SplitBehavior &out) const;
  Status readBertNormalizer(JsonValue step);
  Status readMetaspace(JsonValue step);

  TokenizerDraft &draft;
  std::string field; // of the object that is being read, from the root: pre_tokenizer.pretokenizers[1]
  std::vector<StepDraft> &steps;
};

} // namespace

static bool flag(JsonValue step, const char *key, bool standard) {
  JsonValue value = step.find(key);
  return value.is(JsonKind::Bool) ? value.isTrue() : standard;
}

static std::string textOf(JsonValue step, const char *key, const char *standard) {
  JsonValue value = step.find(key);
  return value.is(JsonKind::String) ? value.string() : standard;
}

Status StepReader::push(StepDraft step) {
  if (steps.size() >= maxSteps)
    return fail("more steps than the limit of " + std::to_string(maxSteps));
  if (step.field.empty())
    step.field = field;
  steps.push_back(std::move(step));
  return Status();
}

Status StepReader::sequence(JsonValue step, const char *key, Status (StepReader::*read)(JsonValue)) {
  JsonValue list = step.find(key);
  if (!list.is(JsonKind::Array))
    return fail("a Sequence without its list " + std::string(key));
  size_t count = 0;
  for (JsonItems items(list); items.next();)
    if (++count > maxSteps)
      return fail("a Sequence exceeds the limit of " + std::to_string(maxSteps) + " steps");
  const std::string outer = field;
  count = 0;
  for (JsonItems items(list); items.next();) {
    field = outer + "." + key + "[" + std::to_string(count++) + "]";
    HEDDLE_RETURN_IF_ERROR((this->*read)(items.value));
  }
  field = outer;
  return Status();
}

// {"String": …} or {"Regex": …}.
Status StepReader::pattern(JsonValue step, StepDraft &out) const {
  JsonValue pattern = step.find("pattern"), literal = pattern.find("String"), regex = pattern.find("Regex");
  if (!literal.is(JsonKind::String) && !regex.is(JsonKind::String))
    return fail("pattern is neither a String nor a Regex: " + printable(pattern.raw(), 80));
  out.pattern = literal ? literal.string() : regex.string();
  out.flags |= literal ? 0 : 1;
  out.field = field + (literal ? ".pattern.String" : ".pattern.Regex");
  return Status();
}

Status StepReader::behavior(JsonValue step, SplitBehavior standard, SplitBehavior &out) const {
  static constexpr struct {
    const char *name, *other;
    SplitBehavior value;
  } known[] = {{"Isolated", "isolated", SplitBehavior::Isolated},
               {"Removed", "removed", SplitBehavior::Removed},
               {"MergedWithPrevious", "merged_with_previous", SplitBehavior::MergedWithPrevious},
               {"MergedWithNext", "merged_with_next", SplitBehavior::MergedWithNext},
               {"Contiguous", "contiguous", SplitBehavior::Contiguous}};
  JsonValue name = step.find("behavior");
  out = standard;
  if (!name)
    return Status();
  for (const auto &entry : known)
    if (name.equals(entry.name) || name.equals(entry.other)) {
      out = entry.value;
      return Status();
    }
  return fail("behavior " + printable(name.raw(), 40) + " is unknown");
}

Status StepReader::readBertNormalizer(JsonValue step) {
  bool lowercase = flag(step, "lowercase", true);
  addBertNormalizer(draft, lowercase, flag(step, "strip_accents", lowercase), flag(step, "clean_text", true),
                    flag(step, "handle_chinese_chars", true));
  return Status();
}

static bool decodeBase64(std::string_view text, std::string &out) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=')
    text.remove_suffix(1);
  for (char c : text) {
    size_t digit = digits.find(c);
    if (digit == std::string_view::npos)
      return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return true;
}

Status StepReader::readNormalizer(JsonValue step) {
  if (!step || step.is(JsonKind::Null))
    return Status();
  JsonValue type = step.find("type");
  static constexpr struct {
    const char *name;
    TextOp op;
    uint32_t flags = 0;
  } plain[] = {{"NFC", TextOp::Nfc},
               {"NFD", TextOp::Nfd},
               {"NFKC", TextOp::Nfkc},
               {"NFKD", TextOp::Nfkd},
               {"Lowercase", TextOp::Lowercase},
               {"StripAccents", TextOp::StripAccents, 1}};
  for (const auto &entry : plain)
    if (type.equals(entry.name))
      return push(StepDraft{entry.op, {}, {}, {}, entry.flags});
  if (type.equals("Sequence"))
    return sequence(step, "normalizers", &StepReader::readNormalizer);
  if (type.equals("BertNormalizer"))
    return readBertNormalizer(step);
  if (type.equals("ByteLevel")) {
    byteLevel = true;
    return Status();
  }
  if (type.equals("Prepend"))
    return push(StepDraft::prepend(textOf(step, "prepend", "")));
  if (type.equals("Strip"))
    return push(StepDraft{TextOp::Strip,
                          {},
                          {},
                          {},
                          (flag(step, "strip_left", true) ? 1u : 0) | (flag(step, "strip_right", true) ? 2u : 0)});
  if (type.equals("Replace")) {
    StepDraft replace = StepDraft::replace("", textOf(step, "content", ""));
    HEDDLE_RETURN_IF_ERROR(pattern(step, replace));
    return push(std::move(replace));
  }
  if (type.equals("Nmt")) {
    StepDraft drop = StepDraft::replace(R"([\x{1}-\x{8}\x{B}\x{E}-\x{1F}\x{7F}\x{8F}\x{9F}])", "");
    StepDraft space = StepDraft::replace(
        R"([\x{9}\x{A}\x{C}\x{D}\x{1680}\x{200B}-\x{200F}\x{2028}\x{2029}\x{2581}\x{FEFF}\x{FFFD}])", " ");
    drop.flags = space.flags = 1;
    HEDDLE_RETURN_IF_ERROR(push(std::move(drop)));
    return push(std::move(space));
  }
  if (type.equals("Precompiled")) {
    StepDraft charsmap = StepDraft::of(TextOp::Charsmap);
    if (!decodeBase64(textOf(step, "precompiled_charsmap", ""), charsmap.bytes))
      return fail("precompiled_charsmap is not base64");
    charsmap.field = field + ".precompiled_charsmap";
    return charsmap.bytes.empty() ? Status() : push(std::move(charsmap));
  }
  return unsupported(type);
}

// "▁" before words. prepend_scheme says where, in older files add_prefix_space.
Status StepReader::readMetaspace(JsonValue step) {
  StepDraft metaspace{TextOp::Metaspace, {}, textOf(step, "replacement", wordMark), {}};
  JsonValue scheme = step.find("prepend_scheme");
  bool first = scheme.equals("first"),
       never = scheme.equals("never") || (!scheme && !flag(step, "add_prefix_space", true));
  metaspace.flags = (never ? 0u : first ? 2u : 1u) | (flag(step, "split", true) ? 4u : 0u);
  return push(std::move(metaspace));
}

Status StepReader::readPreTokenizer(JsonValue step) {
  if (!step || step.is(JsonKind::Null))
    return Status();
  JsonValue type = step.find("type");
  constexpr const char *punctuation = R"([\p{P}!-/:-@\[-`{-~])";
  if (type.equals("Sequence"))
    return sequence(step, "pretokenizers", &StepReader::readPreTokenizer);
  if (type.equals("ByteLevel")) {
    byteLevel = true;
    if (flag(step, "add_prefix_space", true))
      HEDDLE_RETURN_IF_ERROR(push(StepDraft::of(TextOp::PrefixSpace)));
    return flag(step, "use_regex", true) ? push(StepDraft::split(gpt2Pattern)) : Status();
  }
  if (type.equals("Metaspace"))
    return readMetaspace(step);
  if (type.equals("Split")) {
    StepDraft split{TextOp::Split, {}, {}, {}, flag(step, "invert", false) ? 2u : 0u};
    HEDDLE_RETURN_IF_ERROR(pattern(step, split));
    HEDDLE_RETURN_IF_ERROR(behavior(step, SplitBehavior::Isolated, split.behavior));
    return push(std::move(split));
  }
  // A step after ByteLevel sees the printable alphabet, in which only ASCII digits are still themselves.
  if (type.equals("Digits"))
    return push(StepDraft::split(byteLevel ? "[0-9]" : R"(\p{N})", flag(step, "individual_digits", false)
                                                                       ? SplitBehavior::Isolated
                                                                       : SplitBehavior::Contiguous));
  if (type.equals("Whitespace"))
    return push(StepDraft::split(R"([\w\p{Join_Control}]+|[^\w\s\p{Join_Control}]+)", SplitBehavior::Removed, true));
  if (type.equals("WhitespaceSplit"))
    return push(StepDraft::split(R"(\s)", SplitBehavior::Removed));
  if (type.equals("CharDelimiterSplit"))
    return push(StepDraft{TextOp::Split, textOf(step, "delimiter", " "), {}, {}, 0, SplitBehavior::Removed});
  if (type.equals("Punctuation")) {
    StepDraft split = StepDraft::split(punctuation);
    HEDDLE_RETURN_IF_ERROR(behavior(step, SplitBehavior::Isolated, split.behavior));
    return push(std::move(split));
  }
  if (type.equals("BertPreTokenizer")) {
    HEDDLE_RETURN_IF_ERROR(push(StepDraft::split(R"(\s)", SplitBehavior::Removed)));
    return push(StepDraft::split(punctuation));
  }
  return unsupported(type);
}

Status StepReader::readDecoder(JsonValue step) {
  JsonValue type = step.find("type");
  if (type.equals("Sequence"))
    return sequence(step, "decoders", &StepReader::readDecoder);
  if (type.equals("ByteLevel")) {
    byteLevel = true;
    return Status();
  }
  if (type.equals("ByteFallback"))
    return push(StepDraft::of(TextOp::ByteFallback));
  if (type.equals("Fuse"))
    return push(StepDraft::of(TextOp::Fuse));
  if (type.equals("Metaspace"))
    return readMetaspace(step);
  if (type.equals("Replace")) {
    StepDraft replace = StepDraft::replace("", textOf(step, "content", ""));
    HEDDLE_RETURN_IF_ERROR(pattern(step, replace));
    if (replace.flags & 1)
      return errorIn(draft.file, replace.field + ": a decoder that replaces by a regex pattern is not supported: " +
                                     printable(replace.pattern, 80));
    return push(std::move(replace));
  }
  if (type.equals("Strip")) {
    int64_t start = 0, stop = 0;
    if (!step.find("start").integer(start) || !step.find("stop").integer(stop) || start < 0 || stop < 0 ||
        start > 1000 || stop > 1000)
      return fail("Strip without start and stop between 0 and 1000");
    return push(StepDraft{TextOp::TrimToken,
                          {},
                          textOf(step, "content", " "),
                          {},
                          0,
                          SplitBehavior::Isolated,
                          static_cast<uint32_t>(start),
                          static_cast<uint32_t>(stop)});
  }
  if (type.equals("WordPiece"))
    return push(
        StepDraft{TextOp::WordJoin, textOf(step, "prefix", "##"), {}, {}, flag(step, "cleanup", true) ? 1u : 0u});
  if (type.equals("BPEDecoder"))
    return push(StepDraft{TextOp::SuffixJoin, textOf(step, "suffix", "</w>"), {}, {}});
  return unsupported(type);
}

Status readTextSteps(JsonValue root, TokenizerDraft &draft, bool &byteLevel) {
  StepReader normalizer(draft, "normalizer", draft.normalizer);
  HEDDLE_RETURN_IF_ERROR(normalizer.readNormalizer(root.find("normalizer")));
  StepReader preTokenizer(draft, "pre_tokenizer", draft.preTokenizer);
  HEDDLE_RETURN_IF_ERROR(preTokenizer.readPreTokenizer(root.find("pre_tokenizer")));
  StepReader decoder(draft, "decoder", draft.decoder);
  JsonValue decoding = root.find("decoder");
  if (decoding && !decoding.is(JsonKind::Null))
    HEDDLE_RETURN_IF_ERROR(decoder.readDecoder(decoding));
  byteLevel = normalizer.byteLevel || preTokenizer.byteLevel || decoder.byteLevel;
  if ((!decoding || decoding.is(JsonKind::Null)) && !byteLevel)
    draft.decoder.push_back(StepDraft::of(TextOp::SpaceJoin));
  return Status();
}

} // namespace heddle
