// croq.cuh: the device-side prelude of emitted CUDA for sm_90a.
//
// Every PTX instruction that croq uses stands here behind a short named function, one instruction (or one fixed
// idiom) each; wgmma.mma_async alone is generated next to its use, because a wrapper is needed for each N.
// Self-contained: NVRTC needs no header and no option but --gpu-architecture=sm_90a. The PTX ISA is cited by the titles
// of its sections, because their numbers move between versions.
//
// Conventions: shared memory is addressed by 32-bit addresses of the shared window (`smem_addr`), never by generic
// pointers; byte counts are in bytes; `asm volatile` with a "memory" clobber wherever order against other memory
// operations matters, plain `asm` for pure arithmetic so that the compiler may move it.
//
// Call these qualified (`croq::exp`); a `using namespace croq` would clash with CUDA's own exp, min, max.
//
// Macros that change this file: CROQ_WATCHDOG=NANOSECONDS makes every blocking mbarrier wait that lasts longer report to
// the host and trap. It is for finding hangs, not for timing: some releases of ptxas ignore setmaxnreg in a kernel that
// holds a trap.
#ifndef CROQ_CUH
#define CROQ_CUH

#define CROQ_FN __device__ __forceinline__

#ifdef CROQ_WATCHDOG
extern __shared__ __align__(1024) unsigned char croq_smem[];  // as emitted files declare it; barriers are offsets in it
extern "C" {
__device__ unsigned long long* croq_watchdog_report;  // host memory, set before the launch; null when nobody reads it
__device__ unsigned int croq_watchdog_records;        // how many records were begun
}
#endif

namespace croq {

// ---- types ------------------------------------------------------------------------------------------------------

typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "fixed-width types");

// Sixteen bytes, the widest vector access.
struct __align__(16) u32x4 {
    u32 x, y, z, w;
};

// A tensor map as the driver encodes it, passed by value as a __grid_constant__ kernel parameter. PTX ISA, tensor-map
struct __align__(128) TensorMap {
    u64 opaque[16];
};

CROQ_FN u32 float_bits(float x) { return static_cast<u32>(__float_as_int(x)); }
CROQ_FN float bits_float(u32 x) { return __int_as_float(static_cast<int>(x)); }
CROQ_FN float infinity() { return bits_float(0x7f800000u); }

// bfloat16: storage only; arithmetic happens in f32. Rounds to nearest even. PTX ISA, cvt
struct bf16 {
    u16 bits;
    bf16() = default;
    CROQ_FN explicit bf16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    CROQ_FN explicit operator float() const { return bits_float(static_cast<u32>(bits) << 16); }
};

// IEEE half: storage only; arithmetic happens in f32. Rounds to nearest even. PTX ISA, cvt
struct f16 {
    u16 bits;
    f16() = default;
    CROQ_FN explicit f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    CROQ_FN explicit operator float() const {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
};

// 8-bit floats: storage only; values beyond the range saturate to the largest finite value. PTX ISA, cvt
struct f8_e4m3 {
    u8 bits;
    f8_e4m3() = default;
    CROQ_FN explicit f8_e4m3(float x) {
        u16 pair;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
        bits = static_cast<u8>(pair);
    }
    CROQ_FN explicit operator float() const {
        u32 pair;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<u16>(bits)));
        f16 low;
        low.bits = static_cast<u16>(pair);
        return static_cast<float>(low);
    }
};

struct f8_e5m2 {
    u8 bits;
    f8_e5m2() = default;
    CROQ_FN explicit f8_e5m2(float x) {
        u16 pair;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
        bits = static_cast<u8>(pair);
    }
    CROQ_FN explicit operator float() const {
        u32 pair;
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(static_cast<u16>(bits)));
        f16 low;
        low.bits = static_cast<u16>(pair);
        return static_cast<float>(low);
    }
};

// The type in which a value of T is computed: f32 for the narrow floats, T itself otherwise.
template <class T>
CROQ_FN T widen(T x) {
    return x;
}
CROQ_FN float widen(bf16 x) { return static_cast<float>(x); }
CROQ_FN float widen(f16 x) { return static_cast<float>(x); }
CROQ_FN float widen(f8_e4m3 x) { return static_cast<float>(x); }
CROQ_FN float widen(f8_e5m2 x) { return static_cast<float>(x); }

// Conversion between any two scalar types; narrow floats go through f32.
template <class To, class From>
CROQ_FN To to(From x) {
    return static_cast<To>(widen(x));
}

// Two floats rounded to a pair of T in one register, `lo` in the low half. PTX ISA, cvt
template <class T>
CROQ_FN u32 pack(float lo, float hi);
template <>
CROQ_FN u32 pack<bf16>(float lo, float hi) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
    return pair;
}
template <>
CROQ_FN u32 pack<f16>(float lo, float hi) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
    return pair;
}

