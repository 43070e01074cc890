#include "textflag.h"

// Routines over rows of pixels with AVX2, for n pixels, a multiple of 8. Results are those of the loops
// in rows.go; TestVectorRowsEqualGo compares them.

#define THREE \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DX \
	MOVQ n+24(FP), CX

// Two registers per step: a and b in memory; log2 of the bytes of a value.
#define PAIRS(op, shift) \
	SHLQ $shift, CX \
	ADDQ CX, DI \
	ADDQ CX, SI \
	ADDQ CX, DX \
	NEGQ CX \
loop: \
	VMOVUPD (SI)(CX*1), Y0 \
	op (DX)(CX*1), Y0, Y0 \
	VMOVUPD Y0, (DI)(CX*1) \
	ADDQ $32, CX \
	JNZ loop \
	VZEROUPPER \
	RET

// Smaller or larger values. Of equal ones the instructions take the second, so zeros of both signs need
// both orders.
#define CHOICES(choose, combine, shift) \
	SHLQ $shift, CX \
	ADDQ CX, DI \
	ADDQ CX, SI \
	ADDQ CX, DX \
	NEGQ CX \
loop: \
	VMOVUPD (SI)(CX*1), Y0 \
	VMOVUPD (DX)(CX*1), Y1 \
	choose Y0, Y1, Y2 \
	choose Y1, Y0, Y3 \
	combine Y2, Y3, Y0 \
	VMOVUPD Y0, (DI)(CX*1) \
	ADDQ $32, CX \
	JNZ loop \
	VZEROUPPER \
	RET

// func addAVX64(d, a, b *float64, n int)
TEXT ·addAVX64(SB), NOSPLIT, $0-32
	THREE
	PAIRS(VADDPD, 3)

// func addCountsAVX(d, a, b *int32, n int)
TEXT ·addCountsAVX(SB), NOSPLIT, $0-32
	THREE
	PAIRS(VPADDD, 2)

// func smallerAVX32(d, a, b *float32, n int)
TEXT ·smallerAVX32(SB), NOSPLIT, $0-32
	THREE
	CHOICES(VMINPS, VORPS, 2)

// func largerAVX32(d, a, b *float32, n int)
TEXT ·largerAVX32(SB), NOSPLIT, $0-32
	THREE
	CHOICES(VMAXPS, VANDPS, 2)

// func smallerAVX64(d, a, b *float64, n int)
TEXT ·smallerAVX64(SB), NOSPLIT, $0-32
	THREE
	CHOICES(VMINPD, VORPD, 3)

// func largerAVX64(d, a, b *float64, n int)
TEXT ·largerAVX64(SB), NOSPLIT, $0-32
	THREE
	CHOICES(VMAXPD, VANDPD, 3)

