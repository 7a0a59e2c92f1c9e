// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// storedIf is a select between the value and a number that stands for none, a constant, which no pass of Halide moves. Behind them a store of that
// select, or of what a let has of it, is a branch.

#include "compiler/codegen/halide/StoredIf.h"

#include <map>
#include <optional>

using namespace heddle;
using namespace Halide;
using namespace Halide::Internal;

// No number of f32 that a kernel makes on purpose; of 16 bits a NaN with a payload, which rounding leaves to nobody.
static Expr nothing(Type type) {
  return type.is_float() ? Expr(-0x1.a5a5a6p-120f) : make_const(type, 0x7DA5);
}

Expr heddle::storedIf(Expr condition, Expr value) {
  _halide_user_assert(value.type() == Float(32) || value.type() == UInt(16))
      << "internal: storedIf of " << value.type() << "\n";
  return select(condition, value, nothing(value.type()));
}

namespace {

class StoreIf : public IRMutator {
protected:
  using IRMutator::visit;

  Stmt visit(const LetStmt *op) override {
    std::optional<Conditional> its = conditionalOf(op->value);
    if (!its)
      return IRMutator::visit(op);
    conditions[op->name] = its->condition;
    Stmt body = mutate(op->body);
    conditions.erase(op->name);
    return LetStmt::make(op->name, its->value, body);
  }
  Stmt visit(const Store *op) override {
    if (const Variable *named = op->value.as<Variable>()) {
      auto known = conditions.find(named->name);
      return known == conditions.end() ? Stmt(op) : IfThenElse::make(known->second, op);
    }
    std::optional<Conditional> its = conditionalOf(op->value);
    if (!its)
      return op;
    return IfThenElse::make(its->condition,
                            Store::make(op->name, its->value, op->index, op->param, op->predicate, op->alignment));
  }

private:
  struct Conditional {
    Expr condition, value;
  };

  static bool isNothing(const Expr &value) {
    return (value.type() == Float(32) || value.type() == UInt(16)) && equal(value, nothing(value.type()));
  }
  static std::optional<Conditional> conditionalOf(const Expr &value) {
    if (isNothing(value))
      return Conditional{const_false(), value};
    if (const Let *let = value.as<Let>()) {
      std::optional<Conditional> its = conditionalOf(let->body);
      if (!its)
        return {};
      return Conditional{substitute(let->name, let->value, its->condition),
                         Let::make(let->name, let->value, its->value)};
    }
    const Select *select = value.as<Select>();
    if (select && isNothing(select->false_value))
      return Conditional{select->condition, select->true_value};
    if (select && isNothing(select->true_value))
      return Conditional{!select->condition, select->false_value};
    return {};
  }

  std::map<std::string, Expr> conditions; // of lets around
};

} // namespace

IRMutator *heddle::makeStoreIf() {
  return new StoreIf();
}
