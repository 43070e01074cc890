#include "textflag.h"

// The order in which PLANES takes the bytes of four elements: most significant bytes first.
DATA planeOrder<>+0(SB)/8, $0x0e0a06020f0b0703
DATA planeOrder<>+8(SB)/8, $0x0c0804000d090501
GLOBL planeOrder<>(SB), RODATA|NOPTR, $16

// QUARTERS loads two times four elements, from 64 bytes apart, and sorts the bytes of each four.
#define QUARTERS(at, lo, all) \
	VMOVDQU at(SI), lo \
	VINSERTI128 $1, at+64(SI), all, all \
	VPSHUFB Y15, all, all

// SUBTRACT is the body of the functions that set dst = a - b, for n bytes, a multiple of 32.
#define SUBTRACT(instruction) \
	MOVQ dst+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), BX \
	MOVQ n+24(FP), CX \
	XORQ AX, AX \
loop: \
	VMOVDQU (SI)(AX*1), Y0 \
	instruction (BX)(AX*1), Y0, Y0 \
	VMOVDQU Y0, (DI)(AX*1) \
	ADDQ $32, AX \
	CMPQ AX, CX \
	JLT loop \
	VZEROUPPER \
	RET

// func planes4AVX(dst *uint8, plane int, src *uint8, n int): n elements, a multiple of 32, into
// planes that begin plane bytes apart
TEXT ·planes4AVX(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ plane+8(FP), DX
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	VBROADCASTI128 planeOrder<>(SB), Y15
	LEAQ (DI)(DX*2), R8
loop:
	QUARTERS(0, X0, Y0)
	QUARTERS(16, X1, Y1)
	QUARTERS(32, X2, Y2)
	QUARTERS(48, X3, Y3)
	VPUNPCKLDQ Y1, Y0, Y4
	VPUNPCKHDQ Y1, Y0, Y5
	VPUNPCKLDQ Y3, Y2, Y6
	VPUNPCKHDQ Y3, Y2, Y7
	VPUNPCKLQDQ Y6, Y4, Y0
	VPUNPCKHQDQ Y6, Y4, Y1
	VPUNPCKLQDQ Y7, Y5, Y2
	VPUNPCKHQDQ Y7, Y5, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(DX*1)
	VMOVDQU Y2, (R8)
	VMOVDQU Y3, (R8)(DX*1)
	ADDQ $128, SI
	ADDQ $32, DI
	ADDQ $32, R8
	SUBQ $32, CX
	JNZ loop
	VZEROUPPER
	RET

// func subtract8AVX(dst, a, b *uint8, n int)
TEXT ·subtract8AVX(SB), NOSPLIT, $0-32
	SUBTRACT(VPSUBB)

// func subtract16AVX(dst, a, b *uint8, n int)
TEXT ·subtract16AVX(SB), NOSPLIT, $0-32
	SUBTRACT(VPSUBW)

// func subtract32AVX(dst, a, b *uint8, n int)
TEXT ·subtract32AVX(SB), NOSPLIT, $0-32
	SUBTRACT(VPSUBD)

// func subtract64AVX(dst, a, b *uint8, n int)
TEXT ·subtract64AVX(SB), NOSPLIT, $0-32
	SUBTRACT(VPSUBQ)
