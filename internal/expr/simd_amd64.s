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

// TOP moves the vector x into a, b and c, which are in order. first and second are VPMINUW and
// VPMAXUW for the largest values, the other way round for the smallest.
#define TOP(first, second, x, t, a, b, c) \
	first x, a, t \
	second x, a, a \
	first t, b, x \
	second t, b, b \
	second x, c, c

// TOP3 is the body of the functions that set d1, d2 and d3 to the first three values of each column,
// beginning with the vector in Y10.
#define TOP3(first, second) \
	MOVQ d1+0(FP), R8 \
	MOVQ d2+8(FP), R9 \
	MOVQ d3+16(FP), R10 \
	MOVQ rows+24(FP), SI \
	MOVQ count+32(FP), DX \
	MOVQ n+40(FP), CX \
	XORQ BX, BX \
	SHLQ $1, CX \
columns: \
	VMOVDQA Y10, Y0 \
	VMOVDQA Y10, Y1 \
	VMOVDQA Y10, Y2 \
	VMOVDQA Y10, Y3 \
	VMOVDQA Y10, Y4 \
	VMOVDQA Y10, Y5 \
	MOVQ SI, R11 \
	MOVQ DX, R12 \
row: \
	MOVQ (R11), DI \
	VMOVDQU (DI)(BX*1), Y6 \
	VMOVDQU 32(DI)(BX*1), Y7 \
	TOP(first, second, Y6, Y8, Y0, Y1, Y2) \
	TOP(first, second, Y7, Y9, Y3, Y4, Y5) \
	ADDQ $24, R11 \
	DECQ R12 \
	JNZ row \
	VMOVDQU Y0, (R8)(BX*1) \
	VMOVDQU Y3, 32(R8)(BX*1) \
	VMOVDQU Y1, (R9)(BX*1) \
	VMOVDQU Y4, 32(R9)(BX*1) \
	VMOVDQU Y2, (R10)(BX*1) \
	VMOVDQU Y5, 32(R10)(BX*1) \
	ADDQ $64, BX \
	CMPQ BX, CX \
	JB columns \
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

// func orderAVX16(lo, hi, a, b *uint16, n int): lo, hi = min(a, b), max(a, b)
TEXT ·orderAVX16(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), R8
	MOVQ hi+8(FP), R9
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	XORQ BX, BX
	SHLQ $1, CX
loop:
	VMOVDQU (SI)(BX*1), Y0
	VMOVDQU 32(SI)(BX*1), Y1
	VMOVDQU (DX)(BX*1), Y2
	VMOVDQU 32(DX)(BX*1), Y3
	VPMINUW Y2, Y0, Y4
	VPMINUW Y3, Y1, Y5
	VPMAXUW Y2, Y0, Y2
	VPMAXUW Y3, Y1, Y3
	VMOVDQU Y4, (R8)(BX*1)
	VMOVDQU Y5, 32(R8)(BX*1)
	VMOVDQU Y2, (R9)(BX*1)
	VMOVDQU Y3, 32(R9)(BX*1)
	ADDQ $64, BX
	CMPQ BX, CX
	JB loop
	VZEROUPPER
	RET

// func largest3AVX16(d1, d2, d3 *uint16, rows *[]uint16, count, n int)
TEXT ·largest3AVX16(SB), NOSPLIT, $0-48
	VPXOR Y10, Y10, Y10
	TOP3(VPMINUW, VPMAXUW)

// func smallest3AVX16(d1, d2, d3 *uint16, rows *[]uint16, count, n int)
TEXT ·smallest3AVX16(SB), NOSPLIT, $0-48
	VPCMPEQW Y10, Y10, Y10
	TOP3(VPMAXUW, VPMINUW)

// func blendAVX16(d *float32, a, b *uint16, n int, zero int32, fraction float64), n a multiple of 16,
// see blendPixels
TEXT ·blendAVX16(SB), NOSPLIT, $0-48
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSS zero+32(FP), X14
	VBROADCASTSD fraction+40(FP), Y15
	SHRQ $4, CX
loop:
	VPMOVZXWD 0(SI), X0
	VPMOVZXWD 8(SI), X1
	VPMOVZXWD 16(SI), X2
	VPMOVZXWD 24(SI), X3
	VPMOVZXWD 0(DX), X4
	VPMOVZXWD 8(DX), X5
	VPMOVZXWD 16(DX), X6
	VPMOVZXWD 24(DX), X7
	VPSUBD X0, X4, X4
	VPSUBD X1, X5, X5
	VPSUBD X2, X6, X6
	VPSUBD X3, X7, X7
	VPSUBD X14, X0, X0
	VPSUBD X14, X1, X1
	VPSUBD X14, X2, X2
	VPSUBD X14, X3, X3
	VCVTDQ2PD X0, Y0
	VCVTDQ2PD X1, Y1
	VCVTDQ2PD X2, Y2
	VCVTDQ2PD X3, Y3
	VCVTDQ2PD X4, Y4
	VCVTDQ2PD X5, Y5
	VCVTDQ2PD X6, Y6
	VCVTDQ2PD X7, Y7
	VMULPD Y15, Y4, Y4
	VMULPD Y15, Y5, Y5
	VMULPD Y15, Y6, Y6
	VMULPD Y15, Y7, Y7
	VADDPD Y4, Y0, Y0
	VADDPD Y5, Y1, Y1
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VCVTPD2PSY Y2, X2
	VCVTPD2PSY Y3, X3
	VMOVUPS X0, 0(DI)
	VMOVUPS X1, 16(DI)
	VMOVUPS X2, 32(DI)
	VMOVUPS X3, 48(DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $64, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func hornerAVX(d, x *float32, n int, k *float32, count int): d = d*x + k for each k, n a multiple of 64
TEXT ·hornerAVX(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX
	MOVQ count+32(FP), R8
	SHRQ $6, CX
loop:
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7
	MOVQ DX, R9
	MOVQ R8, R10
next:
	VBROADCASTSS (R9), Y8
	VMULPS 0(SI), Y0, Y0
	VMULPS 32(SI), Y1, Y1
	VMULPS 64(SI), Y2, Y2
	VMULPS 96(SI), Y3, Y3
	VMULPS 128(SI), Y4, Y4
	VMULPS 160(SI), Y5, Y5
	VMULPS 192(SI), Y6, Y6
	VMULPS 224(SI), Y7, Y7
	VADDPS Y8, Y0, Y0
	VADDPS Y8, Y1, Y1
	VADDPS Y8, Y2, Y2
	VADDPS Y8, Y3, Y3
	VADDPS Y8, Y4, Y4
	VADDPS Y8, Y5, Y5
	VADDPS Y8, Y6, Y6
	VADDPS Y8, Y7, Y7
	ADDQ $4, R9
	DECQ R10
	JNZ next
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $256, SI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET
