#include "textflag.h"

// The routines collect the bytes other than 0 and 255 in a buffer of 512 bytes on the stack, and
// count these when another vector might not fit. R10 is the end of the bytes in it, R14 the number
// of bytes that are 0, and R13 the number of others that are not in the buffer.

// ENTER loads the arguments.
#define ENTER \
	MOVQ c+0(FP), DI; \
	MOVQ p_base+8(FP), SI; \
	MOVQ p_len+16(FP), CX; \
	ANDQ $~63, CX; \
	MOVQ CX, counted+32(FP); \
	MOVQ CX, R13; \
	ADDQ SI, CX; /* the end of the vectors */ \
	LEAQ 448(SP), R8; /* the last place of a vector in the buffer */ \
	MOVQ SP, R10; \
	XORL R14, R14

// BYTE increments the count of the byte from in a table, which begins at offset.
#define BYTE(from, temp, offset) \
	MOVBLZX from, temp; \
	INCL offset(DI)(temp*4)

// COUNT counts the bytes in the buffer and empties it. Then it collects more of them, or returns.
#define COUNT \
	MOVQ SP, R11; \
	LEAQ -8(R10), R12; /* the last place of eight bytes */ \
	SUBQ R10, R13; \
	ADDQ R11, R13; \
	CMPQ R11, R12; \
	JHI rest; \
eight: \
	MOVQ (R11), AX; \
	BYTE(AL, DX, 0); \
	BYTE(AH, BX, 1024); \
	SHRQ $16, AX; \
	BYTE(AL, DX, 2048); \
	BYTE(AH, BX, 3072); \
	SHRQ $16, AX; \
	BYTE(AL, DX, 0); \
	BYTE(AH, BX, 1024); \
	SHRL $16, AX; \
	BYTE(AL, DX, 2048); \
	BYTE(AH, BX, 3072); \
	ADDQ $8, R11; \
	CMPQ R11, R12; \
	JLS eight; \
rest: \
	CMPQ R11, R10; \
	JCC empty; \
	BYTE((R11), AX, 0); \
	INCQ R11; \
	JMP rest; \
empty: \
	MOVQ SP, R10; \
	CMPQ SI, CX; \
	JCS collect; \
	SUBQ R14, R13; \
	ADDL R14, 0(DI); \
	ADDL R13, 1020(DI); \
	VZEROUPPER; \
	RET

// func countAVX512(c *literalCounts, p []byte) (counted int)
TEXT ·countAVX512(SB), NOSPLIT, $512-40
	ENTER
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
	KMOVQ K3, DX
	POPCNTQ AX, AX
	POPCNTQ DX, DX
	ADDQ AX, R14
	ADDQ DX, R10
	ADDQ $64, SI
	CMPQ R10, R8
	JLS collect
count:
	COUNT

// KEEP appends those of the eight bytes of the vector at offset whose bits in from are 0.
#define KEEP(from, offset) \
	MOVBLZX from, DX; \
	VMOVQ offset(SI), X0; \
	VPSHUFB (R9)(DX*8), X0, X0; \
	POPCNTL DX, DX; \
	VMOVQ X0, offset(R10); \
	SUBQ DX, R10

// func countAVX2(c *literalCounts, p []byte) (counted int)
TEXT ·countAVX2(SB), NOSPLIT, $512-40
	ENTER
	LEAQ ·kept(SB), R9
	VPXOR Y1, Y1, Y1
	VPCMPEQB Y2, Y2, Y2
collect:
	CMPQ SI, CX
	JCC count
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y3
	VPCMPEQB Y1, Y0, Y4
	VPCMPEQB Y1, Y3, Y5
	VPCMPEQB Y2, Y0, Y6
	VPCMPEQB Y2, Y3, Y7
	VPMOVMSKB Y4, AX
	VPMOVMSKB Y5, BX
	POPCNTL AX, AX
	POPCNTL BX, BX
	ADDQ AX, R14
	ADDQ BX, R14
	VPOR Y4, Y6, Y6
	VPOR Y5, Y7, Y7
	VPMOVMSKB Y6, AX
	VPMOVMSKB Y7, BX
	KEEP(AL, 0)
	KEEP(AH, 8)
	SHRL $16, AX
	KEEP(AL, 16)
	KEEP(AH, 24)
	KEEP(BL, 32)
	KEEP(BH, 40)
	SHRL $16, BX
	KEEP(BL, 48)
	KEEP(BH, 56)
	ADDQ $64, SI
	ADDQ $64, R10
	CMPQ R10, R8
	JLS collect
count:
	COUNT
