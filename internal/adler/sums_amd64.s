#include "textflag.h"

// func sumsAVX2(p *byte, n int) (bytes, weighted uint64): n is a multiple of 32
//
// Y0 holds the sums of the bytes so far, Y1 the sums of all earlier values of Y0, and Y2 the sums
// of the bytes weighted by their places in their vectors.
TEXT ·sumsAVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	ADDQ SI, CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VMOVDQU weights<>(SB), Y4
	VPCMPEQW Y5, Y5, Y5
	VPSRLW $15, Y5, Y5 // ones
loop:
	VMOVDQU (SI), Y6
	VPADDQ Y0, Y1, Y1
	VPSADBW Y3, Y6, Y7
	VPADDQ Y7, Y0, Y0
	VPMADDUBSW Y4, Y6, Y6 // 255*32 + 255*31 at most
	VPMADDWD Y5, Y6, Y6
	VPADDD Y6, Y2, Y2
	ADDQ $32, SI
	CMPQ SI, CX
	JCS loop

	VPSRLQ $32, Y2, Y6
	VPSLLQ $32, Y2, Y2
	VPSRLQ $32, Y2, Y2
	VPADDQ Y6, Y2, Y2
	VPSLLQ $5, Y1, Y1
	VPADDQ Y1, Y2, Y2
	VEXTRACTI128 $1, Y0, X6
	VPADDQ X6, X0, X0
	VPSRLDQ $8, X0, X6
	VPADDQ X6, X0, X0
	VEXTRACTI128 $1, Y2, X6
	VPADDQ X6, X2, X2
	VPSRLDQ $8, X2, X6
	VPADDQ X6, X2, X2
	VMOVQ X0, bytes+16(FP)
	VMOVQ X2, weighted+24(FP)
	VZEROUPPER
	RET

// weights has 32, 31, 30 ...
DATA weights<>+0(SB)/8, $0x191a1b1c1d1e1f20
DATA weights<>+8(SB)/8, $0x1112131415161718
DATA weights<>+16(SB)/8, $0x090a0b0c0d0e0f10
DATA weights<>+24(SB)/8, $0x0102030405060708
GLOBL weights<>(SB), RODATA|NOPTR, $32