// Four floats rounded to four 8-bit T in one register, the first in the lowest byte. PTX ISA, cvt
template <class T>
CROQ_FN u32 pack(float x0, float x1, float x2, float x3);
template <>
CROQ_FN u32 pack<f8_e4m3>(float x0, float x1, float x2, float x3) {
    u32 quad;
    asm("{\n"
        ".reg .b16 lo, hi;\n"
        "cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3;\n"
        "mov.b32 %0, {lo, hi};\n"
        "}"
        : "=r"(quad)
        : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
    return quad;
}
template <>
CROQ_FN u32 pack<f8_e5m2>(float x0, float x1, float x2, float x3) {
    u32 quad;
    asm("{\n"
        ".reg .b16 lo, hi;\n"
        "cvt.rn.satfinite.e5m2x2.f32 lo, %2, %1;\n"
        "cvt.rn.satfinite.e5m2x2.f32 hi, %4, %3;\n"
        "mov.b32 %0, {lo, hi};\n"
        "}"
        : "=r"(quad)
        : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
    return quad;
}

// Two 16-bit values that are already rounded, in one register.
template <class T>
CROQ_FN u32 pack_bits(T lo, T hi) {
    return static_cast<u32>(lo.bits) | (static_cast<u32>(hi.bits) << 16);
}

// The halves of a packed pair as f32.
template <class T>
CROQ_FN float unpack_lo(u32 pair) {
    T x;
    x.bits = static_cast<u16>(pair);
    return static_cast<float>(x);
}
template <class T>
CROQ_FN float unpack_hi(u32 pair) {
    T x;
    x.bits = static_cast<u16>(pair >> 16);
    return static_cast<float>(x);
}

// One half of a packed pair: `half` 0 is the low one. Constant once loops over registers are unrolled.
template <class T>
CROQ_FN T half_of(u32 pair, s32 half) {
    T x;
    x.bits = static_cast<u16>(half == 0 ? pair : pair >> 16);
    return x;
}
template <class T>
CROQ_FN void set_half(u32& pair, s32 half, T x) {
    const u32 bits = x.bits;
    pair = half == 0 ? (pair & 0xffff0000u) | bits : (pair & 0x0000ffffu) | (bits << 16);
}

// f32 rounded to tf32 (10 mantissa bits, ties away), in an f32 register. PTX ISA, cvt
CROQ_FN float to_tf32(float x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits_float(bits);
}

// ---- arithmetic -------------------------------------------------------------------------------------------------
// Errors are the maxima that the PTX ISA or the CUDA C++ guide gives: units in
// the last place (ulp) unless called relative or absolute.

// 2^x, 2 ulp; subnormal results are 0, ex2(-inf) is 0. PTX ISA, ex2
CROQ_FN float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// log2(x), absolute error 2^-22. PTX ISA, lg2
CROQ_FN float lg2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1/x, 1 ulp. PTX ISA, rcp
CROQ_FN float rcp(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1/x, correctly rounded. PTX ISA, rcp
CROQ_FN float rcp_rn(float x) {
    float y;
    asm("rcp.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// a/b over the full range, 2 ulp: what `/` on f32 means; the correctly rounded form costs a slow path. PTX ISA, div
CROQ_FN float div(float a, float b) {
    float y;
    asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// 1/sqrt(x), 2 ulp. PTX ISA, rsqrt
CROQ_FN float rsqrt(float x) {
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// sqrt(x), correctly rounded. PTX ISA, sqrt
CROQ_FN float sqrt(float x) {
    float y;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// tanh(x), relative error 2^-11, one instruction. PTX ISA, tanh
CROQ_FN float tanh_approx(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// a * b + c with one rounding. PTX ISA, fma
CROQ_FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
CROQ_FN double fma(double a, double b, double c) { return __fma_rn(a, b, c); }

// The larger and the smaller; a NaN loses against a number. PTX ISA, max, min
CROQ_FN float max(float a, float b) {
    float y;
    asm("max.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
CROQ_FN float min(float a, float b) {
    float y;
    asm("min.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
CROQ_FN double max(double a, double b) { return ::fmax(a, b); }
CROQ_FN double min(double a, double b) { return ::fmin(a, b); }
template <class T>
CROQ_FN T max(T a, T b) {
    return widen(a) < widen(b) ? b : a;
}
template <class T>
CROQ_FN T min(T a, T b) {
    return widen(b) < widen(a) ? b : a;
}

// |x|. PTX ISA, abs
CROQ_FN float abs(float x) { return bits_float(float_bits(x) & 0x7fffffffu); }
CROQ_FN s32 abs(s32 x) { return x < 0 ? -x : x; }

// The CUDA math library, which NVRTC has built in: exp 2 ulp, log 1 ulp, tanh 2 ulp, pow 4 ulp.
CROQ_FN float exp(float x) { return ::expf(x); }
CROQ_FN float log(float x) { return ::logf(x); }
CROQ_FN float tanh(float x) { return ::tanhf(x); }
CROQ_FN float pow(float x, float y) { return ::powf(x, y); }

// The same functions of f64, all within 2 ulp.
CROQ_FN double ex2(double x) { return ::exp2(x); }
CROQ_FN double exp(double x) { return ::exp(x); }
CROQ_FN double log(double x) { return ::log(x); }
CROQ_FN double tanh(double x) { return ::tanh(x); }
CROQ_FN double pow(double x, double y) { return ::pow(x, y); }
CROQ_FN double sqrt(double x) { return ::sqrt(x); }
CROQ_FN double rsqrt(double x) { return ::rsqrt(x); }
CROQ_FN double rcp_rn(double x) { return __drcp_rn(x); }
CROQ_FN double abs(double x) { return ::fabs(x); }

// 1 / (1 + e^-x), about 4 ulp; right at both infinities.
CROQ_FN float sigmoid(float x) { return div(1.0f, 1.0f + ::expf(-x)); }
CROQ_FN double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }

// x * Phi(x), the exact form with the error function.
CROQ_FN float gelu(float x) { return 0.5f * x * (1.0f + ::erff(x * 0.70710678118654752f)); }
CROQ_FN double gelu(double x) { return 0.5 * x * (1.0 + ::erf(x * 0.70710678118654752)); }

// The ceiling of the true quotient; a + b - 1 could overflow.
template <class A, class B>
__host__ CROQ_FN constexpr auto cdiv(A a, B b) -> decltype(a + b) {
    return a / b + (a % b != 0 && (a % b < 0) == (b < 0));
}

// ---- integers for all operands ----------------------------------------------------------------------------------
// What the language says where C++ says nothing: results wrap; an amount is unsigned, and from the width on nothing is
// left of the value but its sign; x / 0 has all bits set, x % 0 is x. T is s32 or wider: narrower types are computed so.

template <class T>
struct Unsigned {
    typedef u32 type;
};
template <>
struct Unsigned<s64> {
    typedef u64 type;
};
template <>
struct Unsigned<u64> {
    typedef u64 type;
};
template <class T>
CROQ_FN typename Unsigned<T>::type bits_of(T x) {
    return static_cast<typename Unsigned<T>::type>(x);
}

template <class T>
CROQ_FN T add(T a, T b) {
    return static_cast<T>(bits_of(a) + bits_of(b));
}
template <class T>
CROQ_FN T sub(T a, T b) {
    return static_cast<T>(bits_of(a) - bits_of(b));
}
template <class T>
CROQ_FN T mul(T a, T b) {
    return static_cast<T>(bits_of(a) * bits_of(b));
}
template <class T>
CROQ_FN T neg(T a) {
    return sub<T>(0, a);
}
template <class T, class A>
CROQ_FN T shl(T a, A amount) {
    return static_cast<u64>(amount) < 8 * sizeof(T) ? static_cast<T>(bits_of(a) << amount) : T(0);
}
template <class T, class A>
CROQ_FN T shr(T a, A amount) {
    if (static_cast<u64>(amount) < 8 * sizeof(T)) return a >> amount;
    return a < T(0) ? T(-1) : T(0);
}
template <class T>
CROQ_FN T quotient(T a, T b) {
    if (b == 0) return T(-1);
    return T(-1) < T(0) && b == T(-1) ? neg(a) : a / b;
}
template <class T>
CROQ_FN T remainder(T a, T b) {
    return b == 0 ? a : sub(a, mul(quotient(a, b), b));
}
template <class T>
CROQ_FN T ceiling(T a, T b) {
    const T rest = remainder(a, b);
    return quotient(a, b) + (b != 0 && rest != 0 && (rest < 0) == (b < 0));
}

// ---- conversions that saturate or round once --------------------------------------------------------------------

// A 32-bit integer saturated at a T of the same sign.
template <class T, class W>
CROQ_FN T saturated(W x) {
    if constexpr (sizeof(T) == 4) {
        return x;
    } else {
        constexpr W high = (W(1) << (8 * sizeof(T) - (W(-1) < W(0)))) - 1;
        constexpr W low = W(-1) < W(0) ? W(-high - 1) : W(0);
        return static_cast<T>(min(max(x, low), high));
    }
}

// Float to integer: towards zero, saturating at T, NaN to 0. PTX ISA, cvt: NaN gives 0 by itself only from f32 to at
// most 32 bits.
template <class T>
CROQ_FN T to_int(float x) {
    if constexpr (sizeof(T) == 8) {
        if (x != x) return 0;
        return T(-1) < T(0) ? static_cast<T>(__float2ll_rz(x)) : static_cast<T>(__float2ull_rz(x));
    } else {
        if constexpr (T(-1) < T(0)) return saturated<T>(__float2int_rz(x));
        return saturated<T>(__float2uint_rz(x));
    }
}
template <class T>
CROQ_FN T to_int(double x) {
    if (x != x) return 0;
    if constexpr (sizeof(T) == 8) {
        return T(-1) < T(0) ? static_cast<T>(__double2ll_rz(x)) : static_cast<T>(__double2ull_rz(x));
    } else {
        if constexpr (T(-1) < T(0)) return saturated<T>(__double2int_rz(x));
        return saturated<T>(__double2uint_rz(x));
    }
}

// To f32 on the way to a narrower float: rounded to odd, so that the next rounding is the only one that counts.
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums")
CROQ_FN float odd(float towards_zero, bool exact) {
    return exact ? towards_zero : bits_float(float_bits(towards_zero) | 1u);
}
CROQ_FN float to_odd(double x) {
    const float f = __double2float_rz(x);
    return odd(f, static_cast<double>(f) == x || x != x);
}
CROQ_FN float to_odd(s64 x) {
    const float f = __ll2float_rz(x);
    return odd(f, __float2ll_rz(f) == x);
}
CROQ_FN float to_odd(u64 x) {
    const float f = __ull2float_rz(x);
    return odd(f, __float2ull_rz(f) == x);
}
CROQ_FN float to_odd(s32 x) { return to_odd(static_cast<double>(x)); }
CROQ_FN float to_odd(u32 x) { return to_odd(static_cast<double>(x)); }

// ---- threads, warps, barriers -----------------------------------------------------------------------------------

// PTX ISA, %laneid
CROQ_FN u32 lane_id() {
    u32 lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// Linear index of the thread in its CTA, in the order that forms warps.
CROQ_FN u32 thread_id() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

CROQ_FN bool is_lane0() { return lane_id() == 0; }

// True in exactly one thread of a fully active warp. PTX ISA, elect.sync
CROQ_FN bool elect_one() {
    u32 elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(elected));
    return elected != 0;
}

// Lane 0's value, in a form that the compiler knows to be the same in all lanes, hence may keep in a uniform
// register; and that it cannot recompute, hence keeps. PTX ISA, shfl.sync
CROQ_FN u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }
CROQ_FN s32 uniform(s32 x) { return __shfl_sync(0xffffffffu, x, 0); }

// PTX ISA, shfl.sync
CROQ_FN float shfl_xor(float x, s32 mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
CROQ_FN u32 shfl_xor(u32 x, s32 mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
CROQ_FN s32 shfl_xor(s32 x, s32 mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
CROQ_FN float shfl(float x, s32 lane) { return __shfl_sync(0xffffffffu, x, lane); }
CROQ_FN u32 shfl(u32 x, s32 lane) { return __shfl_sync(0xffffffffu, x, lane); }
CROQ_FN s32 shfl(s32 x, s32 lane) { return __shfl_sync(0xffffffffu, x, lane); }

// Sum and maximum over groups of LANES neighbouring lanes (a power of two), the result in each lane; halving
// distances.
template <int LANES, class T>
CROQ_FN T lanes_sum(T x) {
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) x = x + shfl_xor(x, mask);
    return x;
}
template <int LANES, class T>
CROQ_FN T lanes_max(T x) {
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) x = max(x, shfl_xor(x, mask));
    return x;
}
template <int LANES, class T>
CROQ_FN T lanes_min(T x) {
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) x = min(x, shfl_xor(x, mask));
    return x;
}

// Votes of a full warp. PTX ISA, vote.sync
CROQ_FN bool warp_any(bool x) { return __any_sync(0xffffffffu, x) != 0; }
CROQ_FN bool warp_all(bool x) { return __all_sync(0xffffffffu, x) != 0; }

// Reconverges and orders memory within a warp. PTX ISA, bar.warp.sync
CROQ_FN void warp_sync(u32 lanes = 0xffffffff) { asm volatile("bar.warp.sync %0;" ::"r"(lanes) : "memory"); }

// All threads of the CTA. PTX ISA, bar
CROQ_FN void cta_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// Named barrier `id` (0..15) of `threads` threads, a multiple of the warp size: arrive and wait. PTX ISA, bar
CROQ_FN void named_barrier_sync(u32 id, u32 threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Named barrier: arrive without waiting. PTX ISA, bar
CROQ_FN void named_barrier_arrive(u32 id, u32 threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Raise or lower the register budget of the calling warps to N; all warps of the warpgroup, N = 24..256 in steps
// of 8. PTX ISA, setmaxnreg
template <int N>
CROQ_FN void setmaxnreg_inc() {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes 24..256 in steps of 8");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
CROQ_FN void setmaxnreg_dec() {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes 24..256 in steps of 8");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// `value`, but computed from `x` as well (which must not be negative), so that ptxas cannot move whatever uses the
// result above the computation of x. Pins arithmetic before an ordered instruction.
CROQ_FN u32 pinned_after(u32 value, float x) {
    u32 y;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        ".reg .u32 z;\n"
        "setp.lt.f32 p, %2, 0f00000000;\n"
        "selp.u32 z, 8, 0, p;\n"
        "add.u32 %0, %1, z;\n"
        "}"
        : "=r"(y)
        : "r"(value), "f"(x));
    return y;
}

// ---- shared memory ----------------------------------------------------------------------------------------------

// The address of a pointer into shared memory within the shared window. PTX ISA, cvta
CROQ_FN u32 smem_addr(const void* p) {
    u32 addr;
    asm("{\n"
        ".reg .u64 t;\n"
        "cvta.to.shared.u64 t, %1;\n"
        "cvt.u32.u64 %0, t;\n"
        "}"
        : "=r"(addr)
        : "l"(p));
    return addr;
}

// The XOR pattern of TMA and WGMMA for a W-byte swizzle (0 and 16 mean none): bits 4.. of a byte offset from the
// pattern's start are XORed with bits 7 and up. PTX ISA, swizzling modes
template <int W>
CROQ_FN u32 swizzle(u32 offset) {
    static_assert(W == 0 || W == 16 || W == 32 || W == 64 || W == 128, "swizzle width");
    return W <= 16 ? offset : offset ^ ((offset >> 3) & (static_cast<u32>(W - 1) & 0x70u));
}

// The byte offset of byte `byte` of row `row` in a tile of ROWS rows that is stored in slabs of W bytes: columns of W
// bytes, each with all rows, chunks permuted inside.
template <int W, int ROWS>
CROQ_FN u32 slab_offset(u32 row, u32 byte) {
    return byte / W * (ROWS * W) + swizzle<W>(row * W + byte % W);
}

// Element access by shared address; T has 1, 2, 4, 8 or 16 bytes. PTX ISA, ld, st
template <int BYTES>
struct SharedAccess;
template <>
struct SharedAccess<1> {
    typedef u8 type;
    static CROQ_FN u8 load(u32 addr) {
        u16 v;
        asm volatile("ld.shared.u8 %0, [%1];" : "=h"(v) : "r"(addr) : "memory");
        return static_cast<u8>(v);
    }
    static CROQ_FN void store(u32 addr, u8 v) {
        asm volatile("st.shared.u8 [%0], %1;" ::"r"(addr), "h"(static_cast<u16>(v)) : "memory");
    }
};
template <>
struct SharedAccess<2> {
    typedef u16 type;
    static CROQ_FN u16 load(u32 addr) {
        u16 v;
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(addr) : "memory");
        return v;
    }
    static CROQ_FN void store(u32 addr, u16 v) {
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(addr), "h"(v) : "memory");
    }
};
template <>
struct SharedAccess<4> {
    typedef u32 type;
    static CROQ_FN u32 load(u32 addr) {
        u32 v;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(addr) : "memory");
        return v;
    }
    static CROQ_FN void store(u32 addr, u32 v) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(addr), "r"(v) : "memory");
    }
};
template <>
struct SharedAccess<8> {
    typedef u64 type;
    static CROQ_FN u64 load(u32 addr) {
        u64 v;
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(addr) : "memory");
        return v;
    }
    static CROQ_FN void store(u32 addr, u64 v) {
        asm volatile("st.shared.u64 [%0], %1;" ::"r"(addr), "l"(v) : "memory");
    }
};
template <>
struct SharedAccess<16> {
    typedef u32x4 type;
    static CROQ_FN u32x4 load(u32 addr) {
        u32x4 v;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(addr)
                     : "memory");
        return v;
    }
    static CROQ_FN void store(u32 addr, u32x4 v) {
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(addr), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                     : "memory");
    }
};
template <class T, class Raw>
union Bits {
    T value;
    Raw raw;
    CROQ_FN Bits() {}
};
template <class T>
CROQ_FN T ld_shared(u32 addr) {
    Bits<T, typename SharedAccess<sizeof(T)>::type> bits;
    bits.raw = SharedAccess<sizeof(T)>::load(addr);
    return bits.value;
}
template <class T>
CROQ_FN void st_shared(u32 addr, T value) {
    Bits<T, typename SharedAccess<sizeof(T)>::type> bits;
    bits.value = value;
    SharedAccess<sizeof(T)>::store(addr, bits.raw);
}

// Sixteen bytes of shared memory, 16-byte aligned.
CROQ_FN u32x4 ld_shared_16(u32 addr) { return ld_shared<u32x4>(addr); }
CROQ_FN void st_shared_16(u32 addr, u32x4 value) { st_shared(addr, value); }

// Sixteen bytes of global memory, 16-byte aligned. PTX ISA, ld, st
CROQ_FN u32x4 ld_global_16(const void* p) {
    u32x4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
CROQ_FN void st_global_16(void* p, u32x4 v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// Element access by pointer; T has 1, 2, 4, 8 or 16 bytes, and the address is a multiple of that.
template <class T>
CROQ_FN T ld_global(const void* p) {
    return *static_cast<const T*>(p);
}
template <class T>
CROQ_FN void st_global(void* p, T value) {
    *static_cast<T*>(p) = value;
}
template <class T>
CROQ_FN T ld_local(const void* p) {
    return *static_cast<const T*>(p);
}
template <class T>
CROQ_FN void st_local(void* p, T value) {
    *static_cast<T*>(p) = value;
}

// Two neighbouring elements at once: two floats, or a packed pair of 16-bit ones. PTX ISA, st
CROQ_FN void st_global_pair(float* p, float lo, float hi) {
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(lo), "f"(hi) : "memory");
}
template <class T>
CROQ_FN void st_global_pair(T* p, u32 pair) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(pair) : "memory");
}
CROQ_FN void st_shared_pair(u32 addr, float lo, float hi) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(addr), "f"(lo), "f"(hi) : "memory");
}
CROQ_FN void st_shared_pair(u32 addr, u32 pair) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(addr), "r"(pair) : "memory");
}

// A generic pointer to shared memory, for device functions that take one. PTX ISA, cvta
template <class T>
CROQ_FN T* shared_pointer(u32 addr) {
    u64 p;
    asm("{\n"
        ".reg .u64 t;\n"
        "cvt.u64.u32 t, %1;\n"
        "cvta.shared.u64 %0, t;\n"
        "}"
        : "=l"(p)
        : "r"(addr));
    return reinterpret_cast<T*>(p);
}

// Sixteen bytes full of one value.
template <class T>
CROQ_FN u32x4 splat(T value) {
    Bits<T, typename SharedAccess<sizeof(T)>::type> bits;
    bits.value = value;
    u32 word = static_cast<u32>(bits.raw);
    if (sizeof(T) == 1) word = (word & 0xffu) * 0x01010101u;
    if (sizeof(T) == 2) word = (word & 0xffffu) * 0x00010001u;
    const u32 high = sizeof(T) == 8 ? static_cast<u32>(static_cast<u64>(bits.raw) >> 32) : word;
    return u32x4{word, high, word, high};
}

// Asynchronous copy of 16 bytes, of which the first `src_bytes` (0..16) are read and the rest is zero.
// PTX ISA, cp.async
CROQ_FN void cp_async_16(u32 dst, const void* src, u32 src_bytes = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(src_bytes) : "memory");
}

