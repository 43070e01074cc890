#include "textflag.h"

// Comparisons, selections and masks with AVX2, for n elements, a multiple of 32. Masks and results of
// comparisons have a byte per element. kernels_test.go compares the routines with the Go loops.

DATA ·bytesOrder<>+0(SB)/4, $0
DATA ·bytesOrder<>+4(SB)/4, $4
DATA ·bytesOrder<>+8(SB)/4, $1
DATA ·bytesOrder<>+12(SB)/4, $5
DATA ·bytesOrder<>+16(SB)/4, $2
DATA ·bytesOrder<>+20(SB)/4, $6
DATA ·bytesOrder<>+24(SB)/4, $3
DATA ·bytesOrder<>+28(SB)/4, $7
GLOBL ·bytesOrder<>(SB), RODATA|NOPTR, $32

// ones sets each byte of Y to 1.
#define ONES(X, Y) \
	MOVL $0x01010101, AX \
	MOVQ AX, X \
	VPBROADCASTD X, Y

// Y0 to Y3 hold 32 masks of 32 bits; 1 or 0 for each goes to (DI). Y14: bytesOrder, Y15: ones.
#define STOREMASKS \
	VPACKSSDW Y1, Y0, Y0 \
	VPACKSSDW Y3, Y2, Y2 \
	VPACKSSWB Y2, Y0, Y0 \
	VPERMD Y0, Y14, Y0 \
	VPAND Y15, Y0, Y0 \
	VMOVDQU Y0, (DI)

// func(d *byte, a *float32, n int, k float32)
#define COMPAREK(predicate) \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ n+16(FP), CX \
	VBROADCASTSS k+24(FP), Y4 \
	ONES(X15, Y15) \
	VMOVDQU ·bytesOrder<>(SB), Y14 \
	SHRQ $5, CX \
loop: \
	VMOVUPS (SI), Y0 \
	VMOVUPS 32(SI), Y1 \
	VMOVUPS 64(SI), Y2 \
	VMOVUPS 96(SI), Y3 \
	VCMPPS $predicate, Y4, Y0, Y0 \
	VCMPPS $predicate, Y4, Y1, Y1 \
	VCMPPS $predicate, Y4, Y2, Y2 \
	VCMPPS $predicate, Y4, Y3, Y3 \
	STOREMASKS \
	ADDQ $128, SI \
	ADDQ $32, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

// func(d *byte, a, b *float32, n int)
#define COMPARE(predicate) \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DX \
	MOVQ n+24(FP), CX \
	ONES(X15, Y15) \
	VMOVDQU ·bytesOrder<>(SB), Y14 \
	SHRQ $5, CX \
loop: \
	VMOVUPS (SI), Y0 \
	VMOVUPS 32(SI), Y1 \
	VMOVUPS 64(SI), Y2 \
	VMOVUPS 96(SI), Y3 \
	VCMPPS $predicate, (DX), Y0, Y0 \
	VCMPPS $predicate, 32(DX), Y1, Y1 \
	VCMPPS $predicate, 64(DX), Y2, Y2 \
	VCMPPS $predicate, 96(DX), Y3, Y3 \
	STOREMASKS \
	ADDQ $128, SI \
	ADDQ $128, DX \
	ADDQ $32, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

// The predicates are the ordered, quiet ones; "not equal" is true for NaN.

TEXT ·lessKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x11)

TEXT ·lessEqualKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x12)

TEXT ·greaterKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x1e)

TEXT ·greaterEqualKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x1d)

TEXT ·equalKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x00)

TEXT ·notEqualKAVX(SB), NOSPLIT, $0-28
	COMPAREK(0x04)

TEXT ·lessAVX(SB), NOSPLIT, $0-32
	COMPARE(0x11)

TEXT ·lessEqualAVX(SB), NOSPLIT, $0-32
	COMPARE(0x12)

TEXT ·equalAVX(SB), NOSPLIT, $0-32
	COMPARE(0x00)

TEXT ·notEqualAVX(SB), NOSPLIT, $0-32
	COMPARE(0x04)

// func differ16AVX(d *byte, a *uint16, n int, k uint16): d = a != k
TEXT ·differ16AVX(SB), NOSPLIT, $0-26
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	VPBROADCASTW k+24(FP), Y4
	ONES(X15, Y15)
	SHRQ $5, CX
