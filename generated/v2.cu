// v2.cu: made by croq for sm_90a. Change v2.co, not this file.
#include "croq.cuh"

using croq::s32, croq::u32, croq::bf16;

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
// grid [cdiv(Q_SEQ, 128), H, B], 384 threads, 196680 bytes of shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
flash_atten(
    const __grid_constant__ croq::TensorMap Q_map,  // bf16 Q: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap K_map,  // bf16 K: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap V_map,  // bf16 V: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap O_map,  // bf16 O: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    s32 Q_SEQ) {
  // ---- shared memory, in bytes from its start
  constexpr u32 q_shared_offset = 0;            // bf16 [128, 128], 128-byte swizzle
  constexpr u32 k_buf_offset = 32768;           // bf16 [128, 128] x 2 slots, 128-byte swizzle
  constexpr u32 k_buf_stride = 32768;           // bytes from slot to slot
  constexpr u32 v_buf_offset = 98304;           // bf16 [128, 128] x 2 slots, 128-byte swizzle
  constexpr u32 v_buf_stride = 32768;           // bytes from slot to slot
  constexpr u32 o_buf_offset = 163840;          // bf16 [128, 128], 128-byte swizzle
  constexpr u32 qf_offset = 196608;             // mbarrier: 1 arrival and 32768 bytes a phase
  constexpr u32 kf_offset = 196616;             // 2 mbarriers: 1 arrival and 32768 bytes a phase
  constexpr u32 vf_offset = 196632;             // 2 mbarriers: 1 arrival and 32768 bytes a phase
  constexpr u32 ke_offset = 196648;             // 2 mbarriers: 8 arrivals a phase, ready at first
  constexpr u32 ve_offset = 196664;             // 2 mbarriers: 8 arrivals a phase, ready at first
  constexpr u32 k_buf_desc_lo = 0x10000;        // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 k_buf_desc_hi = 0x40000040;     // stride offset 1024, layout 1
  constexpr u32 q_shared_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 q_shared_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  constexpr u32 v_buf_desc_lo = 0x4000000;      // MN-major, 128-byte swizzle; leading offset 16384
  constexpr u32 v_buf_desc_hi = 0x40000040;     // stride offset 1024, layout 1
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 q_shared = smem + q_shared_offset;
  const u32 k_buf = smem + k_buf_offset;
  const u32 v_buf = smem + v_buf_offset;
  const u32 o_buf = smem + o_buf_offset;
  const u32 qf = smem + qf_offset;
  const u32 kf = smem + kf_offset;
  const u32 vf = smem + vf_offset;
  const u32 ke = smem + ke_offset;
  const u32 ve = smem + ve_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block
  const s32 lane_row = warp_row + lane / 4;     // its first row, the other is 8 below
  const s32 lane_col = lane % 4 * 2;            // its first column of each group of 8

  if (thread == 0) {
    // v2.co:54  shared event qf
    croq::mbarrier_init(qf, 1);
    // v2.co:55  shared event kf[K_STAGES], vf[V_STAGES]
    croq::mbarrier_init(kf, 1);
    croq::mbarrier_init(kf + 8, 1);
    croq::mbarrier_init(vf, 1);
    croq::mbarrier_init(vf + 8, 1);
    // v2.co:56  shared event ke[K_STAGES] = ready, ve[V_STAGES] = ready
    croq::mbarrier_init(ke, 8);
    croq::mbarrier_init(ke + 8, 8);
    croq::mbarrier_init(ve, 8);
    croq::mbarrier_init(ve + 8, 8);
    croq::fence_mbarrier_init();
  }
  croq::cta_sync();
  // v2.co:38  parallel.async {tile, head, batch} by [cdiv(Q_SEQ, BLOCK_M), H, B] : block
  const s32 tile = blockIdx.x;
  const s32 head = blockIdx.y;
  const s32 batch = blockIdx.z;
  // v2.co:40  bm = cdiv(Q_SEQ, BLOCK_M) - 1 - tile
  const s32 bm = croq::cdiv(Q_SEQ, 128) - 1 - tile;
  // v2.co:41  kv_bound = bm + 1
  const s32 kv_bound = bm + 1;
  // v2.co:58  parallel p by 3 : group-4, t by 128 : thread
  const s32 p = croq::uniform(thread / 128);

  // ---- p == 0: threads 0..127  (v2.co:59) ---------------------------------------------------------
  if (p == 0) {
    // v2.co:60  call croq::cuda::setreg_dec(PRODUCER_REGS)
    croq::setmaxnreg_dec<24>();

    // ---- one thread issues: thread 0 ----------------------------------------------------------------
    if (thread == 0) {
      // v2.co:63  q_load = tma.load.async.evict_first.swiz<SWIZ> Q_head.subspan(BLOCK_M, DIM).at(bm, 0) => q_shared
      croq::mbarrier_arrive_expect_tx(qf, 32768);
      croq::tma_load_5d(q_shared, &Q_map, qf,
                        0, bm * 128, 0, head, batch, croq::policy_evict_first());

      // v2.co:67  mutable u32 k_pipe_order = 0
      u32 k_pipe_order = 0;
      // v2.co:68  mutable u32 v_pipe_order = 0
      u32 v_pipe_order = 0;
      // v2.co:69  foreach {issue} in [kv_bound]
      #pragma unroll 1
      for (s32 issue = 0; issue < kv_bound; ++issue) {
        // v2.co:70  bn = bm - issue
        const s32 bn = bm - issue;
        // v2.co:71  k_slot = k_pipe_order % K_STAGES
        const u32 k_slot = k_pipe_order % 2;
        // v2.co:72  v_slot = v_pipe_order % V_STAGES
        const u32 v_slot = v_pipe_order % 2;

        // v2.co:74  wait ke.at(k_pipe_order)
        croq::mbarrier_wait(ke + k_slot * 8, ((k_pipe_order / 2) & 1) ^ 1);
        // v2.co:75  k_load = tma.load.async.evict_last.swiz<SWIZ> K_head.subspan(BLOCK_N, DIM).at(bn, 0) => k_buf[k_s...
        croq::mbarrier_arrive_expect_tx(kf + k_slot * 8, 32768);
        croq::tma_load_5d(k_buf + k_slot * k_buf_stride, &K_map, kf + k_slot * 8,
                          0, bn * 128, 0, head, batch, croq::policy_evict_last());
        // v2.co:77  trigger kf.at(k_pipe_order++) after k_load
        ++k_pipe_order;

        // v2.co:79  wait ve.at(v_pipe_order)
        croq::mbarrier_wait(ve + v_slot * 8, ((v_pipe_order / 2) & 1) ^ 1);
        // v2.co:80  v_load = tma.load.async.evict_last.swiz<SWIZ> V_head.subspan(BLOCK_N, DIM).at(bn, 0) => v_buf[v_s...
        croq::mbarrier_arrive_expect_tx(vf + v_slot * 8, 32768);
        croq::tma_load_5d(v_buf + v_slot * v_buf_stride, &V_map, vf + v_slot * 8,
                          0, bn * 128, 0, head, batch, croq::policy_evict_last());
        // v2.co:82  trigger vf.at(v_pipe_order++) after v_load
        ++v_pipe_order;
      }
    }
  }

  // ---- p > 0: threads 128..383  (v2.co:86) --------------------------------------------------------
  if (p > 0) {
    // v2.co:87  call croq::cuda::setreg_inc(CONSUMER_REGS)
    croq::setmaxnreg_inc<240>();
    // v2.co:88  cid = p - 1
    const s32 cid = p - 1;

    // v2.co:90  frag bf16 [WG_M, BLOCK_N] acc_s_cast
    u32 acc_s_cast[32];  // bf16 [64, 128]
    // v2.co:91  frag f32 [WG_M] scores_max {-inf}
    float scores_max[2];  // f32 [64]
    croq::fill(scores_max, -croq::infinity());
    // v2.co:92  frag f32 [WG_M] scores_max_prev
    float scores_max_prev[2];  // f32 [64]
    // v2.co:93  frag f32 [WG_M] scores_scale
    float scores_scale[2];  // f32 [64]
    // v2.co:94  frag f32 [WG_M] scaled_max
    float scaled_max[2];  // f32 [64]
    // v2.co:95  frag f32 [WG_M] scores_sum
    float scores_sum[2];  // f32 [64]
    // v2.co:96  frag f32 [WG_M] logsum {0.0f}
    float logsum[2];  // f32 [64]
    croq::fill(logsum, 0.0f);
    // v2.co:97  acc_o = mma.fill.f32 0.0f
    float acc_o[64];  // f32 [64, 128]
    croq::fill(acc_o, 0.0f);

    // v2.co:99  mutable u32 k_pipe_order = 0
    u32 k_pipe_order = 0;
    // v2.co:100  mutable u32 v_pipe_order = 0
    u32 v_pipe_order = 0;

    // v2.co:102  wait qf
    croq::mbarrier_wait(qf, 0);
    // v2.co:103  foreach {step} in [kv_bound]
    #pragma unroll 1
    for (s32 step = 0; step < kv_bound; ++step) {
      // v2.co:104  k_slot = k_pipe_order % K_STAGES
      const u32 k_slot = k_pipe_order % 2;
      // v2.co:105  v_slot = v_pipe_order % V_STAGES
      const u32 v_slot = v_pipe_order % 2;

      // v2.co:107  acc_s = mma.fill.f32 0.0f
      float acc_s[64];  // f32 [64, 128]
      // v2.co:108  wait kf.at(k_pipe_order)
      croq::mbarrier_wait(kf + k_slot * 8, (k_pipe_order / 2) & 1);
      // v2.co:109  mma.row.row acc_s, q_shared.subspan(WG_M, DIM).at(cid, 0), k_buf[k_slot]
      register_fence(acc_s);
      croq::wgmma_fence();
      {
        // acc_s[64, 128] = q_shared[64, 128] * k_buf[128, 128]^T: 8 steps of 16
        const u32 a = croq::descriptor_word(q_shared + cid * 8192, q_shared_desc_lo);
        const u32 b = croq::descriptor_word(k_buf + k_slot * k_buf_stride, k_buf_desc_lo);
        #pragma unroll
        for (s32 k = 0; k < 8; ++k) {
          wgmma_m64n128k16_bf16_ss(acc_s,
                                   croq::make_descriptor(a + k / 4 * 1024 + k % 4 * 2, q_shared_desc_hi),
                                   croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
        }
      }
      croq::wgmma_commit();
      croq::wgmma_wait<0>();
      register_fence(acc_s);
      // v2.co:110  trigger ke.at(k_pipe_order++)
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(ke + k_slot * 8);
      }
      ++k_pipe_order;

      // v2.co:113  if (step == 0)
      if (step == 0) {
        // v2.co:114  apply {i, j} in acc_s.span
        #pragma unroll
        for (s32 r = 0; r < 64; ++r) {
          const s32 i = lane_row + r / 2 % 2 * 8;
          const s32 j = lane_col + r / 4 * 8 + r % 2;
          // v2.co:115  if (j > cid * WG_M + i)
          if (j > cid * 64 + i) {
            // v2.co:116  acc_s.at(i, j) = -inf
            acc_s[r] = -croq::infinity();
          }
        }
      }

      // v2.co:121  copy(scores_max_prev, scores_max)
      croq::copy(scores_max_prev, scores_max);
      // v2.co:122  reduce_max(scores_max, acc_s, 1)
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
      // v2.co:123  mutable s32 huge = 0
      s32 huge = 0;
      // v2.co:124  apply {i} in scores_max.span
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        // v2.co:125  scores_max.at(i) = __max(scores_max.at(i), scores_max_prev.at(i))
        scores_max[row] = croq::max(scores_max[row], scores_max_prev[row]);
        // v2.co:126  scores_scale.at(i) = __exp2f(scores_max_prev.at(i) * SCALE - scores_max.at(i) * SCALE)
        scores_scale[row] = croq::ex2(scores_max_prev[row] * 0.12751743f - scores_max[row] * 0.12751743f);
        // v2.co:127  scaled_max.at(i) = scores_max.at(i) * SCALE
        scaled_max[row] = scores_max[row] * 0.12751743f;
        // v2.co:128  if (__fabs(scores_max.at(i)) >= HUGE)
        if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
          // v2.co:129  huge = 1
          huge = 1;
        }
      }
      // v2.co:131  if (huge == 1)
      if (huge == 1) {
        // v2.co:132  apply {i} in scores_max.span
        #pragma unroll
        for (s32 row = 0; row < 2; ++row) {
          // v2.co:133  if (__fabs(scores_max.at(i)) >= HUGE)
          if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
            // v2.co:134  scores_scale.at(i) = scores_max_prev.at(i) == scores_max.at(i) ? 1.0f : 0.0f
            scores_scale[row] = scores_max_prev[row] == scores_max[row] ? 1.0f : 0.0f;
            // v2.co:135  scaled_max.at(i) = 0.0f
            scaled_max[row] = 0.0f;
          }
        }
        // v2.co:138  apply {i, j} in acc_s.span
        #pragma unroll
        for (s32 r = 0; r < 64; ++r) {
          const s32 row = r / 2 % 2;
          // v2.co:139  if (__fabs(scores_max.at(i)) >= HUGE)
          if (croq::abs(scores_max[row]) >= 4.2949673e+09f) {
            // v2.co:140  acc_s.at(i, j) = acc_s.at(i, j) == scores_max.at(i) ? 0.0f : acc_s.at(i, j) - inf
            acc_s[r] = acc_s[r] == scores_max[row] ? 0.0f : acc_s[r] - croq::infinity();
          }
        }
      }
      // v2.co:143  apply {i, j} in acc_s.span
      // v2.co:144  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - scaled_max.at(i))
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 row = r / 2 % 2;
        acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -scaled_max[row]));
      }
      // v2.co:145  reduce_sum(scores_sum, acc_s, 1)
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
      // v2.co:146  apply {i} in logsum.span
      // v2.co:147  logsum.at(i) = logsum.at(i) * scores_scale.at(i) + scores_sum.at(i)
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        logsum[row] = croq::fma(logsum[row], scores_scale[row], scores_sum[row]);
      }
      // v2.co:148  apply {i, j} in acc_o.span
      // v2.co:149  acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i)
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 row = r / 2 % 2;
        acc_o[r] *= scores_scale[row];
      }
      // v2.co:150  apply {i, j} in acc_s_cast.span
      // v2.co:151  acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j))
      #pragma unroll
      for (s32 r = 0; r < 64; r += 2) {
        acc_s_cast[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
      }

      // v2.co:153  wait vf.at(v_pipe_order)
      croq::mbarrier_wait(vf + v_slot * 8, (v_pipe_order / 2) & 1);
      // v2.co:154  mma.row.col acc_o, acc_s_cast, v_buf[v_slot]
      register_fence(acc_o);
      register_fence(acc_s_cast);
      croq::wgmma_fence();
      {
        // acc_o[64, 128] += acc_s_cast[64, 128] * v_buf[128, 128]: 8 steps of 16
        const u32 b = croq::descriptor_word(v_buf + v_slot * v_buf_stride, v_buf_desc_lo);
        #pragma unroll
        for (s32 k = 0; k < 8; ++k) {
          wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                      acc_s_cast[k * 4], acc_s_cast[k * 4 + 1],
                                      acc_s_cast[k * 4 + 2], acc_s_cast[k * 4 + 3],
                                      croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
        }
      }
      croq::wgmma_commit();
      croq::wgmma_wait<0>();
      register_fence(acc_o);
      register_fence(acc_s_cast);
      // v2.co:155  trigger ve.at(v_pipe_order++)
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(ve + v_slot * 8);
      }
      ++v_pipe_order;
    }

    // v2.co:158  apply {i} in scores_scale.span
    // v2.co:159  scores_scale.at(i) = 1.0f / logsum.at(i)
    #pragma unroll
    for (s32 row = 0; row < 2; ++row) {
      scores_scale[row] = croq::div(1.0f, logsum[row]);
    }
    // v2.co:160  apply {i, j} in acc_o.span
    // v2.co:161  acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i)
    #pragma unroll
    for (s32 r = 0; r < 64; ++r) {
      const s32 row = r / 2 % 2;
      acc_o[r] *= scores_scale[row];
    }
    // v2.co:164  mma.store acc_o, o_buf.subspan(WG_M, DIM).at(cid, 0)
    {
      const u32 row = cid * 64 + warp_row + lane % 16;
      #pragma unroll
      for (s32 c = 0; c < 16; c += 2) {
        const u32 chunk = c + lane / 16;
        croq::stmatrix_x4(o_buf + chunk / 8 * 16384 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                          croq::pack<bf16>(acc_o[c * 4], acc_o[c * 4 + 1]),
                          croq::pack<bf16>(acc_o[c * 4 + 2], acc_o[c * 4 + 3]),
                          croq::pack<bf16>(acc_o[c * 4 + 4], acc_o[c * 4 + 5]),
                          croq::pack<bf16>(acc_o[c * 4 + 6], acc_o[c * 4 + 7]));
      }
    }
    // v2.co:165  tma.copy o_buf => O_head.subspan(BLOCK_M, DIM).at(bm, 0)
    croq::fence_proxy_async();
    croq::named_barrier_sync(1, 256);
    if (thread == 128) {
      croq::tma_store_5d(&O_map, o_buf, 0, bm * 128, 0, head, batch);
      croq::bulk_commit();
      croq::bulk_wait_read<0>();
    }
  }
}
