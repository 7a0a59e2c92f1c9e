// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes that `assign-schedules` writes and emitters read: what a schedule is, and for which target.
#ifndef HEDDLE_SCHEDULE_ATTRS
#define HEDDLE_SCHEDULE_ATTRS

include "dialect/AttrClasses.td"

def Heddle_TargetDevice : Heddle_Enum<"TargetDevice", [
  I32EnumAttrCase<"Cpu", 0, "cpu">, I32EnumAttrCase<"Cuda", 1, "cuda">, I32EnumAttrCase<"OpenCl", 2, "opencl">]>;

def Heddle_TargetAttr : Heddle_Attr<"Target", "target"> {
  let summary = "What schedules are chosen for";
  let description = [{
    `name` is that of `--target`. Of a CPU, `lanes` f32 numbers fill a vector register, of which there are `registers`, and `features` are LLVM's
    names of what instructions it has; of a device both numbers are 0. `tune` is LLVM's name of the processor whose timing counts where several
    have the same instructions. A module has it as `heddle.target`.

    Constraints:
      * C1: a CPU has 4, 8 or 16 lanes and a positive number of registers, a device neither.

    ```mlir
    #cpu = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2", "fma"]>
    func.func private @kernels() attributes {target = #cpu}
    ```
  }];
  let parameters = (ins EnumParameter<Heddle_TargetDevice>:$device, StringRefParameter<>:$name,
                        DefaultValuedParameter<"int64_t", "0">:$lanes, DefaultValuedParameter<"int64_t", "0">:$registers,
                        OptionalArrayRefParameter<"::mlir::StringAttr">:$features, StringRefParameter<"", "\"\"">:$tune);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool has(::llvm::StringRef feature) const;
  }];
  let assemblyFormat = "`<` struct($device, $name, $lanes, $registers, custom<Names>($features), $tune) `>`";
}

def Heddle_TileRole : Heddle_Enum<"TileRole", [
  I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"FewRows", 1, "few_rows">, I32EnumAttrCase<"ManyRows", 2, "many_rows">,
  I32EnumAttrCase<"TileUnit", 3, "tile_unit">, I32EnumAttrCase<"Int8", 4, "int8">, I32EnumAttrCase<"Threads", 5, "threads">,
  I32EnumAttrCase<"Registers", 6, "registers">, I32EnumAttrCase<"Int16", 7, "int16">, I32EnumAttrCase<"Warpgroups", 8, "warpgroups">, I32EnumAttrCase<"Codes", 9, "codes">,
  I32EnumAttrCase<"Words", 10, "words">]>;

def Heddle_TileAttr : Heddle_Attr<"Tile", "tile"> {
  let summary = "A part of a kernel's result that is computed at once";
  let description = [{
    `rows`: the heights for which there is code, the largest first; rows that no tall tile takes fall to the lower ones. `columns` of the
    result lie beside each other in a tile. `role` says what a kernel has it for: `few_rows` and `many_rows` of a product, its rows on a `tile_unit` (AMX),
    products of `int8` numbers, and of `int16` ones, which steps of at most `maxRows` rows take, more rows with weights staged as `words` of 16 bits where there is such a tile, `maxRows` rows and `k` columns of K at a time; `threads` of a block without tensor cores, warps[0] of them along rows and warps[1] along columns, which stage `k` columns of K at a time or, where there is no `k`, share K out among the warps[0] of a column, and of attention stage `k` keys; of attention on a CPU, whose tiles of `rows` lie in the cache, the sums
    that stay in `registers` meanwhile, to which `k` columns are added at once, 2 where they are pairs of bf16; `rows` where there is one kind. On a GPU a block of warps[0] x warps[1] warps computes the tile, `k` columns of
    K at a time, with `stages` such slices in shared memory, for steps of at most `maxRows` rows (0: any number); where they are `warpgroups`, four warps multiply together, each 16 columns for all rows. Where weights are `codes`, the warps share K out and have `stages` registers of weights on their way. A tile unit takes `k` columns of K at a time too. Of latent attention on a CPU, keys and values of `k`
    tokens, whole pages, are rebuilt at once.

    Constraints:
      * C1: rows are positive and fall; columns are positive.
      * C2: k and maxRows are not negative, stages is positive; warps are two positive numbers, or none.

    ```mlir
    #tensor_cores = #heddle.tile<role = rows, rows = [64], columns = 64, maxRows = 128, k = 64, warps = [2, 2], stages = 3>
    func.func private @product() attributes {tile = #tensor_cores}
    ```
  }];
  let parameters = (ins EnumParameter<Heddle_TileRole>:$role, ArrayRefParameter<"int64_t">:$rows, "int64_t":$columns,
                        DefaultValuedParameter<"int64_t", "0">:$maxRows, DefaultValuedParameter<"int64_t", "0">:$k,
                        OptionalArrayRefParameter<"int64_t">:$warps, DefaultValuedParameter<"int64_t", "1">:$stages);
  let genVerifyDecl = 1;
  let assemblyFormat = [{
    `<` struct($role, custom<Shape>($rows), $columns, $maxRows, $k, custom<Shape>($warps), $stages) `>`
  }];
}

def Heddle_ScheduleAttr : Heddle_Attr<"Schedule", "schedule"> {
  let summary = "The numbers of hardware that a kernel is emitted with";
  let description = [{
    `assign-schedules` writes it as `heddle.schedule` on kernel ops, from one table per target; emitters take nothing else. `tiles` in the
    order that the kernel has them. Of products: `kBlock` lines of K are unpacked at once and shared by `rowBlock` rows; what rows add to every panel of
    int8 products takes at most `termBytes` of stack; weights are asked for `prefetchBytes` ahead, counting all panels of a tile, into the first or second cache, `prefetchCache`, every line of them or `prefetchLines` for each block; 0 bytes: hardware alone foresees them. Sums wait in `scratchBytes` of the thread's scratch for the
    next block of K, without it on the stack. Of attention: `blockKv` keys are looked at
    together, the results of every `splitKv` keys are formed by themselves and merged; the next page is asked for into `prefetchCache`. 0: the kernel has no such number. `evidence` says what chose
    the row of the table.

    Constraints:
      * C1: no number is negative.
      * C2: blockKv divides the page of 64 tokens; splitKv is a multiple of it.
      * C3: prefetchCache is 1 or 2.
      * C4: prefetchLines is 0, which is all, or 1.

    ```mlir
    #few = #heddle.tile<role = few_rows, rows = [2, 1], columns = 16>
    #many = #heddle.tile<role = many_rows, rows = [6, 2, 1], columns = 16>
    #product = #heddle.schedule<tiles = [#few, #many], kBlock = 256, rowBlock = 256, prefetchBytes = 2048, evidence = "16 registers">
    func.func private @product() attributes {schedule = #product}
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::heddle::TileAttr">:$tiles, DefaultValuedParameter<"int64_t", "0">:$kBlock,
                        DefaultValuedParameter<"int64_t", "0">:$rowBlock, DefaultValuedParameter<"int64_t", "0">:$termBytes,
                        DefaultValuedParameter<"int64_t", "0">:$prefetchBytes, DefaultValuedParameter<"int64_t", "1">:$prefetchCache,
                        DefaultValuedParameter<"int64_t", "0">:$prefetchLines,
                        DefaultValuedParameter<"int64_t", "0">:$blockKv, DefaultValuedParameter<"int64_t", "0">:$splitKv, DefaultValuedParameter<"int64_t", "0">:$scratchBytes,
                        OptionalParameter<"::mlir::StringAttr">:$evidence);
  let extraClassDeclaration = [{
    // The first tile of that role, which there is.
    ::heddle::TileAttr getTile(::heddle::TileRole role) const;
  }];
  let genVerifyDecl = 1;
  let assemblyFormat = [{
    `<` struct(custom<Tiles>($tiles), $kBlock, $rowBlock, $termBytes, $prefetchBytes, $prefetchCache, $prefetchLines, $blockKv, $splitKv, $scratchBytes, $evidence) `>`
  }];
}

#endif
