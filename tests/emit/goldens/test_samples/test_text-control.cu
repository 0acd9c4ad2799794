extern "C" __global__ void __launch_bounds__(128)
k(
    u32* x) {  // [N]
  // ---- this thread
  const s32 thread = threadIdx.x;

  const s32 i = thread;
  const u32 x_value = x[i];
  u32 v = x_value;
  while (true) {
    constexpr u32 limit = 100;
    const bool c = v < limit;
    if (!c) break;
    constexpr u32 three = 3;
    const u32 n = v * three;
    v = n;
    const bool odd = n == three;
    if (odd) {
      break;
    } else {
      continue;
    }
  }
  // by hand
  __syncwarp();
  const u32 helper_result = helper<64, float>(x_value, x);
  x[i] = helper_result;
  helper(x_value);
}
