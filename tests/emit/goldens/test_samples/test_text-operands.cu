extern "C" __global__ void __launch_bounds__(128)
k() {
  // ---- shared memory, in bytes from its start
  constexpr u32 k_major_offset = 0;             // f16 [64, 128], 32-byte swizzle
  constexpr u32 mn_major_offset = 16384;        // f16 [32, 64], 64-byte swizzle
  constexpr u32 cores_offset = 20480;           // f8_e4m3 [64, 64]
  constexpr u32 a_t_offset = 24576;             // f16 [32, 64], 128-byte swizzle
  constexpr u32 k_major_desc_lo = 0x10000;      // K-major, 32-byte swizzle; leading offset unused
  constexpr u32 k_major_desc_hi = 0xc0000010;   // stride offset 256, layout 3
  constexpr u32 mn_major_desc_lo = 0x800000;    // MN-major, 64-byte swizzle; leading offset 2048
  constexpr u32 mn_major_desc_hi = 0x80000020;  // stride offset 512, layout 2
  constexpr u32 cores_desc_lo = 0x400000;       // K-major, no swizzle; leading offset 1024
  constexpr u32 cores_desc_hi = 0x8;            // stride offset 128, layout 0
  constexpr u32 a_t_desc_lo = 0x1000000;        // MN-major, 128-byte swizzle; leading offset 4096
  constexpr u32 a_t_desc_hi = 0x40000040;       // stride offset 1024, layout 1
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 k_major = smem + k_major_offset;
  const u32 mn_major = smem + mn_major_offset;
  const u32 cores = smem + cores_offset;
  const u32 a_t = smem + a_t_offset;

  float acc[32];  // f32 [64, 64]
  u32 small[16];  // f16 [64, 64]
  u32 p[8];  // f16 [64, 32]
  croq::fill(p, croq::pack_bits(f16(1.0f), f16(1.0f)));
  const s32 b = blockIdx.x;
  constexpr s32 w = 16;
  register_fence(acc);
  register_fence(small);
  register_fence(p);
  croq::wgmma_fence();
  {
    // acc[64, 64] = k_major[64, 64] * k_major[64, 64]^T: 4 steps of 16
    const u32 a = croq::descriptor_word(k_major + 2048, k_major_desc_lo);
    const u32 b_2 = croq::descriptor_word(k_major + 8192, k_major_desc_lo);
    #pragma unroll
    for (s32 k = 0; k < 4; ++k) {
      wgmma_m64n64k16_f16_ss(acc,
                             croq::make_descriptor(a + k * 128, k_major_desc_hi),
                             croq::make_descriptor(b_2 + k * 128, k_major_desc_hi), k > 0);
    }
  }
  {
    // acc[64, 64] += k_major[64, 16] * k_major[64, 16]^T: 1 step of 16
    const u32 a = croq::descriptor_word(k_major + b * 2048, k_major_desc_lo);
    const u32 b_2 = croq::descriptor_word(k_major, k_major_desc_lo);
    wgmma_m64n64k16_f16_ss(acc,
                           croq::make_descriptor(a, k_major_desc_hi),
                           croq::make_descriptor(b_2, k_major_desc_hi), 1);
  }
  {
    // acc[64, 64] += p[64, 32] * mn_major[32, 64]: 2 steps of 16
    const u32 b_2 = croq::descriptor_word(mn_major, mn_major_desc_lo);
    #pragma unroll
    for (s32 k = 0; k < 2; ++k) {
      wgmma_m64n64k16_f16_rs_tb(acc,
                                p[k * 4], p[k * 4 + 1], p[k * 4 + 2], p[k * 4 + 3],
                                croq::make_descriptor(b_2 + k * 64, mn_major_desc_hi), 1);
    }
  }
  {
    // acc[64, 64] += cores[64, 64] * cores[64, 64]^T: 2 steps of 32
    const u32 a = croq::descriptor_word(cores, cores_desc_lo);
    const u32 b_2 = croq::descriptor_word(cores, cores_desc_lo);
    #pragma unroll
    for (s32 k = 0; k < 2; ++k) {
      wgmma_m64n64k32_e4m3_ss(acc,
                              croq::make_descriptor(a + k * 128, cores_desc_hi),
                              croq::make_descriptor(b_2 + k * 128, cores_desc_hi), 1);
    }
  }
  {
    // small[64, 64] += a_t[32, 64]^T * mn_major[32, 64]: 2 steps of 16
    const u32 a = croq::descriptor_word(a_t, a_t_desc_lo);
    const u32 b_2 = croq::descriptor_word(mn_major, mn_major_desc_lo);
    #pragma unroll
    for (s32 k = 0; k < 2; ++k) {
      wgmma_m64n64k16_f16_ss_f16acc_ta_tb(small,
                                          croq::make_descriptor(a + k * 128, a_t_desc_hi),
                                          croq::make_descriptor(b_2 + k * 64, mn_major_desc_hi), 1);
    }
  }
  croq::wgmma_commit();
  croq::wgmma_wait<0>();
  register_fence(acc);
  register_fence(small);
}
