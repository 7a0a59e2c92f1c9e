// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/Finding.h"

#include "bytes/JsonSchema.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;

static const char *codeName(StatusCode code) {
  switch (code) {
  case StatusCode::Ok:
    return "ok";
  case StatusCode::Failure:
    return "failure";
  case StatusCode::InvalidInput:
    return "invalid-input";
  case StatusCode::OutOfMemory:
    return "out-of-memory";
  case StatusCode::Cancelled:
    return "cancelled";
  case StatusCode::ContextFull:
    return "context-full";
  case StatusCode::NotFinite:
    return "not-finite";
  case StatusCode::DamagedFile:
    return "damaged-file";
  case StatusCode::Unsupported:
    return "unsupported";
  case StatusCode::Unreadable:
    return "unreadable-file";
  }
  llvm_unreachable("all codes are listed");
}

static const char *severityName(Finding::Severity severity) {
  constexpr const char *names[] = {"error", "warning", "remark", "note"};
  return names[size_t(severity)];
}

Finding Finding::error(const Status &status) {
  return {Severity::Error, codeName(status.code()), status.exitCode(), status.message(),
          status.place() ? *status.place() : InputPlace()};
}

static llvm::json::Object toJson(const Finding &finding) {
  llvm::json::Object object{{"schema", schema::diagnostic},
                            {"severity", severityName(finding.severity)},
                            {"code", finding.code},
                            {"exit_code", finding.exitCode},
                            {"message", llvm::json::fixUTF8(finding.text)}};
  const InputPlace &place = finding.place;
  auto addName = [&](const char *key, const std::string &name) {
    if (!name.empty())
      object[key] = llvm::json::fixUTF8(name);
  };
  addName("file", place.file);
  addName("tensor", place.tensor);
  addName("op", place.op);
  if (place.offset)
    object["offset"] = *place.offset;
  if (place.line) {
    object["line"] = place.line;
    object["column"] = place.column;
  }
  return object;
}

void heddle::printFinding(const Finding &finding, bool asJson) {
  if (asJson)
    llvm::errs() << toJson(finding) << "\n";
  else if (finding.severity == Finding::Severity::Note)
    llvm::errs() << finding.text << "\n";
  else if (finding.severity == Finding::Severity::Remark)
    llvm::errs() << "remark: " << finding.text << "\n";
  else
    llvm::errs() << "heddle: " << severityName(finding.severity) << ": " << finding.text << "\n";
}
