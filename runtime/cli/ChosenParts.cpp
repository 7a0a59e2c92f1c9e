// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle_chosen_parts.o: the tables of parts of a compiled executable, which stand in for those of libheddle.a. `heddle compile` names the parts that
// the model needs (compiler/package/Parts.cpp): --defsym=heddle_use_NAME=heddle_part_NAME. The address of what it does not name is null, and
// --gc-sections drops the part.
#include "runtime/cli/ProgramParts.h"
#include "runtime/session/SessionParts.h"
#include "runtime/text/tokenizer/TextParts.h"

#define HEDDLE_USE(type, name) extern const heddle::type heddle_use_##name __attribute__((weak, visibility("hidden")))

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

HEDDLE_USE(RegexEngine, regex);
HEDDLE_USE(UnicodeData, unicode);
const heddle_text_parts_table heddle_text_parts = {&heddle_use_regex, &heddle_use_unicode};

HEDDLE_USE(DeviceSupport, devices);
HEDDLE_USE(EncoderSupport, encoder);
HEDDLE_USE(GivenSupport, given);
const heddle_session_parts_table heddle_session_parts = {&heddle_use_devices, &heddle_use_encoder, &heddle_use_given};

HEDDLE_USE(CommandPart, speech);
HEDDLE_USE(CommandPart, generating);
HEDDLE_USE(CommandPart, chat);
HEDDLE_USE(CommandPart, images);
HEDDLE_USE(CommandPart, texts);
HEDDLE_USE(CommandPart, encoding);
HEDDLE_USE(CommandPart, graphs);
HEDDLE_USE(CommandPart, attention);
HEDDLE_USE(SightSupport, sight);
const heddle_program_parts_table heddle_program_parts = {{&heddle_use_speech, &heddle_use_generating, &heddle_use_chat,
                                                          &heddle_use_images, &heddle_use_texts, &heddle_use_encoding,
                                                          &heddle_use_graphs, &heddle_use_attention},
                                                         &heddle_use_sight};

} // extern "C"
// NOLINTEND(readability-identifier-naming)
