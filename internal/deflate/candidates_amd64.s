#include "textflag.h"
#include "go_asm.h"

// PIXEL enters the place DX+2*lane of a pixel in the table. It stores the distance from the last
// place of the same hash, and how many bytes are equal there. If the distance leads before the
// source, it becomes 0, and that memory is not read.
#define PIXEL(lane) \
	IMUL3L $-1640531535, (2*lane)(SI), R8; \
	LEAQ (2*lane)(DX), R9; \
	SHRL $18, R8; \
	MOVWLZX (BX)(R8*2), R12; \
	MOVW R9, (BX)(R8*2); \
	MOVL R9, R13; \
	SUBL R12, R13; \
	MOVWLZX R13, R13; \
	SUBQ R13, R9; \
	CMOVQMI AX, R9; \
	CMOVQMI AX, R13; \
	MOVW R13, (2*lane)(R10); \
	MOVQ (DI)(R9*1), R8; \
	XORQ (2*lane)(SI), R8; \
	TZCNTQ R8, R8; \
	SHRL $3, R8; \
	MOVB R8, (lane)(R11)

// HALF returns in out which of 32 pixels have four equal bytes at a distance of 1 to 32768.
#define HALF(lane, out) \
	VMOVDQU (2*lane)(R10), Y1; \
	VMOVDQU (2*lane+32)(R10), Y2; \
	VMOVDQU (lane)(R11), Y0; \
	VPADDW Y5, Y1, Y1; \
	VPADDW Y5, Y2, Y2; \
	VPACKSSWB Y2, Y1, Y1; \
	VPERMQ $0xd8, Y1, Y1; \
	VPCMPGTB Y3, Y0, Y0; \
	VPANDN Y0, Y1, Y0; \
	VPMOVMSKB Y0, out

// func findAVX2(c *candidates, table *pairTable, src []byte, at, n int)
TEXT ·findAVX2(SB), NOSPLIT, $0-56
	MOVQ c+0(FP), R10
	LEAQ candidates_lens(R10), R11
	ADDQ $candidates_dists, R10
	MOVQ table+8(FP), BX
	MOVQ src_base+16(FP), DI
	MOVQ at+40(FP), DX
	MOVQ n+48(FP), R15
	LEAQ (DI)(DX*1), SI
	XORL AX, AX
pixels:
	PIXEL(0)
	PIXEL(1)
	PIXEL(2)
	PIXEL(3)
	ADDQ $8, SI
	ADDQ $8, DX
	ADDQ $8, R10
	ADDQ $4, R11
	SUBQ $4, R15
	JNZ pixels

	MOVQ c+0(FP), CX // found
	LEAQ candidates_dists(CX), R10
	LEAQ candidates_lens(CX), R11
	MOVQ n+48(FP), R15
	MOVL $0x03030303, R8
	VMOVD R8, X3
	VPBROADCASTD X3, Y3
	VPCMPEQD Y5, Y5, Y5 // -1
group:
	HALF(0, R8)
	HALF(32, R9)
	MOVL R8, (CX)
	MOVL R9, 4(CX)
	ADDQ $8, CX
	ADDQ $128, R10
	ADDQ $64, R11
	SUBQ $64, R15
	JNZ group
	VZEROUPPER
	RET

// func takeBMI2(tokens *uint32, src []byte, found uint64, dists *[64]uint16, lens *[64]uint8, base, done int) (n, to int, rest uint64)
TEXT ·takeBMI2(SB), NOSPLIT, $0-96
	MOVQ tokens+0(FP), DI
	MOVQ src_base+8(FP), SI
	MOVQ found+32(FP), AX
	MOVQ dists+40(FP), R10
	MOVQ lens+48(FP), R11
	MOVQ base+56(FP), R12
	MOVQ done+64(FP), DX
	XORL R13, R13 // the pixel of the lowest bit of AX
	MOVL $0xff00, R8
	VMOVD R8, X7
	VPBROADCASTD X7, Y7
	TESTQ AX, AX
	JZ exit
loop:
	TZCNTQ AX, CX
	LEAQ (R13)(CX*1), R8     // the pixel
	MOVBLZX (R11)(R8*1), BX  // its length
	MOVWLZX (R10)(R8*2), R15 // its distance
	LEAQ (R12)(R8*2), R9     // its place
	CMPL BX, $8
	JEQ exit
	CMPL R15, $2
	JLS exit
	MOVQ R9, R8
	SUBQ R15, R8
	JLE exit
	MOVBLZX -1(SI)(R8*1), R8
	CMPB R8, -1(SI)(R9*1)
	SETEQ R8
	XORL R14, R14
	CMPQ DX, R9
	SETLT R14
	ANDL R8, R14 // 1 if the byte before is equal too
	SUBQ R14, R9 // where the match begins
	MOVQ R9, R8
	SUBQ DX, R8 // the number of literals
	CMPQ R8, $16
	JHI exit
	LEAQ 16(DX), R8 // of which 16 are loaded
	CMPQ R8, src_len+16(FP)
	JHI exit

	// The next match begins at a pixel after this one.
	SHRXQ CX, AX, AX
	ADDQ CX, R13
	LEAL 1(BX), CX
	SHRL $1, CX
	SHRXQ CX, AX, AX
	ADDQ CX, R13

	// Tokens of two literals, and of one.
	VPMOVZXWD (SI)(DX*1), Y0
	VPAND Y7, Y0, Y1
	VPADDD Y1, Y0, Y0
	VMOVDQU Y0, (DI)
	MOVQ R9, R8
	SUBQ DX, R8
	MOVBLZX -1(SI)(R9*1), DX
	ORL $0x24000, DX
	MOVL R8, CX
	ANDL $1, CX
	SHRL $1, R8
	LEAQ (DI)(R8*4), DI
	MOVL DX, (DI)
	LEAQ (DI)(CX*4), DI

	// The token of the match, as by distToken.
	ADDL R14, BX // length
	LEAQ (R9)(BX*1), DX
	DECL R15
	BSRL R15, CX
	DECL CX
	SHRXL CX, R15, R8
	BZHIL CX, R15, R15
	LEAL 256(R8)(CX*2), R8
	SHLL $18, R15
	SHLL $9, R8
	LEAL 253(R15)(BX*1), BX
	ORL R8, BX
	MOVL BX, (DI)
	ADDQ $4, DI
	TESTQ AX, AX
	JNZ loop
exit:
	SUBQ tokens+0(FP), DI
	SHRQ $2, DI
	MOVQ DI, n+72(FP)
	MOVQ DX, to+80(FP)
	SHLXQ R13, AX, AX
	MOVQ AX, rest+88(FP)
	VZEROUPPER
	RET