// func widenAVX(d *float64, a *float32, n int)
TEXT ·widenAVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	SHRQ $3, CX
loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func widenValidAVX(d *float64, a *float32, valid *byte, n int, invalid float64)
TEXT ·widenValidAVX(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ valid+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSD invalid+32(FP), Y4
	VPXOR Y5, Y5, Y5
	SHRQ $3, CX
loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VPMOVZXBQ (DX), Y2
	VPMOVZXBQ 4(DX), Y3
	VPCMPEQQ Y5, Y2, Y2
	VPCMPEQQ Y5, Y3, Y3
	VBLENDVPD Y2, Y4, Y0, Y0
	VBLENDVPD Y3, Y4, Y1, Y1
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	ADDQ $32, SI
	ADDQ $8, DX
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func copyValidAVX(d, a *float32, valid *byte, n int, invalid float32)
TEXT ·copyValidAVX(SB), NOSPLIT, $0-36
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ valid+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSS invalid+32(FP), Y4
	VPXOR Y5, Y5, Y5
	SHRQ $3, CX
loop:
	VMOVUPS (SI), Y0
	VPMOVZXBD (DX), Y2
	VPCMPEQD Y5, Y2, Y2
	VBLENDVPS Y2, Y4, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $8, DX
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func countsAVX(d *int32, valid *byte, n int)
TEXT ·countsAVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ valid+8(FP), SI
	MOVQ n+16(FP), CX
	SHRQ $3, CX
loop:
	VPMOVZXBD (SI), Y0
	VMOVDQU Y0, (DI)
	ADDQ $8, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func anyAVX(valid *byte, count *int32, n int)
TEXT ·anyAVX(SB), NOSPLIT, $0-24
	MOVQ valid+0(FP), DI
	MOVQ count+8(FP), SI
	MOVQ n+16(FP), CX
	VPCMPEQD Y5, Y5, Y5
	VPSRLD $31, Y5, Y5 // 1
	SHRQ $3, CX
loop:
	VPMINSD (SI), Y5, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKSSDW X1, X0, X0
	VPACKSSWB X0, X0, X0
	VMOVQ X0, (DI)
	ADDQ $8, DI
	ADDQ $32, SI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func meansAVX(d *float32, sum *float64, n int, size float64)
TEXT ·meansAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ sum+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD size+24(FP), Y4
	VXORPD Y5, Y5, Y5
	SHRQ $3, CX
loop:
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VDIVPD Y4, Y0, Y0
	VDIVPD Y4, Y1, Y1
	VADDPD Y5, Y0, Y0 // not -0
	VADDPD Y5, Y1, Y1
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VMOVUPS X0, (DI)
	VMOVUPS X1, 16(DI)
	ADDQ $64, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func meansOfAVX(d *float32, sum *float64, count *int32, n int)
TEXT ·meansOfAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ sum+8(FP), SI
	MOVQ count+16(FP), DX
	MOVQ n+24(FP), CX
	VXORPD Y5, Y5, Y5
	VPCMPEQD Y6, Y6, Y6
	VPSRLD $31, Y6, Y6 // 1
	SHRQ $3, CX
loop:
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VPMAXSD (DX), Y6, Y2
	VEXTRACTI128 $1, Y2, X3
	VCVTDQ2PD X2, Y2
	VCVTDQ2PD X3, Y3
	VDIVPD Y2, Y0, Y0
	VDIVPD Y3, Y1, Y1
	VADDPD Y5, Y0, Y0 // not -0
	VADDPD Y5, Y1, Y1
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VMOVUPS X0, (DI)
	VMOVUPS X1, 16(DI)
	ADDQ $64, SI
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// All comparisons for 128 bytes of columns, then for the next ones. Of equal values the instructions take
// the second, as smallerOf and largerOf do.
#define COMPARE(smaller, larger, size, step) \
columns: \
	MOVQ SI, R8 \
	MOVQ DX, R9 \
next: \
	MOVLQSX (R8), R10 \
	MOVLQSX 4(R8), R11 \
	MOVLQSX 8(R8), R12 \
	MOVLQSX 12(R8), R13 \
	LEAQ (DI)(R12*size), R12 \
	LEAQ (DI)(R13*size), R13 \
	VMOVUPS (R12), Y0 \
	VMOVUPS 32(R12), Y1 \
	VMOVUPS 64(R12), Y2 \
	VMOVUPS 96(R12), Y3 \
	VMOVUPS (R13), Y4 \
	VMOVUPS 32(R13), Y5 \
	VMOVUPS 64(R13), Y6 \
	VMOVUPS 96(R13), Y7 \
	TESTQ R10, R10 \
	JLT high \
	LEAQ (DI)(R10*size), R10 \
	smaller Y4, Y0, Y8 \
	smaller Y5, Y1, Y9 \
	smaller Y6, Y2, Y10 \
	smaller Y7, Y3, Y11 \
	VMOVUPS Y8, (R10) \
	VMOVUPS Y9, 32(R10) \
	VMOVUPS Y10, 64(R10) \
	VMOVUPS Y11, 96(R10) \
	TESTQ R11, R11 \
	JLT done \
high: \
	LEAQ (DI)(R11*size), R11 \
	larger Y4, Y0, Y0 \
	larger Y5, Y1, Y1 \
	larger Y6, Y2, Y2 \
	larger Y7, Y3, Y3 \
	VMOVUPS Y0, (R11) \
	VMOVUPS Y1, 32(R11) \
	VMOVUPS Y2, 64(R11) \
	VMOVUPS Y3, 96(R11) \
done: \
	ADDQ $16, R8 \
	DECQ R9 \
	JNZ next \
	ADDQ $128, DI \
	SUBQ $step, CX \
	JGT columns \
	VZEROUPPER \
	RET

// func compareAVX32(buffer *float32, c *comparison, count, columns int)
TEXT ·compareAVX32(SB), NOSPLIT, $0-32
	MOVQ buffer+0(FP), DI
	MOVQ c+8(FP), SI
	MOVQ count+16(FP), DX
	MOVQ columns+24(FP), CX
	COMPARE(VMINPS, VMAXPS, 4, 32)

// func compareAVX64(buffer *float64, c *comparison, count, columns int)
TEXT ·compareAVX64(SB), NOSPLIT, $0-32
	MOVQ buffer+0(FP), DI
	MOVQ c+8(FP), SI
	MOVQ count+16(FP), DX
	MOVQ columns+24(FP), CX
	COMPARE(VMINPD, VMAXPD, 8, 16)
