// v1.cu: made by croq for sm_90a. Change v1.co, not this file.
#include "croq.cuh"

using croq::s32, croq::u32, croq::s64, croq::bf16;

extern __shared__ __align__(1024) unsigned char croq_smem[];

// ================================================================================ WGMMA: what the kernels issue
// d[64, 128] += A[64, 16] in registers * B[16, 128] N-major. PTX ISA, wgmma.mma_async
CROQ_FN void wgmma_m64n128k16_bf16_rs_tb(float (&d)[64], croq::u32 a0, croq::u32 a1, croq::u32 a2,
                                         croq::u32 a3, croq::u64 b, int scale_d) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
        "%59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(scale_d));
}

// d[64, 128] += A[64, 16] K-major in shared memory * B[16, 128] K-major. PTX ISA, wgmma.mma_async
CROQ_FN void wgmma_m64n128k16_bf16_ss(float (&d)[64], croq::u64 a, croq::u64 b, int scale_d) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
        "%59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(scale_d));
}

// The compiler may not move accesses of these registers across this point.
CROQ_FN void register_fence(croq::u32 (&r)[32]) {
    asm volatile(""
        : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]), "+r"(r[7]),
          "+r"(r[8]), "+r"(r[9]), "+r"(r[10]), "+r"(r[11]), "+r"(r[12]), "+r"(r[13]), "+r"(r[14]),
          "+r"(r[15]), "+r"(r[16]), "+r"(r[17]), "+r"(r[18]), "+r"(r[19]), "+r"(r[20]), "+r"(r[21]),
          "+r"(r[22]), "+r"(r[23]), "+r"(r[24]), "+r"(r[25]), "+r"(r[26]), "+r"(r[27]), "+r"(r[28]),
          "+r"(r[29]), "+r"(r[30]), "+r"(r[31])
        :: "memory");
}

// The compiler may not move accesses of these registers across this point.
CROQ_FN void register_fence(float (&r)[64]) {
    asm volatile(""
        : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]), "+f"(r[4]), "+f"(r[5]), "+f"(r[6]), "+f"(r[7]),
          "+f"(r[8]), "+f"(r[9]), "+f"(r[10]), "+f"(r[11]), "+f"(r[12]), "+f"(r[13]), "+f"(r[14]),
          "+f"(r[15]), "+f"(r[16]), "+f"(r[17]), "+f"(r[18]), "+f"(r[19]), "+f"(r[20]), "+f"(r[21]),
          "+f"(r[22]), "+f"(r[23]), "+f"(r[24]), "+f"(r[25]), "+f"(r[26]), "+f"(r[27]), "+f"(r[28]),
          "+f"(r[29]), "+f"(r[30]), "+f"(r[31]), "+f"(r[32]), "+f"(r[33]), "+f"(r[34]), "+f"(r[35]),
          "+f"(r[36]), "+f"(r[37]), "+f"(r[38]), "+f"(r[39]), "+f"(r[40]), "+f"(r[41]), "+f"(r[42]),
          "+f"(r[43]), "+f"(r[44]), "+f"(r[45]), "+f"(r[46]), "+f"(r[47]), "+f"(r[48]), "+f"(r[49]),
          "+f"(r[50]), "+f"(r[51]), "+f"(r[52]), "+f"(r[53]), "+f"(r[54]), "+f"(r[55]), "+f"(r[56]),
          "+f"(r[57]), "+f"(r[58]), "+f"(r[59]), "+f"(r[60]), "+f"(r[61]), "+f"(r[62]), "+f"(r[63])
        :: "memory");
}

