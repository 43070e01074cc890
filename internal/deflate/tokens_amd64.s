#include "textflag.h"

// func tokensBMI2(out []byte, tokens []uint32, first, second *[512]uint64, acc, n uint64) (count, written int, accOut, nOut uint64)
TEXT ·tokensBMI2(SB), NOSPLIT, $0-112
	MOVQ out_base+0(FP), DI
	MOVQ out_len+8(FP), R15
	MOVQ tokens_base+24(FP), SI
	MOVQ tokens_len+32(FP), DX
	MOVQ first+48(FP), BX
	MOVQ second+56(FP), R13
	MOVQ acc+64(FP), AX
	MOVQ n+72(FP), CX
	ADDQ DI, R15
	SUBQ $8, R15 // the last place of 8 bytes, which are stored at once
	LEAQ (SI)(DX*4), DX
	JMP next
loop:
	MOVL (SI), R8
	TESTL R8, R8
	JLT done // a run of literals
	ADDQ $4, SI
	MOVL R8, R9
	MOVL R8, R10
	ANDL $511, R9
	SHRL $9, R10
	SHRL $18, R8
	ANDL $511, R10
	MOVQ (BX)(R9*8), R9
	MOVQ (R13)(R10*8), R10
	LEAL (R9)(R10*1), R12 // the length of both words and the extra bits
	MOVL R10, R11
	SHRXQ R10, R9, R9
	SHRL $6, R11
	SHLXQ R11, R8, R8 // the extra bits
	ANDQ $~4095, R10
	ORQ R8, R9
	ORQ R10, R9
	SHRXQ R12, AX, AX
	ANDL $63, R12
	ORQ R9, AX
	ADDL R12, CX
	MOVL CX, R8
	NEGL R8
	SHRXQ R8, AX, R8
	MOVQ R8, (DI)
	MOVL CX, R9
	SHRL $3, R9
	ADDQ R9, DI
	ANDL $7, CX
next:
	CMPQ SI, DX
	JCC done
	CMPQ DI, R15
	JLS loop
done:
	SUBQ tokens_base+24(FP), SI
	SHRQ $2, SI
	MOVQ SI, count+80(FP)
	SUBQ out_base+0(FP), DI
	MOVQ DI, written+88(FP)
	MOVQ AX, accOut+96(FP)
	MOVQ CX, nOut+104(FP)
	RET
