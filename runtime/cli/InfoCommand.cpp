// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --info and --licenses.
#include "runtime/cli/Cli.h"
#include "runtime/include/heddle/heddle.h"

namespace heddle {
namespace {

// Which device the model would run on, or why on none.
Status addDevice(const OpenedModel &program, std::string &out) {
  const flatbuffers::String *target = program.metadata().target();
  if (!target || !isDeviceTarget(target->string_view()))
    return Status();
  std::unique_ptr<Device> device;
  Status status = Device::open(target->string_view(), program.options.device, device);
  if (status.code() == StatusCode::InvalidInput)
    return status;
  out += packageFact("device", status.isOk() ? device->description() : "none: " + status.message());
  return Status();
}

} // namespace

Status runInfo(const OpenedModel &program) {
  std::string out = packageText(program.package->onDisk()) + packageFact("runtime", heddle_version_string());
  HEDDLE_RETURN_IF_ERROR(addDevice(program, out));
  return writeOut(out);
}

Status runLicenses(const OpenedModel &program) {
  const flatbuffers::String *license = program.metadata().license();
  return writeOut("model    " + (license && license->size() ? license->str() : "-") +
                  "\n"
                  "runtime  Heddle, Apache-2.0 WITH LLVM-exception\n"
                  "         FlatBuffers (Google), Apache-2.0\n"
                  "         PCRE2 (University of Cambridge), BSD-3-Clause\n"
                  "         utf8proc (Jan Behrens, Public Software Group, Steven G. Johnson and others), MIT; Unicode "
                  "data (Unicode, Inc.), Unicode-3.0\n");
}

} // namespace heddle
