#include "textflag.h"

// Terrain functions of rows of float32 with AVX2, for n pixels, a multiple of 4. Operations, order and
// rounding are those of the loops in terrain.go; TestVectorTerrainEqualsGo compares them. Each
// constant comes four times, in the order of terrainConstants.

#define SCALEX 0(R8)
#define SCALEY 32(R8)
#define ONE 64(R8)
#define LARGEST 96(R8)

// Y0 is the rise from column to column and Y1 that from row to row of the four pixels at SI, DX and BX,
// times the constants x and y.
#define GRADIENT \
	VCVTPS2PD (SI), Y2 \
	VCVTPS2PD (DX), Y3 \
	VCVTPS2PD (BX), Y4 \
	VADDPD Y3, Y3, Y3 \
	VADDPD Y3, Y2, Y3 \
	VADDPD Y4, Y3, Y3 \ // sum of the left column
	VSUBPD Y2, Y4, Y2 \ // its rise
	VCVTPS2PD 4(SI), Y4 \
	VCVTPS2PD 4(BX), Y5 \
	VSUBPD Y4, Y5, Y4 \ // rise of the centre
	VCVTPS2PD 8(SI), Y5 \
	VCVTPS2PD 8(DX), Y6 \
	VCVTPS2PD 8(BX), Y7 \
	VADDPD Y6, Y6, Y6 \
	VADDPD Y6, Y5, Y6 \
	VADDPD Y7, Y6, Y6 \ // sum of the right column
	VSUBPD Y5, Y7, Y5 \ // its rise
	VSUBPD Y3, Y6, Y0 \
	VADDPD Y4, Y4, Y4 \
	VADDPD Y4, Y2, Y1 \
	VADDPD Y5, Y1, Y1 \
	VMULPD SCALEX, Y0, Y0 \
	VMULPD SCALEY, Y1, Y1

#define ARGS \
	MOVQ to+0(FP), DI \
	MOVQ above+8(FP), SI \
	MOVQ here+16(FP), DX \
	MOVQ below+24(FP), BX \
	MOVQ n+32(FP), CX \
	MOVQ k+40(FP), R8

#define NEXT \
	ADDQ $16, SI \
	ADDQ $16, DX \
	ADDQ $16, BX \
	ADDQ $16, DI \
	SUBQ $4, CX

// func hillshadeAVX(to, above, here, below *float32, n int, k *terrainConstants)
TEXT ·hillshadeAVX(SB), NOSPLIT, $0-48
	ARGS
	VXORPD Y15, Y15, Y15
loop:
	GRADIENT
	VMULPD 128(R8), Y0, Y2 // east
	VMULPD 160(R8), Y1, Y3 // north
	VMOVUPD 192(R8), Y4    // up
	VSUBPD Y2, Y4, Y4
	VSUBPD Y3, Y4, Y4
	VMULPD Y0, Y0, Y0
	VMULPD Y1, Y1, Y1
	VADDPD ONE, Y0, Y0
	VADDPD Y1, Y0, Y0
	VSQRTPD Y0, Y0
	VDIVPD Y0, Y4, Y0
	VCVTPD2PSY Y0, X1
	VCMPPS $3, X1, X1, X2 // NaN
	VMAXPD Y15, Y0, Y0
	VADDPD 224(R8), Y0, Y0 // 1.5
	VCVTTPD2DQY Y0, X0
	VCVTDQ2PS X0, X0
	VBLENDVPS X2, X1, X0, X0
	VMOVUPS X0, (DI)
	NEXT
	JNZ loop
	VZEROUPPER
	RET

// func slopeAVX(to, above, here, below *float32, n int, k *terrainConstants, arcs *float64)
TEXT ·slopeAVX(SB), NOSPLIT, $0-56
	ARGS
	MOVQ arcs+48(FP), R9
	MOVL $127, AX
	MOVQ AX, X13
	VPBROADCASTD X13, X13
loop:
	GRADIENT
	VMULPD Y0, Y0, Y0
	VMULPD Y1, Y1, Y1
	VADDPD Y1, Y0, Y0
	VSQRTPD Y0, Y0 // the rise
	VMOVUPD LARGEST, Y1
	VCMPPD $0x1d, Y1, Y0, Y14 // vertical: at least that
	VCMPPD $3, Y0, Y0, Y15 // NaN, and so is any number combined with this by "or"
	VMOVUPD ONE, Y12
	VCMPPD $0x12, Y12, Y0, Y11 // at most 1
	VMINPD Y12, Y0, Y1 // numerator
	VMAXPD Y12, Y0, Y2 // denominator
	VDIVPD Y2, Y1, Y3  // ratio
	VMULPD 128(R8), Y3, Y3 // 64
	VADDPD 160(R8), Y3, Y3 // 0.5
	VCVTTPD2DQY Y3, X3
	VPAND X13, X3, X3
	VCVTDQ2PD X3, Y4
	VMULPD 192(R8), Y4, Y4 // 1/64
	VMULPD Y2, Y4, Y5
	VMULPD Y1, Y4, Y6
	VSUBPD Y5, Y1, Y5
	VADDPD Y6, Y2, Y6
	VDIVPD Y6, Y5, Y5 // u
	VPCMPEQD Y7, Y7, Y7
	VGATHERDPD Y7, (R9)(X3*8), Y8
	VMULPD Y5, Y5, Y6 // z
	VMULPD 224(R8), Y6, Y9 // 1/5
	VSUBPD 256(R8), Y9, Y9 // 1/3
	VMULPD Y6, Y6, Y10
	VMULPD 288(R8), Y10, Y10 // 1/7
	VSUBPD Y10, Y9, Y9 // p
	VMULPD Y6, Y5, Y6
	VMULPD Y9, Y6, Y6
	VADDPD Y6, Y5, Y5
	VADDPD Y5, Y8, Y5
	VMOVUPD 320(R8), Y6 // pi/2
	VSUBPD Y5, Y6, Y7
	VBLENDVPD Y11, Y5, Y7, Y5
	VBLENDVPD Y14, Y6, Y5, Y5
	VMULPD 352(R8), Y5, Y5 // 180/pi
	VORPD Y15, Y5, Y5
	VCVTPD2PSY Y5, X5
	VMOVUPS X5, (DI)
	NEXT
	JNZ loop
	VZEROUPPER
	RET
