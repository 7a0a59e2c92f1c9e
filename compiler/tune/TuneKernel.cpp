// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One choice after the other, each from the best that is known; then the result against the table's schedule once more, since the best of
// several noisy figures is too good.

#include "compiler/tune/TuneKernel.h"

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/machine/LoadedObject.h"
#include "compiler/schedule/TunedSchedules.h"

#include "mlir/IR/OwningOpRef.h"

using namespace mlir;
using namespace heddle;

// Of a time, as a part of it.
static constexpr double noise = 0.03;

namespace {

class Tuning {
public:
  Tuning(KernelProbe &probe, ScheduleAttr base, const CpuTarget &target, const TuneSettings &settings,
         const std::string &linker)
      : probe(probe), base(base), cpu(target), described(targetAttr(base.getContext(), target)), settings(settings),
        linker(linker) {}
  Status run(TunedKernel &out);

private:
  using Times = std::vector<std::vector<double>>; // by shape, by schedule
  SmallVector<ScheduleAttr> candidatesOf(const Choice &choice, ScheduleAttr current) const;
  ScheduleAttr merged(ScheduleAttr tuned) const;
  Status measure(ArrayRef<ScheduleAttr> schedules, ArrayRef<unsigned> shapes, int rounds, Times &out);

  KernelProbe &probe;
  const ScheduleAttr base;
  const CpuTarget &cpu;
  const TargetAttr described;
  const TuneSettings &settings;
  const std::string &linker;
};

} // namespace

// As an entry says it: blocks and splits of keys are the model's.
static ScheduleAttr asEntry(ScheduleFields fields, MLIRContext *context) {
  fields.blockKv = fields.splitKv = 0;
  fields.evidence = {};
  return fields.get(context);
}

// Null where kernels cannot be built so.
ScheduleAttr Tuning::merged(ScheduleAttr tuned) const {
  std::string error;
  FailureOr<ScheduleAttr> whole = mergeSchedule(base, tuned, described, error);
  return succeeded(whole) ? *whole : ScheduleAttr();
}

// The current schedule first.
SmallVector<ScheduleAttr> Tuning::candidatesOf(const Choice &choice, ScheduleAttr current) const {
  SmallVector<ScheduleAttr> schedules = {current};
  for (const auto &change : choice.candidates) {
    ScheduleFields fields = ScheduleFields::of(current);
    change(fields);
    ScheduleAttr schedule = asEntry(fields, base.getContext());
    if (schedules.size() <= settings.candidates && merged(schedule) && !llvm::is_contained(schedules, schedule))
      schedules.push_back(schedule);
  }
  return schedules;
}

Status Tuning::measure(ArrayRef<ScheduleAttr> schedules, ArrayRef<unsigned> shapes, int rounds, Times &out) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(base.getContext()));
  auto nameOf = [](size_t index) { return "candidate" + std::to_string(index); };
  for (auto [index, schedule] : llvm::enumerate(schedules))
    if (failed(probe.build(*module, nameOf(index), merged(schedule))))
      return Status::failure("internal error: a candidate cannot be built");
  if (failed(lowerToLLVM(*module, cpu)))
    return Status::failure("internal error: a candidate cannot be lowered");
  FailureOr<std::string> object = emitMachineCode(*module, cpu, MachineCode::Object);
  if (failed(object))
    return Status::failure("internal error: a candidate has no machine code");
  LoadedObject loaded;
  std::string error;
  if (!loaded.load(*object, linker, error))
    return Status::failure(error);
  for (unsigned shape : shapes) {
    std::vector<Turn> turns;
    for (auto [index, schedule] : llvm::enumerate(schedules))
      turns.push_back(probe.turn(loaded.find(nameOf(index)), merged(schedule), shape));
    setRepeats(settings.threads, turns.front(), settings.secondsOfRound);
    std::vector<Turn *> all;
    for (Turn &turn : turns) {
      turn.repeats = turns.front().repeats;
      all.push_back(&turn);
    }
    takeTurns(settings.threads, rounds, all);
    std::vector<double> &seconds = out.emplace_back();
    for (const Turn &turn : turns)
      seconds.push_back(turn.seconds);
  }
  return Status();
}

// By how much a schedule is faster than the first one: the product of the shares of time that it takes. 1 where it is no better than noise
// with any shape, or worse with one.
static double gainOf(const std::vector<std::vector<double>> &times, size_t schedule) {
  double product = 1, best = 1, worst = 1;
  for (const std::vector<double> &ofShape : times) {
    double share = ofShape[schedule] / ofShape[0];
    product *= share;
    best = std::min(best, share);
    worst = std::max(worst, share);
  }
  return best < 1 - noise && worst < 1 + noise ? product : 1;
}

Status Tuning::run(TunedKernel &out) {
  probe.allocate();
  const ScheduleAttr first = asEntry(ScheduleFields::of(base), base.getContext());
  if (!merged(first))
    return Status::failure("internal error: the built-in schedule is none that kernels are built with");
  ScheduleAttr current = first;
  for (const Choice &choice : probe.choices(base)) {
    SmallVector<ScheduleAttr> schedules = candidatesOf(choice, current);
    if (schedules.size() == 1)
      continue;
    Times times;
    HEDDLE_RETURN_IF_ERROR(measure(schedules, choice.shapes, settings.rounds, times));
    out.candidates += schedules.size() - 1;
    double best = 1;
    for (size_t i = 1; i < schedules.size(); ++i)
      if (double gain = gainOf(times, i); gain < best) {
        best = gain;
        current = schedules[i];
      }
  }
  std::vector<std::string> names = probe.shapes();
  SmallVector<unsigned> shapes = llvm::to_vector(llvm::seq<unsigned>(0, names.size()));
  Times times;
  HEDDLE_RETURN_IF_ERROR(measure({first, current}, shapes, 2 * settings.rounds, times));
  for (auto [name, ofShape] : llvm::zip_equal(names, times))
    out.times.push_back({name, ofShape[0], ofShape[1]});
  if (current != first && gainOf(times, 1) < 1)
    out.best = current;
  return Status();
}

Status heddle::tuneKernel(KernelProbe &probe, ScheduleAttr base, const CpuTarget &target, const TuneSettings &settings,
                          const std::string &linker, TunedKernel &out) {
  return Tuning(probe, base, target, settings, linker).run(out);
}