// PTX ISA, cp.async.commit_group
CROQ_FN void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N of this thread's newest cp.async groups are pending. PTX ISA, cp.async.wait_group
template <int N>
CROQ_FN void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// The barrier receives one arrival when this thread's earlier cp.async are done; the arrival must be among its
// expected count. PTX ISA, cp.async.mbarrier.arrive
CROQ_FN void cp_async_mbarrier_arrive(u32 bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// Loads 8x8 matrices of 16-bit elements; lane l gives the row address of row l % 8 of matrix l / 8.
// PTX ISA, ldmatrix
CROQ_FN void ldmatrix_x1(u32& r0, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(row) : "memory");
}
CROQ_FN void ldmatrix_x2(u32& r0, u32& r1, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(row)
                 : "memory");
}
CROQ_FN void ldmatrix_x4(u32& r0, u32& r1, u32& r2, u32& r3, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(row)
                 : "memory");
}
CROQ_FN void ldmatrix_x1_trans(u32& r0, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(row) : "memory");
}
CROQ_FN void ldmatrix_x2_trans(u32& r0, u32& r1, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(row)
                 : "memory");
}
CROQ_FN void ldmatrix_x4_trans(u32& r0, u32& r1, u32& r2, u32& r3, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(row)
                 : "memory");
}

