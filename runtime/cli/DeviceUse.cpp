// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/DeviceUse.h"

namespace heddle {
namespace {

struct Count {
  const char *name;
  uint64_t DeviceCounts::*number;
};

constexpr Count counts[] = {{"launches", &DeviceCounts::launches},
                            {"graph_launches", &DeviceCounts::graphLaunches},
                            {"graph_kernels", &DeviceCounts::graphKernels},
                            {"waits", &DeviceCounts::waits},
                            {"uploads", &DeviceCounts::uploads},
                            {"uploaded_bytes", &DeviceCounts::uploadedBytes},
                            {"downloads", &DeviceCounts::downloads},
                            {"downloaded_bytes", &DeviceCounts::downloadedBytes},
                            {"copies", &DeviceCounts::copies},
                            {"copied_bytes", &DeviceCounts::copiedBytes}};

} // namespace

void DeviceUse::add(const DeviceCounts &before, const DeviceCounts &after) {
  for (const Count &count : counts)
    sum.*count.number += after.*count.number - before.*count.number;
}

std::string DeviceUse::asJson(double parts) const {
  std::string text;
  for (const Count &count : counts)
    text += format("%s\"%s\":%.9g", text.empty() ? "{" : ",", count.name, double(sum.*count.number) / parts);
  return text + "}";
}

std::string DeviceUse::asText(double parts) const {
  return format(
      "%.4g launches, %.4g graphs (%.4g kernels), %.4g waits, %.4g uploads (%.4g bytes), %.4g downloads (%.4g "
      "bytes)",
      double(sum.launches) / parts, double(sum.graphLaunches) / parts, double(sum.graphKernels) / parts,
      double(sum.waits) / parts, double(sum.uploads) / parts, double(sum.uploadedBytes) / parts,
      double(sum.downloads) / parts, double(sum.downloadedBytes) / parts);
}

} // namespace heddle
