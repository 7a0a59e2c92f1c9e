// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

// expected-error @+1 {{layers (0), num_kv_heads (3) and head_dim (64) must be positive}}
func.func private @no_layers(!heddle.kv_cache<0 x 3 x 64 x f32>)

// -----

// expected-error @+1 {{element type must be f32, bf16, f16 or i8, got 'i4'}}
func.func private @element_type(!heddle.kv_cache<1 x 3 x 64 x i4>)

// -----

// expected-error @+1 {{blocks of i8 need a head_dim (48) that is a multiple of 32, and no latent}}
func.func private @part_of_a_block(!heddle.kv_cache<1 x 3 x 48 x i8>)

// -----

// expected-error @+1 {{blocks of i8 need a head_dim (576) that is a multiple of 32, and no latent}}
func.func private @latent_blocks(!heddle.kv_cache<1 x 1 x 576 x i8, latent = 512>)

// -----

// expected-error @+1 {{latent (577) must be 0 to head_dim (576) of one head (1)}}
func.func private @wider_than_the_row(!heddle.kv_cache<1 x 1 x 576 x f32, latent = 577>)

// -----

// expected-error @+1 {{latent (512) must be 0 to head_dim (576) of one head (2)}}
func.func private @of_two_heads(!heddle.kv_cache<1 x 2 x 576 x f32, latent = 512>)

// -----

// expected-error @+1 {{a cache of latents (512) is of the tokens of a step, not of a source}}
func.func private @latents_of_a_source(!heddle.kv_cache<1 x 1 x 576 x f32 cross, latent = 512>)

// -----

// expected-error @+1 {{begin (4096) must be 0, or a byte of a page of a step's tokens}}
func.func private @behind_a_source(!heddle.kv_cache<1 x 1 x 64 x f32 cross begin = 4096>)

// -----

// expected-error @+1 {{states are numbers of f32 of one head, neither latents nor of a source}}
func.func private @states_of_two_heads(!heddle.kv_cache<1 x 2 x 64 x f32 state>)

// -----

// expected-error @+1 {{states are numbers of f32 of one head, neither latents nor of a source}}
func.func private @states_of_bf16(!heddle.kv_cache<1 x 1 x 64 x bf16 state>)
