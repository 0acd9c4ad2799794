extern "C" __global__ void __launch_bounds__(128)
k(
    float* x,  // [B, M, 64]
    s32 M) {
  // ---- shared memory, in bytes from its start
  constexpr u32 plain_offset = 1024;     // f32 [8, 16] x 2 slots
  constexpr u32 plain_stride = 512;      // bytes from slot to slot
  constexpr u32 swizzled_offset = 4096;  // bf16 [64, 128], 64-byte swizzle
  constexpr u32 slabs_offset = 20480;    // bf16 [64, 16]
  const u32 smem = croq::smem_addr(croq_smem);
  const u32 plain = smem + plain_offset;
  const u32 swizzled = smem + swizzled_offset;
  const u32 slabs = smem + slabs_offset;

  // ---- this thread
  const s32 thread = threadIdx.x;
  float own[16];

  const s32 i = thread;
  const s32 b = blockIdx.y;
  constexpr s32 two = 2;
  croq::st_shared<float>(plain + two * plain_stride + b * 64 + i * 4 + 16, x[(s64(b) * M + i + two) * 64 + i + 3]);
  own[two * 4 + two] = own[two * 4 + i + 4];
  croq::st_shared<bf16>(slabs + two * 2 / 16 * 1024 + i * 16 + two * 2 % 16, croq::ld_shared<bf16>(swizzled + croq::slab_offset<64, 64>(i, two * 2 + 128)));
  touch(&own[0], croq::shared_pointer<float>(plain + plain_stride), &x[s64(b) * M * 64]);
}
