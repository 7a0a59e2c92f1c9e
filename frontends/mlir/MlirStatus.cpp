// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/mlir/MlirStatus.h"

#include "dialect/Locations.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

InputPlace heddle::placeOf(Location location) {
  InputPlace place;
  while (auto call = dyn_cast<CallSiteLoc>(location)) // of what was inlined
    location = call.getCallee();
  if (auto text = dyn_cast<FileLineColLoc>(location)) {
    place.file = text.getFilename().str();
    place.line = text.getLine();
    place.column = text.getColumn();
  } else if (isOfTensor(location)) {
    place.tensor = locationText(location);
  } else if (!isa<UnknownLoc>(location)) {
    place.op = locationText(location);
  }
  return place;
}

Status heddle::statusOf(Diagnostic &diagnostic) {
  std::string message;
  llvm::raw_string_ostream(message) << diagnostic.getLocation() << ": " << diagnostic;
  return Status::failure(message).at(placeOf(diagnostic.getLocation()));
}
