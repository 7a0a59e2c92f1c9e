// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Thread 0 counts its ticks in each kernel and in the wait behind it. Ticks become seconds by those that the whole phase took, so whatever is
// left of the phase lies outside of the kernels: starting the threads, rotary tables, checks of the logits.
#include "runtime/cli/Profile.h"

#include "bytes/Json.h"
#include "bytes/Status.h"

#include <algorithm>

namespace heddle {

void Phase::add(double roundSeconds, double roundTicks, const std::vector<KernelUse> &roundUses) {
  seconds += roundSeconds;
  ticks += roundTicks;
  uses.resize(roundUses.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    const KernelUse &of = roundUses[i];
    KernelUse &to = uses[i];
    to.ticks += of.ticks, to.waitTicks += of.waitTicks;
    to.launches += of.launches, to.rows += of.rows;
    to.pairs += of.pairs, to.keys += of.keys;
    to.work += of.work;
  }
}

void PhaseProfile::Cost::add(const Cost &other) {
  seconds += other.seconds, waitSeconds += other.waitSeconds;
  launches += other.launches, bytes += other.bytes, flops += other.flops;
  limitSeconds += other.limitSeconds;
}

static std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : std::string();
}

PhaseProfile::PhaseProfile(const Phase &phase, const package::Package &metadata, const MachineLimits &limits,
                           int64_t rounds)
    : seconds(phase.seconds / double(rounds)), hasLimits(!limits.peaks.empty()) {
  double perTick = phase.ticks > 0 ? seconds / phase.ticks : 0;
  for (size_t i = 0; i < phase.uses.size(); ++i) {
    const KernelUse &use = phase.uses[i];
    Cost cost;
    cost.seconds = use.ticks * perTick;
    cost.waitSeconds = use.waitTicks * perTick;
    cost.launches = use.launches / double(rounds);
    std::string kind = "loops"; // of a graph, which no kernel has
    cost.name = kind;
    if (i < metadata.kernels()->size()) {
      const package::Kernel &kernel = *metadata.kernels()->Get(unsigned(i));
      kind = textOf(kernel.kind());
      cost.name = kernel.name()->str();
      cost.arithmetic = textOf(kernel.arithmetic());
      cost.bytes = use.bytes(kernel) / double(rounds);
      cost.flops = use.flops(kernel) / double(rounds);
      if (hasLimits && limits.readBandwidth > 0)
        cost.limitSeconds =
            std::max(cost.bytes / limits.readBandwidth, cost.flops / peakOf(limits.peaks, cost.arithmetic));
    }
    sum.add(cost);
    auto known = std::find_if(classes.begin(), classes.end(), [&](const Cost &of) { return of.name == kind; });
    if (known == classes.end()) {
      classes.emplace_back();
      known = classes.end() - 1;
      known->name = kind;
    }
    known->add(cost);
    kernels.push_back(std::move(cost));
  }
}

double PhaseProfile::share(size_t kernel) const {
  return sum.allSeconds() > 0 ? kernels[kernel].allSeconds() / sum.allSeconds() : 0;
}

std::string PhaseProfile::asJson(const Cost &cost) const {
  std::string text = "{\"name\":" + jsonString(cost.name);
  if (!cost.arithmetic.empty())
    text += ",\"arithmetic\":" + jsonString(cost.arithmetic);
  text += format(",\"seconds\":%.9g,\"wait_seconds\":%.9g,\"launches\":%.9g,\"bytes\":%.9g,\"flops\":%.9g",
                 cost.seconds, cost.waitSeconds, cost.launches, cost.bytes, cost.flops);
  if (hasLimits)
    text += format(",\"limit_seconds\":%.9g,\"share_of_limit\":%.6g", cost.limitSeconds,
                   cost.allSeconds() > 0 ? cost.limitSeconds / cost.allSeconds() : 0);
  return text + "}";
}

std::string PhaseProfile::asJson() const {
  std::string text = format("{\"seconds\":%.9g,\"kernel_seconds\":%.9g,\"wait_seconds\":%.9g,\"other_seconds\":%.9g",
                            seconds, sum.seconds, sum.waitSeconds, seconds - sum.allSeconds());
  for (const auto &[key, costs] : {std::pair{"classes", &classes}, std::pair{"kernels", &kernels}}) {
    text += std::string(",\"") + key + "\":[";
    for (const Cost &cost : *costs)
      text += (&cost == costs->data() ? "" : ",") + asJson(cost);
    text += "]";
  }
  return text + "}";
}

std::string PhaseProfile::asText(const std::string &title) const {
  auto percent = [&](double part) { return seconds > 0 ? 100 * part / seconds : 0; };
  std::string text =
      format("\n%s: %.2f ms: kernels %.1f %%, waiting for other threads %.1f %%, outside %.1f %%\n", title.c_str(),
             seconds * 1e3, percent(sum.seconds), percent(sum.waitSeconds), percent(seconds - sum.allSeconds()));
  text += "  time     wait     GB/s     GFLOP/s  of limit  kernels\n";
  for (const Cost &cost : classes) {
    double time = std::max(cost.allSeconds(), 1e-12);
    std::string limit = hasLimits ? format("%6.1f %%", 100 * cost.limitSeconds / time) : "       -";
    text += format("%5.1f %%  %5.1f %%  %7.1f  %10.1f  %s  %s\n", percent(cost.seconds), percent(cost.waitSeconds),
                   cost.bytes / time * 1e-9, cost.flops / time * 1e-9, limit.c_str(), cost.name.c_str());
  }
  return text;
}

std::string peaksAsJson(const MachineLimits &limits) {
  std::string text;
  for (const Peak &peak : limits.peaks)
    text += format("%s\"%s\":%.0f", text.empty() ? ",\"peaks\":{" : ",", peak.name, peak.perSecond);
  return text.empty() ? text : text + "}";
}

} // namespace heddle
