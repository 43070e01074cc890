#include "textflag.h"

// Sums of pixels with AVX2. The sums of floats have four lanes, as the Go loops of summarize.go have
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

// EXTREME writes the smallest or largest value of L, whose lower half is X, to D(DI); M compares.
#define EXTREME(M, L, X, D) \
	VEXTRACTF128 $1, L, X0 \
	M X0, X, X \
	VPERMILPS $0x4e, X, X0 \
	M X0, X, X \
	VPERMILPS $0xb1, X, X0 \
	M X0, X, X \
	VCVTSS2SD X, X, X \
	VMOVSD X, D(DI)

// SQUARES adds the squared differences of the eight pixels at P from M to S.
#define SQUARES(P, M, S) \
	VCVTPS2PD (P), Y0 \
	VCVTPS2PD 16(P), Y1 \
	VSUBPD M, Y0, Y0 \
	VSUBPD M, Y1, Y1 \
	VMULPD Y0, Y0, Y0 \
	VMULPD Y1, Y1, Y1 \
	VADDPD Y0, S, S \
	VADDPD Y1, S, S

// FIRST_HALF sets the registers of the macros that count, for the first half of the row at P, of CX
// pixels: AX points to the leading bits of its first pixel, R12 is the distance between quarters of
// the half, and R13 is three times that.
#define FIRST_HALF(P) \
	LEAQ 2(P), AX \
	MOVQ CX, R12 \
	SHRQ $1, R12 \
	LEAQ (R12)(R12*2), R13

#define SECOND_HALF(P) \
	FIRST_HALF(P) \
	LEAQ (AX)(R12*4), AX

// SQUARES_COUNT is SQUARES, and increments the counters at DI of one pixel of each quarter of half a
// row. The processor does both at the same time. Neighbours often have the same counter, whose next
// increment would wait for the last one.
#define SQUARES_COUNT(P, M, S) \
	VCVTPS2PD (P), Y0 \
	MOVWLZX (AX), BX \
	VCVTPS2PD 16(P), Y1 \
	MOVWLZX (AX)(R12*1), DX \
	VSUBPD M, Y0, Y0 \
	INCL (DI)(BX*4) \
	VSUBPD M, Y1, Y1 \
	MOVWLZX (AX)(R12*2), BX \
	VMULPD Y0, Y0, Y0 \
	INCL (DI)(DX*4) \
	VMULPD Y1, Y1, Y1 \
	MOVWLZX (AX)(R13*1), DX \
	VADDPD Y0, S, S \
	INCL (DI)(BX*4) \
	VADDPD Y1, S, S \
	INCL (DI)(DX*4)

// COUNT increments the counters at DI of one pixel of each quarter of the half row at A.
#define COUNT(A) \
	MOVWLZX (A), BX \
	MOVWLZX (A)(R12*1), DX \
	INCL (DI)(BX*4) \
	MOVWLZX (A)(R12*2), BX \
	INCL (DI)(DX*4) \
	MOVWLZX (A)(R13*1), DX \
	INCL (DI)(BX*4) \
	INCL (DI)(DX*4)

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
	VMOVUPD Y6, (DI)
	EXTREME(VMINPS, Y4, X4, 32)
	EXTREME(VMAXPS, Y5, X5, 40)
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
	VEXTRACTF128 $1, Y4, X0
	VMINPD X0, X4, X4
	VPERMILPD $1, X4, X0
	VMINPD X0, X4, X4
	VMOVSD X4, 32(DI)
	VEXTRACTF128 $1, Y5, X0
	VMAXPD X0, X5, X5
	VPERMILPD $1, X5, X0
	VMAXPD X0, X5, X5
	VMOVSD X5, 40(DI)
	VZEROUPPER
	RET

