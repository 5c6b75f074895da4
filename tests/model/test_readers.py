"""The readers of Triton's texts, on texts written by hand."""

from __future__ import annotations

from warpgrade.model import ptx, ttir

PTX = """
	.loc	1 7 9                           // kernels.py:7:9
	// begin inline asm
	.loc	1 8 9                           // a line of the assembly, not of the source
	@%p1 ld.global.L1::evict_last.v2.b64 { %rd1, %rd2 }, [ %rd3 + 0 ];
	// end inline asm
	.loc	2 99 1, function_name $L__info_string0, inlined_at 1 12 5 // standard.py:99:1
	st.global.b16 	[%rd4], %rs1;
	cp.async.ca.shared.global [ %r31 + 0 ], [ %rd8 + 0 ], 0x8, %r32;
	cp.async.commit_group;
	@!%p2 red.global.gpu.add.f32 [%rd1], %f1;
	ld.shared.b32 	%r1, [%r2];
	ld.param.b64 	%rd7, [add_param_0];
	bar.sync 	0;
	mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};
	.file	1 "/home/student/kernels.py"
	.file	2 "/opt/triton/language/standard.py"
"""


def test_reading_ptx() -> None:
    counts = ptx.count(PTX, "/opt/triton")
    assert {(kind, bits, place and place.line): number for (kind, bits, place), number in counts.accesses.items()} == {
        ("load", 128, 7): 1, ("store", 16, 12): 1, ("async_copy", 64, 12): 1,
    }  # fmt: skip
    assert counts.tensor_core == {"mma.sync s8": 1}
    assert (counts.atomics, counts.barriers, counts.bulk_copies) == (1, 1, 0)


TTIR = """
    %a = tt.load %p, %m : tensor<128x64x!tt.ptr<f16>> loc(#loc3)
    %s = tt.load %q : !tt.ptr<f32> loc(#loc2)
    %d = tt.dot %a, %b, %c {maxNumImpreciseAcc = 1 : i32} : tensor<128x64xf8E5M2> * tensor<64x32xf8E5M2> -> tensor<128x32xf32> loc(#loc4)
#loc1 = loc("/opt/triton/language/standard.py":3:1)
#loc2 = loc("/home/student/kernels.py":9:5)
#loc3 = loc("a"(#loc2))
#loc4 = loc(callsite(#loc1 at #loc3))
"""


def test_reading_ttir() -> None:
    (dot,) = ttir.dots(TTIR, "/opt/triton")
    assert (dot.m, dot.n, dot.k, dot.operand, dot.accumulator, dot.precision) == (
        128,
        32,
        64,
        "float8e5",
        "float32",
        "ieee",
    )
    assert dot.place is not None and dot.place.line == 9
    assert list(ttir.tiles(TTIR, "/opt/triton").values()) == [ttir.Tile(128 * 64, 16)]


def test_how_wide_an_access_could_be() -> None:
    assert ttir.Tile(1024, 32).widest_bits(128) == 128
    assert ttir.Tile(256, 32).widest_bits(128) == 64
    assert ttir.Tile(256, 16).widest_bits(128) == 32
    assert ttir.Tile(64, 16).widest_bits(128) == 16  # some threads have none, others one
