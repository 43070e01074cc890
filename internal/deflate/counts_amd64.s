#include "textflag.h"

// BYTE increments the count of the lowest byte of from in a table, which begins at offset.
#define BYTE(from, temp, offset) \
	MOVBLZX from, temp \
	INCL offset(DI)(temp*4)

// NEXT does the same for the byte of R13 that begins at bit shift.
#define NEXT(shift, temp, offset) \
	MOVQ R13, temp \
	SHRQ $shift, temp \
	BYTE(temp, temp, offset)

// func countVectors(c *literalCounts, p []byte) (counted int)
//
// It collects the bytes other than 0 and 255 in a buffer of 512 bytes, and counts these when
// another vector might not fit.
TEXT ·countVectors(SB), NOSPLIT, $512-40
	MOVQ c+0(FP), DI
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX
	ANDQ $~63, CX
	MOVQ CX, counted+32(FP)
	ADDQ SI, CX // the end of the vectors
	MOVQ SP, BX // the buffer
	LEAQ 448(SP), R8 // the last place of a vector in it
	MOVQ BX, R10 // the end of the bytes in it
	XORL R14, R14 // the number of bytes that are 0
	XORL R15, R15 // the number of bytes that are 255
	VPXORQ Z1, Z1, Z1
	VPTERNLOGD $255, Z2, Z2, Z2
collect:
	CMPQ SI, CX
	JCC count
	VMOVDQU64 (SI), Z0
	VPCMPEQB Z1, Z0, K1
	VPCMPEQB Z2, Z0, K2
	KORQ K1, K2, K3
	KNOTQ K3, K3
	VPCOMPRESSB Z0, K3, Z3
	VMOVDQU64 Z3, (R10)
	KMOVQ K1, AX
	KMOVQ K2, DX
	POPCNTQ AX, AX
	POPCNTQ DX, DX
	ADDQ AX, R14
	ADDQ DX, R15
	ADDQ AX, DX
	ADDQ $64, SI
	ADDQ $64, R10
	SUBQ DX, R10
	CMPQ R10, R8
	JLS collect
count:
	MOVQ BX, R11
	LEAQ -8(R10), R12 // the last place of eight bytes
	CMPQ R11, R12
	JHI rest
eight:
	MOVQ (R11), R13
	BYTE(R13, AX, 0)
	NEXT(8, DX, 1024)
	NEXT(16, AX, 2048)
	NEXT(24, DX, 3072)
	SHRQ $32, R13
	BYTE(R13, AX, 0)
	NEXT(8, DX, 1024)
	NEXT(16, AX, 2048)
	SHRQ $24, R13
	INCL 3072(DI)(R13*4)
	ADDQ $8, R11
	CMPQ R11, R12
	JLS eight
rest:
	CMPQ R11, R10
	JCC empty
	BYTE((R11), AX, 0)
	INCQ R11
	JMP rest
empty:
	MOVQ BX, R10
	CMPQ SI, CX
	JCS collect
	ADDL R14, 0(DI)
	ADDL R15, 1020(DI)
	VZEROUPPER
	RET
