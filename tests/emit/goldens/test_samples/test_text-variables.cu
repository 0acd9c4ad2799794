extern "C" __global__ void __launch_bounds__(128)
k(
    s32* out) {  // [N]
  constexpr s32 zero = 0;
  s32 n = zero;
  s32 m = zero;
  constexpr s32 one = 1;
  const s32 n_before = n;
  n += one;
  out[n_before] = n * n;
  constexpr s32 four = 4;
  const s32 n_before_2 = n;
  #pragma unroll 1
  for (s32 i = 0; i < four; ++i) {
    m += i;
    out[i] = m * n_before_2;
    n = one;
  }
}
