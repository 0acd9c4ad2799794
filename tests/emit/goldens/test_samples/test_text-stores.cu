extern "C" __global__ void __launch_bounds__(128)
k(
    float* c,   // [M, 40]
    bf16* odd,  // [M, N]
    float* r,   // [M]
    s32* u,     // [10, 30]
    s32 M,
    s32 N) {
  // ---- shared memory, in bytes from its start
  constexpr u32 swizzled_offset = 0;   // bf16 [128, 64], 64-byte swizzle
  constexpr u32 slabs_offset = 16384;  // f16 [128, 40]
  constexpr u32 plain_offset = 32768;  // f32 [128, 40]
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 swizzled = smem + swizzled_offset;
  const u32 slabs = smem + slabs_offset;
  const u32 plain = smem + plain_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block
  const s32 lane_row = warp_row + lane / 4;     // its first row, the other is 8 below
  const s32 lane_col = lane % 4 * 2;            // its first column of each group of 8

  float acc[2][20];  // f32 [128, 40]
  u32 half[16];  // bf16 [64, 64]
  u32 tall[2][10];  // f16 [128, 40]
  float rows[4];  // f32 [128]
  s32 flat[3];  // s32 [10, 30]
  const s32 b = blockIdx.x;
  croq::fill(acc, 1.0f);
  croq::fill(rows, 1.0f);
  croq::fill(half, croq::pack_bits(bf16(1.0f), bf16(1.0f)));
  croq::fill(flat, 1);
  constexpr s32 size = 128;
  const s32 first_row = b * size;
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r_2 = 0; r_2 < 20; r_2 += 2) {
      const s32 i = lane_row + block * 64 + r_2 / 2 % 2 * 8;
      const s32 j = lane_col + r_2 / 4 * 8;
      if (first_row + i < M) {
        croq::st_global_pair(&c[s64(first_row + i) * 40 + j],
                             acc[block][r_2], acc[block][r_2 + 1]);
      }
    }
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r_2 = 0; r_2 < 20; ++r_2) {
      const s32 i = lane_row + block * 64 + r_2 / 2 % 2 * 8;
      const s32 j = lane_col + r_2 / 4 * 8 + r_2 % 2;
      if (first_row + i < M && j < N) {
        odd[s64(first_row + i) * N + j] = bf16(acc[block][r_2]);
      }
    }
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    const u32 row = block * 64 + warp_row + lane % 16;
    #pragma unroll
    for (s32 c_2 = 0; c_2 < 4; c_2 += 2) {
      const u32 chunk = c_2 + lane / 16;
      croq::stmatrix_x4(slabs + chunk * 2048 + row * 16,
                        croq::pack<f16>(acc[block][c_2 * 4], acc[block][c_2 * 4 + 1]),
                        croq::pack<f16>(acc[block][c_2 * 4 + 2], acc[block][c_2 * 4 + 3]),
                        croq::pack<f16>(acc[block][c_2 * 4 + 4], acc[block][c_2 * 4 + 5]),
                        croq::pack<f16>(acc[block][c_2 * 4 + 6], acc[block][c_2 * 4 + 7]));
    }
    {
      const u32 chunk = 4;
      croq::stmatrix_x2(slabs + chunk * 2048 + row * 16,
                        croq::pack<f16>(acc[block][16], acc[block][17]),
                        croq::pack<f16>(acc[block][18], acc[block][19]));
    }
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r_2 = 0; r_2 < 20; r_2 += 2) {
      const s32 i = lane_row + block * 64 + r_2 / 2 % 2 * 8;
      const s32 j = lane_col + r_2 / 4 * 8;
      croq::st_shared_pair(plain + i * 160 + j * 4, acc[block][r_2], acc[block][r_2 + 1]);
    }
  }
  {
    const u32 row = warp_row + lane % 16 + 64;
    #pragma unroll
    for (s32 c_2 = 0; c_2 < 8; c_2 += 2) {
      const u32 chunk = c_2 + lane / 16;
      croq::stmatrix_x4(swizzled + chunk / 4 * 8192 + row * 64 + ((chunk % 4) ^ (row / 2 % 4)) * 16,
                        half[c_2 * 2],
                        half[c_2 * 2 + 1],
                        half[c_2 * 2 + 2],
                        half[c_2 * 2 + 3]);
    }
  }
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    const s32 i = lane_row + row / 2 * 64 + row % 2 * 8;
    if (lane % 4 == 0 && first_row + i < M) {
      r[first_row + i] = rows[row];
    }
  }
  #pragma unroll
  for (s32 r_2 = 0; r_2 < 3; ++r_2) {
    const s32 flat_2 = thread + r_2 * 128;
    if (flat_2 < 300) {
      u[s64(flat_2 / 30) * 30 + flat_2 % 30] = flat[r_2];
    }
  }
  {
    const u32 row = warp_row + lane % 16 + 64;
    #pragma unroll
    for (s32 c_2 = 0; c_2 < 8; c_2 += 2) {
      const u32 chunk = c_2 + lane / 16;
      croq::ldmatrix_x4(half[c_2 * 2],
                        half[c_2 * 2 + 1],
                        half[c_2 * 2 + 2],
                        half[c_2 * 2 + 3],
                        swizzled + chunk / 4 * 8192 + row * 64 + ((chunk % 4) ^ (row / 2 % 4)) * 16);
    }
    croq::settle(half);
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    const u32 row = block * 64 + warp_row + lane % 16;
    #pragma unroll
    for (s32 c_2 = 0; c_2 < 4; c_2 += 2) {
      const u32 chunk = c_2 + lane / 16;
      croq::ldmatrix_x4(tall[block][c_2 * 2],
                        tall[block][c_2 * 2 + 1],
                        tall[block][c_2 * 2 + 2],
                        tall[block][c_2 * 2 + 3],
                        slabs + chunk * 2048 + row * 16);
    }
    {
      const u32 chunk = 4;
      croq::ldmatrix_x2(tall[block][8],
                        tall[block][9],
                        slabs + chunk * 2048 + row * 16);
    }
    croq::settle(tall[block]);
  }
}