// Nothing behind this is issued before every ldmatrix of the array has returned: a warp issues in order, and here is what
// needs a register of each and can be neither left out nor moved. Whether it sleeps (for no time) is the same in all lanes.
// PTX ISA, vote.sync, nanosleep
template <int N>
CROQ_FN void settle(const u32 (&x)[N]) {
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < N; i += 4) word ^= x[i];
    asm volatile(
        "{\n"
        ".reg .pred ONE, ANY;\n"
        "setp.eq.u32 ONE, %0, 1;\n"
        "vote.sync.any.pred ANY, ONE, 0xffffffff;\n"
        "@ANY nanosleep.u32 0;\n"
        "}" ::"r"(word)
        : "memory");
}

// Stores 8x8 matrices of 16-bit elements; addresses as for ldmatrix. PTX ISA, stmatrix
CROQ_FN void stmatrix_x1(u32 row, u32 r0) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(r0) : "memory");
}
CROQ_FN void stmatrix_x2(u32 row, u32 r0, u32 r1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(r0), "r"(r1)
                 : "memory");
}
CROQ_FN void stmatrix_x4(u32 row, u32 r0, u32 r1, u32 r2, u32 r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
}
CROQ_FN void stmatrix_x1_trans(u32 row, u32 r0) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(r0) : "memory");
}
CROQ_FN void stmatrix_x2_trans(u32 row, u32 r0, u32 r1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(r0), "r"(r1)
                 : "memory");
}
CROQ_FN void stmatrix_x4_trans(u32 row, u32 r0, u32 r1, u32 r2, u32 r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r0),
                 "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

