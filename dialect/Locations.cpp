// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both kinds of merged location, and that of a tensor, are MLIR's FusedLoc. Those of layers and tensors have metadata, so that MLIR does not
// dissolve one in another, nor takes a tensor for an op.

#include "dialect/Locations.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

// Names that are written out; of more there is a count.
static constexpr size_t mostNames = 4;

static StringAttr layersMark(MLIRContext *context) {
  return StringAttr::get(context, "layers");
}

// Of a shared location, each layer's.
static ArrayRef<Location> layersOf(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  bool isShared = fused && fused.getMetadata() == layersMark(location.getContext());
  return isShared ? fused.getLocations() : ArrayRef<Location>();
}

// Parts of the same layers are merged layer by layer: the layers stay outside.
Location heddle::mergedLocation(MLIRContext *context, ArrayRef<Location> parts) {
  size_t count = parts.empty() ? 0 : layersOf(parts[0]).size();
  bool areShared = count && llvm::all_of(parts, [&](Location part) { return layersOf(part).size() == count; });
  if (!areShared)
    return FusedLoc::get(parts, Attribute(), context);
  SmallVector<Location> layers;
  for (size_t layer = 0; layer < count; ++layer)
    layers.push_back(mergedLocation(
        context, llvm::map_to_vector(parts, [&](Location part) -> Location { return layersOf(part)[layer]; })));
  return sharedLocation(context, layers);
}

Location heddle::sharedLocation(MLIRContext *context, ArrayRef<Location> layers) {
  if (llvm::all_equal(layers)) // locations of a module's text may be one for all
    return layers[0];
  return FusedLoc::get(layers, layersMark(context), context);
}

static StringAttr tensorMark(MLIRContext *context) {
  return StringAttr::get(context, "tensor");
}

Location heddle::tensorLocation(MLIRContext *context, StringRef name) {
  return FusedLoc::get({NameLoc::get(StringAttr::get(context, name))}, tensorMark(context), context);
}

bool heddle::isOfTensor(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused && fused.getMetadata() == tensorMark(location.getContext());
}

std::string heddle::locationText(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return locationText(call.getCallee());
  if (ArrayRef<Location> layers = layersOf(location); !layers.empty())
    return locationText(layers[0]) + ", and in " + std::to_string(layers.size() - 1) +
           (layers.size() == 2 ? " more layer" : " more layers");
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused || fused.getLocations().empty())
    return "an unknown place";
  ArrayRef<Location> parts = fused.getLocations();
  SmallVector<std::string> names;
  for (Location part : parts.take_front(mostNames))
    names.push_back(locationText(part));
  std::string text = llvm::join(names, " + ");
  return parts.size() > mostNames ? text + " + " + std::to_string(parts.size() - mostNames) + " more" : text;
}
