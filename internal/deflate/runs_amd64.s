#include "textflag.h"

// func skipVectors(src []byte, i int) int
TEXT ·skipVectors(SB), NOSPLIT, $0-40
	MOVQ src_base+0(FP), DI
	MOVQ src_len+8(FP), CX
	MOVQ i+24(FP), SI
	ADDQ DI, CX
	SUBQ $64, CX // the last place of a vector
	ADDQ DI, SI
	VPXORQ Z1, Z1, Z1
	CMPQ SI, CX
	JHI done
loop:
	VMOVDQU64 (SI), Z0
	VPXORQ -1(SI), Z0, Z0
	VPCMPEQD Z1, Z0, K1
	KMOVW K1, AX
	TESTL AX, AX
	JNE found
	ADDQ $64, SI
	CMPQ SI, CX
	JLS loop
done:
	SUBQ DI, SI
	MOVQ SI, ret+32(FP)
	VZEROUPPER
	RET
found:
	BSFL AX, AX
	SHRL $1, AX // two groups of four bytes in eight
	LEAQ (SI)(AX*8), SI
	JMP done