// ---- arrays of registers ----------------------------------------------------------------------------------------
// Unrolled, so that every index is constant and the arrays stay in registers.

template <class T, int N, class V>
CROQ_FN void fill(T (&x)[N], V value) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = value;
}
template <class T, int M, int N, class V>
CROQ_FN void fill(T (&x)[M][N], V value) {
#pragma unroll
    for (int i = 0; i < M; ++i) fill(x[i], value);
}
template <class T, int N>
CROQ_FN void copy(T (&to)[N], const T (&from)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = from[i];
}
template <class T, int M, int N>
CROQ_FN void copy(T (&to)[M][N], const T (&from)[M][N]) {
#pragma unroll
    for (int i = 0; i < M; ++i) copy(to[i], from[i]);
}

// ---- mbarriers --------------------------------------------------------------------------------------------------

// Expect `count` arrivals a phase. PTX ISA, mbarrier.init
CROQ_FN void mbarrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

// PTX ISA, mbarrier.inval
CROQ_FN void mbarrier_inval(u32 bar) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory"); }

// Makes initialised barriers visible to the asynchronous proxy and the cluster; a CTA barrier must follow for other
// threads. PTX ISA, fence.mbarrier_init
CROQ_FN void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// One arrival, release semantics. PTX ISA, mbarrier.arrive
CROQ_FN void mbarrier_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// `count` arrivals at once. PTX ISA, mbarrier.arrive
CROQ_FN void mbarrier_arrive(u32 bar, u32 count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

// `bytes` more to expect in this phase, and one arrival. PTX ISA, mbarrier.arrive
CROQ_FN void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// `bytes` more to expect in this phase, no arrival. PTX ISA, mbarrier.expect_tx
CROQ_FN void mbarrier_expect_tx(u32 bar, u32 bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// Whether the phase of `parity` has completed; never blocks; acquire if so. PTX ISA, mbarrier.test_wait
CROQ_FN bool mbarrier_test_wait(u32 bar, u32 parity) {
    u32 done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done != 0;
}

// The same, but may suspend the thread for a system-dependent time. PTX ISA, mbarrier.try_wait
CROQ_FN bool mbarrier_try_wait(u32 bar, u32 parity) {
    u32 done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done != 0;
}

#ifdef CROQ_WATCHDOG
namespace watchdog {

// The form of a report, which croq/driver/watchdog.py reads: RECORDS records of four words, one for each warp that gave
// up, in the order in which they did:
//   word 0   bits 0..31 the barrier, in bytes from the start of the dynamic shared memory; bit 32 the parity waited for;
//            bit 63 set, written last: the record is whole
//   word 1   block index x, and y in the high half
//   word 2   block index z, and the linear thread index in the high half
//   word 3   the lanes of the warp that gave up together, and the line of the file that called in the high half
constexpr u32 RECORDS = 1024;

// What others get to give up as well, before the first one's trap ends everything.
constexpr u64 GRACE = 50000000;  // nanoseconds

// PTX ISA, %globaltimer
__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// PTX ISA, st
__device__ __forceinline__ void store(u64* p, u64 x) { asm volatile("st.volatile.u64 [%0], %1;" ::"l"(p), "l"(x)); }

// PTX ISA, fence
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ __forceinline__ u64 word(u32 low, u32 high) { return low | static_cast<u64>(high) << 32; }

// Ends the launch with an error of the device, after a record. PTX ISA, trap
__device__ __forceinline__ void starved(u32 bar, u32 parity, u32 line) {
    const u32 lanes = __activemask();
    u64* report = *static_cast<u64* volatile*>(&croq_watchdog_report);
    if (report != nullptr && (lanes & ((1u << lane_id()) - 1)) == 0) {
        const u32 index = atomicAdd(&croq_watchdog_records, 1u);
        if (index < RECORDS) {
            u64* record = report + 4 * index;
            store(record + 1, word(blockIdx.x, blockIdx.y));
            store(record + 2, word(blockIdx.z, thread_id()));
            store(record + 3, word(lanes, line));
            fence();
            store(record, word(bar - smem_addr(croq_smem), (parity & 1) | 0x80000000u));
        }
        fence();
    }
    const u64 start = nanoseconds();
    while (nanoseconds() - start < GRACE) asm volatile("nanosleep.u32 100000;");
    asm volatile("trap;");
}

}  // namespace watchdog
#endif

// Blocks until the phase of `parity` has completed; acquire. PTX ISA, mbarrier.try_wait
#ifdef CROQ_WATCHDOG
CROQ_FN void mbarrier_wait(u32 bar, u32 parity, u32 line = __builtin_LINE()) {
    if (mbarrier_try_wait(bar, parity)) return;
    const u64 start = watchdog::nanoseconds();
    while (!mbarrier_try_wait(bar, parity)) {
        if (watchdog::nanoseconds() - start > static_cast<u64>(CROQ_WATCHDOG)) watchdog::starved(bar, parity, line);
    }
}
#else
CROQ_FN void mbarrier_wait(u32 bar, u32 parity) {
    // The loop stands inside the braces, so its labels are local to this copy.
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}" ::"r"(bar),
        "r"(parity)
        : "memory");
}
#endif

