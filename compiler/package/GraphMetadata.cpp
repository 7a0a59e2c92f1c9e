// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Metadata.h"
#include "compiler/package/MetadataTables.h"
#include "compiler/schedule/Passes.h"

using namespace mlir;
using namespace heddle;
namespace fb = flatbuffers;

static fb::Offset<fb::Vector<fb::Offset<package::GraphTensor>>> tensorTable(fb::FlatBufferBuilder &b,
                                                                            ArrayRef<GraphTensor> tensors) {
  std::vector<fb::Offset<package::GraphTensor>> table;
  for (const GraphTensor &tensor : tensors) {
    auto name = b.CreateString(tensor.name);
    auto dims = b.CreateVector(tensor.dims);
    auto dimNames = tensor.dimNames.empty() ? StringTable() : strings(b, tensor.dimNames);
    table.push_back(package::CreateGraphTensor(b, name, tensor.type, dims, dimNames));
  }
  return b.CreateVector(table);
}

std::string heddle::buildGraphMetadata(ModuleOp module, const GraphSignature &signature, const PackageInfo &info,
                                       const Target &target, ArrayRef<PackedWeight> weights) {
  fb::FlatBufferBuilder b(1 << 12);
  auto inputs = tensorTable(b, signature.inputs), outputs = tensorTable(b, signature.outputs);
  auto graph = package::CreateGraph(b, inputs, outputs);
  auto weightVector = weightTable(b, weights);
  auto features = strings(b, target.cpu.features), passes = strings(b, info.passes);
  auto name = b.CreateString(info.name), architecture = b.CreateString(info.architecture),
       source = b.CreateString(info.sourceName), sha = b.CreateString(info.sourceSha256),
       version = b.CreateString(HEDDLE_VERSION), targetName = b.CreateString(target.name),
       precision = b.CreateString(info.precision);

  package::PackageBuilder p(b);
  p.add_name(name), p.add_architecture(architecture), p.add_task(package::Task::Graph);
  p.add_source_name(source), p.add_source_sha256(sha), p.add_compiler_version(version);
  p.add_target(targetName), p.add_cpu_features(features), p.add_precision(precision);
  p.add_weights_size(module->getAttrOfType<IntegerAttr>(weightsSizeAttr).getInt());
  p.add_weights(weightVector), p.add_passes(passes), p.add_graph(graph);
  package::FinishPackageBuffer(b, p.Finish());
  return std::string(reinterpret_cast<const char *>(b.GetBufferPointer()), b.GetSize());
}
