#include "textflag.h"

// Sums of pixels with AVX2. The sums of floats have four lanes, as the Go loops of summarise.go have
// four variables.

// INTS_BEGIN sets the registers of a sum of integers: Y3 holds ones, Y9 masks the
// lower halves of words of 64 bits, Y4 and Y5 are the smallest and the largest value, Y6 the sums
// and Y8 the sums of squares.
#define INTS_BEGIN \
	VPCMPEQD Y9, Y9, Y9 \
	VPSRLW $15, Y9, Y3 \
	VPSRLW $1, Y9, Y4 \
	VPSLLW $15, Y9, Y5 \
	VPSRLQ $32, Y9, Y9 \
	VPXOR Y6, Y6, Y6 \
	VPXOR Y8, Y8, Y8

// INTS adds up the 16 words of Y0. The sum of two squares may need all 32 bits, without a sign.
#define INTS \
	VPMINSW Y0, Y4, Y4 \
	VPMAXSW Y0, Y5, Y5 \
	VPMADDWD Y3, Y0, Y1 \
	VPMADDWD Y0, Y0, Y2 \
	VPADDD Y1, Y6, Y6 \
	VPSRLQ $32, Y2, Y1 \
	VPAND Y9, Y2, Y2 \
	VPADDQ Y1, Y8, Y8 \
	VPADDQ Y2, Y8, Y8

#define INTS_END \
	VMOVDQU Y6, (DI) \
	VMOVDQU Y8, 32(DI) \
	VMOVDQU Y4, 64(DI) \
	VMOVDQU Y5, 96(DI) \
	VZEROUPPER \
	RET

// func moments32AVX(px *float32, n int, r *floatSums): n a multiple of 8
TEXT ·moments32AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	VXORPD Y6, Y6, Y6
	VBROADCASTSS (SI), Y4
	VMOVAPS Y4, Y5
loop:
	VMOVUPS (SI), Y0
	VCVTPS2PD (SI), Y1
	VCVTPS2PD 16(SI), Y2
	VMINPS Y0, Y4, Y4
	VMAXPS Y0, Y5, Y5
	VADDPD Y1, Y6, Y6
	VADDPD Y2, Y6, Y6
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ loop
	VEXTRACTF128 $1, Y4, X0
	VEXTRACTF128 $1, Y5, X1
	VMINPS X0, X4, X4
	VMAXPS X1, X5, X5
	VCVTPS2PD X4, Y4
	VCVTPS2PD X5, Y5
	VMOVUPD Y6, (DI)
	VMOVUPD Y4, 32(DI)
	VMOVUPD Y5, 64(DI)
	VZEROUPPER
	RET

// func moments64AVX(px *float64, n int, r *floatSums): n a multiple of 4
TEXT ·moments64AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	VXORPD Y6, Y6, Y6
	VBROADCASTSD (SI), Y4
	VMOVAPD Y4, Y5
loop:
	VMOVUPD (SI), Y0
	VMINPD Y0, Y4, Y4
	VMAXPD Y0, Y5, Y5
	VADDPD Y0, Y6, Y6
	ADDQ $32, SI
	SUBQ $4, CX
	JNZ loop
	VMOVUPD Y6, (DI)
	VMOVUPD Y4, 32(DI)
	VMOVUPD Y5, 64(DI)
	VZEROUPPER
	RET

// func squares32AVX(px *float32, n int, mean float64, sums *[4]float64, bins *uint16): n a multiple
// of 8; bins may be nil
TEXT ·squares32AVX(SB), NOSPLIT, $0-40
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSD mean+16(FP), Y3
	MOVQ sums+24(FP), DX
	MOVQ bins+32(FP), DI
	VXORPD Y6, Y6, Y6
	VPCMPEQD Y7, Y7, Y7
	VPSLLD $31, Y7, Y7
	TESTQ DI, DI
	JZ plain
