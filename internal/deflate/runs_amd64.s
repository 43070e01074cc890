#include "textflag.h"

// func skipAVX512(src []byte, i int) int
TEXT ·skipAVX512(SB), NOSPLIT, $0-40
	MOVQ src_base+0(FP), DI
	MOVQ src_len+8(FP), CX
	MOVQ i+24(FP), SI
	ADDQ DI, CX
	SUBQ $64, CX // the last place of a vector
	ADDQ DI, SI
	CMPQ SI, CX
	JHI done
loop:
	VMOVDQU64 (SI), Z0
	VPCMPEQD -1(SI), Z0, K1
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

// func skipAVX2(src []byte, i int) int
TEXT ·skipAVX2(SB), NOSPLIT, $0-40
	MOVQ src_base+0(FP), DI
	MOVQ src_len+8(FP), CX
	MOVQ i+24(FP), SI
	ADDQ DI, CX
	SUBQ $64, CX // the last place of a vector
	ADDQ DI, SI
	CMPQ SI, CX
	JHI done
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPCMPEQD -1(SI), Y0, Y0
	VPCMPEQD 31(SI), Y1, Y1
	VMOVMSKPS Y0, AX
	VMOVMSKPS Y1, DX
	SHLL $8, DX
	ORL DX, AX
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
