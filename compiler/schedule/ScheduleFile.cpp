// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes files of schedules. What a file says is input: each field is checked, and unknown ones are refused, since one that is
// spelled wrong would be a schedule that silently does nothing.

#include "compiler/schedule/ScheduleFile.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/MappedFile.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/schedule/TunedSchedules.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

static constexpr uint64_t maxFileBytes = 16 << 20;

namespace {

class ScheduleReader {
public:
  ScheduleReader(const std::string &path, TargetAttr target, MLIRContext *context)
      : path(path), target(target), b(context) {}
  Status read(JsonValue file, ArrayAttr &outEntries);

private:
  Status refuse(const Twine &why) const {
    std::string where = entry ? "entry " + std::to_string(entry) + ": " : "";
    return invalidInput(path + ": " + where + why.str()).inFile(path);
  }
  Status checkMembers(JsonValue object, StringRef name, ArrayRef<StringRef> known) const;
  Status checkTarget(JsonValue described) const;
  Status readMatch(JsonValue match, DictionaryAttr &out);
  Status readSchedule(JsonValue text, ScheduleAttr &out);
  Status readEntry(JsonValue value, Attribute &out);
  ScheduleAttr baseOf(DictionaryAttr match) const;

  const std::string &path;
  TargetAttr target;
  Builder b;
  size_t entry = 0; // that is being read, from 1
};

} // namespace

// `object` is one, of members that are known.
Status ScheduleReader::checkMembers(JsonValue object, StringRef name, ArrayRef<StringRef> known) const {
  if (!object.is(JsonKind::Object))
    return refuse(name + ": an object with " + llvm::join(known, ", ") + " is expected");
  for (JsonItems items(object); items.next();)
    if (std::string key = items.key.string(); !llvm::is_contained(known, key))
      return refuse(name + ": '" + printable(key) + "' is none of " + llvm::join(known, ", "));
  return Status();
}

// Measured figures hold for the code that was measured: code is another one where the registers are, or the instructions.
Status ScheduleReader::checkTarget(JsonValue described) const {
  HEDDLE_RETURN_IF_ERROR(checkMembers(described, "target", {"name", "lanes", "registers", "features"}));
  JsonValue features = described.find("features");
  int64_t lanes = 0, registers = 0;
  if (!described.find("lanes").integer(lanes) || !described.find("registers").integer(registers) ||
      !features.is(JsonKind::Array))
    return refuse("target: lanes and registers, two numbers, and features, a list of names, are expected");
  if (target.getDevice() != TargetDevice::Cpu)
    return refuse("the schedules are a CPU's, and target " + target.getName() + " is none");
  std::string difference;
  SmallVector<std::string> measured;
  for (JsonItems items(features); items.next();)
    measured.push_back(items.value.string());
  for (const std::string &feature : measured)
    if (difference.empty() && !target.has(feature))
      difference = "with " + printable(feature) + ", which target " + target.getName().str() + " has not";
  for (StringAttr feature : target.getFeatures())
    if (difference.empty() && !llvm::is_contained(measured, feature.getValue()))
      difference = "without " + feature.str() + ", which target " + target.getName().str() + " has";
  if (difference.empty() && (lanes != target.getLanes() || registers != target.getRegisters()))
    difference = ("with " + Twine(registers) + " registers of " + Twine(lanes) + " lanes, target " + target.getName() +
                  " has " + Twine(target.getRegisters()) + " of " + Twine(target.getLanes()))
                     .str();
  return difference.empty() ? Status() : refuse("the schedules are of a CPU " + difference);
}

Status ScheduleReader::readMatch(JsonValue match, DictionaryAttr &out) {
  std::string kernel = match.find("kernel").string(), kernels = llvm::join(scheduledKernels(), ", ");
  ArrayRef<ScheduleKey> keys = scheduleKeysOf(kernel);
  if (keys.empty())
    return refuse("match: kernel '" + printable(kernel) + "' is none of " + kernels);
  SmallVector<StringRef> names = {"kernel"};
  for (const ScheduleKey &key : keys)
    names.push_back(key.name);
  HEDDLE_RETURN_IF_ERROR(checkMembers(match, "match", names));
  SmallVector<NamedAttribute> read = {b.getNamedAttr("kernel", b.getStringAttr(kernel))};
  for (const ScheduleKey &key : keys) {
    JsonValue value = match.find(key.name);
    if (!value)
      continue;
    std::string word = value.string();
    int64_t number = 0;
    bool isName = key.name == "format" || !key.words.empty();
    if (key.name == "format" && !layoutNamed(word))
      return refuse("match: format '" + printable(word) + "' is no packed layout, as q4_0, f32 and q4_k are");
    if (!key.words.empty() && !llvm::is_contained(key.words, word))
      return refuse("match: " + key.name + " '" + printable(word) + "' is none of " + llvm::join(key.words, ", "));
    if (!isName && (!value.integer(number) || number < 1))
      return refuse("match: " + key.name + " " + printable(value.raw()) + ": a positive number is expected");
    read.push_back(b.getNamedAttr(key.name, isName ? Attribute(b.getStringAttr(word)) : b.getI64IntegerAttr(number)));
  }
  out = b.getDictionaryAttr(read);
  return Status();
}

Status ScheduleReader::readSchedule(JsonValue text, ScheduleAttr &out) {
  if (!text.is(JsonKind::String))
    return refuse("schedule: a string, #heddle.schedule<…>, is expected");
  std::string said;
  ScopedDiagnosticHandler diagnostics(b.getContext(), [&](Diagnostic &diagnostic) {
    if (said.empty())
      said = diagnostic.str();
    return success();
  });
  Attribute parsed = parseAttribute(text.string(), b.getContext());
  if (!parsed)
    return refuse("schedule: " + printable(said));
  out = dyn_cast<ScheduleAttr>(parsed);
  return out ? Status() : refuse("schedule: #heddle.schedule<…> is expected");
}

