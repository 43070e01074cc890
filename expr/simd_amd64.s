#include "textflag.h"

// Kernels over float32 and float64 with AVX2. Each processes n elements, a multiple of 32 float32 or 16
// float64, in steps of four registers. Operations, order and rounding are those of the Go loops in
// kernels.go; TestVectorArithmeticEqualsGo and TestVectorConversionsEqualGo compare them.

#define ARGS3 \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DX \
	MOVQ n+24(FP), CX

#define ARGS2 \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ n+16(FP), CX

// a and b in memory
#define VV(op, load, shift) \
	SHRQ $shift, CX \
loop: \
	load (SI), Y0 \
	load 32(SI), Y1 \
	load 64(SI), Y2 \
	load 96(SI), Y3 \
	op (DX), Y0, Y0 \
	op 32(DX), Y1, Y1 \
	op 64(DX), Y2, Y2 \
	op 96(DX), Y3, Y3 \
	load Y0, (DI) \
	load Y1, 32(DI) \
	load Y2, 64(DI) \
	load Y3, 96(DI) \
	ADDQ $128, SI \
	ADDQ $128, DX \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

// a in memory, the constant in Y4: a op k
#define VK(op, load, shift) \
	SHRQ $shift, CX \
loop: \
	load (SI), Y0 \
	load 32(SI), Y1 \
	load 64(SI), Y2 \
	load 96(SI), Y3 \
	op Y4, Y0, Y0 \
	op Y4, Y1, Y1 \
	op Y4, Y2, Y2 \
	op Y4, Y3, Y3 \
	load Y0, (DI) \
	load Y1, 32(DI) \
	load Y2, 64(DI) \
	load Y3, 96(DI) \
	ADDQ $128, SI \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

// k op a
#define KV(op, load, shift) \
	SHRQ $shift, CX \
loop: \
	op (SI), Y4, Y0 \
	op 32(SI), Y4, Y1 \
	op 64(SI), Y4, Y2 \
	op 96(SI), Y4, Y3 \
	load Y0, (DI) \
	load Y1, 32(DI) \
	load Y2, 64(DI) \
	load Y3, 96(DI) \
	ADDQ $128, SI \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

TEXT ·addAVX32(SB), NOSPLIT, $0-32
	ARGS3
	VV(VADDPS, VMOVUPS, 5)

TEXT ·subAVX32(SB), NOSPLIT, $0-32
	ARGS3
	VV(VSUBPS, VMOVUPS, 5)

TEXT ·mulAVX32(SB), NOSPLIT, $0-32
	ARGS3
	VV(VMULPS, VMOVUPS, 5)

TEXT ·divAVX32(SB), NOSPLIT, $0-32
	ARGS3
	VV(VDIVPS, VMOVUPS, 5)

TEXT ·addAVX64(SB), NOSPLIT, $0-32
	ARGS3
	VV(VADDPD, VMOVUPD, 4)

TEXT ·subAVX64(SB), NOSPLIT, $0-32
	ARGS3
	VV(VSUBPD, VMOVUPD, 4)

TEXT ·mulAVX64(SB), NOSPLIT, $0-32
	ARGS3
	VV(VMULPD, VMOVUPD, 4)

TEXT ·divAVX64(SB), NOSPLIT, $0-32
	ARGS3
	VV(VDIVPD, VMOVUPD, 4)

TEXT ·addKAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	VK(VADDPS, VMOVUPS, 5)

TEXT ·subKAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	VK(VSUBPS, VMOVUPS, 5)

TEXT ·kSubAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	KV(VSUBPS, VMOVUPS, 5)

TEXT ·mulKAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	VK(VMULPS, VMOVUPS, 5)

TEXT ·divKAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	VK(VDIVPS, VMOVUPS, 5)

TEXT ·kDivAVX32(SB), NOSPLIT, $0-28
	ARGS2
	VBROADCASTSS k+24(FP), Y4
	KV(VDIVPS, VMOVUPS, 5)

TEXT ·addKAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	VK(VADDPD, VMOVUPD, 4)

TEXT ·subKAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	VK(VSUBPD, VMOVUPD, 4)

TEXT ·kSubAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	KV(VSUBPD, VMOVUPD, 4)

TEXT ·mulKAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	VK(VMULPD, VMOVUPD, 4)

TEXT ·divKAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	VK(VDIVPD, VMOVUPD, 4)

TEXT ·kDivAVX64(SB), NOSPLIT, $0-32
	ARGS2
	VBROADCASTSD k+24(FP), Y4
	KV(VDIVPD, VMOVUPD, 4)

// Integers of 8 and 16 bits to float32: widen, step bytes of source for 8 elements, convert.
#define WIDEN(move, step) \
	SHRQ $5, CX \
loop: \
	move (SI), Y0 \
	move step(SI), Y1 \
	move (2*step)(SI), Y2 \
	move (3*step)(SI), Y3 \
	VCVTDQ2PS Y0, Y0 \
	VCVTDQ2PS Y1, Y1 \
	VCVTDQ2PS Y2, Y2 \
	VCVTDQ2PS Y3, Y3 \
	VMOVUPS Y0, (DI) \
	VMOVUPS Y1, 32(DI) \
	VMOVUPS Y2, 64(DI) \
	VMOVUPS Y3, 96(DI) \
	ADDQ $(4*step), SI \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

TEXT ·widenU8AVX(SB), NOSPLIT, $0-24
	ARGS2
	WIDEN(VPMOVZXBD, 8)

