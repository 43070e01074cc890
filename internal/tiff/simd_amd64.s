#include "textflag.h"

// Steps of Unpredict with AVX2. Each shift and addition doubles the number of elements that a sum
// covers. Each element of X4 holds the last sum, which is added to the next register.

// func sum8AVX(d, row *uint8, n int): sums from the start of the row, n a multiple of 16
TEXT ·sum8AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ row+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ $0x0f0f0f0f0f0f0f0f, AX
	MOVQ AX, X5
	VPUNPCKLQDQ X5, X5, X5
	VPXOR X4, X4, X4
	SHRQ $4, CX
loop:
	VMOVDQU (SI), X0
	VPSLLDQ $1, X0, X1
	VPADDB X1, X0, X0
	VPSLLDQ $2, X0, X1
	VPADDB X1, X0, X0
	VPSLLDQ $4, X0, X1
	VPADDB X1, X0, X0
	VPSLLDQ $8, X0, X1
	VPADDB X1, X0, X0
	VPADDB X4, X0, X0
	VPSHUFB X5, X0, X4
	VMOVDQU X0, (DI)
	ADDQ $16, SI
	ADDQ $16, DI
	DECQ CX
	JNZ loop
	RET

// func sum16AVX(d, row *uint16, n int): sums from the start of the row, n a multiple of 8
TEXT ·sum16AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ row+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ $0x0f0e0f0e0f0e0f0e, AX
	MOVQ AX, X5
	VPUNPCKLQDQ X5, X5, X5
	VPXOR X4, X4, X4
	SHRQ $3, CX
loop:
	VMOVDQU (SI), X0
	VPSLLDQ $2, X0, X1
	VPADDW X1, X0, X0
	VPSLLDQ $4, X0, X1
	VPADDW X1, X0, X0
	VPSLLDQ $8, X0, X1
	VPADDW X1, X0, X0
	VPADDW X4, X0, X0
	VPSHUFB X5, X0, X4
	VMOVDQU X0, (DI)
	ADDQ $16, SI
	ADDQ $16, DI
	DECQ CX
	JNZ loop
	RET

// func joinPlanesAVX(out *uint32, b0, b1, b2, b3 *uint8, n int): n a multiple of 16
TEXT ·joinPlanesAVX(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ b0+8(FP), R8
	MOVQ b1+16(FP), R9
	MOVQ b2+24(FP), R10
	MOVQ b3+32(FP), R11
	MOVQ n+40(FP), CX
	XORQ AX, AX
loop:
	VMOVDQU (R8)(AX*1), X0
	VMOVDQU (R9)(AX*1), X1
	VMOVDQU (R10)(AX*1), X2
	VMOVDQU (R11)(AX*1), X3
	VPUNPCKLBW X2, X3, X4
	VPUNPCKHBW X2, X3, X5
	VPUNPCKLBW X0, X1, X6
	VPUNPCKHBW X0, X1, X7
	VPUNPCKLWD X6, X4, X8
	VPUNPCKHWD X6, X4, X9
	VPUNPCKLWD X7, X5, X10
	VPUNPCKHWD X7, X5, X11
	VMOVDQU X8, (DI)
	VMOVDQU X9, 16(DI)
	VMOVDQU X10, 32(DI)
	VMOVDQU X11, 48(DI)
	ADDQ $64, DI
	ADDQ $16, AX
	CMPQ AX, CX
	JLT loop
	RET