// Orders earlier ordinary accesses to shared memory before later accesses of the asynchronous proxy (TMA, WGMMA).
// PTX ISA, fence.proxy
CROQ_FN void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for all state spaces, global memory included. PTX ISA, fence.proxy
CROQ_FN void fence_proxy_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- wgmma ------------------------------------------------------------------------------------------------------

// A matrix descriptor from its words: `lo` holds the address and leading offset, `hi` the stride offset and layout.
// PTX ISA, matrix descriptor
CROQ_FN u64 make_descriptor(u32 lo, u32 hi) {
    u64 desc;
    asm("mov.b64 %0, {%1, %2};" : "=l"(desc) : "r"(lo), "r"(hi));
    return desc;
}

// The low word of the descriptor of an operand that starts at `addr`; `word` is its constant part.
// PTX ISA, matrix descriptor
CROQ_FN u32 descriptor_word(u32 addr, u32 word) { return (addr >> 4) | word; }

// Before the first wgmma and wherever registers that it uses were touched otherwise. PTX ISA, wgmma.fence
CROQ_FN void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes a group of the wgmma issued since the last. PTX ISA, wgmma.commit_group
CROQ_FN void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most the N newest groups are pending. PTX ISA, wgmma.wait_group
template <int N>
CROQ_FN void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// ---- TMA --------------------------------------------------------------------------------------------------------

