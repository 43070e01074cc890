#include "textflag.h"

// FOUR writes the four literals at offset. The highest CX bits of AX are still to be written.
// Entries are joined in pairs, and these in one, whose length is in R10.
#define FOUR(offset) \
	MOVBLZX (offset+0)(SI), R8; \
	MOVBLZX (offset+1)(SI), R9; \
	MOVBLZX (offset+2)(SI), R10; \
	MOVBLZX (offset+3)(SI), R11; \
	MOVQ (BX)(R8*8), R8; \
	MOVQ (BX)(R9*8), R9; \
	MOVQ (BX)(R10*8), R10; \
	MOVQ (BX)(R11*8), R11; \
	SHRXQ R9, R8, R12; \
	SHRXQ R11, R10, R13; \
	ORQ R9, R12; \
	ORQ R11, R13; \
	ADDL R9, R8; \
	ADDL R11, R10; \
	SHRXQ R10, R12, R12; \
	ADDL R8, R10; \
	ORQ R13, R12; \
	SHRXQ R10, AX, AX; \
	ADDL R10, CX; \
	ORQ R12, AX; \
	MOVL CX, R8; \
	NEGL R8; \
	SHRXQ R8, AX, R8; \
	MOVQ R8, (DI); \
	MOVL CX, R9; \
	SHRL $3, R9; \
	ADDQ R9, DI; \
	ANDL $7, CX

// func writeBMI2(out, src []byte, first *[512]uint64, acc, n uint64) (count, written int, accOut, nOut uint64)
TEXT ·writeBMI2(SB), NOSPLIT, $0-104
	MOVQ out_base+0(FP), DI
	MOVQ out_len+8(FP), R15
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), DX
	MOVQ first+48(FP), BX
	MOVQ acc+56(FP), AX
	MOVQ n+64(FP), CX
	ADDQ DI, R15
	SUBQ $16, R15 // four words take 7 bytes at most, and 8 bytes are stored at once
	ADDQ SI, DX
	SUBQ $8, DX // the last place of eight literals
	CMPQ SI, DX
	JHI done
	CMPQ DI, R15
	JHI done
loop:
	FOUR(0)
	FOUR(4)
	ADDQ $8, SI
	CMPQ SI, DX
	JHI done
	CMPQ DI, R15
	JLS loop
done:
	SUBQ src_base+24(FP), SI
	MOVQ SI, count+72(FP)
	SUBQ out_base+0(FP), DI
	MOVQ DI, written+80(FP)
	MOVQ AX, accOut+88(FP)
	MOVQ CX, nOut+96(FP)
	RET
