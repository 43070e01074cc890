#include "textflag.h"

// The routines below take every second or fourth of the pixels at src, until they have n, a multiple
// of 8. They fetch the pixels next bytes later into the cache: the processor does so by itself only
// within a row, and only after its first pixels.

// func pick2AVX(dst, src *uint32, n, next int)
TEXT ·pick2AVX(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ next+24(FP), AX
loop:
	PREFETCHT0 (SI)(AX*1)
	VMOVUPS (SI), Y0
	VSHUFPS $0x88, 32(SI), Y0, Y0
	VPERMQ $0xd8, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ loop
	VZEROUPPER
	RET

// func pick4AVX(dst, src *uint32, n, next int)
TEXT ·pick4AVX(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ next+24(FP), AX
loop:
	PREFETCHT0 (SI)(AX*1)
	PREFETCHT0 64(SI)(AX*1)
	VMOVUPS (SI), X0
	VMOVUPS 16(SI), X1
	VMOVUPS 32(SI), X2
	VMOVUPS 48(SI), X3
	VINSERTF128 $1, 64(SI), Y0, Y0
	VINSERTF128 $1, 80(SI), Y1, Y1
	VINSERTF128 $1, 96(SI), Y2, Y2
	VINSERTF128 $1, 112(SI), Y3, Y3
	VUNPCKLPS Y1, Y0, Y0
	VUNPCKLPS Y3, Y2, Y2
	VUNPCKLPD Y2, Y0, Y0
	VMOVUPS Y0, (DI)
	SUBQ $-128, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ loop
	VZEROUPPER
	RET