// func squares32AVX(px *float32, n int, mean float64, sums *[4]float64, counts *uint32): n a
// multiple of 8; counts may be nil
TEXT ·squares32AVX(SB), NOSPLIT, $0-40
	MOVQ px+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSD mean+16(FP), Y3
	MOVQ counts+32(FP), DI
	VXORPD Y6, Y6, Y6
	TESTQ DI, DI
	JZ plain
	FIRST_HALF(SI)
	LEAQ (AX)(R12*4), R14
loop:
	SQUARES_COUNT(SI, Y3, Y6)
	COUNT(R14)
	ADDQ $4, AX
	ADDQ $4, R14
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ loop
	MOVQ sums+24(FP), DX
	VMOVUPD Y6, (DX)
	VZEROUPPER
	RET
plain:
	SQUARES(SI, Y3, Y6)
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ plain
	MOVQ sums+24(FP), DX
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
loop:
	VMOVUPD (SI), Y0
	VSUBPD Y3, Y0, Y1
	VMULPD Y1, Y1, Y1
	VADDPD Y1, Y6, Y6
	TESTQ DI, DI
	JZ next
	VCVTPD2PSY Y0, X0
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

// The routines for four rows have them at SI, R9, R10 and R11. Each sum waits for its last addition,
// but sums of different rows do not wait for one another.

// SUM adds the eight pixels at P to S, and compares them with the smallest ones, L, and the largest
// ones, H.
#define SUM(P, S, L, H) \
	VMOVUPS (P), Y0 \
	VCVTPS2PD (P), Y1 \
	VCVTPS2PD 16(P), Y2 \
	VMINPS Y0, L, L \
	VMAXPS Y0, H, H \
	VADDPD Y1, S, S \
	VADDPD Y2, S, S

// SUM_COUNT is SUM, and counts as SQUARES_COUNT does.
#define SUM_COUNT(P, S, L, H) \
	VMOVUPS (P), Y0 \
	MOVWLZX (AX), BX \
	VCVTPS2PD (P), Y1 \
	MOVWLZX (AX)(R12*1), DX \
	VCVTPS2PD 16(P), Y2 \
	INCL (DI)(BX*4) \
	VMINPS Y0, L, L \
	MOVWLZX (AX)(R12*2), BX \
	VMAXPS Y0, H, H \
	INCL (DI)(DX*4) \
	VADDPD Y1, S, S \
	MOVWLZX (AX)(R13*1), DX \
	VADDPD Y2, S, S \
	INCL (DI)(BX*4) \
	INCL (DI)(DX*4)

// func momentsRowsAVX(px *float32, stride, n int, r *[4]floatSums, counts *uint32): moments32AVX of
// four rows, stride bytes apart, n a multiple of 8. It fetches the next four rows into the cache. It
// counts the first half of each row, unless counts is nil.
TEXT ·momentsRowsAVX(SB), NOSPLIT, $0-40
	MOVQ px+0(FP), SI
	MOVQ stride+8(FP), R8
	MOVQ n+16(FP), CX
	MOVQ counts+32(FP), DI
	LEAQ (SI)(R8*1), R9
	LEAQ (SI)(R8*2), R10
	LEAQ (R9)(R8*2), R11
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VBROADCASTSS (SI), Y7
	VBROADCASTSS (R9), Y8
	VBROADCASTSS (R10), Y9
	VBROADCASTSS (R11), Y10
	VMOVAPS Y7, Y11
	VMOVAPS Y8, Y12
	VMOVAPS Y9, Y13
	VMOVAPS Y10, Y14
	TESTQ DI, DI
	JZ plain
	FIRST_HALF(SI)
	LEAQ (R8)(R8*2), R14
loop:
	PREFETCHT0 (SI)(R8*4)
	SUM_COUNT(SI, Y3, Y7, Y11)
	ADDQ R8, AX
	PREFETCHT0 (R9)(R8*4)
	SUM_COUNT(R9, Y4, Y8, Y12)
	ADDQ R8, AX
	PREFETCHT0 (R10)(R8*4)
	SUM_COUNT(R10, Y5, Y9, Y13)
	ADDQ R8, AX
	PREFETCHT0 (R11)(R8*4)
	SUM_COUNT(R11, Y6, Y10, Y14)
	SUBQ R14, AX
	ADDQ $4, AX
	ADDQ $32, SI
	ADDQ $32, R9
	ADDQ $32, R10
	ADDQ $32, R11
	SUBQ $8, CX
	JNZ loop
	JMP done
