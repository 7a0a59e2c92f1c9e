// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products: MatMul, Gemm, Einsum.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/Quantized.h"

using namespace mlir;
using namespace heddle;

namespace {

void matMul(NodeImport &n) {
  if (n.in(0).type != n.in(1).type)
    n.fail("inputs of two types, expected one");
  if (GraphValue product = matmulOfDequantized(n.g, n.in(0), n.in(1), /*isTransposed=*/false))
    return n.out(product);
  n.out(n.g.matmul(n.in(0), n.in(1)));
}

// alpha A B + beta C
GraphValue generalProduct(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &y = n.in(1);
  if (!n.checkRank(0, 2, "A") || !n.checkRank(1, 2, "B"))
    return {};
  constexpr int64_t m = 0, k = 2, c = 1;
  bool transA = n.integer("transA", 0), transB = n.integer("transB", 0);
  GraphValue result = transA ? GraphValue() : matmulOfDequantized(g, x, y, transB);
  if (!result)
    result = g.contract(x, transA ? ArrayRef<int64_t>{k, m} : ArrayRef<int64_t>{m, k}, y,
                        transB ? ArrayRef<int64_t>{c, k} : ArrayRef<int64_t>{k, c}, {m, c}, x.type);
  double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  if (alpha != 1)
    result = g.mul(g.like(x, alpha), result);
  if (n.has(2) && beta != 0) {
    GraphValue scaled = beta == 1 ? n.in(2) : g.mul(g.like(x, beta), n.in(2));
    result = g.add(result, scaled);
  }
  return result;
}

void gemm(NodeImport &n) {
  n.out(generalProduct(n));
}

void fusedGemm(NodeImport &n) {
  SmallVector<std::optional<float>> parameters;
  for (StringRef name : {"activation_alpha", "activation_beta"})
    parameters.push_back(n.hasAttribute(name) ? std::optional(float(n.real(name, 0))) : std::nullopt);
  n.out(fusedActivation(n.g, generalProduct(n), n.text("activation", ""), parameters));
}

// --- Einsum ---------------------------------------------------------------------------------------------------------

// Labels of a term: letters, and numbers from 52 for the dimensions of "...".
bool parseTerm(NodeImport &n, StringRef term, int64_t ellipsisRank, SmallVectorImpl<int64_t> &labels) {
  for (size_t i = 0; i < term.size(); ++i) {
    char c = term[i];
    if (c >= 'a' && c <= 'z') {
      labels.push_back(c - 'a');
    } else if (c >= 'A' && c <= 'Z') {
      labels.push_back(26 + c - 'A');
    } else if (term.substr(i).starts_with("...")) {
      for (int64_t d = 0; d < ellipsisRank; ++d)
        labels.push_back(52 + 8 - ellipsisRank + d);
      i += 2;
    } else {
      n.fail("equation has a '" + Twine(c) + "'");
      return false;
    }
  }
  return true;
}

// One operand whose labels are distinct: diagonals are taken where one is there twice.
GraphValue takeDiagonals(GraphBuilder &g, GraphValue x, SmallVectorImpl<int64_t> &labels) {
  for (size_t i = 0; i < labels.size() && !g.failed(); ++i)
    for (size_t j = i + 1; j < labels.size(); ++j) {
      if (labels[i] != labels[j])
        continue;
      // x[…, a, …, a, …]: 1 on the diagonal, summed over the second axis.
      Dims line(x.rank(), Dim(1));
      line[i] = x.dims[i];
      GraphValue rows = g.reshape(g.iota(OnnxType::Int64, x.dims[i]), line);
      line.assign(x.rank(), Dim(1));
      line[j] = x.dims[j];
      GraphValue columns = g.reshape(g.iota(OnnxType::Int64, x.dims[j]), line);
      x = g.reduce(Reduction::Sum, g.select(g.compare(Predicate::Equal, rows, columns), x, g.like(x, 0)), {int64_t(j)},
                   false);
      labels.erase(labels.begin() + j);
      --j;
    }
  return x;
}

// Sums over labels that are not kept, and brings the rest into the order of `out`.
GraphValue arrange(GraphBuilder &g, GraphValue x, SmallVectorImpl<int64_t> &labels, ArrayRef<int64_t> out) {
  SmallVector<int64_t> summed, left;
  for (size_t i = 0; i < labels.size(); ++i)
    (llvm::is_contained(out, labels[i]) ? left : summed)
        .push_back(llvm::is_contained(out, labels[i]) ? labels[i] : int64_t(i));
  x = g.reduce(Reduction::Sum, x, summed, false);
  SmallVector<int64_t> permutation;
  for (int64_t label : out) {
    auto place = llvm::find(left, label);
    if (place == left.end())
      return g.fail("equation names an output that no input has");
    permutation.push_back(place - left.begin());
  }
  labels.assign(out.begin(), out.end());
  return g.transpose(x, permutation);
}

void einsum(NodeImport &n) {
  GraphBuilder &g = n.g;
  std::string equation = n.text("equation", "");
  llvm::erase(equation, ' ');
  StringRef left = StringRef(equation).split("->").first, right = StringRef(equation).split("->").second;
  bool hasOutput = StringRef(equation).contains("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  ArrayRef<GraphValue> operands = n.all();
  if (g.failed())
    return;
  if (terms.size() != operands.size())
    return (void)n.fail("equation has " + Twine(terms.size()) + " terms for " + Twine(operands.size()) + " inputs");
  SmallVector<SmallVector<int64_t>> labels(terms.size());
  SmallVector<GraphValue> values(operands.begin(), operands.end());
  std::map<int64_t, int> uses;
  int64_t widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    int64_t named = int64_t(terms[i].size()) - (terms[i].contains("...") ? 3 : 0), rest = values[i].rank() - named;
    if (rest < 0 || rest > 8 || (rest && !terms[i].contains("...")))
      return (void)n.fail("term '" + terms[i] + "' of the equation does not fit an input of rank " +
                          Twine(values[i].rank()));
    widest = std::max(widest, rest);
    if (!parseTerm(n, terms[i], rest, labels[i]))
      return;
    for (int64_t label : labels[i])
      ++uses[label];
    values[i] = takeDiagonals(g, values[i], labels[i]);
  }
  SmallVector<int64_t> out;
  if (hasOutput) {
    if (!parseTerm(n, right, widest, out))
      return;
  } else {
    for (auto [label, count] : uses)
      if (label >= 52)
        out.push_back(label);
    for (auto [label, count] : uses)
      if (label < 52 && count == 1)
        out.push_back(label);
  }
  // Pairs from the left; a label that only later terms or the output have is kept.
  while (values.size() > 1 && !g.failed()) {
    SmallVector<int64_t> kept;
    auto isNeeded = [&](int64_t label) {
      return llvm::is_contained(out, label) || llvm::any_of(ArrayRef(labels).drop_front(2), [&](const auto &term) {
               return llvm::is_contained(term, label);
             });
    };
    bool isLast = values.size() == 2;
    for (int64_t label : llvm::concat<int64_t>(labels[0], labels[1]))
      if (isNeeded(label) && !llvm::is_contained(kept, label))
        kept.push_back(label);
    if (isLast)
      kept.assign(out.begin(), out.end());
    // What one of the two alone has, and nothing later needs, is summed before they meet.
    for (size_t i : {0, 1}) {
      SmallVector<int64_t> shared;
      for (int64_t label : labels[i])
        if (llvm::is_contained(labels[1 - i], label) || isNeeded(label))
          shared.push_back(label);
      values[i] = arrange(g, values[i], labels[i], shared);
    }
    if (g.failed())
      return;
    values[0] = g.contract(values[0], labels[0], values[1], labels[1], kept, values[0].type);
    labels[0].assign(kept.begin(), kept.end());
    values.erase(values.begin() + 1);
    labels.erase(labels.begin() + 1);
  }
  if (!g.failed())
    n.out(arrange(g, values[0], labels[0], out));
}

} // namespace

ArrayRef<OpRow> heddle::contractionOps() {
  static const OpRow table[] = {
      {"", "Einsum", 12, einsum},
      {"", "Gemm", 7, gemm},
      {"", "MatMul", 1, matMul},
      {"com.microsoft", "FusedGemm", 1, fusedGemm},
  };
  return table;
}