// The table's, of the kernels that an entry is about.
ScheduleAttr ScheduleReader::baseOf(DictionaryAttr match) const {
  if (match.getAs<StringAttr>("kernel") != "online_attention") {
    auto format = match.getAs<StringAttr>("format");
    auto k = match.getAs<IntegerAttr>("k");
    return matmulSchedule(target, /*isInStep=*/true, format ? format.strref() : StringRef(), k ? k.getInt() : 0);
  }
  auto headDim = match.getAs<IntegerAttr>("head_dim");
  auto products = match.getAs<StringAttr>("products");
  return headDim ? attentionSchedule(target, headDim.getInt(), 64, defaultSplitKv, products && products == "bf16")
                 : ScheduleAttr();
}

Status ScheduleReader::readEntry(JsonValue value, Attribute &out) {
  HEDDLE_RETURN_IF_ERROR(checkMembers(value, "the entry", {"match", "schedule", "evidence"}));
  DictionaryAttr match;
  ScheduleAttr schedule;
  HEDDLE_RETURN_IF_ERROR(readMatch(value.find("match"), match));
  HEDDLE_RETURN_IF_ERROR(readSchedule(value.find("schedule"), schedule));
  ScheduleAttr base = baseOf(match);
  if (!base)
    return refuse("match: online_attention needs head_dim");
  ScheduleFields fields = ScheduleFields::of(schedule);
  JsonValue evidence = value.find("evidence");
  if (evidence && !evidence.is(JsonKind::String))
    return refuse("evidence: a string is expected");
  fields.evidence = b.getStringAttr(evidence ? evidence.string() : "entry " + std::to_string(entry) + " of a file");
  schedule = fields.get(b.getContext());
  std::string error;
  if (failed(mergeSchedule(base, schedule, target, error)))
    return refuse("schedule: " + error);
  out = b.getDictionaryAttr({b.getNamedAttr(matchKey, match), b.getNamedAttr(scheduleKey, schedule)});
  return Status();
}

Status ScheduleReader::read(JsonValue file, ArrayAttr &outEntries) {
  HEDDLE_RETURN_IF_ERROR(checkMembers(file, "the file", {"schema", "cpu", "target", "entries"}));
  if (JsonValue schema = file.find("schema"); !schema.equals(schema::schedules))
    return refuse("schema is " + (schema ? "'" + printable(schema.string()) + "'" : "missing") + ", expected '" +
                  schema::schedules + "'");
  HEDDLE_RETURN_IF_ERROR(checkTarget(file.find("target")));
  JsonValue entries = file.find("entries");
  if (!entries.is(JsonKind::Array))
    return refuse("entries: a list is expected");
  SmallVector<Attribute> read;
  for (JsonItems items(entries); items.next();) {
    ++entry;
    HEDDLE_RETURN_IF_ERROR(readEntry(items.value, read.emplace_back()));
  }
  outEntries = b.getArrayAttr(read);
  return Status();
}

Status heddle::readScheduleFile(const std::string &path, TargetAttr target, MLIRContext *context,
                                ArrayAttr &outEntries) {
  MappedFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(path, FileMemory::Copied).inFile(path));
  if (file.size() > maxFileBytes)
    return errorIn(path, std::to_string(file.size()) + " bytes are no file of schedules, which has 16 MiB at most");
  std::string error;
  size_t at = 0;
  JsonValue value = JsonValue::parse(file.text(), error, &at);
  if (!value)
    return invalidInput(path + ": " + error).inFile(path).atByte(at);
  if (!isUnambiguousJson(value, error))
    return errorIn(path, error);
  return ScheduleReader(path, target, context).read(value, outEntries);
}

std::string heddle::printScheduleFile(StringRef cpu, TargetAttr target, ArrayAttr entries) {
  auto features = llvm::map_range(target.getFeatures(), [](StringAttr name) { return jsonString(name.str()); });
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "{\n  \"schema\": " << jsonString(schema::schedules) << ",\n  \"cpu\": " << jsonString(cpu.str())
      << ",\n  \"target\": {\"name\": " << jsonString(target.getName().str()) << ", \"lanes\": " << target.getLanes()
      << ", \"registers\": " << target.getRegisters() << ", \"features\": [" << llvm::join(features, ", ")
      << "]},\n  \"entries\": [";
  StringRef separator = "\n    ";
  for (auto entry : entries.getAsRange<DictionaryAttr>()) {
    auto match = entry.getAs<DictionaryAttr>(matchKey);
    ScheduleFields fields = ScheduleFields::of(entry.getAs<ScheduleAttr>(scheduleKey));
    std::string evidence = fields.evidence ? fields.evidence.str() : "", schedule;
    fields.evidence = {};
    llvm::raw_string_ostream(schedule) << fields.get(entries.getContext());
    auto kernel = match.getAs<StringAttr>("kernel");
    out << separator << "{\"match\": {\"kernel\": " << jsonString(kernel.str());
    for (const ScheduleKey &key : scheduleKeysOf(kernel)) {
      Attribute value = match.get(key.name);
      if (auto word = dyn_cast_or_null<StringAttr>(value))
        out << ", " << jsonString(key.name) << ": " << jsonString(word.str());
      else if (auto number = dyn_cast_or_null<IntegerAttr>(value))
        out << ", " << jsonString(key.name) << ": " << number.getInt();
    }
    out << "},\n     \"schedule\": " << jsonString(schedule) << ",\n     \"evidence\": " << jsonString(evidence) << "}";
    separator = ",\n    ";
  }
  out << (entries.empty() ? "" : "\n  ") << "]\n}\n";
  return text;
}
