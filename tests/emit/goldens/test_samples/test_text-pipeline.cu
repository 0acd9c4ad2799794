extern "C" __global__ void __launch_bounds__(256, 1)
k(
    const __grid_constant__ croq::TensorMap a_map,  // bf16 a: box [64, 128] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap b_map,  // bf16 b: box [64, 128] innermost first, 128-byte swizzle
    const __grid_constant__ croq::TensorMap c_map,  // bf16 c: box [64, 128] innermost first, 128-byte swizzle
    s32 K) {
  // ---- shared memory, in bytes from its start
  constexpr u32 a_buf_offset = 0;            // bf16 [128, 64] x 3 slots, 128-byte swizzle
  constexpr u32 a_buf_stride = 16384;        // bytes from slot to slot
  constexpr u32 b_buf_offset = 49152;        // bf16 [128, 64] x 3 slots, 128-byte swizzle
  constexpr u32 b_buf_stride = 16384;        // bytes from slot to slot
  constexpr u32 c_buf_offset = 98304;        // bf16 [128, 128], 128-byte swizzle
  constexpr u32 full_offset = 131072;        // 3 mbarriers: 1 arrival and 32768 bytes a phase
  constexpr u32 empty_offset = 131096;       // 3 mbarriers: 4 arrivals a phase, ready at first
  constexpr u32 b_buf_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 b_buf_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  constexpr u32 a_buf_desc_lo = 0x10000;     // K-major, 128-byte swizzle; leading offset unused
  constexpr u32 a_buf_desc_hi = 0x40000040;  // stride offset 1024, layout 1
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 a_buf = smem + a_buf_offset;
  const u32 b_buf = smem + b_buf_offset;
  const u32 c_buf = smem + c_buf_offset;
  const u32 full = smem + full_offset;
  const u32 empty = smem + empty_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block

  if (thread == 0) {
    croq::mbarrier_init(full, 1);
    croq::mbarrier_init(full + 8, 1);
    croq::mbarrier_init(full + 16, 1);
    croq::mbarrier_init(empty, 4);
    croq::mbarrier_init(empty + 8, 4);
    croq::mbarrier_init(empty + 16, 4);
    croq::fence_mbarrier_init();
  }
  croq::cta_sync();
  const s32 bm = blockIdx.x;
  const s32 bn = blockIdx.y;
  const s32 steps = croq::cdiv(K, 64);
  const s32 t = thread;
  const s32 p = croq::uniform(t / 128);
  const bool first = p == 0;

  // ---- p == 0: threads 0..127 ---------------------------------------------------------------------
  if (first) {
    croq::setmaxnreg_dec<40>();
    u32 order = 0;
    #pragma unroll 1
    for (s32 k = 0; k < steps; ++k) {
      constexpr u32 three = 3;
      const u32 slot = order % three;
      constexpr u32 one = 1;
      croq::mbarrier_wait(empty + slot * 8, ((order / three) & one) ^ one);
      if (thread == 0) {
        croq::mbarrier_arrive_expect_tx(full + slot * 8, 32768);
        croq::tma_load_2d(a_buf + slot * a_buf_stride, &a_map, full + slot * 8,
                          k * 64, bm * 128, croq::policy_evict_first());
        croq::tma_load_2d(b_buf + slot * b_buf_stride, &b_map, full + slot * 8,
                          k * 64, bn * 128);
      }
      order += one;
    }
    croq::named_barrier_arrive(3, 256);  // done
  }
  const bool second = p > 0;

  // ---- p > 0: threads 128..255 --------------------------------------------------------------------
  if (second) {
    croq::setmaxnreg_inc<232>();
    float acc[2][64];  // f32 [128, 128]
    croq::fill(acc, 0.0f);
    u32 order = 0;
    #pragma unroll 1
    for (s32 k_1 = 0; k_1 < steps; ++k_1) {
      constexpr u32 three_1 = 3;
      const u32 full_slot = order % three_1;
      constexpr u32 one_1 = 1;
      croq::mbarrier_wait(full + full_slot * 8, (order / three_1) & one_1);
      register_fence(acc[0]);
      register_fence(acc[1]);
      croq::wgmma_fence();
      {
        // acc[128, 128] += a_buf[128, 64] * b_buf[128, 64]^T: 4 steps of 16
        const u32 a = croq::descriptor_word(a_buf + full_slot * a_buf_stride, a_buf_desc_lo);
        const u32 b = croq::descriptor_word(b_buf + full_slot * b_buf_stride, b_buf_desc_lo);
        #pragma unroll
        for (s32 k = 0; k < 4; ++k) {
          wgmma_m64n128k16_bf16_ss(acc[0],
                                   croq::make_descriptor(a + k * 2, a_buf_desc_hi),
                                   croq::make_descriptor(b + k * 2, b_buf_desc_hi), 1);
          wgmma_m64n128k16_bf16_ss(acc[1],
                                   croq::make_descriptor(a + k * 2 + 512, a_buf_desc_hi),
                                   croq::make_descriptor(b + k * 2, b_buf_desc_hi), 1);
        }
      }
      croq::wgmma_commit();  // product
      croq::wgmma_wait<0>();  // product
      register_fence(acc[0]);
      register_fence(acc[1]);
      croq::warp_sync();
      if (lane == 0) {
        croq::mbarrier_arrive(empty + full_slot * 8);
      }
      order += one_1;
    }
    #pragma unroll
    for (s32 block = 0; block < 2; ++block) {
      const u32 row = block * 64 + warp_row + lane % 16;
      #pragma unroll
      for (s32 c = 0; c < 16; c += 2) {
        const u32 chunk = c + lane / 16;
        croq::stmatrix_x4(c_buf + chunk / 8 * 16384 + row * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                          croq::pack<bf16>(acc[block][c * 4], acc[block][c * 4 + 1]),
                          croq::pack<bf16>(acc[block][c * 4 + 2], acc[block][c * 4 + 3]),
                          croq::pack<bf16>(acc[block][c * 4 + 4], acc[block][c * 4 + 5]),
                          croq::pack<bf16>(acc[block][c * 4 + 6], acc[block][c * 4 + 7]));
      }
    }
    croq::fence_proxy_async();
    croq::named_barrier_sync(3, 256);  // done
    if (thread % 128 == 0) {
      croq::tma_store_2d(&c_map, c_buf, bn * 128, bm * 128);
      croq::tma_store_2d(&c_map, c_buf + 16384, bn * 128 + 64, bm * 128);
      croq::bulk_commit();
      croq::bulk_wait<0>();
    }
    croq::warp_sync();
  }
}
