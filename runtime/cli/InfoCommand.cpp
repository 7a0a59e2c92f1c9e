// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --info and --licenses.
#include "runtime/cli/Cli.h"
#include "runtime/include/heddle/heddle.h"
#include "runtime/session/SessionParts.h"
#include "runtime/text/tokenizer/TextParts.h"

namespace heddle {
namespace {

// Which device the model would run on, or why on none.
Status addDevice(const OpenedModel &program, std::string &out) {
  if (!runsOnDevice(program.metadata()))
    return Status();
  std::unique_ptr<Device> device;
  Status status = openDevice(program.metadata().target()->string_view(), program.options.device, device);
  if (status.code() == StatusCode::InvalidInput)
    return status;
  out += packageFact("device", status.isOk() ? device->description() : "none: " + status.message());
  if (!status.isOk())
    return Status();
  Status graphs = device->canRecord();
  out += packageFact("graphs", graphs.isOk() ? "a step of decode is one" : "none: " + graphs.message());
  return Status();
}

bool hasHalideKernels(const package::Package &metadata) {
  for (unsigned i = 0; metadata.kernels() && i < metadata.kernels()->size(); ++i)
    if (const flatbuffers::String *emitter = metadata.kernels()->Get(i)->emitter())
      if (emitter->string_view() == "halide")
        return true;
  return false;
}

bool hasHalidePtx(const package::Package &metadata) {
  return hasHalideKernels(metadata) && metadata.target() && metadata.target()->string_view().substr(0, 5) == "cuda:";
}

bool hasRegex(const package::Package &) {
  return heddle_text_parts.regex;
}

bool hasUnicode(const package::Package &) {
  return heddle_text_parts.unicode;
}

// A part of the program that comes from somewhere, under an SPDX expression.
struct Part {
  const char *license, *what;
  bool (*isIn)(const package::Package &metadata); // null: it is in every program
};

// runtime/README.md says how each gets in.
const Part parts[] = {
    {"Apache-2.0 WITH LLVM-exception", "Heddle: the runtime, and what its compiler generates", nullptr},
    {"Apache-2.0", "FlatBuffers (Google): headers", nullptr},
    {"BSD-3-Clause", "PCRE2 (University of Cambridge)", hasRegex},
    {"MIT OR Unlicense", "stb_image (Sean Barrett and others): PNG and JPEG files", seesFiles},
    {"MIT", "utf8proc (Jan Behrens, Public Software Group, Steven G. Johnson and others)", hasUnicode},
    {"Unicode-DFS-2015", "Unicode data in utf8proc (Unicode, Inc.)", hasUnicode},
    {"GPL-3.0-or-later WITH GCC-exception-3.1", "GCC: headers of libstdc++, arithmetic of libgcc", nullptr},
    {"LGPL-2.1-or-later WITH GCC-exception-2.0-note", "the GNU C library: start files", nullptr},
    {"MIT", "Halide (MIT CSAIL, Google, Facebook, Adobe, NVIDIA and others): arithmetic in kernels", hasHalideKernels},
    {"LicenseRef-NVIDIA-libdevice", "NVIDIA libdevice: arithmetic in kernels", hasHalidePtx},
};

std::string licenseLine(const char *license, const char *what) {
  return format("%-46s %s\n", license, what);
}

} // namespace

Status runInfo(const OpenedModel &program) {
  std::string out = packageText(program.package->onDisk()) + packageFact("runtime", heddle_version_string());
  HEDDLE_RETURN_IF_ERROR(addDevice(program, out));
  return writeOut(out);
}

Status runLicenses(const OpenedModel &program) {
  const package::Package &metadata = program.metadata();
  bool isStated = metadata.license() && metadata.license()->size();
  std::string out;
  for (const Part &part : parts)
    if (!part.isIn || part.isIn(metadata))
      out += licenseLine(part.license, part.what);
  out += isStated ? licenseLine(metadata.license()->c_str(), "the model, as its files state it")
                  : licenseLine("unknown", "the model: its files state none");
  return writeOut(out);
}

} // namespace heddle
