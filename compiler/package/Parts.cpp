// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/package/Parts.h"

#include "runtime/model/ModelKind.h"
#include "runtime/text/tokenizer/TextParts.h"

using namespace heddle;
using package::Package;

namespace {

TextPartsNeeded textParts(const Package &metadata) {
  return hasTokenizer(metadata) ? textPartsOf(*metadata.tokenizer()) : TextPartsNeeded();
}

bool isGiven(const Package &metadata) {
  return metadata.given();
}

bool hasEncoder(const Package &metadata) {
  return metadata.encoder();
}

struct Part {
  const char *name;
  bool (*isNeeded)(const Package &metadata);
};

// What each is: TextParts.h, SessionParts.h and ProgramParts.h of the runtime.
constexpr Part parts[] = {
    {"regex", [](const Package &metadata) { return textParts(metadata).regex; }},
    {"unicode", [](const Package &metadata) { return textParts(metadata).unicode; }},
    {"devices", runsOnDevice},
    {"encoder", hasEncoder},
    {"given", isGiven},
    {"speech", hears},
    {"generating", generates},
    {"chat", chats},
    {"images", embedsTensors},
    {"texts", encodesTexts},
    {"encoding", isEncoder},
    {"graphs", isGraph},
    {"attention", showsAttention},
    {"sight", isGiven},
};

} // namespace

llvm::SmallVector<llvm::StringRef> heddle::partsOf(const Package &metadata) {
  llvm::SmallVector<llvm::StringRef> needed;
  for (const Part &part : parts)
    if (part.isNeeded(metadata))
      needed.push_back(part.name);
  return needed;
}
