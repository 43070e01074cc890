#include "textflag.h"

// LOOKUP sets to to the bytes of a table of 256, in four registers, at the indexes in Z0. K1 has
// the indexes of 128 and more.
#define LOOKUP(t0, t1, t2, t3, to, temp) \
	VMOVDQA64 Z0, to \
	VMOVDQA64 Z0, temp \
	VPERMI2B t1, t0, to \
	VPERMI2B t3, t2, temp \
	VPBLENDMB temp, to, K1, to

// QUAD writes four words, of at most 52 bits, from memory. AX holds the CX bits to be written.
#define QUAD(words, length) \
	MOVQ words(R11), R8 \
	SHLXQ CX, R8, R8 \
	ORQ R8, AX \
	MOVQ AX, (DI) \
	ADDL length(R11), CX \
	MOVL CX, R9 \
	MOVL CX, R10 \
	SHRL $3, R9 \
	ANDL $56, R10 \
	ADDQ R9, DI \
	SHRXQ R10, AX, AX \
	ANDL $7, CX

// JOIN looks up the words of 64 literals and joins neighbours: first two in 32 bits, then four in 64.
// At each step even and odd lanes are separated, so that both of a pair are in one lane. It
// stores the quads of even places at R15, those of odd ones 64 bytes on, and the lengths after
// them.
#define JOIN \
	VMOVDQU64 (SI), Z0; \
	VPMOVB2M Z0, K1; \
	LOOKUP(Z16, Z17, Z18, Z19, Z1, Z2); \
	LOOKUP(Z20, Z21, Z22, Z23, Z3, Z4); \
	LOOKUP(Z24, Z25, Z26, Z27, Z5, Z6); \
	/* Literals of even places in Z7, of odd ones in Z8; their lengths in Z10 and Z11. */ \
	VPSLLW $8, Z5, Z6; \
	VPANDD Z28, Z3, Z7; \
	VPORD Z6, Z7, Z7; \
	VPSRLW $8, Z3, Z8; \
	VPANDND Z5, Z28, Z9; \
	VPORD Z9, Z8, Z8; \
	VPANDD Z28, Z1, Z10; \
	VPSRLW $8, Z1, Z11; \
	VPADDW Z10, Z11, Z11; \
	/* Even pairs in Z12, odd pairs in Z7; the lengths of even ones in Z13, and of both in Z15. */ \
	VPANDD Z29, Z7, Z12; \
	VPANDD Z29, Z8, Z13; \
	VPANDD Z29, Z10, Z14; \
	VPSLLVD Z14, Z13, Z13; \
	VPORD Z13, Z12, Z12; \
	VPSRLD $16, Z7, Z7; \
	VPSRLD $16, Z8, Z8; \
	VPSRLD $16, Z10, Z10; \
	VPSLLVD Z10, Z8, Z8; \
	VPORD Z8, Z7, Z7; \
	VPANDD Z29, Z11, Z13; \
	VPSRLD $16, Z11, Z15; \
	VPADDD Z13, Z15, Z15; \
	/* Even quads in Z1, odd ones in Z12. */ \
	VPANDD Z30, Z12, Z1; \
	VPANDD Z30, Z7, Z2; \
	VPANDD Z30, Z13, Z3; \
	VPSLLVQ Z3, Z2, Z2; \
	VPORD Z2, Z1, Z1; \
	VPSRLQ $32, Z12, Z12; \
	VPSRLQ $32, Z7, Z7; \
	VPSRLQ $32, Z13, Z13; \
	VPSLLVQ Z13, Z7, Z7; \
	VPORD Z7, Z12, Z12; \
	VMOVDQA64 Z1, 0(R15); \
	VMOVDQA64 Z12, 64(R15); \
	VMOVDQA64 Z15, 128(R15)

// WRITE writes the quads at R11.
#define WRITE \
	QUAD(0, 128); \
	QUAD(64, 132); \
	QUAD(8, 136); \
	QUAD(72, 140); \
	QUAD(16, 144); \
	QUAD(80, 148); \
	QUAD(24, 152); \
	QUAD(88, 156); \
	QUAD(32, 160); \
	QUAD(96, 164); \
	QUAD(40, 168); \
	QUAD(104, 172); \
	QUAD(48, 176); \
	QUAD(112, 180); \
	QUAD(56, 184); \
	QUAD(120, 188)

// func writeAVX512(out, src []byte, t *literalTable, acc, held uint64) (count, written int, accOut, heldOut uint64)
//
// It joins the next vector before it writes one, so that no load waits for a store: this takes two
// thirds of the time.
TEXT ·writeAVX512(SB), 0, $1024-104
	MOVQ out_base+0(FP), DI
	MOVQ out_len+8(FP), R13
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), DX
	MOVQ t+48(FP), BX
	MOVQ acc+56(FP), AX
	MOVQ held+64(FP), CX
	MOVQ DI, R12
	MOVQ SI, R14
	ADDQ DI, R13 // the end of out
	SUBQ $224, R13 // two vectors of words of 13 bits take 208 bytes
	SUBQ $64, DX
	LEAQ 511(SP), R11 // buffers at a multiple of 512 and 256 bytes on
	ANDQ $~511, R11
	VMOVDQU64 0(BX), Z16 // lengths
	VMOVDQU64 64(BX), Z17
	VMOVDQU64 128(BX), Z18
	VMOVDQU64 192(BX), Z19
	VMOVDQU64 256(BX), Z20 // the lower eight bits of words
	VMOVDQU64 320(BX), Z21
	VMOVDQU64 384(BX), Z22
	VMOVDQU64 448(BX), Z23
	VMOVDQU64 512(BX), Z24 // the others
	VMOVDQU64 576(BX), Z25
	VMOVDQU64 640(BX), Z26
	VMOVDQU64 704(BX), Z27
	VPTERNLOGD $255, Z31, Z31, Z31
	VPSRLW $8, Z31, Z28  // even bytes
	VPSRLD $16, Z31, Z29 // even words
	VPSRLQ $32, Z31, Z30 // even double words
	ADDQ SI, DX // the last place of a vector
	CMPQ SI, DX
	JHI done
	CMPQ DI, R13
	JHI done
	MOVQ R11, R15
	JOIN
	ADDQ $64, SI
	CMPQ SI, DX
	JHI last
loop:
	XORQ $256, R15
	JOIN
	WRITE
	XORQ $256, R11
	ADDQ $64, SI
	CMPQ SI, DX
	JHI last
	CMPQ DI, R13
	JLS loop
last:
	WRITE
done:
	SUBQ R14, SI
	MOVQ SI, count+72(FP)
	SUBQ R12, DI
	MOVQ DI, written+80(FP)
	MOVQ AX, accOut+88(FP)
	MOVQ CX, heldOut+96(FP)
	VZEROUPPER
	RET
