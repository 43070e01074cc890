#include "textflag.h"

// func equalVectors(src []byte, i, d int) int
TEXT ·equalVectors(SB), NOSPLIT, $0-48
	MOVQ src_base+0(FP), DI
	MOVQ src_len+8(FP), CX
	MOVQ i+24(FP), SI
	ADDQ DI, CX
	SUBQ $64, CX // the last place of 64 bytes
	ADDQ DI, SI
	MOVQ SI, BX
	SUBQ d+32(FP), BX
	CMPQ SI, CX
	JHI done
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPCMPEQB (BX), Y0, Y0
	VPCMPEQB 32(BX), Y1, Y1
	VPAND Y0, Y1, Y2
	VPMOVMSKB Y2, AX
	XORL $-1, AX
	JNZ found
	ADDQ $64, SI
	ADDQ $64, BX
	CMPQ SI, CX
	JLS loop
done:
	SUBQ DI, SI
	MOVQ SI, ret+40(FP)
	VZEROUPPER
	RET
found:
	VPMOVMSKB Y0, AX
	VPMOVMSKB Y1, DX
	SHLQ $32, DX
	ORQ DX, AX
	NOTQ AX
	BSFQ AX, AX
	ADDQ AX, SI
	JMP done