TEXT ·widenU16AVX(SB), NOSPLIT, $0-24
	ARGS2
	WIDEN(VPMOVZXWD, 16)

TEXT ·widenI16AVX(SB), NOSPLIT, $0-24
	ARGS2
	WIDEN(VPMOVSXWD, 16)

// float32 to float64 and back, 16 elements per step.
TEXT ·to64AVX(SB), NOSPLIT, $0-24
	ARGS2
	SHRQ $4, CX
loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VCVTPS2PD 32(SI), Y2
	VCVTPS2PD 48(SI), Y3
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	ADDQ $64, SI
	ADDQ $128, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

TEXT ·to32AVX(SB), NOSPLIT, $0-24
	ARGS2
	SHRQ $4, CX
loop:
	VCVTPD2PSY (SI), X0
	VCVTPD2PSY 32(SI), X1
	VCVTPD2PSY 64(SI), X2
	VCVTPD2PSY 96(SI), X3
	VMOVUPS X0, (DI)
	VMOVUPS X1, 16(DI)
	VMOVUPS X2, 32(DI)
	VMOVUPS X3, 48(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func specialAVX32(a *float32, n int, k float32) bool: whether any of a is infinite, NaN or equal to k
TEXT ·specialAVX32(SB), NOSPLIT, $0-25
	MOVQ a+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS k+16(FP), Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	SHRQ $5, CX
loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VCMPPS $0, Y4, Y0, Y7
	VCMPPS $0, Y4, Y1, Y8
	VCMPPS $0, Y4, Y2, Y9
	VCMPPS $0, Y4, Y3, Y10
	VSUBPS Y0, Y0, Y0 // NaN for infinities and NaN
	VSUBPS Y1, Y1, Y1
	VSUBPS Y2, Y2, Y2
	VSUBPS Y3, Y3, Y3
	VADDPS Y0, Y1, Y0
	VADDPS Y2, Y3, Y2
	VORPS Y7, Y8, Y7
	VORPS Y9, Y10, Y9
	VADDPS Y0, Y2, Y0
	VORPS Y7, Y9, Y7
	VADDPS Y0, Y6, Y6
	VORPS Y7, Y5, Y5
	ADDQ $128, SI
	DECQ CX
	JNZ loop
	VCMPPS $3, Y6, Y6, Y6
	VORPS Y5, Y6, Y5
	VMOVMSKPS Y5, AX
	TESTL AX, AX
	SETNE ret+24(FP)
	VZEROUPPER
	RET

// func containsAVX16(a *uint16, n int, v uint16) bool, n a multiple of 64
TEXT ·containsAVX16(SB), NOSPLIT, $0-25
	MOVQ a+0(FP), SI
	MOVQ n+8(FP), CX
	VPBROADCASTW v+16(FP), Y4
	VPXOR Y5, Y5, Y5
	SHRQ $6, CX
loop:
	VPCMPEQW (SI), Y4, Y0
	VPCMPEQW 32(SI), Y4, Y1
	VPCMPEQW 64(SI), Y4, Y2
	VPCMPEQW 96(SI), Y4, Y3
	VPOR Y0, Y1, Y0
	VPOR Y2, Y3, Y2
	VPOR Y0, Y5, Y5
	VPOR Y2, Y5, Y5
	ADDQ $128, SI
	DECQ CX
	JNZ loop
	VPMOVMSKB Y5, AX
	TESTL AX, AX
	SETNE ret+24(FP)
	VZEROUPPER
	RET

// func keysAVX32(d, a *int32, n int): integers in the order of float32 bits, see keys32
TEXT ·keysAVX32(SB), NOSPLIT, $0-24
	ARGS2
	SHRQ $5, CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPSRAD $31, Y0, Y4
	VPSRAD $31, Y1, Y5
	VPSRAD $31, Y2, Y6
	VPSRAD $31, Y3, Y7
	VPSRLD $1, Y4, Y4
	VPSRLD $1, Y5, Y5
	VPSRLD $1, Y6, Y6
	VPSRLD $1, Y7, Y7
	VPXOR Y0, Y4, Y0
	VPXOR Y1, Y5, Y1
	VPXOR Y2, Y6, Y2
	VPXOR Y3, Y7, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func orderAVX32(d, a *int32, n int): d, a = min(d, a), max(d, a)
TEXT ·orderAVX32(SB), NOSPLIT, $0-24
	ARGS2
	SHRQ $5, CX
loop:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	VMOVDQU 64(SI), Y6
	VMOVDQU 96(SI), Y7
	VPMINSD Y4, Y0, Y8
	VPMINSD Y5, Y1, Y9
	VPMINSD Y6, Y2, Y10
	VPMINSD Y7, Y3, Y11
	VPMAXSD Y4, Y0, Y4
	VPMAXSD Y5, Y1, Y5
	VPMAXSD Y6, Y2, Y6
	VPMAXSD Y7, Y3, Y7
	VMOVDQU Y8, (DI)
	VMOVDQU Y9, 32(DI)
	VMOVDQU Y10, 64(DI)
	VMOVDQU Y11, 96(DI)
	VMOVDQU Y4, (SI)
	VMOVDQU Y5, 32(SI)
	VMOVDQU Y6, 64(SI)
	VMOVDQU Y7, 96(SI)
	ADDQ $128, SI
	ADDQ $128, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET
