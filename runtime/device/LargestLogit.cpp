// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each thread looks through every threads-th number; then halves of the threads compare pairs, and of equal numbers the
// smaller index wins. A thread that has met a number that is not finite claims the largest of all, infinity, with the
// smallest index, -1.
#include "runtime/device/LargestLogit.h"

namespace heddle::largest_logit {
namespace {

const char openCl[] = R"(
__kernel void heddle_largest_logit(__global const float *logits, __global int *result, int count,
                                   __local float *values) {
  int thread = get_local_id(0), threads = get_local_size(0);
  __local int *indices = (__local int *)(values + threads);
  __global const float *row = logits + (size_t)get_group_id(0) * count;
  float value = -INFINITY;
  int index = 0x7fffffff;
  bool isFinite = true;
  for (int i = thread; i < count; i += threads) {
    float logit = row[i];
    isFinite = isFinite && (as_uint(logit) & 0x7f800000u) != 0x7f800000u;
    if (logit > value) {
      value = logit;
      index = i;
    }
  }
  values[thread] = isFinite ? value : INFINITY;
  indices[thread] = isFinite ? index : -1;
  for (int pairs = threads / 2; pairs > 0; pairs /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread < pairs) {
      float other = values[thread + pairs];
      int otherIndex = indices[thread + pairs];
      if (other > values[thread] || (other == values[thread] && otherIndex < indices[thread])) {
        values[thread] = other;
        indices[thread] = otherIndex;
      }
    }
  }
  if (thread == 0)
    result[get_group_id(0)] = indices[0];
}
)";

const char ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.extern .shared .align 8 .b8 pairs[];

.visible .entry heddle_largest_logit(
	.param .u64 heddle_largest_logit_param_0,
	.param .u64 heddle_largest_logit_param_1,
	.param .u32 heddle_largest_logit_param_2
)
{
	.reg .pred 	%p<5>;
	.reg .f32 	%f<3>;
	.reg .b32 	%r<13>;
	.reg .b64 	%rd<12>;

	ld.param.u64 	%rd1, [heddle_largest_logit_param_0];
	ld.param.u64 	%rd2, [heddle_largest_logit_param_1];
	ld.param.u32 	%r1, [heddle_largest_logit_param_2];
	cvta.to.global.u64 	%rd3, %rd1;
	cvta.to.global.u64 	%rd4, %rd2;
	mov.u32 	%r2, %tid.x;
	mov.u32 	%r3, %ntid.x;
	mov.u32 	%r4, %ctaid.x;
	mul.wide.u32 	%rd5, %r4, %r1; // the row
	shl.b64 	%rd5, %rd5, 2;
	add.s64 	%rd5, %rd3, %rd5;
	mov.f32 	%f1, 0fFF800000; // the largest so far, its index, whether none was infinite
	mov.u32 	%r5, 2147483647;
	mov.u32 	%r6, 1;
	mov.u32 	%r7, %r2;
$L_look:
	setp.ge.u32 	%p1, %r7, %r1;
	@%p1 bra 	$L_looked;
	mul.wide.u32 	%rd6, %r7, 4;
	add.s64 	%rd6, %rd5, %rd6;
	ld.global.f32 	%f2, [%rd6];
	mov.b32 	%r8, %f2;
	and.b32 	%r8, %r8, 2139095040;
	setp.eq.u32 	%p2, %r8, 2139095040;
	selp.b32 	%r6, 0, %r6, %p2;
	setp.gt.f32 	%p3, %f2, %f1;
	selp.f32 	%f1, %f2, %f1, %p3;
	selp.b32 	%r5, %r7, %r5, %p3;
	add.s32 	%r7, %r7, %r3;
	bra.uni 	$L_look;
$L_looked:
	setp.eq.u32 	%p1, %r6, 0;
	selp.f32 	%f1, 0f7F800000, %f1, %p1;
	selp.b32 	%r5, -1, %r5, %p1;
	mov.u64 	%rd7, pairs;
	mul.wide.u32 	%rd8, %r2, 8;
	add.s64 	%rd7, %rd7, %rd8; // this thread's pair
	shr.u32 	%r9, %r3, 1;
$L_halve:
	st.shared.f32 	[%rd7], %f1;
	st.shared.u32 	[%rd7+4], %r5;
	bar.sync 	0;
	setp.eq.u32 	%p1, %r9, 0;
	@%p1 bra 	$L_halved;
	setp.ge.u32 	%p1, %r2, %r9;
	@%p1 bra 	$L_compared;
	mul.wide.u32 	%rd9, %r9, 8;
	add.s64 	%rd9, %rd7, %rd9;
	ld.shared.f32 	%f2, [%rd9];
	ld.shared.u32 	%r10, [%rd9+4];
	setp.gt.f32 	%p2, %f2, %f1;
	setp.eq.f32 	%p3, %f2, %f1;
	setp.lt.s32 	%p4, %r10, %r5;
	and.pred 	%p3, %p3, %p4;
	or.pred 	%p2, %p2, %p3;
	selp.f32 	%f1, %f2, %f1, %p2;
	selp.b32 	%r5, %r10, %r5, %p2;
$L_compared:
	shr.u32 	%r9, %r9, 1;
	bar.sync 	0;
	bra.uni 	$L_halve;
$L_halved:
	setp.ne.u32 	%p1, %r2, 0;
	@%p1 bra 	$L_end;
	mul.wide.u32 	%rd10, %r4, 4;
	add.s64 	%rd10, %rd4, %rd10;
	st.global.u32 	[%rd10], %r5;
$L_end:
	ret;
}
)";

} // namespace

const char *openClCode() {
  return openCl;
}

const char *ptxCode() {
  return ptx;
}

} // namespace heddle::largest_logit
