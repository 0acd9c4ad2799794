// Calls every function of croq.cuh, so that each is compiled. It is never launched.
#include "croq.cuh"

extern "C" __global__ void __launch_bounds__(128) arithmetic(float* p, int* q, unsigned char* raw) {
    float x = p[0], y = p[1];
    float sum = croq::ex2(x) + croq::lg2(x) + croq::rcp(x) + croq::rcp_rn(x) + croq::div(x, y) + croq::rsqrt(x);
    sum += croq::sqrt(x) + croq::tanh_approx(x) + croq::fma(x, y, x) + croq::max(x, y) + croq::min(x, y);
    sum += croq::abs(x) + croq::exp(x) + croq::log(x) + croq::tanh(x) + croq::pow(x, y) + croq::sigmoid(x);
    sum += croq::gelu(x) + croq::infinity() + croq::bits_float(croq::float_bits(x)) + croq::to_tf32(x);
    int n = croq::abs(q[0]) + croq::max(q[0], q[1]) + croq::min(q[0], q[1]) + croq::cdiv(q[0], 7);
    n += croq::add<int>(q[0], q[1]) + croq::sub<int>(q[0], q[1]) + croq::mul<int>(q[0], q[1]) + croq::neg<int>(q[0]);
    n += croq::shl<int>(q[0], q[1]) + croq::shr<croq::u32>(q[0], q[1]) + croq::quotient<int>(q[0], q[1]);
    n += croq::remainder<int>(q[0], q[1]) + croq::ceiling<croq::s64>(q[0], q[1]) + croq::bits_of(q[2]);
    n += croq::to_int<croq::s8>(x) + croq::to_int<croq::u64>(static_cast<double>(x)) + croq::saturated<croq::u8>(3u);
    sum += croq::to_odd(croq::s64(q[0])) + croq::odd(x, q[0] == 0);
    unsigned wide = croq::pack<croq::bf16>(x, y) ^ croq::pack<croq::f16>(x, y);
    wide ^= croq::pack<croq::f8_e4m3>(x, y, x, y) ^ croq::pack<croq::f8_e5m2>(x, y, x, y);
    wide ^= croq::pack_bits(croq::bf16(x), croq::bf16(y));
    sum += croq::unpack_lo<croq::bf16>(wide) + croq::unpack_hi<croq::f16>(wide);
    croq::bf16 b = croq::to<croq::bf16>(x);
    croq::f16 h = croq::to<croq::f16>(q[2]);
    croq::f8_e4m3 e = croq::to<croq::f8_e4m3>(b);
    croq::f8_e5m2 f = croq::to<croq::f8_e5m2>(h);
    sum += croq::widen(croq::max(b, croq::bf16(y))) + croq::widen(croq::min(h, croq::f16(y)));
    sum += croq::to<float>(e) + croq::to<float>(f);
    n += croq::to<int>(h);
    n += static_cast<int>(croq::lane_id() + croq::thread_id()) + croq::is_lane0() + croq::elect_one();
    n += croq::uniform(q[3]) + static_cast<int>(croq::uniform(wide));
    sum += croq::shfl_xor(x, 1) + croq::shfl(x, 0) + croq::lanes_sum<4>(x) + croq::lanes_max<4>(x) + croq::lanes_min<8>(y);
    n += croq::shfl_xor(n, 2) + croq::shfl(n, 3) + static_cast<int>(croq::shfl_xor(wide, 4) + croq::shfl(wide, 1));
    n += croq::warp_any(x > y) + croq::warp_all(x > y);
    croq::warp_sync();
    n += static_cast<int>(croq::pinned_after(wide, croq::ex2(x)));
    croq::u32x4 v = croq::ld_global_16(raw);
    croq::st_global_16(raw + 16, v);
    float registers[2][4], copies[2][4];
    croq::fill(registers, x);
    croq::copy(copies, registers);
    sum += copies[1][3];
    croq::set_half<croq::bf16>(wide, 1, b);
    sum += croq::widen(croq::half_of<croq::f16>(wide, 0));
    croq::st_global<croq::u32>(raw + 32, croq::ld_global<croq::u32>(raw + 36) ^ croq::splat<croq::bf16>(b).w);
    croq::st_global_pair(p, x, y);
    croq::st_global_pair(reinterpret_cast<croq::bf16*>(raw) + 20, wide);
    float own[4] = {x, y, x, y};
    croq::st_local<float>(&own[1], croq::ld_local<float>(&own[0]));
    sum += own[1];
    p[threadIdx.x] = sum;
    q[threadIdx.x] = n;
}

