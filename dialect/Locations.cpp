// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both kinds of merged location are MLIR's FusedLoc. That of layers has metadata, so that MLIR does not dissolve one in another.

#include "dialect/Locations.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

// Names that are written out; of more there is a count.
static constexpr size_t mostNames = 4;

static StringAttr layersMark(MLIRContext *context) {
  return StringAttr::get(context, "layers");
}

Location heddle::mergedLocation(MLIRContext *context, ArrayRef<Location> parts) {
  return FusedLoc::get(parts, Attribute(), context);
}

Location heddle::sharedLocation(MLIRContext *context, ArrayRef<Location> layers) {
  return FusedLoc::get(layers, layersMark(context), context);
}

std::string heddle::locationText(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return locationText(call.getCallee());
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused || fused.getLocations().empty())
    return "an unknown place";
  ArrayRef<Location> parts = fused.getLocations();
  if (fused.getMetadata() == layersMark(location.getContext()))
    return locationText(parts[0]) + ", and in " + std::to_string(parts.size() - 1) +
           (parts.size() == 2 ? " more layer" : " more layers");
  SmallVector<std::string> names;
  for (Location part : parts.take_front(mostNames))
    names.push_back(locationText(part));
  std::string text = llvm::join(names, " + ");
  return parts.size() > mostNames ? text + " + " + std::to_string(parts.size() - mostNames) + " more" : text;
}
