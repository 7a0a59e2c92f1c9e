// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An index into such a Func is own + elements * (number of the thread). The second part is a constant of the thread, and it is that of each
// access, so that leaving it out moves all that the thread stores and loads alike. Both are proven, not assumed.

#include "compiler/codegen/halide/OwnRegisters.h"

using namespace heddle;
using namespace Halide;
using namespace Halide::Internal;

namespace {

// (c x + y) % c is y % c, also where the simplifier has y in several terms.
class DropMultiples : public IRMutator {
protected:
  using IRMutator::visit;

  Expr visit(const Mod *op) override {
    Expr a = mutate(op->a);
    auto by = as_const_int(op->b);
    if (!by || *by <= 0)
      return Mod::make(a, op->b);
    Expr rest = make_zero(op->type);
    for (const Expr &term : termsOf(a)) {
      const Mul *product = term.as<Mul>();
      auto factor = product ? as_const_int(product->b) : as_const_int(term);
      if (!factor || *factor % *by != 0)
        rest = rest + term;
    }
    return Mod::make(rest, op->b);
  }

private:
  static std::vector<Expr> termsOf(const Expr &sum) {
    const Add *add = sum.as<Add>();
    if (!add)
      return {sum};
    std::vector<Expr> terms = termsOf(add->a), more = termsOf(add->b);
    terms.insert(terms.end(), more.begin(), more.end());
    return terms;
  }
};

class KeepOwnRegisters : public IRMutator {
public:
  explicit KeepOwnRegisters(std::vector<OwnRegisters> funcs) : funcs(std::move(funcs)) {}

protected:
  using IRMutator::visit;

  Stmt visit(const For *op) override {
    if (op->for_type != ForType::GPUThread)
      return IRMutator::visit(op);
    threads.push_back(op->name);
    ScopedBinding<Interval> range(ranges, op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
    Stmt loop = IRMutator::visit(op);
    threads.pop_back();
    return loop;
  }
  // Where a loop over threads is shorter than the block, some of them stand aside.
  Stmt visit(const IfThenElse *op) override {
    Stmt otherwise = mutate(op->else_case);
    Expr condition = mutate(op->condition);
    conditions.push_back(withoutLets(op->condition));
    Stmt then = mutate(op->then_case);
    conditions.pop_back();
    return IfThenElse::make(condition, then, otherwise);
  }
  Stmt visit(const LetStmt *op) override { return withLet<Stmt>(op); }
  Expr visit(const Let *op) override { return withLet<Expr>(op); }

  Stmt visit(const Allocate *op) override {
    const OwnRegisters *own = find(op->name);
    if (!own)
      return IRMutator::visit(op);
    return Allocate::make(op->name, op->type, MemoryType::Register, {own->elements}, op->condition, mutate(op->body));
  }
  Expr visit(const Load *op) override {
    const OwnRegisters *own = find(op->name);
    if (!own)
      return IRMutator::visit(op);
    return Load::make(op->type, op->name, place(*own, op->index), op->image, op->param, op->predicate,
                      ModulusRemainder());
  }
  Stmt visit(const Store *op) override {
    const OwnRegisters *own = find(op->name);
    if (!own)
      return IRMutator::visit(op);
    return Store::make(op->name, mutate(op->value), place(*own, op->index), op->param, op->predicate,
                       ModulusRemainder());
  }

private:
  template <typename Node, typename Op> Node withLet(const Op *op) {
    Expr value = mutate(op->value);
    lets.emplace_back(op->name, value);
    Node body = mutate(op->body);
    lets.pop_back();
    return Op::make(op->name, value, body);
  }

  // Halide puts numbers behind the name of a Func: of a value of a tuple, of an allocation.
  const OwnRegisters *find(const std::string &name) const {
    for (const OwnRegisters &own : funcs)
      if (name == own.func || starts_with(name, own.func + "."))
        return &own;
    return nullptr;
  }

  Expr withoutLets(Expr value) const {
    for (size_t i = lets.size(); i-- > 0;)
      value = substitute(lets[i].first, lets[i].second, value);
    return simplify(value);
  }

  Expr place(const OwnRegisters &own, Expr index) {
    index = DropMultiples().mutate(withoutLets(index));
    Expr ofFirst = index;
    for (const std::string &thread : threads)
      ofFirst = substitute(thread, Expr(0), ofFirst);
    ofFirst = simplify(ofFirst, true, ranges);
    Expr ofThread = simplify(index - ofFirst, true, ranges);
    if (!base.defined())
      base = ofThread;
    auto constant = as_const_int(ofFirst);
    Expr isOfThread = simplify(ofThread == base, true, ranges, Scope<ModulusRemainder>::empty_scope(), conditions);
    bool isOwn = constant && *constant >= 0 && *constant < own.elements && is_const_one(isOfThread);
    _halide_user_assert(isOwn) << "internal: a thread reads registers of " << own.func
                               << " that are not its own: " << index << " beside " << base << "\n";
    return ofFirst;
  }

  std::vector<OwnRegisters> funcs;
  std::vector<std::string> threads;
  Scope<Interval> ranges;                         // of threads
  std::vector<std::pair<std::string, Expr>> lets; // those around
  std::vector<Expr> conditions;                   // of the branches around
  Expr base;                                      // what the thread adds to each index
};

} // namespace

IRMutator *heddle::makeKeepOwnRegisters(std::vector<OwnRegisters> funcs) {
  return new KeepOwnRegisters(std::move(funcs));
}