// Brings a tensor map into the descriptor cache. PTX ISA, prefetch
CROQ_FN void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// L2 policies for all accesses of a transfer; ptxas folds each into a 64-bit constant. PTX ISA, createpolicy
CROQ_FN u64 policy_evict_first() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
CROQ_FN u64 policy_evict_last() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Closes a group of this thread's bulk stores. PTX ISA, cp.async.bulk.commit_group
CROQ_FN void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most the N newest bulk groups are incomplete. PTX ISA, cp.async.bulk.wait_group
template <int N>
CROQ_FN void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// The same, but only until their sources have been read and may be overwritten.
template <int N>
CROQ_FN void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Contiguous bulk copies without a tensor map; addresses and `bytes` are multiples of 16.
// PTX ISA, cp.async.bulk
CROQ_FN void bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
        "l"(src), "r"(bytes), "r"(bar)
        : "memory");
}
CROQ_FN void bulk_store(void* dst, u32 src, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src), "r"(bytes)
                 : "memory");
}

// TMA load of a box into shared memory at `dst`; its bytes count as transactions on `bar`. Coordinates: innermost
// first. PTX ISA, cp.async.bulk.tensor
CROQ_FN void tma_load_1d(u32 dst, const TensorMap* map, u32 bar, s32 c0) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3}], [%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0)
        : "memory");
}
CROQ_FN void tma_load_1d(u32 dst, const TensorMap* map, u32 bar, s32 c0, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3}], [%2], %4;" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "l"(policy)
        : "memory");
}
CROQ_FN void tma_load_2d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1)
        : "memory");
}
CROQ_FN void tma_load_2d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "l"(policy)
        : "memory");
}
CROQ_FN void tma_load_3d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}
CROQ_FN void tma_load_3d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
        : "memory");
}
CROQ_FN void tma_load_4d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2, s32 c3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
        : "memory");
}
CROQ_FN void tma_load_4d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2, s32 c3, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
        : "memory");
}
CROQ_FN void tma_load_5d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2, s32 c3, s32 c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}
CROQ_FN void tma_load_5d(u32 dst, const TensorMap* map, u32 bar, s32 c0, s32 c1, s32 c2, s32 c3, s32 c4,
                         u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
        : "memory");
}

