"""Each static rule: a program that breaks it, and only it, on the marked line."""

from __future__ import annotations

import pytest

from tests.sema.helpers import analysed, block, function, marked_line, warpgroups

TILES = """
shared f16 [64, 64] at[2];
shared f16 [64, 64] bt[2];
shared f16 [64, 64] one;
shared f32 [64, 64] wide;
shared event full[2];
shared event empty[2] = ready;
shared event go;
"""
# Uses of the events of TILES, so that a rule's program says nothing about them.
USED = """
wait full.at(0), empty.at(0), go;
trigger full.at(0), empty.at(0), go;
"""


ONE = "shared f16 [64, 64] s;\n"
LOADING = "s = tma.load.async a.subspan(64, 64).at(bm, 0) => one;\n"
MULTIPLYING = "m = mma.row.row.async s, one, bt[0];\n"


def tiles(body: str) -> str:
    """`body` in a role of a kernel with tiles and events."""
    return warpgroups("inthreads.async (p == 0) {\n" + body + USED + "}", TILES)


def fragments(body: str) -> str:
    return tiles("frag f32 [64, 64] s;\nfrag f32 [64] r {0.0f};\nfrag f16 [64, 64] h;\n" + body)


RULES = {
    # ---------------------------------------------------------------------------------------------- 1 functions
    "E-101 calling a co function": ("E-101", "__co__ void g(int n) {}\n" + block("call g(n); //!")),
    "E-103 global scalar": ("E-103", "__co__ void f(\n  global int n //!\n) {}"),
    "E-105 two parameters of one name": ("E-105", "__co__ void f(\n  int n,\n  float n //!\n) {}"),
    "E-105 local with a parameter's name": ("E-105", function("n = 3; //!")),
    "E-105 dimension and parameter": ("E-105", "__co__ void f(\n  int n,\n  global f32 [n] x //!\n) {}"),
    "E-107 dimension of a parameter": ("E-107", "__co__ void f(global f32 [0] x) {} //!"),
    "E-107 dimension of a buffer": ("E-107", block("shared f16 [64 - 64] s; //!")),
    "E-111 value from void": ("E-111", function("return 3; //!")),
    "E-110 no value": ("E-110", "__co__ int f(int n) { } //!"),
    "E-112 return in a kernel": ("E-112", block("return; //!")),
    "E-120 dynamic shared shape": ("E-120", block("shared f16 [M, 64] s; //!")),
    "E-120 dynamic fragment": ("E-120", warpgroups("frag f32 [M] s; //!")),
    "E-120 dynamic tile made by a move": ("E-120", block("s = dma.copy a.subspan(64, K).at(bm, 0) => shared; //!")),
    "E-121 unknown dimension": ("E-121", block("shared f16 [Z, 64] s; //!")),
    "E-315 function twice": ("E-315", "__co__ void f(int n) {}\n__co__ void f(int n) {} //!"),
    # -------------------------------------------------------------------------------------------------- 3 types
    "E-301 f16 and bf16": ("E-301", block("y = __to<f16>(x) + __to<bf16>(x); //!")),
    "E-302 bool from int": ("E-302", block("bool y = 0; //!")),
    "E-310 reassignment": ("E-310", block("y = 3;\ny = 4; //!")),
    "E-310 parallel variable": ("E-310", block("bm = 4; //!")),
    "E-310 compound assignment": ("E-310", block("y = 3;\ny += 4; //!")),
    "E-311 no slots": ("E-311", block("shared f16 [64, 64] s[0]; //!")),
    "E-311 no event slots": ("E-311", block("shared event e[0]; //!")),
    "E-312 slots not constant": ("E-312", block("shared f16 [64, 64] s[n]; //!")),
    "E-312 event slots not constant": ("E-312", block("shared event e[n]; //!")),
    "E-314 undeclared": ("E-314", block("y = z; //!")),
    "E-314 before its declaration": ("E-314", block("y = z; //!\nz = 3;")),
    "E-314 out of scope": ("E-314", block("if (n > 0) { z = 3; }\ny = z; //!")),
    "E-315 redeclaration": ("E-315", block(ONE + "shared f16 [64, 64] s; //!")),
    "E-315 view twice": ("E-315", block("v = a.subspan(64, 64);\nv = a.subspan(64, 64); //!")),
    "E-316 immutable without value": ("E-316", block("int y; //!")),
    "E-316 type unknown": ("E-316", block("mutable y; //!")),
    "E-317 string": ("E-317", block('y = "text"; //!')),
    "E-317 data as a scalar": ("E-317", block("float y = a; //!")),
    "E-313 buffer value": ("E-313", block("shared f16 [64, 64] s {true}; //!")),
    "E-320 global data in a kernel": ("E-320", block("global f16 [64, 64] s; //!")),
    "E-321 element read on the host": ("E-321", function("y = list.at(0); //!")),
    "E-321 element written on the host": ("E-321", function("list.at(0) = 3; //!")),
    "E-105 data and scalar parameter": ("E-105", "__co__ void f(\n  global f32 [N] x,\n  float x //!\n) {}"),
    "E-321 shared data on the host": ("E-321", function("shared f16 [64, 64] s; //!")),
    "E-1150 fragment on the host": ("E-1150", function("frag f32 [64] s; //!")),
    "E-322 mutable dimension": ("E-322", block("mutable y = 64;\nshared f16 [y, 64] s; //!")),
    "E-323 bounded dimension": ("E-323", block("shared f16 [bm, 64] s; //!")),
    "E-323 bounded slots": ("E-323", block("shared f16 [64, 64] s[bm]; //!")),
    "E-324 local data": ("E-324", warpgroups("local f32 [1024] s; //!")),
    # -------------------------------------------------------------------------------------------- 4 expressions
    "E-401 compose unbounded": ("E-401", block("y = bm # n; //!")),
    "E-401 bound of unbounded": ("E-401", block("y = #n; //!")),
    "E-402 logical of ints": ("E-402", block("y = n && bm > 0; //!")),
    "E-402 bits of floats": ("E-402", block("y = x & x; //!")),
    "E-402 not of an int": ("E-402", block("y = !n; //!")),
    "E-403 ternary condition": ("E-403", block("y = n ? 1 : 2; //!")),
    "E-404 ternary arms": ("E-404", block("y = n > 0 ? true : 2; //!")),
    "E-405 increment of an immutable": ("E-405", block("y = 3;\ny++; //!")),
    "E-405 increment of a float": ("E-405", block("mutable y = 3.0f;\ny++; //!")),
    "E-406 index count": ("E-406", block("y = list.at(0, 1); //!")),
    "E-406 float index": ("E-406", block("y = list.at(x); //!")),
    "E-407 index out of range": ("E-407", block("shared f32 [64] s;\ny = s.at(64); //!")),
    "E-407 negative index": ("E-407", block("y = list.at(0 - 1); //!")),
    "E-407 interval out of range": ("E-407", warpgroups("y = s.at(p + 2); //!", "shared f32 [2] s;")),
    "E-407 slot out of range": ("E-407", block("shared f16 [64, 64] s[2];\ns[2].at(0, 0) = 0.0f; //!")),
    "E-408 array without subscript": ("E-408", block("shared f16 [64, 64] s[2];\nv = s.subspan(8, 8); //!")),
    "E-408 subscript of no array": ("E-408", block(ONE + "v = s[0].subspan(8, 8); //!")),
    "E-408 event subscript": ("E-408", tiles("trigger go[0]; //!\n")),
    "E-409 dimension out of range": ("E-409", block("y = a.span(2); //!")),
    "E-410 element type": ("E-410", block("y = __to<f4_e2m1>(x); //!")),
    "E-411 data as a value": ("E-411", block("y = a + 1; //!")),
    "E-411 event as a value": ("E-411", tiles("y = go; //!\n")),
    "E-412 division by zero": ("E-412", block("y = n / 0; //!")),
    "E-501 int condition": ("E-501", block("if (n) { y = 3; } //!")),
    # -------------------------------------------------------------------------------------------------- 6 views
    "E-601 chunkat of unbounded": ("E-601", block("v = a.chunkat(n, _); //!")),
    "E-602 sqz of a name": ("E-602", block("v = a.sqz(); //!")),
    "E-603 step count": ("E-603", block("v = a.subspan(64, 64).step(64).at(0, 0); //!")),
    "E-605 extent count": ("E-605", block("v = a.subspan(64); //!")),
    "E-605 index count": ("E-605", block("v = a.subspan(64, 64).at(0); //!")),
    "E-606 extent zero": ("E-606", block("v = a.subspan(0, 64); //!")),
    "E-607 extent too large": ("E-607", block(ONE + "v = s.subspan(128, 64); //!")),
    "E-608 tile index out of range": ("E-608", block(ONE + "v = s.subspan(32, 64).at(2, 0); //!")),
    "E-608 tile index of a range": (
        "E-608",
        warpgroups("v = s.subspan(32, 64).at(p + 2, 0); //!", ONE),
    ),
    "E-609 view of a scalar": ("E-609", block("v = n.subspan(64); //!")),
    "E-610 wildcard as a value": ("E-610", block("y = _ + 1; //!")),
    # ------------------------------------------------------------------------------------------- 7 parallelism
    "E-701 no units": ("E-701", function("parallel p by 0 : block { } //!")),
    "E-702 float count": ("E-702", function("parallel p by x : block { } //!")),
    "E-703 names and counts": ("E-703", function("parallel {p, q} by [2] : block { } //!")),
    "E-704 four counts": ("E-704", function("parallel {p, q, r, s} by [2, 2, 2, 2] : block { } //!")),
    "E-705 a name twice": ("E-705", function("parallel {p, p} by [2, 2] : block { } //!")),
    "E-707 inner async": ("E-707", block("parallel.async t by 128 : thread { } //!")),
    "E-710 block inside block": ("E-710", block("parallel q by 2 : block { } //!")),
    "E-710 thread around group-4": ("E-710", block("parallel t by 128 : thread { parallel p by 2 : group-4 { } } //!")),
    "E-711 threads under group-4": ("E-711", block("parallel p by 2 : group-4, t by 64 : thread { } //!")),
    "E-712 group inside group-4": ("E-712", block("parallel p by 2 : group-4, w by 4 : group { } //!")),
    "E-713 too many threads": ("E-713", block("parallel t by 2048 : thread { } //!")),
    "E-714 siblings": ("E-714", block("parallel t by 128 : thread { }\nparallel t by 256 : thread { } //!")),
    "E-715 dynamic threads": ("E-715", block("parallel t by n : thread { } //!")),
    "E-720 launch bounds inside": ("E-720", block("[[launch_bounds(_, 1)]] //!\nparallel t by 128 : thread { }")),
    "E-721 launch bounds": ("E-721", function("[[launch_bounds(_, n)]] //!\nparallel p by 2 : block { }")),
    "E-721 negative": ("E-721", function("[[launch_bounds(_, 0)]] //!\nparallel p by 2 : block { }")),
    "E-722 too few threads": (
        "E-722",
        function("[[launch_bounds(64)]] //!\nparallel p by 2 : block, t by 128 : thread { }"),
    ),
    "E-730 no parallel variable": ("E-730", warpgroups("inthreads (n == 0) { } //!")),
    "E-730 two parallel variables": ("E-730", warpgroups("inthreads (p == t) { } //!")),
    "E-730 one half uniform": ("E-730", warpgroups("inthreads (p == 0 && n == 0) { } //!")),
    "E-731 predicate not boolean": ("E-731", warpgroups("inthreads (p) { } //!")),
    "E-732 outside parallel": ("E-732", function("inthreads (n == 0) { } //!")),
    "E-733 nested async": ("E-733", warpgroups("inthreads (p == 0) { inthreads.async (t == 0) { } } //!")),
    "E-734 parallel inside": (
        "E-734",
        block("parallel p by 2 : group-4 { inthreads (p == 0) {\nparallel t by 128 : thread { } //!\n} }"),
    ),
    # ------------------------------------------------------------------------------------------------- 8 moves
    "E-805 swizzle and rows": (
        "E-805",
        block("shared f16 [64, 32] s;\ndma.copy.swiz<128> a.subspan(64, 32).at(bm, 0) => s; //!"),
    ),
    "E-806 two swizzles": (
        "E-806",
        tiles(
            "tma.load.swiz<64> a.subspan(64, 64).at(bm, 0) => one;\n"
            "tma.load.swiz<128> a.subspan(64, 64).at(bm, 1) => one; //!\n"
        ),
    ),
    "E-810 element types": ("E-810", tiles("tma.load a.subspan(64, 64).at(bm, 0) => wide; //!\n")),
    "E-811 ranks": ("E-811", block("shared f16 [64] s;\ndma.copy a.subspan(1, 64).at(bm, 0) => s; //!")),
    "E-812 extents": ("E-812", tiles("tma.load a.subspan(32, 64).at(bm, 0) => one; //!\n")),
    "E-813 async move without a name": ("E-813", tiles("tma.load.async a.subspan(64, 64).at(bm, 0) => one; //!\n")),
    "E-814 waiting for a sync move": (
        "E-814",
        tiles("s = tma.load a.subspan(64, 64).at(bm, 0) => one;\nwait s; //!\n"),
    ),
    "E-815 never waited": ("E-815", tiles(LOADING.replace("\n", " //!\n"))),
    "E-816 move on the host": ("E-816", function("s = dma.copy a.subspan(64, 64) => shared; //!")),
    "E-817 future twice": (
        "E-817",
        tiles(LOADING + "wait s;\ns = tma.load.async a.subspan(64, 64).at(bm, 1) => one; //!\nwait s;\n"),
    ),
    "E-820 tma shared to shared": ("E-820", tiles("tma.copy at[0] => at[1]; //!\n")),
    "E-821 tma load to global": ("E-821", tiles("tma.load wide => c.subspan(64, 64).at(bm, bn); //!\n")),
    "E-822 async dma store": (
        "E-822",
        tiles("s = dma.copy.async wide => c.subspan(64, 64).at(bm, bn); //!\nwait s;\n"),
    ),
    "E-823 dma global to global": (
        "E-823",
        block("dma.copy a.subspan(64, 64).at(bm, 0) => b.subspan(64, 64).at(bn, 0); //!"),
    ),
    "E-830 extent of the kernel": ("E-830", block("v = a.subspan(list.at(0), 64); //!")),
    "E-831 narrow rows": ("E-831", block("shared f16 [64, 4] s;\ntma.load a.subspan(64, 4).at(bm, 0) => s; //!")),
    "E-832 thread in a coordinate": (
        "E-832",
        warpgroups("tma.load a.subspan(64, 64).at(t, 0) => s; //!", ONE),
    ),
    "E-832 group outside a role": (
        "E-832",
        warpgroups("tma.load a.subspan(64, 64).at(p, 0) => s; //!", ONE),
    ),
    # ----------------------------------------------------------------------------------------- 9 loops and calls
    "E-901 call on the host": ("E-901", function("call g(n); //!")),
    "E-912 foreach over a parallel variable": ("E-912", block("foreach bm { } //!")),
    "E-913 float range": ("E-913", block("foreach i in x { } //!")),
    "E-914 range rank": ("E-914", block("foreach {i} in a.span { } //!")),
    "E-411 group as a value": ("E-411", block("foreach q = {i, j} in [n, n] { y = q + 1; } //!")),
    "E-406 group of the wrong rank": ("E-406", block("foreach q = {i, j} in [n, n] { y = list.at(q); } //!")),
    "E-3020 local event": ("E-3020", block("local event e; //!")),
    "E-3020 warp-level mma": (
        "E-3020",
        block(ONE + "parallel w by 4 : group {\nz = mma.fill.f32 0.0f;\nmma.row.row z, s, s; //!\n}"),
    ),
    "E-916 empty range": ("E-916", block("foreach i in 0 { } //!")),
    "E-917 while of an int": ("E-917", block("while (n) { } //!")),
    "E-918 break outside": ("E-918", block("break; //!")),
    "E-918 continue outside": ("E-918", block("if (n > 0) { continue; } //!")),
    # ------------------------------------------------------------------------------------------------ 10 events
    "E-1001 nested increment": ("E-1001", tiles("mutable u32 o = 0;\nwait full.at(o++ + 1); //!\n")),
    "E-1002 increment with several": (
        "E-1002",
        tiles(
            "mutable u32 o = 0;\ns = tma.load.async a.subspan(64, 64).at(bm, 0) => at[0];\n"
            "u = tma.load.async b.subspan(64, 64).at(bn, 0) => bt[0];\n"
            "trigger full.at(o++) after s, u; //!\n"
        ),
    ),
    "E-1003 order of a scalar event": ("E-1003", tiles("wait go.at(0); //!\n")),
    "E-1003 trigger a buffer": ("E-1003", tiles("trigger one; //!\n")),
    "E-1003 wait for a scalar": ("E-1003", tiles("wait n; //!\n")),
    "E-1005 float order": ("E-1005", tiles("wait full.at(x); //!\n")),
    "E-1006 mixed forms": (
        "E-1006",
        warpgroups(
            "inthreads.async (p == 0) { trigger e.at(1); }\ninthreads.async (p == 1) {\nwait e[0]; //!\n}",
            "shared event e[2];",
        ),
    ),
    "E-1007 never triggered": ("E-1007", warpgroups("inthreads.async (p == 0) {\nwait e; //!\n}", "shared event e;")),
    "E-1008 ready, in a loop": (
        "E-1008",
        warpgroups("inthreads.async (p == 0) { foreach i in n {\nwait e; //!\n} }", "shared event e = ready;"),
    ),
    "E-1010 event inside inthreads": (
        "E-1010",
        warpgroups("inthreads.async (p == 0) {\nshared event e; //!\ntrigger e; wait e; }"),
    ),
    "E-1013 barrier on the host": ("E-1013", function("sync.shared; //!")),
    "E-1020 no future": ("E-1020", tiles("trigger go after one; //!\n")),
    "E-1020 future of another block": (
        "E-1020",
        tiles(LOADING + "if (n > 0) {\ntrigger go after s; //!\n}\n"),
    ),
    "E-1021 mma future": ("E-1021", fragments(MULTIPLYING + "trigger go after m; //!\n")),
    "E-1022 dma future": (
        "E-1022",
        tiles("s = dma.copy.async a.subspan(64, 64).at(bm, 0) => one;\ntrigger go after s; //!\n"),
    ),
    "E-1023 store future": (
        "E-1023",
        tiles("s = tma.copy.async wide => c.subspan(64, 64).at(bm, bn);\ntrigger go after s; //!\n"),
    ),
    "E-1024 waited already": (
        "E-1024",
        tiles(LOADING + "wait s;\ntrigger go after s; //!\n"),
    ),
    "E-1025 bound twice": (
        "E-1025",
        tiles(LOADING + "trigger go after s;\ntrigger full.at(0) after s; //!\n"),
    ),
    "E-1026 two events": (
        "E-1026",
        tiles(LOADING + "trigger go, full.at(0) after s; //!\n"),
    ),
    "E-1027 sync future": (
        "E-1027",
        tiles("s = tma.load a.subspan(64, 64).at(bm, 0) => one;\ntrigger go after s; //!\n"),
    ),
    "E-1030 waited twice": ("E-1030", fragments(MULTIPLYING + "wait m;\nwait m; //!\n")),
    "E-1030 waited in a loop": (
        "E-1030",
        fragments(MULTIPLYING + "foreach i in n {\nwait m; //!\n}\n"),
    ),
    "E-1031 waited too early": ("E-1031", fragments("wait m; //!\nm = mma.row.row.async s, one, bt[0];\nwait m;\n")),
    "E-1032 waited after binding": (
        "E-1032",
        tiles(LOADING + "trigger go after s;\nwait s; //!\n"),
    ),
    "E-1033 data of an mma": ("E-1033", fragments(MULTIPLYING + "wait m;\nv = m.data; //!\n")),
    # --------------------------------------------------------------------------------------------------- 11 mma
    "E-1110 K differs": ("E-1110", fragments("mma.row.row s, one, bt[0].subspan(64, 32); //!\n")),
    "E-1111 accumulator shape": ("E-1111", fragments("frag f32 [64, 32] z;\nmma.row.row z, one, bt[0]; //!\n")),
    "E-1112 operand rank": ("E-1112", fragments("mma.row.row s, one.subspan(1, 64).sqz(), bt[0]; //!\n")),
    "E-1113 operand type": ("E-1113", fragments("mma.row.row s, wide, wide; //!\n")),
    "E-1113 operand types differ": ("E-1113", fragments("mma.row.row s, one, wide; //!\n")),
    "E-1113 rows": ("E-1113", fragments("frag f32 [32, 64] z;\nmma.row.row z, one.subspan(32, 64), bt[0]; //!\n")),
    "E-1113 K step": ("E-1113", fragments("mma.row.row s, one.subspan(64, 8), bt[0].subspan(64, 8); //!\n")),
    "E-1114 B in registers": ("E-1114", fragments("mma.row.row s, one, h; //!\n")),
    "E-1115 global operand": ("E-1115", fragments("mma.row.row s, a.subspan(64, 64).at(bm, 0), one; //!\n")),
    "E-1116 accumulator twice": (
        "E-1116",
        fragments("z = mma.fill.f32 0.0f;\nmma.row.row z, one, one;\nz = mma.fill.f32 0.0f; //!\n"),
    ),
    "E-1117 filling a vector": ("E-1117", fragments("mma.fill r, 0.0f; //!\n")),
    "E-1117 filling a buffer": ("E-1117", fragments("mma.fill one, 0.0f; //!\n")),
    "E-1118 accumulator without mma": ("E-1118", fragments("z = mma.fill.f32 0.0f; //!\n")),
    "E-1133 store shape": ("E-1133", fragments("mma.store s, wide.subspan(32, 64); //!\n")),
    # ---------------------------------------------------------------------------------------------- 11 fragments
    "E-1151 iterators": ("E-1151", fragments("apply {i} in s.span { } //!\n")),
    "E-1152 other index": ("E-1152", fragments("apply {i, j} in s.span { s.at(j, i) = 0.0f; } //!\n")),
    "E-1152 outside apply": ("E-1152", fragments("y = r.at(0); //!\n")),
    "E-1153 reduction in apply": ("E-1153", fragments("apply {i, j} in s.span { reduce_max(r, s, 1); } //!\n")),
    "E-1153 wait in apply": ("E-1153", fragments("apply {i, j} in s.span { wait go; } //!\n")),
    "E-1154 copy": ("E-1154", fragments("copy(r, s); //!\n")),
    "E-1155 reduced dimension": ("E-1155", fragments("reduce_max(r, s, 0); //!\n")),
    "E-1155 shapes": ("E-1155", fragments("reduce_max(s, s, 1); //!\n")),
    "E-1156 no row vector": ("E-1156", fragments("all_reduce_sum(s); //!\n")),
    "E-1157 no fragment": ("E-1157", fragments("all_reduce_sum(one); //!\n")),
    "E-317 fragment alias": ("E-317", fragments("z = s; //!\n")),
    # --------------------------------------------------------------------------------------------------- 12 calls
    "E-1201 event argument": ("E-1201", tiles("call g(go); //!\n")),
    "E-1201 mma future argument": (
        "E-1201",
        fragments(MULTIPLYING + "wait m;\ncall g(m); //!\n"),
    ),
    "E-1202 registers": ("E-1202", tiles("call croq::cuda::setreg_dec(41); //!\n")),
    "E-1202 registers not constant": ("E-1202", tiles("call croq::cuda::setreg_dec(n); //!\n")),
    "E-1205 unknown result": ("E-1205", tiles("y = call __popc(n); //!\n")),
    "E-410 scalar of a narrower type": ("E-410", block("mutable f4_e2m1 s = 1; //!")),
    "E-1208 nobody declares it": ("E-1208", tiles("int y = call __popcc(n); //!\n")),
    "E-1301 max of bools": ("E-1301", block("y = __max(true, 1); //!")),
    "E-1302 exp of an int": ("E-1302", block("y = __exp2f(n); //!")),
    "E-1303 argument count": ("E-1303", block("y = __exp2f(x, x); //!")),
    "E-1402 barrier in a role": ("E-1402", tiles("sync.barrier : block; //!\n")),
    "E-3020 host loop": ("E-3020", function("foreach i in n { } //!")),
    "E-3020 host buffer": ("E-3020", function("global f32 [64] s; //!")),
}


