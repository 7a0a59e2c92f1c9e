// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// "post_processor" of tokenizer.json: which special tokens stand around a text, and around two that are joined.
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"

namespace heddle {
namespace {

class PostProcessorReader {
public:
  explicit PostProcessorReader(TokenizerDraft &draft) : draft(draft) {}
  Status read(JsonValue processor);

private:
  Status fail(const std::string &what) const { return errorIn(draft.file, what); }
  Status pieceId(JsonValue value, int64_t &id) const;
  Status appendSpecial(JsonValue known, JsonValue special, std::vector<int64_t> &out) const;
  Status readPair(JsonValue processor);
  Status readTemplate(JsonValue processor);

  TokenizerDraft &draft;
};

} // namespace

Status PostProcessorReader::pieceId(JsonValue value, int64_t &id) const {
  if (!value.integer(id) || id < 0 || id >= static_cast<int64_t>(draft.pieces.size()))
    return fail("post_processor: id " + printable(value.raw(), 40) + " is outside the vocabulary of " +
                std::to_string(draft.pieces.size()));
  return Status();
}

// Appends the ids of a special token that a template names.
Status PostProcessorReader::appendSpecial(JsonValue known, JsonValue special, std::vector<int64_t> &out) const {
  JsonValue ids = known.find(special.find("id").string()).find("ids");
  if (!ids.is(JsonKind::Array))
    return fail("post_processor: special token " + printable(special.find("id").raw(), 40) + " has no ids");
  for (JsonItems list(ids); list.next();) {
    int64_t id = 0;
    HEDDLE_RETURN_IF_ERROR(pieceId(list.value, id));
    out.push_back(id);
    if (out.size() > 64)
      return fail("post_processor adds more than the limit of 64 tokens");
  }
  return Status();
}

// "pair": sequences A and B. Where it has another form than package::TextPair, programs cannot join texts.
Status PostProcessorReader::readPair(JsonValue processor) {
  std::vector<int64_t> before;
  TokenizerDraft::Pair pair;
  unsigned sequences = 0;
  bool fits = true;
  for (JsonItems parts(processor.find("pair")); parts.next();) {
    JsonValue special = parts.value.find("SpecialToken"), sequence = parts.value.find("Sequence");
    int64_t type = 0;
    (special ? special : sequence).find("type_id").integer(type);
    if (special)
      HEDDLE_RETURN_IF_ERROR(appendSpecial(processor.find("special_tokens"), special,
                                           sequences == 0   ? before
                                           : sequences == 1 ? pair.middle
                                                            : pair.suffix));
    else if (++sequences == 2)
      pair.type = type > 0;
    fits &= special || sequence.find("id").equals(sequences == 1 ? "A" : "B");
    fits &= type == (sequences == 2 ? pair.type : 0);
  }
  if (fits && sequences == 2 && before == draft.prefix)
    draft.pair = std::move(pair);
  return Status();
}

// TemplateProcessing: what stands before and after sequence A in "single".
Status PostProcessorReader::readTemplate(JsonValue processor) {
  bool before = true;
  for (JsonItems parts(processor.find("single")); parts.next();) {
    JsonValue special = parts.value.find("SpecialToken");
    before &= bool(special);
    if (special)
      HEDDLE_RETURN_IF_ERROR(
          appendSpecial(processor.find("special_tokens"), special, before ? draft.prefix : draft.suffix));
  }
  return readPair(processor);
}

Status PostProcessorReader::read(JsonValue processor) {
  if (!processor || processor.is(JsonKind::Null))
    return Status();
  JsonValue type = processor.find("type");
  if (type.equals("Sequence")) {
    for (JsonItems parts(processor.find("processors")); parts.next();)
      HEDDLE_RETURN_IF_ERROR(read(parts.value));
    return Status();
  }
  if (type.equals("TemplateProcessing"))
    return readTemplate(processor);
  if (type.equals("BertProcessing") || type.equals("RobertaProcessing")) {
    for (auto [key, list] : {std::pair("cls", &draft.prefix), std::pair("sep", &draft.suffix)}) {
      JsonItems pair(processor.find(key));
      int64_t id = 0;
      if (!pair.next() || !pair.next())
        return fail("post_processor." + std::string(key) + " is not [token, id]");
      HEDDLE_RETURN_IF_ERROR(pieceId(pair.value, id));
      list->push_back(id);
    }
    draft.pair = TokenizerDraft::Pair{draft.suffix, draft.suffix, 1};
    if (type.equals("RobertaProcessing"))
      draft.pair = TokenizerDraft::Pair{{draft.suffix.back(), draft.suffix.back()}, draft.suffix, 0};
    return Status();
  }
  if (type.equals("ByteLevel"))
    return Status();
  return fail("post_processor type " + printable(type.raw(), 40) + " is not supported").as(StatusCode::Unsupported);
}

Status readPostProcessor(TokenizerDraft &draft, JsonValue processor) {
  return PostProcessorReader(draft).read(processor);
}

} // namespace heddle