// TMA store of a box from shared memory at `src`; completes by bulk group. Coordinates: innermost first.
// PTX ISA, cp.async.bulk.tensor
CROQ_FN void tma_store_1d(const TensorMap* map, u32 src, s32 c0) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" ::"l"(map), "r"(src),
                 "r"(c0)
                 : "memory");
}
CROQ_FN void tma_store_1d(const TensorMap* map, u32 src, s32 c0, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2}], [%1], %3;" ::"l"(map),
        "r"(src), "r"(c0), "l"(policy)
        : "memory");
}
CROQ_FN void tma_store_2d(const TensorMap* map, u32 src, s32 c0, s32 c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(src),
                 "r"(c0), "r"(c1)
                 : "memory");
}
CROQ_FN void tma_store_2d(const TensorMap* map, u32 src, s32 c0, s32 c1, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(map),
        "r"(src), "r"(c0), "r"(c1), "l"(policy)
        : "memory");
}
CROQ_FN void tma_store_3d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}
CROQ_FN void tma_store_3d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;" ::"l"(
            map),
        "r"(src), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
        : "memory");
}
CROQ_FN void tma_store_4d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2, s32 c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
CROQ_FN void tma_store_4d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2, s32 c3, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5}], [%1], %6;" ::
            "l"(map),
        "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
        : "memory");
}
CROQ_FN void tma_store_5d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2, s32 c3, s32 c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
        "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}
CROQ_FN void tma_store_5d(const TensorMap* map, u32 src, s32 c0, s32 c1, s32 c2, s32 c3, s32 c4, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5, %6}], [%1], "
        "%7;" ::"l"(map),
        "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
        : "memory");
}

// Hint: bring a box into L2 ahead of its load. PTX ISA, cp.async.bulk.prefetch.tensor
CROQ_FN void tma_prefetch_1d(const TensorMap* map, s32 c0) {
    asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global [%0, {%1}];" ::"l"(map), "r"(c0) : "memory");
}
CROQ_FN void tma_prefetch_2d(const TensorMap* map, s32 c0, s32 c1) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(c0), "r"(c1)
                 : "memory");
}
CROQ_FN void tma_prefetch_3d(const TensorMap* map, s32 c0, s32 c1, s32 c2) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(c0), "r"(c1),
                 "r"(c2)
                 : "memory");
}
CROQ_FN void tma_prefetch_4d(const TensorMap* map, s32 c0, s32 c1, s32 c2, s32 c3) {
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1),
                 "r"(c2), "r"(c3)
                 : "memory");
}
CROQ_FN void tma_prefetch_5d(const TensorMap* map, s32 c0, s32 c1, s32 c2, s32 c3, s32 c4) {
    asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %3, %4, %5}];" ::"l"(map), "r"(c0),
                 "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

}  // namespace croq

#endif  // CROQ_CUH