loop:
	VPCMPEQW (SI), Y4, Y0
	VPCMPEQW 32(SI), Y4, Y1
	VPACKSSWB Y1, Y0, Y0
	VPERMQ $0xd8, Y0, Y0
	VPANDN Y15, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func whereAVX32(d *uint32, c *byte, a, b *uint32, n int): d = c != 0 ? a : b
TEXT ·whereAVX32(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), BX
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	VPXOR Y15, Y15, Y15
	SHRQ $4, CX
loop:
	VPMOVZXBD (BX), Y0
	VPMOVZXBD 8(BX), Y1
	VPCMPEQD Y15, Y0, Y0
	VPCMPEQD Y15, Y1, Y1
	VMOVUPS (SI), Y2
	VMOVUPS 32(SI), Y3
	VBLENDVPS Y0, (DX), Y2, Y2
	VBLENDVPS Y1, 32(DX), Y3, Y3
	VMOVUPS Y2, (DI)
	VMOVUPS Y3, 32(DI)
	ADDQ $16, BX
	ADDQ $64, SI
	ADDQ $64, DX
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func patchAVX32(d *uint32, c *byte, n int, v uint32): d = v where c is 0
TEXT ·patchAVX32(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), BX
	MOVQ n+16(FP), CX
	MOVL v+24(FP), AX
	MOVQ AX, X4
	VPBROADCASTD X4, Y4
	VPXOR Y15, Y15, Y15
	SHRQ $4, CX
loop:
	VPMOVZXBD (BX), Y0
	VPMOVZXBD 8(BX), Y1
	VPCMPEQD Y15, Y0, Y0
	VPCMPEQD Y15, Y1, Y1
	VMOVUPS (DI), Y2
	VMOVUPS 32(DI), Y3
	VBLENDVPS Y0, Y4, Y2, Y2
	VBLENDVPS Y1, Y4, Y3, Y3
	VMOVUPS Y2, (DI)
	VMOVUPS Y3, 32(DI)
	ADDQ $16, BX
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func maskKeysAVX(d, counts *int32, c *byte, n int, v int32): where c is 0, d = v and counts--
TEXT ·maskKeysAVX(SB), NOSPLIT, $0-36
	MOVQ d+0(FP), DI
	MOVQ counts+8(FP), DX
	MOVQ c+16(FP), BX
	MOVQ n+24(FP), CX
	MOVL v+32(FP), AX
	MOVQ AX, X4
	VPBROADCASTD X4, Y4
	VPXOR Y15, Y15, Y15
	SHRQ $4, CX
loop:
	VPMOVZXBD (BX), Y0
	VPMOVZXBD 8(BX), Y1
	VPCMPEQD Y15, Y0, Y0
	VPCMPEQD Y15, Y1, Y1
	VMOVUPS (DI), Y2
	VMOVUPS 32(DI), Y3
	VPADDD (DX), Y0, Y5
	VPADDD 32(DX), Y1, Y6
	VBLENDVPS Y0, Y4, Y2, Y2
	VBLENDVPS Y1, Y4, Y3, Y3
	VMOVUPS Y2, (DI)
	VMOVUPS Y3, 32(DI)
	VMOVDQU Y5, (DX)
	VMOVDQU Y6, 32(DX)
	ADDQ $16, BX
	ADDQ $64, DI
	ADDQ $64, DX
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func roundAVX(d *int32, a *float32, n int, lo, hi float32) (beyond bool): a rounded half to even, and
// whether any is NaN or beyond lo and hi
TEXT ·roundAVX(SB), NOSPLIT, $0-33
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS lo+24(FP), Y4
	VBROADCASTSS hi+28(FP), Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	SHRQ $4, CX
loop:
	VROUNDPS $8, (SI), Y0
	VROUNDPS $8, 32(SI), Y1
	VCMPPS $0x19, Y4, Y0, Y2 // not >=
	VCMPPS $0x19, Y4, Y1, Y3
	VCMPPS $0x16, Y5, Y0, Y8 // not <=
	VCMPPS $0x16, Y5, Y1, Y9
	VORPS Y2, Y6, Y6
	VORPS Y3, Y7, Y7
	VORPS Y8, Y6, Y6
	VORPS Y9, Y7, Y7
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VORPS Y6, Y7, Y6
	VMOVMSKPS Y6, AX
	TESTL AX, AX
	SETNE beyond+32(FP)
	VZEROUPPER
	RET

