extern "C" __global__ void __launch_bounds__(128)
k(
    bf16* x,        // [M, 128]
    const bf16* y,  // [M, N]
    const s32* z,   // [4, 8, 16]
    s32 M,
    s32 N) {
  // ---- shared memory, in bytes from its start
  constexpr u32 tile_offset = 0;      // bf16 [64, 128], 128-byte swizzle
  constexpr u32 cube_offset = 16384;  // s32 [4, 8, 16] x 2 slots
  constexpr u32 cube_stride = 2048;   // bytes from slot to slot
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 tile = smem + tile_offset;
  const u32 cube = smem + cube_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;

  const s32 b = blockIdx.x;
  constexpr s32 size = 64;
  const s32 first_row = b * size;
  {  // 64 x 128 bf16, 16 bytes a step
    #pragma unroll 8
    for (s32 step = thread; step < 1024; step += 128) {
      const s32 row = step / 16;
      const s32 col = step % 16 * 8;
      croq::cp_async_16(tile + croq::slab_offset<128, 64>(row, col * 2),
                        &x[s64(first_row + row) * 128 + col],
                        first_row + row < M ? 16 : 0);
    }
    croq::cp_async_commit();
    croq::cp_async_wait<0>();
  }
  {  // 64 x 128 bf16, 16 bytes a step
    #pragma unroll 8
    for (s32 step = thread; step < 1024; step += 128) {
      const s32 row = step / 16;
      const s32 col = step % 16 * 8;
      const croq::u32x4 data = croq::ld_shared<croq::u32x4>(tile + croq::slab_offset<128, 64>(row, col * 2));
      if (first_row + row < M) {
        croq::st_global<croq::u32x4>(&x[s64(first_row + row) * 128 + col], data);
      }
    }
  }
  if (thread >= 32 && thread < 96) {  // 64 x 128 bf16, 2 bytes a step
    #pragma unroll 8
    for (s32 step = thread - 32; step < 8192; step += 64) {
      const s32 row = step / 128;
      const s32 col = step % 128;
      u16 data = {};
      if (first_row + row < M && first_row + col < N) data = croq::ld_global<u16>(&y[s64(first_row + row) * N + first_row + col]);
      croq::st_shared<u16>(tile + croq::slab_offset<128, 64>(row, col * 2), data);
    }
  }
  {  // 4 x 8 x 16 s32, 8 bytes a step
    #pragma unroll 2
    for (s32 step = thread; step < 256; step += 128) {
      const s32 row0 = step / 64;
      const s32 row = step / 8 % 8;
      const s32 col = step % 8 * 2;
      const u64 data = croq::ld_global<u64>(&z[(s64(row0) * 8 + row) * 16 + col]);
      croq::st_shared<u64>(cube + cube_stride + (row0 * 8 + row) * 64 + col * 4, data);
    }
  }
  {  // cube = 7
    const croq::u32x4 value = croq::splat<s32>(7);
    for (u32 at = thread * 16; at < 4096; at += 2048) {
      croq::st_shared<croq::u32x4>(cube + at, value);
    }
  }
  if (thread >= 64 && thread < 128) {  // tile = bf16(0.5f)
    const croq::u32x4 value = croq::splat<bf16>(bf16(0.5f));
    for (u32 at = (thread - 64) * 16; at < 16384; at += 1024) {
      croq::st_shared<croq::u32x4>(tile + at, value);
    }
  }
}
