// v5.cu: made by croq for sm_90a. Change v5.co, not this file.
#include "croq.cuh"

using croq::s32, croq::u32, croq::bf16;

extern __shared__ __align__(1024) unsigned char croq_smem[];

// ================================================================================ WGMMA: what the kernels issue
// d[64, 128] += A[64, 16] in registers * B[16, 128] K-major. PTX ISA, wgmma.mma_async
CROQ_FN void wgmma_m64n128k16_bf16_rs(float (&d)[64], croq::u32 a0, croq::u32 a1, croq::u32 a2,
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
        "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n"
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

// ================================================================================ device code of v5.co
#define BLOCK_N 128

template <int COLUMNS>
__device__ __forceinline__ void local_row_sums(float* sums, const float* scores) {
  float top[2] = {scores[0], scores[1]};
  float bottom[2] = {scores[2], scores[3]};
#pragma unroll
  for (int tile = 1; tile < COLUMNS / 8; ++tile) {
    top[0] += scores[4 * tile + 0];
    top[1] += scores[4 * tile + 1];
    bottom[0] += scores[4 * tile + 2];
    bottom[1] += scores[4 * tile + 3];
  }
  sums[0] = top[0] + top[1];
  sums[1] = bottom[0] + bottom[1];
}

// ================================================================================================ flash_atten
// grid [114], 384 threads, 229584 bytes of shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
flash_atten(
    const __grid_constant__ croq::TensorMap Q_map,  // bf16 Q: box [64, 64, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap K_map,  // bf16 K: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap V_map,  // bf16 V: box [64, 128, 2, 1, 1] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap O_map,  // bf16 O: box [64, 64, 2, 1, 1] innermost first, 128-byte swizzle
    const s32* tasks,                               // [T]
    const s32* offsets) {                           // [115]
  // ---- shared memory, in bytes from its start
  constexpr u32 q_shared_offset = 0;         // bf16 [64, 128] x 2 slots, 128-byte swizzle
  constexpr u32 q_shared_stride = 16384;     // bytes from slot to slot
  constexpr u32 k_buf_offset = 32768;        // bf16 [128, 128] x 3 slots, 128-byte swizzle
  constexpr u32 k_buf_stride = 32768;        // bytes from slot to slot
  constexpr u32 v_buf_offset = 131072;       // bf16 [128, 128] x 2 slots, 128-byte swizzle
  constexpr u32 v_buf_stride = 32768;        // bytes from slot to slot
  constexpr u32 o_buf_offset = 196608;       // bf16 [64, 128] x 2 slots, 128-byte swizzle
  constexpr u32 o_buf_stride = 16384;        // bytes from slot to slot
  constexpr u32 raised_offset = 229376;      // u32 [2, 2, 4]
  constexpr u32 qf_offset = 229440;          // 2 mbarriers: 1 arrival and 16384 bytes a phase
  constexpr u32 qe_offset = 229456;          // 2 mbarriers: 4 arrivals a phase, ready at first
  constexpr u32 kf_offset = 229472;          // 3 mbarriers: 1 arrival and 32768 bytes a phase
  constexpr u32 vf_offset = 229496;          // 2 mbarriers: 1 arrival and 32768 bytes a phase
  constexpr u32 ke_offset = 229512;          // 3 mbarriers: 8 arrivals a phase, ready at first
  constexpr u32 ve_offset = 229536;          // 2 mbarriers: 8 arrivals a phase, ready at first
  constexpr u32 turn_offset = 229552;        // 2 mbarriers: 4 arrivals a phase
  constexpr u32 voted_offset = 229568;       // 2 mbarriers: 4 arrivals a phase
  constexpr u32 k_buf_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 k_buf_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  constexpr u32 v_buf_desc_lo = 0x4000000;   // MN-major, 128-byte swizzle; leading offset 16384
  constexpr u32 v_buf_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 q_shared = smem + q_shared_offset;
  const u32 k_buf = smem + k_buf_offset;
  const u32 v_buf = smem + v_buf_offset;
  const u32 o_buf = smem + o_buf_offset;
  const u32 raised = smem + raised_offset;
  const u32 qf = smem + qf_offset;
  const u32 qe = smem + qe_offset;
  const u32 kf = smem + kf_offset;
  const u32 vf = smem + vf_offset;
  const u32 ke = smem + ke_offset;
  const u32 ve = smem + ve_offset;
  const u32 turn = smem + turn_offset;
  const u32 voted = smem + voted_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block
  const s32 lane_row = warp_row + lane / 4;     // its first row, the other is 8 below
  const s32 lane_col = lane % 4 * 2;            // its first column of each group of 8

  if (thread == 0) {
    // v5.co:87  shared event qf[2]
    croq::mbarrier_init(qf, 1);
    croq::mbarrier_init(qf + 8, 1);
    // v5.co:88  shared event qe[2] = ready
    croq::mbarrier_init(qe, 4);
    croq::mbarrier_init(qe + 8, 4);
    // v5.co:89  shared event kf[K_STAGES], vf[V_STAGES]
    croq::mbarrier_init(kf, 1);
    croq::mbarrier_init(kf + 8, 1);
    croq::mbarrier_init(kf + 16, 1);
    croq::mbarrier_init(vf, 1);
    croq::mbarrier_init(vf + 8, 1);
    // v5.co:90  shared event ke[K_STAGES] = ready, ve[V_STAGES] = ready
    croq::mbarrier_init(ke, 8);
    croq::mbarrier_init(ke + 8, 8);
    croq::mbarrier_init(ke + 16, 8);
    croq::mbarrier_init(ve, 8);
    croq::mbarrier_init(ve + 8, 8);
    // v5.co:91  shared event turn[2]
    croq::mbarrier_init(turn, 4);
    croq::mbarrier_init(turn + 8, 4);
    // v5.co:92  shared event voted[2]
    croq::mbarrier_init(voted, 4);
    croq::mbarrier_init(voted + 8, 4);
    croq::fence_mbarrier_init();
  }
  croq::cta_sync();
  // v5.co:77  parallel.async cta by PERSISTENT_CTAS : block
  const s32 cta = blockIdx.x;
  // v5.co:78  first_task = offsets.at(cta)
  const s32 first_task = offsets[cta];
  // v5.co:79  task_count = offsets.at(cta + 1) - first_task
  const s32 task_count = croq::sub<s32>(offsets[cta + 1], first_task);
  // v5.co:95  parallel p by 3 : group-4, t by 128 : thread
  const s32 p = croq::uniform(thread / 128);
  const s32 t = thread % 128;

  // ---- p == 0: threads 0..127  (v5.co:96) ---------------------------------------------------------
  if (p == 0) {
    // v5.co:97  call croq::cuda::setreg_dec(PRODUCER_REGS)
    croq::setmaxnreg_dec<24>();
  }

  // ---- p == 0 && t < 64: threads 0..63  (v5.co:101) -----------------------------------------------
  if (p == 0 && t < 64) {
    // v5.co:88
    u32 qe_phase = 3;

    // v5.co:102  mutable u32 k_order = 0
    u32 k_order = 0;
    u32 k_order_slot = 0;
    u32 k_order_parity = 0;
    // v5.co:103  mutable u32 v_order = 0
    u32 v_order = 0;

    // v5.co:105  foreach {index} in [task_count]
    #pragma unroll 1
    for (s32 index = 0; index < task_count; ++index) {
      // v5.co:106  task = tasks.at(first_task + index)
      const s32 task = tasks[croq::add<s32>(first_task, index)];
      // v5.co:107  bm = task & 255
      const s32 bm = task & 0xff;
      // v5.co:108  head = (task >> 8) & 63
      const s32 head = (task >> 8) & 0x3f;
      // v5.co:109  batch = task >> 14
      const s32 batch = task >> 14;
      // v5.co:110  kv_bound = bm + 1
      const s32 kv_bound = bm + 1;

      // v5.co:112  if (t < 32)
      if (t < 32) {
        // ---- one thread issues: thread 0 ----------------------------------------------------------------
        if (thread == 0) {
          // v5.co:116  foreach {w} in [2]
          #pragma unroll 1
          for (s32 w = 0; w < 2; ++w) {
            // v5.co:117  wait qe[w]
            croq::mbarrier_wait(qe + w * 8, (qe_phase >> u32(w)) & 1);
            qe_phase ^= 1u << u32(w);
            // v5.co:118  q_load = tma.load.async.evict_first.swiz<SWIZ> Q_head.subspan(WG_M, DIM).at(bm * 2 + w, 0) => q_s...
            croq::mbarrier_arrive_expect_tx(qf + w * 8, 16384);
            croq::tma_load_5d(q_shared + w * q_shared_stride, &Q_map, qf + w * 8,
                              0, (bm * 2 + w) * 64, 0, head, batch, croq::policy_evict_first());
          }

          // v5.co:123  foreach {issue} in [kv_bound]
          #pragma unroll 1
          for (s32 issue = 0; issue < kv_bound; ++issue) {
            // v5.co:124  wait ke.at(k_order)
            croq::mbarrier_wait(ke + k_order_slot * 8, k_order_parity ^ 1);
            // v5.co:125  k_load = tma.load.async.evict_last.swiz<SWIZ> K_head.subspan(BLOCK_N, DIM).at(bm - issue, 0) => k...
            croq::mbarrier_arrive_expect_tx(kf + k_order_slot * 8, 32768);
            croq::tma_load_5d(k_buf + k_order_slot * k_buf_stride, &K_map, kf + k_order_slot * 8,
                              0, (bm - issue) * 128, 0, head, batch, croq::policy_evict_last());
            // v5.co:127  trigger kf.at(k_order++) after k_load
            ++k_order;
            const u32 n = k_order_slot + 1;
            k_order_slot = n == 3 ? 0 : n;
            k_order_parity ^= u32(n == 3);
          }
        }
        croq::warp_sync();
      } else {
        // ---- one thread issues: thread 32 ---------------------------------------------------------------
        if (thread == 32) {
          // v5.co:132  foreach {issue} in [kv_bound]
          #pragma unroll 1
          for (s32 issue = 0; issue < kv_bound; ++issue) {
            // v5.co:133  wait ve.at(v_order)
            const u32 ve_slot = v_order % 2;
            croq::mbarrier_wait(ve + ve_slot * 8, ((v_order / 2) & 1) ^ 1);
            // v5.co:134  v_load = tma.load.async.evict_last.swiz<SWIZ> V_head.subspan(BLOCK_N, DIM).at(bm - issue, 0) => v...
            croq::mbarrier_arrive_expect_tx(vf + ve_slot * 8, 32768);
            croq::tma_load_5d(v_buf + ve_slot * v_buf_stride, &V_map, vf + ve_slot * 8,
                              0, (bm - issue) * 128, 0, head, batch, croq::policy_evict_last());
            // v5.co:136  trigger vf.at(v_order++) after v_load
            ++v_order;
          }
        }
        croq::warp_sync();
      }
    }
  }

  // ---- p == w + 1: threads 128..255  (v5.co:144) --------------------------------------------------
  if (p == 1) {
    // v5.co:91
    u32 turn_phase = 0;
    // v5.co:87
    u32 qf_phase = 0;
    // v5.co:92
    u32 voted_phase = 0;

    // v5.co:145  call croq::cuda::setreg_inc(CONSUMER_REGS)
    croq::setmaxnreg_inc<240>();
    // v5.co:146  mutable u32 k_order = 0
    u32 k_order = 0;
    u32 k_order_slot = 0;
    u32 k_order_parity = 0;
    // v5.co:147  mutable u32 k_done = 0
    u32 k_done = 0;
    u32 k_done_slot = 0;
    // v5.co:148  mutable u32 v_order = 0
    u32 v_order = 0;
    // v5.co:149  mutable u32 vote = 0
    u32 vote = 0;
    // v5.co:150  mutable s32 over = 0
    s32 over = 0;
    // v5.co:151  mutable s32 running = 0
    s32 running = 0;

    // v5.co:153  frag bf16 [WG_M, DIM] q_regs
    u32 q_regs[32];  // bf16 [64, 128]
    // v5.co:154  frag bf16 [WG_M, BLOCK_N] weights
    u32 weights[32];  // bf16 [64, 128]
    // v5.co:155  frag f32 [WG_M] row_max
    float row_max[2];  // f32 [64]
    // v5.co:156  frag f32 [WG_M] last_max
    float last_max[2];  // f32 [64]
    // v5.co:157  frag f32 [WG_M] row_ref
    float row_ref[2];  // f32 [64]
    // v5.co:158  frag f32 [WG_M] first_ref
    float first_ref[2];  // f32 [64]
    // v5.co:159  frag f32 [WG_M] last_ref
    float last_ref[2];  // f32 [64]
    // v5.co:160  frag f32 [WG_M] rescale
    float rescale[2];  // f32 [64]
    // v5.co:161  frag f32 [WG_M] tile_sum
    float tile_sum[2];  // f32 [64]
    // v5.co:162  frag f32 [WG_M] row_sum
    float row_sum[2];  // f32 [64]
    // v5.co:163  acc_s = mma.fill.f32 0.0f
    float acc_s[64];  // f32 [64, 128]
    croq::fill(acc_s, 0.0f);
    // v5.co:164  acc_o = mma.fill.f32 0.0f
    float acc_o[64];  // f32 [64, 128]
    croq::fill(acc_o, 0.0f);

    // v5.co:166  if (t % 32 == 0)
    if (t % 32 == 0) {
      // v5.co:167  raised.at(w, 0, t / 32) = 0
      const s32 n = t / 32;
      croq::st_shared<u32>(raised + n * 4, 0);
      // v5.co:168  raised.at(w, 1, t / 32) = 0
      croq::st_shared<u32>(raised + n * 4 + 16, 0);
    }
    // v5.co:170  trigger voted[w]
    croq::warp_sync();
    if (lane == 0) {
      croq::mbarrier_arrive(voted);
    }
    // v5.co:171  wait voted[w]
    croq::mbarrier_wait(voted, voted_phase & 1);
    voted_phase ^= 1;
    // v5.co:172  if (w == 1)

    // v5.co:175  if (task_count > 0)
    if (task_count > 0) {
      // v5.co:177  mutable s32 task = tasks.at(first_task)
      s32 task = tasks[first_task];
      // v5.co:178  wait qf[w]
      croq::mbarrier_wait(qf, qf_phase & 1);
      qf_phase ^= 1;
      // v5.co:179  apply {i, j} in q_regs.span q_regs.at(i, j) = q_shared[w].at(i, j)
      {
        const u32 row = warp_row + lane % 16;
        #pragma unroll
        for (s32 c = 0; c < 16; c += 2) {
          const u32 chunk = c + lane / 16;
          croq::ldmatrix_x4(q_regs[c * 2],
                            q_regs[c * 2 + 1],
                            q_regs[c * 2 + 2],
                            q_regs[c * 2 + 3],
                            q_shared + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
        }
        croq::settle(q_regs);
      }
      // v5.co:181  wait kf.at(k_order)
      croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
      // v5.co:182  wait turn[w]
      croq::mbarrier_wait(turn, turn_phase & 1);
      turn_phase ^= 1;
      // v5.co:183  first_qk = mma.row.row.async acc_s, q_regs, k_buf[k_order % K_STAGES]
      register_fence(acc_s);
      register_fence(q_regs);
      croq::wgmma_fence();
      {
        // acc_s[64, 128] += q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
        const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
        #pragma unroll
        for (s32 k = 0; k < 8; ++k) {
          wgmma_m64n128k16_bf16_rs(acc_s,
                                   q_regs[k * 4], q_regs[k * 4 + 1],
                                   q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                   croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), 1);
        }
      }
      croq::wgmma_commit();  // first_qk
      // v5.co:184  trigger turn[1 - w]
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(turn + 8);
      }
      // v5.co:185  wait first_qk
      croq::wgmma_wait<0>();  // first_qk
      register_fence(acc_s);
      register_fence(q_regs);
      // v5.co:186  trigger qe[w]
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(qe);
      }
      // v5.co:187  k_order++
      ++k_order;
      const u32 n = k_order_slot + 1;
      k_order_slot = croq::uniform(n == 3 ? 0 : n);
      k_order_parity = croq::uniform(k_order_parity ^ u32(n == 3));
      // v5.co:188  apply {i, j} in acc_s.span
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 i = lane_row + r / 2 % 2 * 8;
        const s32 j = lane_col + r / 4 * 8 + r % 2;
        // v5.co:189  if (j > w * WG_M + i)
        if (j > 0 + i) {
          // v5.co:190  acc_s.at(i, j) = -inf
          acc_s[r] = -croq::infinity();
        }
      }
      // v5.co:192  reduce_max(row_max, acc_s, 1)
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        float even = acc_s[row * 2];
        float odd = acc_s[row * 2 + 1];
        #pragma unroll
        for (s32 r = 4; r < 64; r += 4) {
          even = croq::max(even, acc_s[r + row * 2]);
          odd = croq::max(odd, acc_s[r + row * 2 + 1]);
        }
        row_max[row] = croq::max(even, odd);
      }
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        row_max[row] = croq::lanes_max<4>(row_max[row]);
      }
      // v5.co:193  over = 0
      over = 0;
      // v5.co:194  apply {i} in row_ref.span
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        // v5.co:195  row_ref.at(i) = row_max.at(i) * SCALE
        row_ref[row] = row_max[row] * 0.12751743f;
        // v5.co:196  first_ref.at(i) = row_ref.at(i)
        first_ref[row] = row_ref[row];
        // v5.co:197  if (!(__fabs(row_max.at(i)) < HUGE))
        if (!(croq::abs(row_max[row]) < 4.2949673e+09f)) {
          // v5.co:198  over = 1
          over = 1;
        }
      }
      // v5.co:200  apply {i, j} in acc_s.span
      // v5.co:201  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - row_ref.at(i))
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 row = r / 2 % 2;
        acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
      }
      // v5.co:202  call local_row_sums<BLOCK_N>(tile_sum, acc_s)
      local_row_sums<128>(tile_sum, acc_s);
      // v5.co:203  apply {i} in row_sum.span
      // v5.co:204  row_sum.at(i) = 0.0f
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        row_sum[row] = 0.0f;
      }
      // v5.co:205  vote++
      ++vote;
      // v5.co:206  if (over != 0)
      if (over != 0) {
        // v5.co:207  raised.at(w, vote % 2, t / 32) = vote
        croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4, vote);
      }
      // v5.co:208  trigger voted[w]
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(voted);
      }
      // v5.co:209  apply {i, j} in weights.span
      // v5.co:210  weights.at(i, j) = __to<bf16>(acc_s.at(i, j))
      #pragma unroll
      for (s32 r = 0; r < 64; r += 2) {
        weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
      }

      // v5.co:212  foreach {index} in [task_count]
      #pragma unroll 1
      for (s32 index = 0; index < task_count; ++index) {
        // v5.co:213  bm = task & 255
        const s32 bm = task & 0xff;
        // v5.co:214  head = (task >> 8) & 63
        const s32 head = (task >> 8) & 0x3f;
        // v5.co:215  batch = task >> 14
        const s32 batch = task >> 14;

        // v5.co:218  mutable s32 left = bm
        s32 left = bm;
        // v5.co:219  mutable s32 held = 0
        s32 held = 0;
        // v5.co:220  mutable s32 redo = 0
        s32 redo = 0;
        // v5.co:221  if (running == 0)
        const s32 running_before = running;
        if (running == 0) {
          // v5.co:223  while (left > 0)
          while (left > 0) {
            // v5.co:224  wait kf.at(k_order)
            croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
            // v5.co:225  wait turn[w]
            croq::mbarrier_wait(turn, turn_phase & 1);
            turn_phase ^= 1;
            // v5.co:227  qk = mma.row.row.async acc_s, q_regs, k_buf[k_order % K_STAGES]
            register_fence(acc_s);
            register_fence(q_regs);
            croq::wgmma_fence();
            {
              // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
              const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs(acc_s,
                                         q_regs[k * 4], q_regs[k * 4 + 1],
                                         q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                         croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
              }
            }
            croq::wgmma_commit();  // qk
            // v5.co:228  wait voted[w]
            croq::mbarrier_wait(voted, voted_phase & 1);
            voted_phase ^= 1;
            // v5.co:229  raised_0 = raised.at(w, vote % 2, 0)
            const s32 n_2 = s32(vote % 2);
            const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16);
            // v5.co:230  raised_1 = raised.at(w, vote % 2, 1)
            const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 4);
            // v5.co:231  raised_2 = raised.at(w, vote % 2, 2)
            const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 8);
            // v5.co:232  raised_3 = raised.at(w, vote % 2, 3)
            const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 12);
            // v5.co:233  if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote)
            if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote) {
              // v5.co:234  wait qk
              croq::wgmma_wait<0>();  // qk
              register_fence(acc_s);
              register_fence(q_regs);
              // v5.co:235  held = 1
              held = 1;
              // v5.co:236  redo = 1
              redo = 1;
              // v5.co:237  break
              break;
            }
            // v5.co:239  apply {i} in row_sum.span
            // v5.co:240  row_sum.at(i) = row_sum.at(i) + tile_sum.at(i)
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_sum[row] += tile_sum[row];
            }
            // v5.co:241  trigger ke.at(k_done++)
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ke + k_done_slot * 8);
            }
            ++k_done;
            const u32 n_3 = k_done_slot + 1;
            k_done_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
            // v5.co:242  wait vf.at(v_order)
            const u32 vf_slot = v_order % 2;
            croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
            // v5.co:243  pv = mma.row.col.async acc_o, weights, v_buf[v_order % V_STAGES]
            register_fence(acc_o);
            register_fence(weights);
            croq::wgmma_fence();
            {
              // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
              const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                            weights[k * 4], weights[k * 4 + 1],
                                            weights[k * 4 + 2], weights[k * 4 + 3],
                                            croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
              }
            }
            croq::wgmma_commit();  // pv
            // v5.co:244  trigger turn[1 - w]
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(turn + 8);
            }
            // v5.co:245  wait qk
            croq::wgmma_wait<1>();  // qk
            register_fence(acc_s);
            register_fence(q_regs);
            // v5.co:246  k_order++
            ++k_order;
            const u32 n_4 = k_order_slot + 1;
            k_order_slot = croq::uniform(n_4 == 3 ? 0 : n_4);
            k_order_parity = croq::uniform(k_order_parity ^ u32(n_4 == 3));
            // v5.co:247  left--
            left = croq::sub<s32>(left, 1);
            // v5.co:248  apply {i, j} in acc_s.span
            // v5.co:249  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - row_ref.at(i))
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
            }
            // v5.co:250  call local_row_sums<BLOCK_N>(tile_sum, acc_s)
            const u32 vote_before = vote;
            const u32 v_order_2_before = v_order;
            local_row_sums<128>(tile_sum, acc_s);
            // v5.co:251  over = 0
            over = 0;
            // v5.co:252  apply {i} in tile_sum.span
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:253  if (!(tile_sum.at(i) <= SAFE))
              if (!(tile_sum[row] <= 1.048576e+06f)) {
                // v5.co:254  over = 1
                over = 1;
              }
            }
            // v5.co:256  vote++
            vote = vote_before + 1;
            // v5.co:257  if (over != 0)
            if (over != 0) {
              // v5.co:258  raised.at(w, vote % 2, t / 32) = vote
              croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4, vote);
            }
            // v5.co:259  trigger voted[w]
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(voted);
            }
            // v5.co:260  wait pv
            croq::wgmma_wait<0>();  // pv
            register_fence(acc_o);
            register_fence(weights);
            // v5.co:261  trigger ve.at(v_order++)
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ve + vf_slot * 8);
            }
            v_order = v_order_2_before + 1;
            // v5.co:262  apply {i, j} in weights.span
            // v5.co:263  weights.at(i, j) = __to<bf16>(acc_s.at(i, j))
            #pragma unroll
            for (s32 r = 0; r < 64; r += 2) {
              weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
            }
          }
        }
        // v5.co:266  if (redo == 0)
        if (redo == 0) {
          // v5.co:267  wait voted[w]
          croq::mbarrier_wait(voted, voted_phase & 1);
          voted_phase ^= 1;
          // v5.co:268  raised_0 = raised.at(w, vote % 2, 0)
          const s32 n_2 = s32(vote % 2);
          const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16);
          // v5.co:269  raised_1 = raised.at(w, vote % 2, 1)
          const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 4);
          // v5.co:270  raised_2 = raised.at(w, vote % 2, 2)
          const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 8);
          // v5.co:271  raised_3 = raised.at(w, vote % 2, 3)
          const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 12);
          // v5.co:272  if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote)
          if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote) {
            // v5.co:273  redo = 1
            redo = 1;
          }
        }
        // v5.co:275  if (redo == 0)
        const bool flag = redo == 0;
        const s32 redo_before = redo;
        if (flag) {
          // v5.co:276  apply {i} in row_sum.span
          // v5.co:277  row_sum.at(i) = row_sum.at(i) + tile_sum.at(i)
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] += tile_sum[row];
          }
        } else {
          // v5.co:281  mma.row.row acc_s, q_regs, k_buf[k_done % K_STAGES]
          register_fence(acc_s);
          register_fence(q_regs);
          croq::wgmma_fence();
          {
            // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
            const u32 b = croq::descriptor_word(k_buf + k_done_slot * k_buf_stride, k_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs(acc_s,
                                       q_regs[k * 4], q_regs[k * 4 + 1],
                                       q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                       croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
            }
          }
          croq::wgmma_commit();
          croq::wgmma_wait<0>();
          register_fence(acc_s);
          register_fence(q_regs);
          // v5.co:282  if (left == bm)
          if (left == bm) {
            // v5.co:283  apply {i, j} in acc_s.span
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 i = lane_row + r / 2 % 2 * 8;
              const s32 j = lane_col + r / 4 * 8 + r % 2;
              // v5.co:284  if (j > w * WG_M + i)
              if (j > 0 + i) {
                // v5.co:285  acc_s.at(i, j) = -inf
                acc_s[r] = -croq::infinity();
              }
            }
          }
          // v5.co:288  reduce_max(row_max, acc_s, 1)
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            float even = acc_s[row * 2];
            float odd = acc_s[row * 2 + 1];
            #pragma unroll
            for (s32 r = 4; r < 64; r += 4) {
              even = croq::max(even, acc_s[r + row * 2]);
              odd = croq::max(odd, acc_s[r + row * 2 + 1]);
            }
            row_max[row] = croq::max(even, odd);
          }
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_max[row] = croq::lanes_max<4>(row_max[row]);
          }
          // v5.co:289  apply {i} in last_max.span
          // v5.co:290  last_max.at(i) = -inf
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            last_max[row] = -croq::infinity();
          }
          // v5.co:291  mutable s32 huge = 0
          s32 huge = 0;
          // v5.co:292  apply {i} in row_ref.span
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            // v5.co:293  last_ref.at(i) = row_ref.at(i)
            last_ref[row] = row_ref[row];
            // v5.co:294  row_ref.at(i) = row_max.at(i) * SCALE
            row_ref[row] = row_max[row] * 0.12751743f;
            // v5.co:295  if (left < bm)
            if (left < bm) {
              // v5.co:296  row_ref.at(i) = __max(row_ref.at(i), last_ref.at(i))
              row_ref[row] = croq::max(row_ref[row], last_ref[row]);
            }
            // v5.co:297  rescale.at(i) = __exp2f(last_ref.at(i) - row_ref.at(i))
            rescale[row] = croq::ex2(last_ref[row] - row_ref[row]);
            // v5.co:298  if (__fabs(row_max.at(i)) >= HUGE)
            if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
              // v5.co:299  huge = 1
              huge = 1;
            }
          }
          // v5.co:301  if (huge == 1)
          if (huge == 1) {
            // v5.co:302  apply {i} in row_ref.span
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:303  if (__fabs(row_max.at(i)) >= HUGE)
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:304  rescale.at(i) = last_max.at(i) == row_max.at(i) ? 1.0f : 0.0f
                rescale[row] = last_max[row] == row_max[row] ? 1.0f : 0.0f;
                // v5.co:305  row_ref.at(i) = 0.0f
                row_ref[row] = 0.0f;
              }
            }
            // v5.co:308  apply {i, j} in acc_s.span
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              // v5.co:309  if (__fabs(row_max.at(i)) >= HUGE)
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:310  acc_s.at(i, j) = acc_s.at(i, j) == row_max.at(i) ? 0.0f : acc_s.at(i, j) - inf
                acc_s[r] = acc_s[r] == row_max[row] ? 0.0f : acc_s[r] - croq::infinity();
              }
            }
          }
          // v5.co:313  apply {i, j} in acc_s.span
          // v5.co:314  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - row_ref.at(i))
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
          }
          // v5.co:315  call local_row_sums<BLOCK_N>(tile_sum, acc_s)
          local_row_sums<128>(tile_sum, acc_s);
          // v5.co:316  apply {i} in row_sum.span
          // v5.co:317  row_sum.at(i) = row_sum.at(i) * rescale.at(i) + tile_sum.at(i)
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] = croq::fma(row_sum[row], rescale[row], tile_sum[row]);
          }
          // v5.co:318  apply {i, j} in acc_o.span
          // v5.co:319  acc_o.at(i, j) = acc_o.at(i, j) * rescale.at(i)
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_o[r] *= rescale[row];
          }
          // v5.co:320  apply {i, j} in weights.span
          // v5.co:321  weights.at(i, j) = __to<bf16>(acc_s.at(i, j))
          #pragma unroll
          for (s32 r = 0; r < 64; r += 2) {
            weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
          }
        }
        // v5.co:323  if (redo == 1 || running == 1)
        if (redo_before == 1 || running_before == 1) {
          // v5.co:325  while (left > 0)
          while (left > 0) {
            // v5.co:326  if (held == 0)
            if (held == 0) {
              // v5.co:327  wait kf.at(k_order)
              croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
              // v5.co:328  wait turn[w]
              croq::mbarrier_wait(turn, turn_phase & 1);
              turn_phase ^= 1;
            }
            // v5.co:330  held = 0
            held = 0;
            // v5.co:332  qk = mma.row.row.async acc_s, q_regs, k_buf[k_order % K_STAGES]
            register_fence(acc_s);
            register_fence(q_regs);
            croq::wgmma_fence();
            {
              // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
              const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs(acc_s,
                                         q_regs[k * 4], q_regs[k * 4 + 1],
                                         q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                         croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
              }
            }
            croq::wgmma_commit();  // qk
            // v5.co:333  trigger ke.at(k_done++)
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ke + k_done_slot * 8);
            }
            ++k_done;
            const u32 n_2 = k_done_slot + 1;
            k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
            // v5.co:334  wait vf.at(v_order)
            const u32 vf_slot = v_order % 2;
            croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
            // v5.co:335  pv = mma.row.col.async acc_o, weights, v_buf[v_order % V_STAGES]
            register_fence(acc_o);
            register_fence(weights);
            croq::wgmma_fence();
            {
              // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
              const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                            weights[k * 4], weights[k * 4 + 1],
                                            weights[k * 4 + 2], weights[k * 4 + 3],
                                            croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
              }
            }
            croq::wgmma_commit();  // pv
            // v5.co:336  trigger turn[1 - w]
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(turn + 8);
            }
            // v5.co:337  wait qk
            croq::wgmma_wait<1>();  // qk
            register_fence(acc_s);
            register_fence(q_regs);
            // v5.co:338  k_order++
            ++k_order;
            const u32 n_3 = k_order_slot + 1;
            k_order_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
            k_order_parity = croq::uniform(k_order_parity ^ u32(n_3 == 3));
            // v5.co:339  left--
            left = croq::sub<s32>(left, 1);
            // v5.co:340  copy(last_max, row_max)
            croq::copy(last_max, row_max);
            // v5.co:341  reduce_max(row_max, acc_s, 1)
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              float even = acc_s[row * 2];
              float odd = acc_s[row * 2 + 1];
              #pragma unroll
              for (s32 r = 4; r < 64; r += 4) {
                even = croq::max(even, acc_s[r + row * 2]);
                odd = croq::max(odd, acc_s[r + row * 2 + 1]);
              }
              row_max[row] = croq::max(even, odd);
            }
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_max[row] = croq::lanes_max<4>(row_max[row]);
            }
            // v5.co:342  apply {i} in row_max.span
            // v5.co:343  row_max.at(i) = __max(row_max.at(i), last_max.at(i))
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_max[row] = croq::max(row_max[row], last_max[row]);
            }
            // v5.co:344  mutable s32 huge = 0
            s32 huge = 0;
            // v5.co:345  apply {i} in row_ref.span
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:346  last_ref.at(i) = row_ref.at(i)
              last_ref[row] = row_ref[row];
              // v5.co:347  row_ref.at(i) = row_max.at(i) * SCALE
              row_ref[row] = row_max[row] * 0.12751743f;
              // v5.co:348  row_ref.at(i) = __max(row_ref.at(i), last_ref.at(i))
              row_ref[row] = croq::max(row_ref[row], last_ref[row]);
              // v5.co:349  rescale.at(i) = __exp2f(last_ref.at(i) - row_ref.at(i))
              rescale[row] = croq::ex2(last_ref[row] - row_ref[row]);
              // v5.co:350  if (__fabs(row_max.at(i)) >= HUGE)
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:351  huge = 1
                huge = 1;
              }
            }
            // v5.co:353  if (huge == 1)
            if (huge == 1) {
              // v5.co:354  apply {i} in row_ref.span
              #pragma unroll
              for (s32 row = 0; row < 2; ++row) {
                // v5.co:355  if (__fabs(row_max.at(i)) >= HUGE)
                if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                  // v5.co:356  rescale.at(i) = last_max.at(i) == row_max.at(i) ? 1.0f : 0.0f
                  rescale[row] = last_max[row] == row_max[row] ? 1.0f : 0.0f;
                  // v5.co:357  row_ref.at(i) = 0.0f
                  row_ref[row] = 0.0f;
                }
              }
              // v5.co:360  apply {i, j} in acc_s.span
              #pragma unroll
              for (s32 r = 0; r < 64; ++r) {
                const s32 row = r / 2 % 2;
                // v5.co:361  if (__fabs(row_max.at(i)) >= HUGE)
                if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                  // v5.co:362  acc_s.at(i, j) = acc_s.at(i, j) == row_max.at(i) ? 0.0f : acc_s.at(i, j) - inf
                  acc_s[r] = acc_s[r] == row_max[row] ? 0.0f : acc_s[r] - croq::infinity();
                }
              }
            }
            // v5.co:365  apply {i, j} in acc_s.span
            // v5.co:366  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - row_ref.at(i))
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
            }
            // v5.co:367  call local_row_sums<BLOCK_N>(tile_sum, acc_s)
            const u32 v_order_2_before = v_order;
            local_row_sums<128>(tile_sum, acc_s);
            // v5.co:368  apply {i} in row_sum.span
            // v5.co:369  row_sum.at(i) = row_sum.at(i) * rescale.at(i) + tile_sum.at(i)
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_sum[row] = croq::fma(row_sum[row], rescale[row], tile_sum[row]);
            }
            // v5.co:370  wait pv
            croq::wgmma_wait<0>();  // pv
            register_fence(acc_o);
            register_fence(weights);
            // v5.co:371  trigger ve.at(v_order++)
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ve + vf_slot * 8);
            }
            v_order = v_order_2_before + 1;
            // v5.co:372  apply {i, j} in acc_o.span
            // v5.co:373  acc_o.at(i, j) = acc_o.at(i, j) * rescale.at(i)
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_o[r] *= rescale[row];
            }
            // v5.co:374  apply {i, j} in weights.span
            // v5.co:375  weights.at(i, j) = __to<bf16>(acc_s.at(i, j))
            #pragma unroll
            for (s32 r = 0; r < 64; r += 2) {
              weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
            }
          }
          // v5.co:377  if (redo == 0)
          if (flag) {
            // v5.co:379  over = 0
            over = 0;
            // v5.co:380  apply {i} in row_ref.span
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:381  if (!(row_ref.at(i) - first_ref.at(i) <= GROWTH))
              if (!(row_ref[row] - first_ref[row] <= 15.0f)) {
                // v5.co:382  over = 1
                over = 1;
              }
            }
            // v5.co:384  vote++
            ++vote;
            // v5.co:385  if (over != 0)
            if (over != 0) {
              // v5.co:386  raised.at(w, vote % 2, t / 32) = vote
              croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4, vote);
            }
            // v5.co:387  trigger voted[w]
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(voted);
            }
            // v5.co:388  wait voted[w]
            croq::mbarrier_wait(voted, voted_phase & 1);
            voted_phase ^= 1;
            // v5.co:389  raised_0 = raised.at(w, vote % 2, 0)
            const s32 n_2 = s32(vote % 2);
            const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16);
            // v5.co:390  raised_1 = raised.at(w, vote % 2, 1)
            const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 4);
            // v5.co:391  raised_2 = raised.at(w, vote % 2, 2)
            const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 8);
            // v5.co:392  raised_3 = raised.at(w, vote % 2, 3)
            const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 12);
            // v5.co:393  if (!(raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote))
            if (!(raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote)) {
              // v5.co:394  running = 0
              running = 0;
            }
          } else {
            // v5.co:396  running = 1
            running = 1;
          }
        }

        // v5.co:401  copy(rescale, row_sum)
        croq::copy(rescale, row_sum);
        // v5.co:402  if (index + 1 < task_count)
        if (index + 1 < task_count) {
          // v5.co:403  task = tasks.at(first_task + index + 1)
          task = tasks[croq::add<s32>(croq::add<s32>(first_task, index), 1)];
          // v5.co:404  wait qf[w]
          croq::mbarrier_wait(qf, qf_phase & 1);
          qf_phase ^= 1;
          // v5.co:405  apply {i, j} in q_regs.span q_regs.at(i, j) = q_shared[w].at(i, j)
          {
            const u32 row = warp_row + lane % 16;
            #pragma unroll
            for (s32 c = 0; c < 16; c += 2) {
              const u32 chunk = c + lane / 16;
              croq::ldmatrix_x4(q_regs[c * 2],
                                q_regs[c * 2 + 1],
                                q_regs[c * 2 + 2],
                                q_regs[c * 2 + 3],
                                q_shared + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
            }
            croq::settle(q_regs);
          }
          // v5.co:407  wait kf.at(k_order)
          croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
          // v5.co:408  wait turn[w]
          croq::mbarrier_wait(turn, turn_phase & 1);
          turn_phase ^= 1;
          // v5.co:410  qk = mma.row.row.async acc_s, q_regs, k_buf[k_order % K_STAGES]
          register_fence(acc_s);
          register_fence(q_regs);
          croq::wgmma_fence();
          {
            // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
            const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs(acc_s,
                                       q_regs[k * 4], q_regs[k * 4 + 1],
                                       q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                       croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
            }
          }
          croq::wgmma_commit();  // qk
          // v5.co:411  trigger ke.at(k_done++)
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ke + k_done_slot * 8);
          }
          ++k_done;
          const u32 n_2 = k_done_slot + 1;
          k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
          // v5.co:412  wait vf.at(v_order)
          const u32 vf_slot = v_order % 2;
          croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
          // v5.co:413  pv = mma.row.col.async acc_o, weights, v_buf[v_order % V_STAGES]
          register_fence(acc_o);
          register_fence(weights);
          croq::wgmma_fence();
          {
            // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
            const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                          weights[k * 4], weights[k * 4 + 1],
                                          weights[k * 4 + 2], weights[k * 4 + 3],
                                          croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
            }
          }
          croq::wgmma_commit();  // pv
          // v5.co:414  trigger turn[1 - w]
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(turn + 8);
          }
          // v5.co:415  wait qk
          croq::wgmma_wait<1>();  // qk
          register_fence(acc_s);
          register_fence(q_regs);
          // v5.co:416  trigger qe[w]
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(qe);
          }
          // v5.co:417  k_order++
          ++k_order;
          const u32 n_3 = k_order_slot + 1;
          k_order_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
          k_order_parity = croq::uniform(k_order_parity ^ u32(n_3 == 3));
          // v5.co:418  apply {i, j} in acc_s.span
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 i = lane_row + r / 2 % 2 * 8;
            const s32 j = lane_col + r / 4 * 8 + r % 2;
            // v5.co:419  if (j > w * WG_M + i)
            if (j > 0 + i) {
              // v5.co:420  acc_s.at(i, j) = -inf
              acc_s[r] = -croq::infinity();
            }
          }
          // v5.co:422  reduce_max(row_max, acc_s, 1)
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            float even = acc_s[row * 2];
            float odd = acc_s[row * 2 + 1];
            #pragma unroll
            for (s32 r = 4; r < 64; r += 4) {
              even = croq::max(even, acc_s[r + row * 2]);
              odd = croq::max(odd, acc_s[r + row * 2 + 1]);
            }
            row_max[row] = croq::max(even, odd);
          }
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_max[row] = croq::lanes_max<4>(row_max[row]);
          }
          // v5.co:423  over = 0
          over = 0;
          // v5.co:424  apply {i} in row_ref.span
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            // v5.co:425  row_ref.at(i) = row_max.at(i) * SCALE
            row_ref[row] = row_max[row] * 0.12751743f;
            // v5.co:426  first_ref.at(i) = row_ref.at(i)
            first_ref[row] = row_ref[row];
            // v5.co:427  if (!(__fabs(row_max.at(i)) < HUGE))
            if (!(croq::abs(row_max[row]) < 4.2949673e+09f)) {
              // v5.co:428  over = 1
              over = 1;
            }
          }
          // v5.co:430  apply {i, j} in acc_s.span
          // v5.co:431  acc_s.at(i, j) = __exp2f(acc_s.at(i, j) * SCALE - row_ref.at(i))
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
          }
          // v5.co:432  call local_row_sums<BLOCK_N>(tile_sum, acc_s)
          const u32 v_order_2_before = v_order;
          local_row_sums<128>(tile_sum, acc_s);
          // v5.co:433  apply {i} in row_sum.span
          // v5.co:434  row_sum.at(i) = 0.0f
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] = 0.0f;
          }
          // v5.co:435  vote++
          ++vote;
          // v5.co:436  if (over != 0)
          if (over != 0) {
            // v5.co:437  raised.at(w, vote % 2, t / 32) = vote
            croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4, vote);
          }
          // v5.co:438  trigger voted[w]
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(voted);
          }
          // v5.co:439  wait pv
          croq::wgmma_wait<0>();  // pv
          register_fence(acc_o);
          register_fence(weights);
          // v5.co:440  trigger ve.at(v_order++)
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ve + vf_slot * 8);
          }
          v_order = v_order_2_before + 1;
          // v5.co:441  apply {i, j} in weights.span
          // v5.co:442  weights.at(i, j) = __to<bf16>(acc_s.at(i, j))
          #pragma unroll
          for (s32 r = 0; r < 64; r += 2) {
            weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
          }
        } else {
          // v5.co:444  trigger ke.at(k_done++)
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ke + k_done_slot * 8);
          }
          ++k_done;
          const u32 n_2 = k_done_slot + 1;
          k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
          // v5.co:445  wait vf.at(v_order)
          const u32 vf_slot = v_order % 2;
          croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
          // v5.co:446  mma.row.col acc_o, weights, v_buf[v_order % V_STAGES]
          register_fence(acc_o);
          register_fence(weights);
          croq::wgmma_fence();
          {
            // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
            const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                          weights[k * 4], weights[k * 4 + 1],
                                          weights[k * 4 + 2], weights[k * 4 + 3],
                                          croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
            }
          }
          croq::wgmma_commit();
          croq::wgmma_wait<0>();
          register_fence(acc_o);
          register_fence(weights);
          // v5.co:447  trigger ve.at(v_order++)
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ve + vf_slot * 8);
          }
          ++v_order;
        }
        // v5.co:449  all_reduce_sum(rescale)
        #pragma unroll
        for (s32 row = 0; row < 2; ++row) {
          rescale[row] = croq::lanes_sum<4>(rescale[row]);
        }
        // v5.co:450  apply {i} in rescale.span
        // v5.co:451  rescale.at(i) = 1.0f / rescale.at(i)
        #pragma unroll
        for (s32 row = 0; row < 2; ++row) {
          rescale[row] = croq::div(1.0f, rescale[row]);
        }
        // v5.co:452  apply {i, j} in acc_o.span
        // v5.co:453  acc_o.at(i, j) = acc_o.at(i, j) * rescale.at(i)
        #pragma unroll
        for (s32 r = 0; r < 64; ++r) {
          const s32 row = r / 2 % 2;
          acc_o[r] *= rescale[row];
        }
        // v5.co:454  mma.store acc_o, o_buf[w]
        {
          const u32 row = warp_row + lane % 16;
          #pragma unroll
          for (s32 c = 0; c < 16; c += 2) {
            const u32 chunk = c + lane / 16;
            croq::stmatrix_x4(o_buf + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                              croq::pack<bf16>(acc_o[c * 4], acc_o[c * 4 + 1]),
                              croq::pack<bf16>(acc_o[c * 4 + 2], acc_o[c * 4 + 3]),
                              croq::pack<bf16>(acc_o[c * 4 + 4], acc_o[c * 4 + 5]),
                              croq::pack<bf16>(acc_o[c * 4 + 6], acc_o[c * 4 + 7]));
          }
        }
        // v5.co:455  tma.copy o_buf[w] => O_head.subspan(WG_M, DIM).at(bm * 2 + w, 0)
        croq::fence_proxy_async();
        croq::named_barrier_sync(1, 128);
        if (thread == 128) {
          croq::tma_store_5d(&O_map, o_buf, 0, bm * 2 * 64, 0, head, batch);
          croq::bulk_commit();
          croq::bulk_wait_read<0>();
        }
        croq::named_barrier_sync(1, 128);
        // v5.co:456  acc_o = mma.fill.f32 0.0f
        croq::fill(acc_o, 0.0f);
      }
    }
  }

  // ---- p == w + 1: threads 256..383  (v5.co:144) --------------------------------------------------
  if (p == 2) {
    // v5.co:91
    u32 turn_phase = 0;
    // v5.co:87
    u32 qf_phase = 0;
    // v5.co:92
    u32 voted_phase = 0;

    // v5.co:145
    croq::setmaxnreg_inc<240>();
    // v5.co:146
    u32 k_order = 0;
    u32 k_order_slot = 0;
    u32 k_order_parity = 0;
    // v5.co:147
    u32 k_done = 0;
    u32 k_done_slot = 0;
    // v5.co:148
    u32 v_order = 0;
    // v5.co:149
    u32 vote = 0;
    // v5.co:150
    s32 over = 0;
    // v5.co:151
    s32 running = 0;

    // v5.co:153
    u32 q_regs[32];  // bf16 [64, 128]
    // v5.co:154
    u32 weights[32];  // bf16 [64, 128]
    // v5.co:155
    float row_max[2];  // f32 [64]
    // v5.co:156
    float last_max[2];  // f32 [64]
    // v5.co:157
    float row_ref[2];  // f32 [64]
    // v5.co:158
    float first_ref[2];  // f32 [64]
    // v5.co:159
    float last_ref[2];  // f32 [64]
    // v5.co:160
    float rescale[2];  // f32 [64]
    // v5.co:161
    float tile_sum[2];  // f32 [64]
    // v5.co:162
    float row_sum[2];  // f32 [64]
    // v5.co:163
    float acc_s[64];  // f32 [64, 128]
    croq::fill(acc_s, 0.0f);
    // v5.co:164
    float acc_o[64];  // f32 [64, 128]
    croq::fill(acc_o, 0.0f);

    // v5.co:166
    if (t % 32 == 0) {
      // v5.co:167
      const s32 n = t / 32;
      croq::st_shared<u32>(raised + n * 4 + 32, 0);
      // v5.co:168
      croq::st_shared<u32>(raised + n * 4 + 48, 0);
    }
    // v5.co:170
    croq::warp_sync();
    if (lane == 0) {
      croq::mbarrier_arrive(voted + 8);
    }
    // v5.co:171
    croq::mbarrier_wait(voted + 8, (voted_phase >> 1) & 1);
    voted_phase ^= 2;
    // v5.co:172
    if (true) {
      // v5.co:173  trigger turn[0]
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(turn);
      }
    }

    // v5.co:175
    if (task_count > 0) {
      // v5.co:177
      s32 task = tasks[first_task];
      // v5.co:178
      croq::mbarrier_wait(qf + 8, (qf_phase >> 1) & 1);
      qf_phase ^= 2;
      // v5.co:179
      {
        const u32 q_shared_tile = q_shared + q_shared_stride;
        const u32 row = warp_row + lane % 16;
        #pragma unroll
        for (s32 c = 0; c < 16; c += 2) {
          const u32 chunk = c + lane / 16;
          croq::ldmatrix_x4(q_regs[c * 2],
                            q_regs[c * 2 + 1],
                            q_regs[c * 2 + 2],
                            q_regs[c * 2 + 3],
                            q_shared_tile + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
        }
        croq::settle(q_regs);
      }
      // v5.co:181
      croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
      // v5.co:182
      croq::mbarrier_wait(turn + 8, (turn_phase >> 1) & 1);
      turn_phase ^= 2;
      // v5.co:183
      register_fence(acc_s);
      register_fence(q_regs);
      croq::wgmma_fence();
      {
        // acc_s[64, 128] += q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
        const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
        #pragma unroll
        for (s32 k = 0; k < 8; ++k) {
          wgmma_m64n128k16_bf16_rs(acc_s,
                                   q_regs[k * 4], q_regs[k * 4 + 1],
                                   q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                   croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), 1);
        }
      }
      croq::wgmma_commit();  // first_qk
      // v5.co:184
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(turn);
      }
      // v5.co:185
      croq::wgmma_wait<0>();  // first_qk
      register_fence(acc_s);
      register_fence(q_regs);
      // v5.co:186
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(qe + 8);
      }
      // v5.co:187
      ++k_order;
      const u32 n = k_order_slot + 1;
      k_order_slot = croq::uniform(n == 3 ? 0 : n);
      k_order_parity = croq::uniform(k_order_parity ^ u32(n == 3));
      // v5.co:188
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 i = lane_row + r / 2 % 2 * 8;
        const s32 j = lane_col + r / 4 * 8 + r % 2;
        // v5.co:189
        if (j > 64 + i) {
          // v5.co:190
          acc_s[r] = -croq::infinity();
        }
      }
      // v5.co:192
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        float even = acc_s[row * 2];
        float odd = acc_s[row * 2 + 1];
        #pragma unroll
        for (s32 r = 4; r < 64; r += 4) {
          even = croq::max(even, acc_s[r + row * 2]);
          odd = croq::max(odd, acc_s[r + row * 2 + 1]);
        }
        row_max[row] = croq::max(even, odd);
      }
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        row_max[row] = croq::lanes_max<4>(row_max[row]);
      }
      // v5.co:193
      over = 0;
      // v5.co:194
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        // v5.co:195
        row_ref[row] = row_max[row] * 0.12751743f;
        // v5.co:196
        first_ref[row] = row_ref[row];
        // v5.co:197
        if (!(croq::abs(row_max[row]) < 4.2949673e+09f)) {
          // v5.co:198
          over = 1;
        }
      }
      // v5.co:200
      // v5.co:201
      #pragma unroll
      for (s32 r = 0; r < 64; ++r) {
        const s32 row = r / 2 % 2;
        acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
      }
      // v5.co:202
      local_row_sums<128>(tile_sum, acc_s);
      // v5.co:203
      // v5.co:204
      #pragma unroll
      for (s32 row = 0; row < 2; ++row) {
        row_sum[row] = 0.0f;
      }
      // v5.co:205
      ++vote;
      // v5.co:206
      if (over != 0) {
        // v5.co:207
        croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4 + 32, vote);
      }
      // v5.co:208
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(voted + 8);
      }
      // v5.co:209
      // v5.co:210
      #pragma unroll
      for (s32 r = 0; r < 64; r += 2) {
        weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
      }

      // v5.co:212
      #pragma unroll 1
      for (s32 index = 0; index < task_count; ++index) {
        // v5.co:213
        const s32 bm = task & 0xff;
        // v5.co:214
        const s32 head = (task >> 8) & 0x3f;
        // v5.co:215
        const s32 batch = task >> 14;

        // v5.co:218
        s32 left = bm;
        // v5.co:219
        s32 held = 0;
        // v5.co:220
        s32 redo = 0;
        // v5.co:221
        const s32 running_2_before = running;
        if (running == 0) {
          // v5.co:223
          while (left > 0) {
            // v5.co:224
            croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
            // v5.co:225
            croq::mbarrier_wait(turn + 8, (turn_phase >> 1) & 1);
            turn_phase ^= 2;
            // v5.co:227
            register_fence(acc_s);
            register_fence(q_regs);
            croq::wgmma_fence();
            {
              // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
              const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs(acc_s,
                                         q_regs[k * 4], q_regs[k * 4 + 1],
                                         q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                         croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
              }
            }
            croq::wgmma_commit();  // qk
            // v5.co:228
            croq::mbarrier_wait(voted + 8, (voted_phase >> 1) & 1);
            voted_phase ^= 2;
            // v5.co:229
            const s32 n_2 = s32(vote % 2);
            const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16 + 32);
            // v5.co:230
            const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 36);
            // v5.co:231
            const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 40);
            // v5.co:232
            const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 44);
            // v5.co:233
            if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote) {
              // v5.co:234
              croq::wgmma_wait<0>();  // qk
              register_fence(acc_s);
              register_fence(q_regs);
              // v5.co:235
              held = 1;
              // v5.co:236
              redo = 1;
              // v5.co:237
              break;
            }
            // v5.co:239
            // v5.co:240
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_sum[row] += tile_sum[row];
            }
            // v5.co:241
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ke + k_done_slot * 8);
            }
            ++k_done;
            const u32 n_3 = k_done_slot + 1;
            k_done_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
            // v5.co:242
            const u32 vf_slot = v_order % 2;
            croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
            // v5.co:243
            register_fence(acc_o);
            register_fence(weights);
            croq::wgmma_fence();
            {
              // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
              const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                            weights[k * 4], weights[k * 4 + 1],
                                            weights[k * 4 + 2], weights[k * 4 + 3],
                                            croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
              }
            }
            croq::wgmma_commit();  // pv
            // v5.co:244
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(turn);
            }
            // v5.co:245
            croq::wgmma_wait<1>();  // qk
            register_fence(acc_s);
            register_fence(q_regs);
            // v5.co:246
            ++k_order;
            const u32 n_4 = k_order_slot + 1;
            k_order_slot = croq::uniform(n_4 == 3 ? 0 : n_4);
            k_order_parity = croq::uniform(k_order_parity ^ u32(n_4 == 3));
            // v5.co:247
            left = croq::sub<s32>(left, 1);
            // v5.co:248
            // v5.co:249
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
            }
            // v5.co:250
            const u32 vote_2_before = vote;
            const u32 v_order_3_before = v_order;
            local_row_sums<128>(tile_sum, acc_s);
            // v5.co:251
            over = 0;
            // v5.co:252
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:253
              if (!(tile_sum[row] <= 1.048576e+06f)) {
                // v5.co:254
                over = 1;
              }
            }
            // v5.co:256
            vote = vote_2_before + 1;
            // v5.co:257
            if (over != 0) {
              // v5.co:258
              croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4 + 32, vote);
            }
            // v5.co:259
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(voted + 8);
            }
            // v5.co:260
            croq::wgmma_wait<0>();  // pv
            register_fence(acc_o);
            register_fence(weights);
            // v5.co:261
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ve + vf_slot * 8);
            }
            v_order = v_order_3_before + 1;
            // v5.co:262
            // v5.co:263
            #pragma unroll
            for (s32 r = 0; r < 64; r += 2) {
              weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
            }
          }
        }
        // v5.co:266
        if (redo == 0) {
          // v5.co:267
          croq::mbarrier_wait(voted + 8, (voted_phase >> 1) & 1);
          voted_phase ^= 2;
          // v5.co:268
          const s32 n_2 = s32(vote % 2);
          const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16 + 32);
          // v5.co:269
          const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 36);
          // v5.co:270
          const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 40);
          // v5.co:271
          const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 44);
          // v5.co:272
          if (raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote) {
            // v5.co:273
            redo = 1;
          }
        }
        // v5.co:275
        const bool flag = redo == 0;
        const s32 redo_2_before = redo;
        if (flag) {
          // v5.co:276
          // v5.co:277
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] += tile_sum[row];
          }
        } else {
          // v5.co:281
          register_fence(acc_s);
          register_fence(q_regs);
          croq::wgmma_fence();
          {
            // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
            const u32 b = croq::descriptor_word(k_buf + k_done_slot * k_buf_stride, k_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs(acc_s,
                                       q_regs[k * 4], q_regs[k * 4 + 1],
                                       q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                       croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
            }
          }
          croq::wgmma_commit();
          croq::wgmma_wait<0>();
          register_fence(acc_s);
          register_fence(q_regs);
          // v5.co:282
          if (left == bm) {
            // v5.co:283
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 i = lane_row + r / 2 % 2 * 8;
              const s32 j = lane_col + r / 4 * 8 + r % 2;
              // v5.co:284
              if (j > 64 + i) {
                // v5.co:285
                acc_s[r] = -croq::infinity();
              }
            }
          }
          // v5.co:288
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            float even = acc_s[row * 2];
            float odd = acc_s[row * 2 + 1];
            #pragma unroll
            for (s32 r = 4; r < 64; r += 4) {
              even = croq::max(even, acc_s[r + row * 2]);
              odd = croq::max(odd, acc_s[r + row * 2 + 1]);
            }
            row_max[row] = croq::max(even, odd);
          }
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_max[row] = croq::lanes_max<4>(row_max[row]);
          }
          // v5.co:289
          // v5.co:290
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            last_max[row] = -croq::infinity();
          }
          // v5.co:291
          s32 huge = 0;
          // v5.co:292
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            // v5.co:293
            last_ref[row] = row_ref[row];
            // v5.co:294
            row_ref[row] = row_max[row] * 0.12751743f;
            // v5.co:295
            if (left < bm) {
              // v5.co:296
              row_ref[row] = croq::max(row_ref[row], last_ref[row]);
            }
            // v5.co:297
            rescale[row] = croq::ex2(last_ref[row] - row_ref[row]);
            // v5.co:298
            if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
              // v5.co:299
              huge = 1;
            }
          }
          // v5.co:301
          if (huge == 1) {
            // v5.co:302
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:303
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:304
                rescale[row] = last_max[row] == row_max[row] ? 1.0f : 0.0f;
                // v5.co:305
                row_ref[row] = 0.0f;
              }
            }
            // v5.co:308
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              // v5.co:309
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:310
                acc_s[r] = acc_s[r] == row_max[row] ? 0.0f : acc_s[r] - croq::infinity();
              }
            }
          }
          // v5.co:313
          // v5.co:314
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
          }
          // v5.co:315
          local_row_sums<128>(tile_sum, acc_s);
          // v5.co:316
          // v5.co:317
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] = croq::fma(row_sum[row], rescale[row], tile_sum[row]);
          }
          // v5.co:318
          // v5.co:319
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_o[r] *= rescale[row];
          }
          // v5.co:320
          // v5.co:321
          #pragma unroll
          for (s32 r = 0; r < 64; r += 2) {
            weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
          }
        }
        // v5.co:323
        if (redo_2_before == 1 || running_2_before == 1) {
          // v5.co:325
          while (left > 0) {
            // v5.co:326
            if (held == 0) {
              // v5.co:327
              croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
              // v5.co:328
              croq::mbarrier_wait(turn + 8, (turn_phase >> 1) & 1);
              turn_phase ^= 2;
            }
            // v5.co:330
            held = 0;
            // v5.co:332
            register_fence(acc_s);
            register_fence(q_regs);
            croq::wgmma_fence();
            {
              // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
              const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs(acc_s,
                                         q_regs[k * 4], q_regs[k * 4 + 1],
                                         q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                         croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
              }
            }
            croq::wgmma_commit();  // qk
            // v5.co:333
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ke + k_done_slot * 8);
            }
            ++k_done;
            const u32 n_2 = k_done_slot + 1;
            k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
            // v5.co:334
            const u32 vf_slot = v_order % 2;
            croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
            // v5.co:335
            register_fence(acc_o);
            register_fence(weights);
            croq::wgmma_fence();
            {
              // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
              const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
              #pragma unroll
              for (s32 k = 0; k < 8; ++k) {
                wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                            weights[k * 4], weights[k * 4 + 1],
                                            weights[k * 4 + 2], weights[k * 4 + 3],
                                            croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
              }
            }
            croq::wgmma_commit();  // pv
            // v5.co:336
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(turn);
            }
            // v5.co:337
            croq::wgmma_wait<1>();  // qk
            register_fence(acc_s);
            register_fence(q_regs);
            // v5.co:338
            ++k_order;
            const u32 n_3 = k_order_slot + 1;
            k_order_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
            k_order_parity = croq::uniform(k_order_parity ^ u32(n_3 == 3));
            // v5.co:339
            left = croq::sub<s32>(left, 1);
            // v5.co:340
            croq::copy(last_max, row_max);
            // v5.co:341
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              float even = acc_s[row * 2];
              float odd = acc_s[row * 2 + 1];
              #pragma unroll
              for (s32 r = 4; r < 64; r += 4) {
                even = croq::max(even, acc_s[r + row * 2]);
                odd = croq::max(odd, acc_s[r + row * 2 + 1]);
              }
              row_max[row] = croq::max(even, odd);
            }
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_max[row] = croq::lanes_max<4>(row_max[row]);
            }
            // v5.co:342
            // v5.co:343
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_max[row] = croq::max(row_max[row], last_max[row]);
            }
            // v5.co:344
            s32 huge = 0;
            // v5.co:345
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:346
              last_ref[row] = row_ref[row];
              // v5.co:347
              row_ref[row] = row_max[row] * 0.12751743f;
              // v5.co:348
              row_ref[row] = croq::max(row_ref[row], last_ref[row]);
              // v5.co:349
              rescale[row] = croq::ex2(last_ref[row] - row_ref[row]);
              // v5.co:350
              if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                // v5.co:351
                huge = 1;
              }
            }
            // v5.co:353
            if (huge == 1) {
              // v5.co:354
              #pragma unroll
              for (s32 row = 0; row < 2; ++row) {
                // v5.co:355
                if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                  // v5.co:356
                  rescale[row] = last_max[row] == row_max[row] ? 1.0f : 0.0f;
                  // v5.co:357
                  row_ref[row] = 0.0f;
                }
              }
              // v5.co:360
              #pragma unroll
              for (s32 r = 0; r < 64; ++r) {
                const s32 row = r / 2 % 2;
                // v5.co:361
                if (croq::abs(row_max[row]) >= 4.2949673e+09f) {
                  // v5.co:362
                  acc_s[r] = acc_s[r] == row_max[row] ? 0.0f : acc_s[r] - croq::infinity();
                }
              }
            }
            // v5.co:365
            // v5.co:366
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
            }
            // v5.co:367
            const u32 v_order_3_before = v_order;
            local_row_sums<128>(tile_sum, acc_s);
            // v5.co:368
            // v5.co:369
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              row_sum[row] = croq::fma(row_sum[row], rescale[row], tile_sum[row]);
            }
            // v5.co:370
            croq::wgmma_wait<0>();  // pv
            register_fence(acc_o);
            register_fence(weights);
            // v5.co:371
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(ve + vf_slot * 8);
            }
            v_order = v_order_3_before + 1;
            // v5.co:372
            // v5.co:373
            #pragma unroll
            for (s32 r = 0; r < 64; ++r) {
              const s32 row = r / 2 % 2;
              acc_o[r] *= rescale[row];
            }
            // v5.co:374
            // v5.co:375
            #pragma unroll
            for (s32 r = 0; r < 64; r += 2) {
              weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
            }
          }
          // v5.co:377
          if (flag) {
            // v5.co:379
            over = 0;
            // v5.co:380
            #pragma unroll
            for (s32 row = 0; row < 2; ++row) {
              // v5.co:381
              if (!(row_ref[row] - first_ref[row] <= 15.0f)) {
                // v5.co:382
                over = 1;
              }
            }
            // v5.co:384
            ++vote;
            // v5.co:385
            if (over != 0) {
              // v5.co:386
              croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4 + 32, vote);
            }
            // v5.co:387
            croq::warp_sync();
            if (lane == 0) {
              croq::mbarrier_arrive(voted + 8);
            }
            // v5.co:388
            croq::mbarrier_wait(voted + 8, (voted_phase >> 1) & 1);
            voted_phase ^= 2;
            // v5.co:389
            const s32 n_2 = s32(vote % 2);
            const u32 raised_0 = croq::ld_shared<u32>(raised + n_2 * 16 + 32);
            // v5.co:390
            const u32 raised_1 = croq::ld_shared<u32>(raised + n_2 * 16 + 36);
            // v5.co:391
            const u32 raised_2 = croq::ld_shared<u32>(raised + n_2 * 16 + 40);
            // v5.co:392
            const u32 raised_3 = croq::ld_shared<u32>(raised + n_2 * 16 + 44);
            // v5.co:393
            if (!(raised_0 == vote || raised_1 == vote || raised_2 == vote || raised_3 == vote)) {
              // v5.co:394
              running = 0;
            }
          } else {
            // v5.co:396
            running = 1;
          }
        }

        // v5.co:401
        croq::copy(rescale, row_sum);
        // v5.co:402
        if (index + 1 < task_count) {
          // v5.co:403
          task = tasks[croq::add<s32>(croq::add<s32>(first_task, index), 1)];
          // v5.co:404
          croq::mbarrier_wait(qf + 8, (qf_phase >> 1) & 1);
          qf_phase ^= 2;
          // v5.co:405
          {
            const u32 q_shared_tile = q_shared + q_shared_stride;
            const u32 row = warp_row + lane % 16;
            #pragma unroll
            for (s32 c = 0; c < 16; c += 2) {
              const u32 chunk = c + lane / 16;
              croq::ldmatrix_x4(q_regs[c * 2],
                                q_regs[c * 2 + 1],
                                q_regs[c * 2 + 2],
                                q_regs[c * 2 + 3],
                                q_shared_tile + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
            }
            croq::settle(q_regs);
          }
          // v5.co:407
          croq::mbarrier_wait(kf + k_order_slot * 8, k_order_parity);
          // v5.co:408
          croq::mbarrier_wait(turn + 8, (turn_phase >> 1) & 1);
          turn_phase ^= 2;
          // v5.co:410
          register_fence(acc_s);
          register_fence(q_regs);
          croq::wgmma_fence();
          {
            // acc_s[64, 128] = q_regs[64, 128] * k_buf[128, 128]^T: 8 steps of 16
            const u32 b = croq::descriptor_word(k_buf + k_order_slot * k_buf_stride, k_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs(acc_s,
                                       q_regs[k * 4], q_regs[k * 4 + 1],
                                       q_regs[k * 4 + 2], q_regs[k * 4 + 3],
                                       croq::make_descriptor(b + k / 4 * 1024 + k % 4 * 2, k_buf_desc_hi), k > 0);
            }
          }
          croq::wgmma_commit();  // qk
          // v5.co:411
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ke + k_done_slot * 8);
          }
          ++k_done;
          const u32 n_2 = k_done_slot + 1;
          k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
          // v5.co:412
          const u32 vf_slot = v_order % 2;
          croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
          // v5.co:413
          register_fence(acc_o);
          register_fence(weights);
          croq::wgmma_fence();
          {
            // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
            const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                          weights[k * 4], weights[k * 4 + 1],
                                          weights[k * 4 + 2], weights[k * 4 + 3],
                                          croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
            }
          }
          croq::wgmma_commit();  // pv
          // v5.co:414
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(turn);
          }
          // v5.co:415
          croq::wgmma_wait<1>();  // qk
          register_fence(acc_s);
          register_fence(q_regs);
          // v5.co:416
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(qe + 8);
          }
          // v5.co:417
          ++k_order;
          const u32 n_3 = k_order_slot + 1;
          k_order_slot = croq::uniform(n_3 == 3 ? 0 : n_3);
          k_order_parity = croq::uniform(k_order_parity ^ u32(n_3 == 3));
          // v5.co:418
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 i = lane_row + r / 2 % 2 * 8;
            const s32 j = lane_col + r / 4 * 8 + r % 2;
            // v5.co:419
            if (j > 64 + i) {
              // v5.co:420
              acc_s[r] = -croq::infinity();
            }
          }
          // v5.co:422
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            float even = acc_s[row * 2];
            float odd = acc_s[row * 2 + 1];
            #pragma unroll
            for (s32 r = 4; r < 64; r += 4) {
              even = croq::max(even, acc_s[r + row * 2]);
              odd = croq::max(odd, acc_s[r + row * 2 + 1]);
            }
            row_max[row] = croq::max(even, odd);
          }
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_max[row] = croq::lanes_max<4>(row_max[row]);
          }
          // v5.co:423
          over = 0;
          // v5.co:424
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            // v5.co:425
            row_ref[row] = row_max[row] * 0.12751743f;
            // v5.co:426
            first_ref[row] = row_ref[row];
            // v5.co:427
            if (!(croq::abs(row_max[row]) < 4.2949673e+09f)) {
              // v5.co:428
              over = 1;
            }
          }
          // v5.co:430
          // v5.co:431
          #pragma unroll
          for (s32 r = 0; r < 64; ++r) {
            const s32 row = r / 2 % 2;
            acc_s[r] = croq::ex2(croq::fma(acc_s[r], 0.12751743f, -row_ref[row]));
          }
          // v5.co:432
          const u32 v_order_3_before = v_order;
          local_row_sums<128>(tile_sum, acc_s);
          // v5.co:433
          // v5.co:434
          #pragma unroll
          for (s32 row = 0; row < 2; ++row) {
            row_sum[row] = 0.0f;
          }
          // v5.co:435
          ++vote;
          // v5.co:436
          if (over != 0) {
            // v5.co:437
            croq::st_shared<u32>(raised + s32(vote % 2) * 16 + t / 32 * 4 + 32, vote);
          }
          // v5.co:438
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(voted + 8);
          }
          // v5.co:439
          croq::wgmma_wait<0>();  // pv
          register_fence(acc_o);
          register_fence(weights);
          // v5.co:440
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ve + vf_slot * 8);
          }
          v_order = v_order_3_before + 1;
          // v5.co:441
          // v5.co:442
          #pragma unroll
          for (s32 r = 0; r < 64; r += 2) {
            weights[r / 2] = croq::pack<bf16>(acc_s[r], acc_s[r + 1]);
          }
        } else {
          // v5.co:444
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ke + k_done_slot * 8);
          }
          ++k_done;
          const u32 n_2 = k_done_slot + 1;
          k_done_slot = croq::uniform(n_2 == 3 ? 0 : n_2);
          // v5.co:445
          const u32 vf_slot = v_order % 2;
          croq::mbarrier_wait(vf + vf_slot * 8, (v_order / 2) & 1);
          // v5.co:446
          register_fence(acc_o);
          register_fence(weights);
          croq::wgmma_fence();
          {
            // acc_o[64, 128] += weights[64, 128] * v_buf[128, 128]: 8 steps of 16
            const u32 b = croq::descriptor_word(v_buf + vf_slot * v_buf_stride, v_buf_desc_lo);
            #pragma unroll
            for (s32 k = 0; k < 8; ++k) {
              wgmma_m64n128k16_bf16_rs_tb(acc_o,
                                          weights[k * 4], weights[k * 4 + 1],
                                          weights[k * 4 + 2], weights[k * 4 + 3],
                                          croq::make_descriptor(b + k * 128, v_buf_desc_hi), 1);
            }
          }
          croq::wgmma_commit();
          croq::wgmma_wait<0>();
          register_fence(acc_o);
          register_fence(weights);
          // v5.co:447
          croq::warp_sync();
          if (lane == 0) {
            croq::mbarrier_arrive(ve + vf_slot * 8);
          }
          ++v_order;
        }
        // v5.co:449
        #pragma unroll
        for (s32 row = 0; row < 2; ++row) {
          rescale[row] = croq::lanes_sum<4>(rescale[row]);
        }
        // v5.co:450
        // v5.co:451
        #pragma unroll
        for (s32 row = 0; row < 2; ++row) {
          rescale[row] = croq::div(1.0f, rescale[row]);
        }
        // v5.co:452
        // v5.co:453
        #pragma unroll
        for (s32 r = 0; r < 64; ++r) {
          const s32 row = r / 2 % 2;
          acc_o[r] *= rescale[row];
        }
        // v5.co:454
        {
          const u32 o_buf_tile = o_buf + o_buf_stride;
          const u32 row = warp_row + lane % 16;
          #pragma unroll
          for (s32 c = 0; c < 16; c += 2) {
            const u32 chunk = c + lane / 16;
            croq::stmatrix_x4(o_buf_tile + chunk / 8 * 8192 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                              croq::pack<bf16>(acc_o[c * 4], acc_o[c * 4 + 1]),
                              croq::pack<bf16>(acc_o[c * 4 + 2], acc_o[c * 4 + 3]),
                              croq::pack<bf16>(acc_o[c * 4 + 4], acc_o[c * 4 + 5]),
                              croq::pack<bf16>(acc_o[c * 4 + 6], acc_o[c * 4 + 7]));
          }
        }
        // v5.co:455
        croq::fence_proxy_async();
        croq::named_barrier_sync(2, 128);
        if (thread == 256) {
          croq::tma_store_5d(&O_map, o_buf + o_buf_stride,
                             0, (bm * 2 + 1) * 64, 0, head, batch);
          croq::bulk_commit();
          croq::bulk_wait_read<0>();
        }
        croq::named_barrier_sync(2, 128);
        // v5.co:456
        croq::fill(acc_o, 0.0f);
      }
    }
  }
}