@pytest.mark.parametrize("code, text", RULES.values(), ids=RULES.keys())
def test_rule_is_reported_once_on_its_line(code: str, text: str) -> None:
    _, diagnostics = analysed(text)
    errors = [d for d in diagnostics if d.severity == "error"]
    assert [(d.code, d.span and d.span.line) for d in errors] == [(code, marked_line(text))], "\n".join(
        d.render() for d in errors
    )


WARNINGS = {
    "W-301 narrowing": ("W-301", block("mutable f16 y = 0.0f;\ny = x; //!")),
    "W-302 sign": ("W-302", block("u32 y = n; //!")),
    "W-701 partial levels": ("W-701", block("parallel t by 128 { } //!")),
    "W-801 thread variable": (
        "W-801",
        warpgroups("dma.copy a.subspan(1, 64).at(t, 0) => s; //!", "shared f16 [1, 64] s;"),
    ),
    "W-1002 slot outside a role": (
        "W-1002",
        warpgroups("wait e.at(0); //!\ninthreads.async (p == 0) { trigger e.at(0); }", "shared event e[2];"),
    ),
    "W-1003 nobody waits": ("W-1003", warpgroups("inthreads.async (p == 0) { trigger e; }", "shared event e; //!")),
    "W-1004 unused": ("W-1004", block("shared event e; //!")),
    "W-1103 mma.load": (
        "W-1103",
        block(
            "shared f16 [64, 64] s;\nparallel p by 1 : group-4 {\nv = mma.load s; //!\nz = mma.fill.f32 0.0f;\n"
            "mma.row.row z, v, s; }"
        ),
    ),
    "W-303 shadowing": ("W-303", block("y = 3;\nif (n > 0) {\ny = 4; //!\n}")),
}


@pytest.mark.parametrize("code, text", WARNINGS.values(), ids=WARNINGS.keys())
def test_warning_on_its_line(code: str, text: str) -> None:
    model, diagnostics = analysed(text)
    assert [(d.code, d.span and d.span.line) for d in diagnostics] == [(code, marked_line(text))]
    assert model is not None


def test_messages_are_plain() -> None:
    for text in [text for _, text in (RULES | WARNINGS).values()]:
        for diagnostic in analysed(text)[1]:
            first = diagnostic.message[0]
            assert not first.isupper() or diagnostic.message[:2] in ("A ", "B ", "K ", "M ", "N ")
            assert not diagnostic.message.endswith(".")