loop:
	VMOVDQU (SI), Y0
	VCVTPS2PD (SI), Y1
	VCVTPS2PD 16(SI), Y2
	VSUBPD Y3, Y1, Y1
	VSUBPD Y3, Y2, Y2
	VMULPD Y1, Y1, Y1
	VMULPD Y2, Y2, Y2
	VADDPD Y1, Y6, Y6
	VADDPD Y2, Y6, Y6
	VPSRAD $31, Y0, Y1
	VPOR Y7, Y1, Y1
	VPXOR Y1, Y0, Y0
	VPSRLD $16, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSDW X1, X0, X0
	VMOVDQU X0, (DI)
	ADDQ $16, DI
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ loop
	VMOVUPD Y6, (DX)
	VZEROUPPER
	RET
plain:
	VCVTPS2PD (SI), Y1
	VCVTPS2PD 16(SI), Y2
	VSUBPD Y3, Y1, Y1
	VSUBPD Y3, Y2, Y2
	VMULPD Y1, Y1, Y1
	VMULPD Y2, Y2, Y2
	VADDPD Y1, Y6, Y6
	VADDPD Y2, Y6, Y6
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ plain
	VMOVUPD Y6, (DX)
	VZEROUPPER
	RET

// func squares64AVX(px *float64, n int, mean float64, sums *[4]float64, bins *uint16): n a multiple
// of 4; bins may be nil
TEXT ·squares64AVX(SB), NOSPLIT, $0-40
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSD mean+16(FP), Y3
	MOVQ sums+24(FP), DX
	MOVQ bins+32(FP), DI
	VXORPD Y6, Y6, Y6
	VPCMPEQD X7, X7, X7
	VPSLLD $31, X7, X7
loop:
	VMOVUPD (SI), Y0
	VSUBPD Y3, Y0, Y1
	VMULPD Y1, Y1, Y1
	VADDPD Y1, Y6, Y6
	TESTQ DI, DI
	JZ next
	VCVTPD2PSY Y0, X0
	VPSRAD $31, X0, X1
	VPOR X7, X1, X1
	VPXOR X1, X0, X0
	VPSRLD $16, X0, X0
	VPACKUSDW X0, X0, X0
	VMOVQ X0, (DI)
	ADDQ $8, DI
next:
	ADDQ $32, SI
	SUBQ $4, CX
	JNZ loop
	VMOVUPD Y6, (DX)
	VZEROUPPER
	RET