// func narrow8AVX(d *uint8, a *int32, n int): the lowest 8 bits
TEXT ·narrow8AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL $0xff, AX
	MOVQ AX, X15
	VPBROADCASTD X15, Y15
	VMOVDQU ·bytesOrder<>(SB), Y14
	SHRQ $5, CX
loop:
	VPAND (SI), Y15, Y0
	VPAND 32(SI), Y15, Y1
	VPAND 64(SI), Y15, Y2
	VPAND 96(SI), Y15, Y3
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPACKUSWB Y2, Y0, Y0
	VPERMD Y0, Y14, Y0
	VMOVDQU Y0, (DI)
	ADDQ $128, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func narrow16AVX(d *uint16, a *int32, n int): the lowest 16 bits
TEXT ·narrow16AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL $0xffff, AX
	MOVQ AX, X15
	VPBROADCASTD X15, Y15
	SHRQ $5, CX
loop:
	VPAND (SI), Y15, Y0
	VPAND 32(SI), Y15, Y1
	VPAND 64(SI), Y15, Y2
	VPAND 96(SI), Y15, Y3
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPERMQ $0xd8, Y0, Y0
	VPERMQ $0xd8, Y2, Y2
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func maskPixelsAVX(d, counts *uint16, c *byte, n int): where c is 0, d = 0xffff and counts--
TEXT ·maskPixelsAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ counts+8(FP), DX
	MOVQ c+16(FP), BX
	MOVQ n+24(FP), CX
	VPXOR Y15, Y15, Y15
	SHRQ $4, CX
loop:
	VPMOVZXBW (BX), Y0
	VPCMPEQW Y15, Y0, Y0
	VPOR (DI), Y0, Y1
	VPADDW (DX), Y0, Y2
	VMOVDQU Y1, (DI)
	VMOVDQU Y2, (DX)
	ADDQ $16, BX
	ADDQ $32, DI
	ADDQ $32, DX
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func splitPixelsAVX(d, counts *uint16, c *byte, n int): where c is 0, d = 0xffff or, if its count
// is even, 0, and counts--
TEXT ·splitPixelsAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ counts+8(FP), DX
	MOVQ c+16(FP), BX
	MOVQ n+24(FP), CX
	VPXOR Y15, Y15, Y15
	SHRQ $4, CX
loop:
	VPMOVZXBW (BX), Y0
	VPCMPEQW Y15, Y0, Y0
	VMOVDQU (DX), Y1
	VMOVDQU (DI), Y2
	VPSLLW $15, Y1, Y3
	VPSRAW $15, Y3, Y3
	VPBLENDVB Y0, Y3, Y2, Y2
	VPADDW Y0, Y1, Y1
	VMOVDQU Y2, (DI)
	VMOVDQU Y1, (DX)
	ADDQ $16, BX
	ADDQ $32, DI
	ADDQ $32, DX
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func splitKeysAVX(d, counts *int32, c *byte, n int): where c is 0, d is the largest integer or, if
// its count is even, the smallest, and counts--
TEXT ·splitKeysAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ counts+8(FP), DX
	MOVQ c+16(FP), BX
	MOVQ n+24(FP), CX
	VPXOR Y15, Y15, Y15
	VPCMPEQD Y14, Y14, Y14
	VPSLLD $31, Y14, Y14 // the smallest
	SHRQ $3, CX
loop:
	VPMOVZXBD (BX), Y0
	VPCMPEQD Y15, Y0, Y0
	VMOVDQU (DX), Y1
	VMOVUPS (DI), Y2
	VPSLLD $31, Y1, Y3
	VPSRAD $31, Y3, Y3
	VPXOR Y14, Y3, Y3
	VBLENDVPS Y0, Y3, Y2, Y2
	VPADDD Y0, Y1, Y1
	VMOVUPS Y2, (DI)
	VMOVDQU Y1, (DX)
	ADDQ $8, BX
	ADDQ $32, DI
	ADDQ $32, DX
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET
