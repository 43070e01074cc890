#include "textflag.h"

// Routines of standard deviations and convolutions with AVX2. Results are those of the loops in std.go and
// convolve.go: every product is rounded before it is added. FuzzVectorMoments compares them.

#define ROW(offset, register) \
	MOVQ offset(SI), R8 \
	VMOVUPD (R8)(CX*1), register

#define STORE(register, offset) \
	MOVQ offset(SI), R8 \
	VMOVUPD register, (R8)(CX*1)

// The two results in Y0, Y1, Y2 and Y3, Y4, Y5, the share in Y14 and the weight in Y15: the mean in Y7, its
// low part in Y9 and the squares in Y6.
#define COMBINE \
	VSUBPD Y0, Y3, Y6 \
	VSUBPD Y1, Y4, Y7 \
	VADDPD Y7, Y6, Y6 \
	VMULPD Y14, Y6, Y8 \
	VADDPD Y8, Y0, Y7 \
	VSUBPD Y0, Y7, Y9 \
	VSUBPD Y9, Y7, Y10 \
	VSUBPD Y9, Y8, Y8 \
	VSUBPD Y10, Y0, Y10 \
	VADDPD Y8, Y10, Y10 \
	VADDPD Y10, Y1, Y9 \
	VMULPD Y6, Y6, Y6 \
	VMULPD Y15, Y6, Y6 \
	VADDPD Y5, Y2, Y10 \
	VADDPD Y6, Y10, Y6

// func combineMomentsAVX(r *momentRows, n int, share, weight float64), n a multiple of 4
TEXT ·combineMomentsAVX(SB), NOSPLIT, $0-32
	MOVQ r+0(FP), SI
	MOVQ n+8(FP), DX
	VBROADCASTSD share+16(FP), Y14
	VBROADCASTSD weight+24(FP), Y15
	SHLQ $3, DX
	XORQ CX, CX
loop:
	ROW(32, Y0)
	ROW(40, Y1)
	ROW(48, Y2)
	ROW(64, Y3)
	ROW(72, Y4)
	ROW(80, Y5)
	COMBINE
	STORE(Y7, 0)
	STORE(Y9, 8)
	STORE(Y6, 16)
	ADDQ $32, CX
	CMPQ CX, DX
	JLT loop
	VZEROUPPER
	RET

// func combineSomeMomentsAVX(r *momentRows, n int), n a multiple of 4
TEXT ·combineSomeMomentsAVX(SB), NOSPLIT, $0-16
	MOVQ r+0(FP), SI
	MOVQ n+8(FP), DX
	SHLQ $3, DX
	XORQ CX, CX
loop:
	ROW(32, Y0)
	ROW(40, Y1)
	ROW(48, Y2)
	ROW(64, Y3)
	ROW(72, Y4)
	ROW(80, Y5)
	ROW(56, Y11)
	ROW(88, Y12)
	VADDPD Y12, Y11, Y13
	VMULPD Y12, Y11, Y15
	VDIVPD Y13, Y12, Y14
	VDIVPD Y13, Y15, Y15
	COMBINE
	VXORPD Y10, Y10, Y10
	VCMPPD $0, Y10, Y11, Y11 // none in the first
	VCMPPD $0, Y10, Y12, Y12 // none in the second
	VBLENDVPD Y11, Y3, Y7, Y7
	VBLENDVPD Y11, Y4, Y9, Y9
	VBLENDVPD Y11, Y5, Y6, Y6
	VBLENDVPD Y12, Y0, Y7, Y7
	VBLENDVPD Y12, Y1, Y9, Y9
	VBLENDVPD Y12, Y2, Y6, Y6
	STORE(Y7, 0)
	STORE(Y9, 8)
	STORE(Y6, 16)
	STORE(Y13, 24)
	ADDQ $32, CX
	CMPQ CX, DX
	JLT loop
	VZEROUPPER
	RET

// func deviationsAVX(d *float32, squares, mean *float64, n int, size float64), n a multiple of 4
TEXT ·deviationsAVX(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ mean+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSD size+32(FP), Y4
	VXORPD Y5, Y5, Y5
loop:
	VMOVUPD (SI), Y0
	VDIVPD Y4, Y0, Y0
	VSQRTPD Y0, Y0
	VMULPD (DX), Y5, Y1
	VADDPD Y1, Y0, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $16, DI
	SUBQ $4, CX
	JNZ loop
	VZEROUPPER
	RET

// func deviationsOfAVX(d *float32, squares, mean *float64, count *int32, n int), n a multiple of 4
TEXT ·deviationsOfAVX(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ mean+16(FP), DX
	MOVQ count+24(FP), R8
	MOVQ n+32(FP), CX
	VXORPD Y5, Y5, Y5
	VPCMPEQD X6, X6, X6
	VPSRLD $31, X6, X6 // 1
loop:
	VPMAXSD (R8), X6, X4
	VCVTDQ2PD X4, Y4
	VMOVUPD (SI), Y0
	VDIVPD Y4, Y0, Y0
	VSQRTPD Y0, Y0
	VMULPD (DX), Y5, Y1
	VADDPD Y1, Y0, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $16, R8
	ADDQ $16, DI
	SUBQ $4, CX
	JNZ loop
	VZEROUPPER
	RET

// func addProductsAVX(sum *float64, values *float32, n int, weight float64), n a multiple of 8
TEXT ·addProductsAVX(SB), NOSPLIT, $0-32
	MOVQ sum+0(FP), DI
	MOVQ values+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD weight+24(FP), Y4
loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VMULPD Y4, Y0, Y0
	VMULPD Y4, Y1, Y1
	VADDPD (DI), Y0, Y0
	VADDPD 32(DI), Y1, Y1
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JNZ loop
	VZEROUPPER
	RET