// ================================================================================================ flash_atten
// grid [cdiv(Q_SEQ, 128), H, B], 256 threads, 98304 bytes of shared memory
extern "C" __global__ void __launch_bounds__(256)
flash_atten(
    const bf16* Q,  // [B, Q_SEQ, H, 128]
    const bf16* K,  // [B, KV_SEQ, H, 128]
    const bf16* V,  // [B, KV_SEQ, H, 128]
    bf16* O,        // [B, Q_SEQ, H, 128]
    s32 Q_SEQ,
    s32 H,
    s32 KV_SEQ) {
  // ---- shared memory, in bytes from its start
  constexpr u32 q_s_offset = 0;            // bf16 [128, 128], 128-byte swizzle
  constexpr u32 k_s_offset = 32768;        // bf16 [128, 128], 128-byte swizzle
  constexpr u32 v_s_offset = 65536;        // bf16 [128, 128], 128-byte swizzle
  constexpr u32 k_s_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 k_s_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  constexpr u32 q_s_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 q_s_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  constexpr u32 v_s_desc_lo = 0x4000000;   // MN-major, 128-byte swizzle; leading offset 16384
  constexpr u32 v_s_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 q_s = smem + q_s_offset;
  const u32 k_s = smem + k_s_offset;
  const u32 v_s = smem + v_s_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block
  const s32 lane_row = warp_row + lane / 4;     // its first row, the other is 8 below
  const s32 lane_col = lane % 4 * 2;            // its first column of each group of 8

  // v1.co:25  parallel.async {tile, head, batch} by [cdiv(Q_SEQ, BLOCK_M), H, B] : block
  const s32 tile = blockIdx.x;
  const s32 head = blockIdx.y;
  const s32 batch = blockIdx.z;
  // v1.co:27  bm = cdiv(Q_SEQ, BLOCK_M) - 1 - tile
  const s32 bm = croq::cdiv(Q_SEQ, 128) - 1 - tile;

  // v1.co:34  q_s = dma.copy.swiz<128> Q_head.subspan(BLOCK_M, DIM).at(bm, 0) => shared
  {  // 128 x 128 bf16, 16 bytes a step
    const s32 Q_at1 = bm * 128;
    #pragma unroll 8
    for (s32 step = thread; step < 2048; step += 256) {
      const s32 row = step / 16;
      const s32 col = step % 16 * 8;
      croq::cp_async_16(q_s + croq::slab_offset<128, 128>(row, col * 2),
                        &Q[((s64(batch) * Q_SEQ + Q_at1 + row) * H + head) * 128 + col],
                        Q_at1 + row < Q_SEQ ? 16 : 0);
    }
    croq::cp_async_commit();
    croq::cp_async_wait<0>();
  }
  croq::fence_proxy_async();
  croq::cta_sync();
  // v1.co:37  parallel wgm by 2 : group-4
  const s32 wgm = croq::uniform(thread / 128);
  // v1.co:38  frag bf16 [WG_M, BLOCK_N] acc_s_cast
  u32 acc_s_cast[32];  // bf16 [64, 128]
  // v1.co:39  frag f32 [WG_M] scores_max {-inf}
  float scores_max[2];  // f32 [64]
  croq::fill(scores_max, -croq::infinity());
  // v1.co:40  frag f32 [WG_M] scores_max_prev
  float scores_max_prev[2];  // f32 [64]
  // v1.co:41  frag f32 [WG_M] scores_scale
  float scores_scale[2];  // f32 [64]
  // v1.co:42  frag f32 [WG_M] scaled_max
  float scaled_max[2];  // f32 [64]
  // v1.co:43  frag f32 [WG_M] scores_sum
  float scores_sum[2];  // f32 [64]
  // v1.co:44  frag f32 [WG_M] logsum {0.0f}
  float logsum[2];  // f32 [64]
  croq::fill(logsum, 0.0f);
  // v1.co:45  acc_o = mma.fill.f32 0.0f
  float acc_o[64];  // f32 [64, 128]
  croq::fill(acc_o, 0.0f);

  // v1.co:47  foreach {bn} in [bm + 1]
  #pragma unroll 1
  for (s32 bn = 0; bn < bm + 1; ++bn) {
    // v1.co:48  acc_s = mma.fill.f32 0.0f
    float acc_s[64];  // f32 [64, 128]
    // v1.co:49  k_s = dma.copy.swiz<128> K_head.subspan(BLOCK_N, DIM).at(bn, 0) => shared
    croq::cta_sync();
    {  // 128 x 128 bf16, 16 bytes a step
      const s32 K_at1 = bn * 128;
      #pragma unroll 8
      for (s32 step = thread; step < 2048; step += 256) {
        const s32 row = step / 16;
        const s32 col = step % 16 * 8;
        croq::cp_async_16(k_s + croq::slab_offset<128, 128>(row, col * 2),
                          &K[((s64(batch) * KV_SEQ + K_at1 + row) * H + head) * 128 + col],
                          K_at1 + row < KV_SEQ ? 16 : 0);
      }
      croq::cp_async_commit();
      croq::cp_async_wait<0>();
    }
    croq::fence_proxy_async();
    croq::cta_sync();
    // v1.co:51  mma.row.row acc_s, q_s.chunkat(wgm, _), k_s
    register_fence(acc_s);
    croq::wgmma_fence();
    {
      // acc_s[64, 128] = q_s[64, 128] * k_s[128, 128]^T: 8 steps of 16
      const u32 a = croq::descriptor_word(q_s + wgm * 8192, q_s_desc_lo);
      const u32 b = croq::descriptor_word(k_s, k_s_desc_lo);
      #pragma unroll
      for (s32 k = 0; k < 8; ++k) {
        wgmma_m64n128k16_bf16_ss(acc_s,
                                 croq::make_descriptor(a + k / 4 * 1024 + k % 4 * 2, q_s_desc_hi),
                                 croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_s_desc_hi), k > 0);
      }
    }
    croq::wgmma_commit();
    croq::wgmma_wait<0>();
    register_fence(acc_s);

    // v1.co:54  if (bn == bm)
    if (bn == bm) {
      // v1.co:55  apply {i, j} in acc_s.span
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 i = lane_row + r / 2 % 2 * 8;
        const s32 j = lane_col + r / 4 * 8 + r % 2;
        // v1.co:56  if (j > wgm * WG_M + i)
        if (j > wgm * 64 + i) {
          // v1.co:57  acc_s.at(i, j) = -inf
          acc_s[r] = -croq::infinity();
        }
      }
    }

    // v1.co:62  copy(scores_max_prev, scores_max)
    croq::copy(scores_max_prev, scores_max);
    // v1.co:63  reduce_max(scores_max, acc_s, 1)
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      float even = acc_s[row * 2];
      float odd = acc_s[row * 2 + 1];
      #pragma unroll
      for (s32 r = 4; r < 64; r += 4) {
        even = croq::max(even, acc_s[r + row * 2]);
        odd = croq::max(odd, acc_s[r + row * 2 + 1]);
      }
      scores_max[row] = croq::max(even, odd);
    }
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      scores_max[row] = croq::lanes_max<4>(scores_max[row]);
    }
    // v1.co:64  mutable s32 huge = 0
    s32 huge = 0;
    // v1.co:65  apply {i} in scores_max.span
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      // v1.co:66  scores_max.at(i) = __max(scores_max.at(i), scores_max_prev.at(i))
      scores_max[row] = croq::max(scores_max[row], scores_max_prev[row]);
      // v1.co:67  scores_scale.at(i) = __exp2f(scores_max_prev.at(i) * SCALE - scores_max.at(i) * SCALE)
      scores_scale[row] = croq::ex2(scores_max_prev[row] * 0.12751743f - scores_max[row] * 0.12751743f);
      // v1.co:68  scaled_max.at(i) = scores_max.at(i) * SCALE
      scaled_max[row] = scores_max[row] * 0.12751743f;
      // v1.co:69  if (__fabs(scores_max.at(i)) >= HUGE)
      if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
        // v1.co:70  huge = 1
        huge = 1;
      }
    }
    // v1.co:72  if (huge == 1)
    if (huge == 1) {
      // v1.co:73  apply {i} in scores_max.span
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        // v1.co:74  if (__fabs(scores_max.at(i)) >= HUGE)
        if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
          // v1.co:75  scores_scale.at(i) = scores_max_prev.at(i) == scores_max.at(i) ? 1.0f : 0.0f
          scores_scale[row] = scores_max_prev[row] == scores_max[row] ? 1.0f : 0.0f;
          // v1.co:76  scaled_max.at(i) = 0.0f
          scaled_max[row] = 0.0f;
        }
      }
      // v1.co:79  apply {i, j} in acc_s.span
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 row = r / 2 % 2;
        // v1.co:80  if (__fabs(scores_max.at(i)) >= HUGE)
        if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
          // v1.co:81  acc_s.at(i, j) = acc_s.at(i, j) == scores_max.at(i) ? 0.0f : acc_s.at(i, j) - inf
          acc_s[r] = acc_s[r] == scores_max[row] ? 0.0f : acc_s[r] - croq::infinity();
        }
      }
    }
    // v1.co:84  apply {i, j} in acc_s.span
    // v1.co:85  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - scaled_max.at(i))
    #pragma unroll
    for (s32 r = 0; r < 64; ++r) {
      const s32 row = r / 2 % 2;
      acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -scaled_max[row]));
    }
    // v1.co:86  reduce_sum(scores_sum, acc_s, 1)
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      float even = acc_s[row * 2];
      float odd = acc_s[row * 2 + 1];
      #pragma unroll
      for (s32 r = 4; r < 64; r += 4) {
        even += acc_s[r + row * 2];
        odd += acc_s[r + row * 2 + 1];
      }
      scores_sum[row] = even + odd;
    }
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      scores_sum[row] = croq::lanes_sum<4>(scores_sum[row]);
    }
    // v1.co:87  apply {i} in logsum.span
    // v1.co:88  logsum.at(i) = logsum.at(i) * scores_scale.at(i) + scores_sum.at(i)
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      logsum[row] = croq::fma(logsum[row], scores_scale[row], scores_sum[row]);
    }
    // v1.co:89  apply {i, j} in acc_o.span
    // v1.co:90  acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i)
    #pragma unroll
    for (s32 r = 0; r < 64; ++r) {
      const s32 row = r / 2 % 2;
      acc_o[r] *= scores_scale[row];
    }
    // v1.co:92  apply {i, j} in acc_s_cast.span
    // v1.co:93  acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j))
    #pragma unroll
    for (s32 r = 0; r < 64; r += 2) {
      acc_s_cast[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
    }

    // v1.co:95  v_s = dma.copy.swiz<128> V_head.subspan(BLOCK_N, DIM).at(bn, 0) => shared
    croq::cta_sync();
    {  // 128 x 128 bf16, 16 bytes a step
      const s32 V_at1 = bn * 128;
      #pragma unroll 8
      for (s32 step = thread; step < 2048; step += 256) {
        const s32 row = step / 16;
        const s32 col = step % 16 * 8;
        croq::cp_async_16(v_s + croq::slab_offset<128, 128>(row, col * 2),
                          &V[((s64(batch) * KV_SEQ + V_at1 + row) * H + head) * 128 + col],
                          V_at1 + row < KV_SEQ ? 16 : 0);
      }
      croq::cp_async_commit();
      croq::cp_async_wait<0>();
    }
    croq::fence_proxy_async();
    croq::cta_sync();
    // v1.co:97  mma.row.col acc_o, acc_s_cast, v_s
    register_fence(acc_o);
    register_fence(acc_s_cast);
    croq::wgmma_fence();
    {
      // acc_o[64, 128] += acc_s_cast[64, 128] * v_s[128, 128]: 8 steps of 16
      const u32 b = croq::descriptor_word(v_s, v_s_desc_lo);
      #pragma unroll
      for (s32 k = 0; k < 8; ++k) {
        wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                    acc_s_cast[k * 4], acc_s_cast[k * 4 + 1],
                                    acc_s_cast[k * 4 + 2], acc_s_cast[k * 4 + 3],
                                    croq::make_descriptor(b + k * 128, v_s_desc_hi), 1);
      }
    }
    croq::wgmma_commit();
    croq::wgmma_wait<0>();
    register_fence(acc_o);
    register_fence(acc_s_cast);
  }

  // v1.co:100  apply {i} in scores_scale.span
  // v1.co:101  scores_scale.at(i) = 1.0f / logsum.at(i)
  #pragma unroll
  for (s32 row = 0; row < 2; ++row) {
    scores_scale[row] = croq::div(1.0f, logsum[row]);
  }
  // v1.co:102  apply {i, j} in acc_o.span
  // v1.co:103  acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i)
  #pragma unroll
  for (s32 r = 0; r < 64; ++r) {
    const s32 row = r / 2 % 2;
    acc_o[r] *= scores_scale[row];
  }
  // v1.co:105  mma.store acc_o, O_head.subspan(WG_M, DIM).at(bm # wgm, 0)
  {
    const s32 O_at1 = (bm * 2 + wgm) * 64;
    #pragma unroll
    for (s32 r = 0; r < 64; r += 2) {
      const s32 i = lane_row + r / 2 % 2 * 8;
      const s32 j = lane_col + r / 4 * 8;
      if (O_at1 + i < Q_SEQ) {
        croq::st_global_pair(&O[((s64(batch) * Q_SEQ + O_at1 + i) * H + head) * 128 + j],
                             croq::pack<bf16>(acc_o[r], acc_o[r + 1]));
      }
    }
  }
}
