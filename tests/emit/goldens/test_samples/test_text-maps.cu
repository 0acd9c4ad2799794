extern "C" __global__ void __launch_bounds__(128)
k(
    const float* bias) {  // [128, 32]
  // ---- this thread
  const s32 thread = threadIdx.x;
  const s32 lane = thread % 32;
  const s32 warp_row = thread % 128 / 32 * 16;  // the warp's first row of a 64-row block
  const s32 lane_row = warp_row + lane / 4;     // its first row, the other is 8 below
  const s32 lane_col = lane % 4 * 2;            // its first column of each group of 8

  float wide[2][16];  // f32 [128, 32]
  float more[2][16];  // f32 [128, 32]
  u32 pairs[2][8];  // bf16 [128, 32]
  float rows[4];  // f32 [128]
  s32 flat[3];  // s32 [10, 30]
  croq::fill(wide, 0.0f);
  croq::fill(rows, 0.0f);
  croq::fill(pairs, croq::pack_bits(bf16(0.0f), bf16(0.0f)));
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    rows[row] *= rows[row];
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r = 0; r < 16; ++r) {
      const s32 row = block * 2 + r / 2 % 2;
      const s32 i_1 = lane_row + block * 64 + r / 2 % 2 * 8;
      const s32 j = lane_col + r / 4 * 8 + r % 2;
      wide[block][r] = bias[s64(i_1) * 32 + j] + rows[row];
    }
  }
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    const s32 i = lane_row + row / 2 * 64 + row % 2 * 8;
    const float half = rows[row] * rows[row];
    #pragma unroll
    for (s32 c = 0; c < 8; ++c) {
      const s32 r = c / 2 * 4 + row % 2 * 2 + c % 2;
      const s32 j = lane_col + c / 2 * 8 + c % 2;
      wide[row / 2][r] = float(i + j) * half;
    }
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r = 0; r < 16; r += 2) {
      const s32 j_2 = lane_col + r / 4 * 8 + r % 2;
      pairs[block][r / 2] = croq::pack<bf16>(wide[block][r] * float(j_2), wide[block][r + 1] * float(j_2 + 1));
    }
  }
  #pragma unroll
  for (s32 block = 0; block < 2; ++block) {
    #pragma unroll
    for (s32 r = 0; r < 16; ++r) {
      const s32 i_5 = lane_row + block * 64 + r / 2 % 2 * 8;
      const s32 j_3 = lane_col + r / 4 * 8 + r % 2;
      if (i_5 < j_3) {
        croq::set_half<bf16>(pairs[block][r / 2], r % 2, bf16(-float(croq::half_of<bf16>(pairs[block][r / 2], r % 2))));
      }
    }
  }
  #pragma unroll
  for (s32 r = 0; r < 3; ++r) {
    const s32 flat_2 = thread + r * 128;
    const s32 i_6 = flat_2 / 30;
    const s32 j_4 = flat_2 % 30;
    if (flat_2 < 300) {
      flat[r] = i_6 * j_4;
    }
  }
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    float even = wide[row / 2][row % 2 * 2];
    float odd = wide[row / 2][row % 2 * 2 + 1];
    #pragma unroll
    for (s32 r = 4; r < 16; r += 4) {
      even = croq::max(even, wide[row / 2][r + row % 2 * 2]);
      odd = croq::max(odd, wide[row / 2][r + row % 2 * 2 + 1]);
    }
    rows[row] = croq::max(even, odd);
  }
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    float even = float(croq::half_of<bf16>(pairs[row / 2][row % 2], 0));
    float odd = float(croq::half_of<bf16>(pairs[row / 2][(row % 2 * 2 + 1) / 2], (row % 2 * 2 + 1) % 2));
    #pragma unroll
    for (s32 r = 4; r < 16; r += 4) {
      even += float(croq::half_of<bf16>(pairs[row / 2][(r + row % 2 * 2) / 2], (r + row % 2 * 2) % 2));
      odd += float(croq::half_of<bf16>(pairs[row / 2][(r + row % 2 * 2 + 1) / 2], (r + row % 2 * 2 + 1) % 2));
    }
    rows[row] = even + odd;
  }
  #pragma unroll
  for (s32 row = 0; row < 4; ++row) {
    rows[row] = croq::lanes_sum<4>(rows[row]);
  }
  croq::copy(more, wide);
}
