extern "C" __global__ void __launch_bounds__(128)
k(
    float* x,   // [N]
    bf16* h,    // [N]
    double* d,  // [N]
    u8* b) {    // [N]
  // ---- this thread
  const s32 thread = threadIdx.x;

  const s32 i = thread;
  const float x_value = x[i];
  x[i] = croq::div(croq::tanh(x_value < 0.1f ? -croq::infinity() : -(-x_value)), x_value);
  const bf16 h_value = h[i];
  h[i] = bf16(croq::ex2(float(bf16(croq::max(float(bf16(float(h_value) * float(h_value))), float(bf16(2.0f)))))));
  d[i] = croq::exp(d[i]);
  const u8 b_value = b[i];
  b[i] = u8(((s32(u8(b_value + b_value)) & 3) << 3) | 0x11170);
}