// func momentsPairAVX(p, q *float32, n int, r *[2]floatSums): moments32AVX of two rows, n a
// multiple of 8
TEXT ·momentsPairAVX(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ q+8(FP), BX
	MOVQ n+16(FP), CX
	MOVQ r+24(FP), DI
	VXORPD Y6, Y6, Y6
	VXORPD Y13, Y13, Y13
	VBROADCASTSS (SI), Y4
	VBROADCASTSS (BX), Y11
	VMOVAPS Y4, Y5
	VMOVAPS Y11, Y12
loop:
	VMOVUPS (SI), Y0
	VMOVUPS (BX), Y8
	VCVTPS2PD (SI), Y1
	VCVTPS2PD (BX), Y9
	VCVTPS2PD 16(SI), Y2
	VCVTPS2PD 16(BX), Y10
	VMINPS Y0, Y4, Y4
	VMINPS Y8, Y11, Y11
	VMAXPS Y0, Y5, Y5
	VMAXPS Y8, Y12, Y12
	VADDPD Y1, Y6, Y6
	VADDPD Y9, Y13, Y13
	VADDPD Y2, Y6, Y6
	VADDPD Y10, Y13, Y13
	ADDQ $32, SI
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ loop
	VEXTRACTF128 $1, Y4, X0
	VEXTRACTF128 $1, Y5, X1
	VMINPS X0, X4, X4
	VMAXPS X1, X5, X5
	VCVTPS2PD X4, Y4
	VCVTPS2PD X5, Y5
	VMOVUPD Y6, (DI)
	VMOVUPD Y4, 32(DI)
	VMOVUPD Y5, 64(DI)
	VEXTRACTF128 $1, Y11, X0
	VEXTRACTF128 $1, Y12, X1
	VMINPS X0, X11, X11
	VMAXPS X1, X12, X12
	VCVTPS2PD X11, Y11
	VCVTPS2PD X12, Y12
	VMOVUPD Y13, 96(DI)
	VMOVUPD Y11, 128(DI)
	VMOVUPD Y12, 160(DI)
	VZEROUPPER
	RET

// SQUARES adds the squared differences of the eight pixels at P from M to S; A and B are scratch.
#define SQUARES(P, M, S, A, B) \
	VCVTPS2PD (P), A \
	VCVTPS2PD 16(P), B \
	VSUBPD M, A, A \
	VSUBPD M, B, B \
	VMULPD A, A, A \
	VMULPD B, B, B \
	VADDPD A, S, S \
	VADDPD B, S, S

// BINS writes the counters of the eight pixels at P to D; Y7 has the sign bits, and A and B, whose
// lower halves are LA and LB, are scratch.
#define BINS(P, D, A, LA, B, LB) \
	VMOVDQU (P), A \
	VPSRAD $31, A, B \
	VPOR Y7, B, B \
	VPXOR B, A, A \
	VPSRLD $16, A, A \
	VEXTRACTI128 $1, A, LB \
	VPACKUSDW LB, LA, LA \
	VMOVDQU LA, (D)

// func squaresPairAVX(p, q *float32, n int, means *[2]float64, sums *[2][4]float64,
// bins, binsOfQ *uint16): squares32AVX of two rows, n a multiple of 8; bins and binsOfQ may be nil
TEXT ·squaresPairAVX(SB), NOSPLIT, $0-56
	MOVQ p+0(FP), SI
	MOVQ q+8(FP), BX
	MOVQ n+16(FP), CX
	MOVQ means+24(FP), AX
	VBROADCASTSD (AX), Y3
	VBROADCASTSD 8(AX), Y4
	MOVQ sums+32(FP), DX
	MOVQ bins+40(FP), DI
	MOVQ binsOfQ+48(FP), R8
	VXORPD Y6, Y6, Y6
	VXORPD Y5, Y5, Y5
	VPCMPEQD Y7, Y7, Y7
	VPSLLD $31, Y7, Y7
	TESTQ DI, DI
	JZ plain
loop:
	SQUARES(SI, Y3, Y6, Y1, Y2)
	SQUARES(BX, Y4, Y5, Y9, Y10)
	BINS(SI, DI, Y0, X0, Y8, X8)
	BINS(BX, R8, Y11, X11, Y12, X12)
	ADDQ $16, DI
	ADDQ $16, R8
	ADDQ $32, SI
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ loop
	JMP done
plain:
	SQUARES(SI, Y3, Y6, Y1, Y2)
	SQUARES(BX, Y4, Y5, Y9, Y10)
	ADDQ $32, SI
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ plain
done:
	VMOVUPD Y6, (DX)
	VMOVUPD Y5, 32(DX)
	VZEROUPPER
	RET

// func momentsU8AVX(px *uint8, n int, r *intSums): n a multiple of 16
TEXT ·momentsU8AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	INTS_BEGIN
loop:
	VPMOVZXBW (SI), Y0
	INTS
	ADDQ $16, SI
	SUBQ $16, CX
	JNZ loop
	INTS_END

// func momentsI8AVX(px *int8, n int, r *intSums): n a multiple of 16
TEXT ·momentsI8AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	INTS_BEGIN
loop:
	VPMOVSXBW (SI), Y0
	INTS
	ADDQ $16, SI
	SUBQ $16, CX
	JNZ loop
	INTS_END

// func momentsI16AVX(px *int16, n int, r *intSums): n a multiple of 16
TEXT ·momentsI16AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	INTS_BEGIN
loop:
	VMOVDQU (SI), Y0
	INTS
	ADDQ $32, SI
	SUBQ $16, CX
	JNZ loop
	INTS_END

// func momentsU16AVX(px *uint16, n int, r *intSums): of pixels minus 32768, n a multiple of 16
TEXT ·momentsU16AVX(SB), NOSPLIT, $0-24
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ r+16(FP), DI
	INTS_BEGIN
	VPCMPEQD Y7, Y7, Y7
	VPSLLW $15, Y7, Y7
loop:
	VPXOR (SI), Y7, Y0
	INTS
	ADDQ $32, SI
	SUBQ $16, CX
	JNZ loop
	INTS_END