extern "C" __global__ void __launch_bounds__(128) memory(const __grid_constant__ croq::TensorMap map, unsigned char* raw) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const croq::u32 base = croq::smem_addr(shared), bar = base + 512;
    if (threadIdx.x == 0) {
        croq::prefetch_tensormap(&map);
        croq::mbarrier_init(bar, 1);
        croq::mbarrier_init(bar + 8, 128);
        croq::fence_mbarrier_init();
    }
    croq::cta_sync();
    croq::u32 r0, r1, r2, r3, s0, s1, s2, s3;
    const croq::u32 row = base + croq::swizzle<128>(croq::lane_id() * 128) + croq::swizzle<64>(16) + croq::swizzle<32>(0);
    croq::ldmatrix_x1(r0, row);
    croq::ldmatrix_x1_trans(s0, row);
    croq::stmatrix_x1(row, r0 ^ s0);
    croq::ldmatrix_x2(r0, r1, row);
    croq::ldmatrix_x2_trans(s0, s1, row);
    croq::stmatrix_x2(row, r0 ^ s0, r1 ^ s1);
    croq::ldmatrix_x4(r0, r1, r2, r3, row);
    croq::ldmatrix_x4_trans(s0, s1, s2, s3, row);
    const croq::u32 filled[] = {r0, r1, r2, r3};
    croq::settle(filled);
    croq::stmatrix_x4(row, r0 ^ s0, r1 ^ s1, r2 ^ s2, r3 ^ s3);
    croq::stmatrix_x1_trans(row, r0);
    croq::stmatrix_x2_trans(row, r0, r1);
    croq::stmatrix_x4_trans(row, r0, r1, r2, r3);
    croq::st_shared(base, croq::ld_shared<croq::bf16>(base + 2));
    croq::st_shared(base, croq::ld_shared<float>(base + 4));
    croq::st_shared(base, croq::ld_shared<croq::u8>(base + 1));
    croq::st_shared(base, croq::ld_shared<croq::s64>(base + 8));
    croq::st_shared_16(base, croq::ld_shared_16(base + 16));
    croq::st_shared_pair(base + croq::slab_offset<128, 64>(1, 16), 1.0f, 2.0f);
    croq::st_shared_pair(base + 64, croq::descriptor_word(base, 0x10000));
    *croq::shared_pointer<float>(base + 68) = 1.0f;
    croq::cp_async_16(base, raw, 8);
    croq::cp_async_16(base, raw);
    croq::cp_async_commit();
    croq::cp_async_wait<0>();
    croq::cp_async_mbarrier_arrive(bar + 8);
    croq::fence_proxy_async();
    croq::fence_proxy_async_all();
    croq::named_barrier_arrive(1, 256);
    croq::named_barrier_sync(2, 128);
    if (croq::elect_one()) {
        const croq::u64 first = croq::policy_evict_first(), last = croq::policy_evict_last();
        croq::mbarrier_expect_tx(bar, 1024);
        croq::mbarrier_arrive_expect_tx(bar, 1024);
        croq::mbarrier_arrive(bar);
        croq::mbarrier_arrive(bar, 2);
        croq::tma_load_1d(base, &map, bar, 0);
        croq::tma_load_2d(base, &map, bar, 0, 1);
        croq::tma_load_3d(base, &map, bar, 0, 1, 2);
        croq::tma_load_4d(base, &map, bar, 0, 1, 2, 3);
        croq::tma_load_5d(base, &map, bar, 0, 1, 2, 3, 4);
        croq::tma_load_1d(base, &map, bar, 0, first);
        croq::tma_load_2d(base, &map, bar, 0, 1, first);
        croq::tma_load_3d(base, &map, bar, 0, 1, 2, first);
        croq::tma_load_4d(base, &map, bar, 0, 1, 2, 3, last);
        croq::tma_load_5d(base, &map, bar, 0, 1, 2, 3, 4, last);
        croq::tma_store_1d(&map, base, 0);
        croq::tma_store_2d(&map, base, 0, 1);
        croq::tma_store_3d(&map, base, 0, 1, 2);
        croq::tma_store_4d(&map, base, 0, 1, 2, 3);
        croq::tma_store_5d(&map, base, 0, 1, 2, 3, 4);
        croq::tma_store_1d(&map, base, 0, first);
        croq::tma_store_2d(&map, base, 0, 1, first);
        croq::tma_store_3d(&map, base, 0, 1, 2, first);
        croq::tma_store_4d(&map, base, 0, 1, 2, 3, last);
        croq::tma_store_5d(&map, base, 0, 1, 2, 3, 4, last);
        croq::tma_prefetch_1d(&map, 0);
        croq::tma_prefetch_2d(&map, 0, 1);
        croq::tma_prefetch_3d(&map, 0, 1, 2);
        croq::tma_prefetch_4d(&map, 0, 1, 2, 3);
        croq::tma_prefetch_5d(&map, 0, 1, 2, 3, 4);
        croq::bulk_load(base, raw, 1024, bar);
        croq::bulk_store(raw, base, 1024);
        croq::bulk_commit();
        croq::bulk_wait_read<0>();
        croq::bulk_wait<0>();
    }
    if (!croq::mbarrier_test_wait(bar, 0) && !croq::mbarrier_try_wait(bar, 0)) croq::mbarrier_wait(bar, 0);
    croq::mbarrier_wait(bar, 1);
    croq::cta_sync();
    if (threadIdx.x == 0) croq::mbarrier_inval(bar);
}

// Two roles: the first 128 threads give registers away, the others take them and multiply.
extern "C" __global__ void __launch_bounds__(384, 1) roles(float* p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    if (threadIdx.x < 128) {
        croq::setmaxnreg_dec<40>();
    } else {
        croq::setmaxnreg_inc<232>();
        const croq::u64 d = croq::make_descriptor(croq::smem_addr(shared) >> 4, 0x40000040u);
        float acc[64];
        croq::wgmma_fence();
        wgmma_m64n128k16_bf16_ss(acc, d, d, 0);
        wgmma_m64n128k16_bf16_ss(acc, d + 2, d + 2, 1);
        croq::wgmma_commit();
        croq::wgmma_wait<0>();
        register_fence(acc);
#pragma unroll
        for (int i = 0; i < 64; i++) p[threadIdx.x * 64 + i] = acc[i];
    }
}