plain:
	PREFETCHT0 (SI)(R8*4)
	PREFETCHT0 (R9)(R8*4)
	SUM(SI, Y3, Y7, Y11)
	SUM(R9, Y4, Y8, Y12)
	PREFETCHT0 (R10)(R8*4)
	PREFETCHT0 (R11)(R8*4)
	SUM(R10, Y5, Y9, Y13)
	SUM(R11, Y6, Y10, Y14)
	ADDQ $32, SI
	ADDQ $32, R9
	ADDQ $32, R10
	ADDQ $32, R11
	SUBQ $8, CX
	JNZ plain
done:
	MOVQ r+24(FP), DI
	VMOVUPD Y3, (DI)
	EXTREME(VMINPS, Y7, X7, 32)
	EXTREME(VMAXPS, Y11, X11, 40)
	VMOVUPD Y4, 48(DI)
	EXTREME(VMINPS, Y8, X8, 80)
	EXTREME(VMAXPS, Y12, X12, 88)
	VMOVUPD Y5, 96(DI)
	EXTREME(VMINPS, Y9, X9, 128)
	EXTREME(VMAXPS, Y13, X13, 136)
	VMOVUPD Y6, 144(DI)
	EXTREME(VMINPS, Y10, X10, 176)
	EXTREME(VMAXPS, Y14, X14, 184)
	VZEROUPPER
	RET

// func squaresRowsAVX(px *float32, stride, n int, means *[4]float64, sums *[4][4]float64,
// counts *uint32): squares32AVX of four rows, stride bytes apart, n a multiple of 8. It counts the
// second half of each row, unless counts is nil.
TEXT ·squaresRowsAVX(SB), NOSPLIT, $0-48
	MOVQ px+0(FP), SI
	MOVQ stride+8(FP), R8
	MOVQ n+16(FP), CX
	MOVQ means+24(FP), AX
	LEAQ (SI)(R8*1), R9
	LEAQ (SI)(R8*2), R10
	LEAQ (R9)(R8*2), R11
	VBROADCASTSD (AX), Y7
	VBROADCASTSD 8(AX), Y8
	VBROADCASTSD 16(AX), Y9
	VBROADCASTSD 24(AX), Y10
	MOVQ counts+40(FP), DI
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	TESTQ DI, DI
	JZ plain
	SECOND_HALF(SI)
	LEAQ (R8)(R8*2), R14
loop:
	SQUARES_COUNT(SI, Y7, Y3)
	ADDQ R8, AX
	SQUARES_COUNT(R9, Y8, Y4)
	ADDQ R8, AX
	SQUARES_COUNT(R10, Y9, Y5)
	ADDQ R8, AX
	SQUARES_COUNT(R11, Y10, Y6)
	SUBQ R14, AX
	ADDQ $4, AX
	ADDQ $32, SI
	ADDQ $32, R9
	ADDQ $32, R10
	ADDQ $32, R11
	SUBQ $8, CX
	JNZ loop
	JMP done
plain:
	SQUARES(SI, Y7, Y3)
	SQUARES(R9, Y8, Y4)
	SQUARES(R10, Y9, Y5)
	SQUARES(R11, Y10, Y6)
	ADDQ $32, SI
	ADDQ $32, R9
	ADDQ $32, R10
	ADDQ $32, R11
	SUBQ $8, CX
	JNZ plain
done:
	MOVQ sums+32(FP), DX
	VMOVUPD Y3, (DX)
	VMOVUPD Y4, 32(DX)
	VMOVUPD Y5, 64(DX)
	VMOVUPD Y6, 96(DX)
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
