#include "textflag.h"

// func sumsAVX2(p *byte, n int) (bytes, weighted uint64): n is a multiple of 64
//
// Y0 holds the sums of the bytes so far, Y1 the sums of all earlier values of Y0, and Y2 the sums
// of the bytes weighted by their places in the 64 that are loaded at once.
TEXT ·sumsAVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	ADDQ SI, CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VMOVDQU weights<>(SB), Y4
	VMOVDQU weights<>+32(SB), Y10
	VPCMPEQW Y5, Y5, Y5
	VPSRLW $15, Y5, Y5 // ones
loop:
	VMOVDQU (SI), Y6
	VMOVDQU 32(SI), Y7
	VPADDQ Y0, Y1, Y1
	VPSADBW Y3, Y6, Y8
	VPSADBW Y3, Y7, Y9
	VPADDQ Y8, Y9, Y9
	VPADDQ Y9, Y0, Y0
	VPMADDUBSW Y4, Y6, Y6 // 255*64 + 255*63 at most
	VPMADDUBSW Y10, Y7, Y7
	VPMADDWD Y5, Y6, Y6
	VPMADDWD Y5, Y7, Y7
	VPADDD Y6, Y7, Y7
	VPADDD Y7, Y2, Y2
	ADDQ $64, SI
	CMPQ SI, CX
	JCS loop

	VPSRLQ $32, Y2, Y6
	VPSLLQ $32, Y2, Y2
	VPSRLQ $32, Y2, Y2
	VPADDQ Y6, Y2, Y2
	VPSLLQ $6, Y1, Y1
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

// weights has 64, 63, 62 ...
DATA weights<>+0(SB)/8, $0x393a3b3c3d3e3f40
DATA weights<>+8(SB)/8, $0x3132333435363738
DATA weights<>+16(SB)/8, $0x292a2b2c2d2e2f30
DATA weights<>+24(SB)/8, $0x2122232425262728
DATA weights<>+32(SB)/8, $0x191a1b1c1d1e1f20
DATA weights<>+40(SB)/8, $0x1112131415161718
DATA weights<>+48(SB)/8, $0x090a0b0c0d0e0f10
DATA weights<>+56(SB)/8, $0x0102030405060708
GLOBL weights<>(SB), RODATA|NOPTR, $64
