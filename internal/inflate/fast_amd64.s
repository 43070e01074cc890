#include "go_asm.h"
#include "textflag.h"

// The loop of fast with BMI2 and AVX2. Shifts and BZHI take an entry's low byte as it is. The
// buffer is shifted to the left by 2, so that masking it gives the offset of an entry: a load whose
// index is scaled takes a cycle more, and each entry waits for the one before it. The buffer then
// holds up to 62 bits, and 48 to 55 of them are counted after a refill. Four entries of literals
// take 48 at most, as do a length and a distance.
//
//	SI, R8   next byte of the source, the last one at which 8 bytes can be loaded
//	DI, R9   next byte of the target, the last one at which any symbol fits
//	BX, CX   buf<<2, have, of which the lowest six bits count
//	DX       entry of the next bits
//	R10      the decoder
//	R12      first byte of the target
//	R13      the mask of offsets in the table of literals and lengths

// LITERALS stores the literals of the entry in DX and looks up the next entry.
#define LITERALS \
	MOVL DX, AX \
	SHRXQ DX, BX, BX \
	SUBL DX, CX \
	MOVL BX, DX \
	ANDL R13, DX \
	MOVL Decoder_lit(R10)(DX*1), DX \
	MOVBLZX AX, R11 \
	SHRL $const_byteAt, AX \
	SHRL $const_literalsAt, R11 \
	MOVL AX, (DI) \
	ADDQ R11, DI

// func fastAVX2(d *Decoder, dst *byte, outEnd int, src *byte, inEnd int) ending
TEXT ·fastAVX2(SB), NOSPLIT, $0-48
	MOVQ d+0(FP), R10
	MOVQ dst+8(FP), R12
	MOVQ outEnd+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ inEnd+32(FP), R8
	ADDQ R12, R9
	ADDQ SI, R8
	MOVQ R12, DI
	ADDQ Decoder_in(R10), SI
	ADDQ Decoder_out(R10), DI
	MOVQ Decoder_buf(R10), BX
	MOVQ Decoder_have(R10), CX
	MOVQ Decoder_litBits(R10), AX
	MOVL $4, R13
	SHLXQ AX, R13, R13
	SUBQ $4, R13
	SHLQ $2, BX

	// The first entry needs bits.
	MOVQ (SI), AX
	SHLQ $2, AX
	SHLXQ CX, AX, AX
	ORQ AX, BX
	MOVL BX, DX
	ANDL R13, DX
	MOVL Decoder_lit(R10)(DX*1), DX

next:
	CMPQ SI, R8
	JHI full
	CMPQ DI, R9
	JHI full
	MOVQ (SI), AX
	SHLQ $2, AX
	SHLXQ CX, AX, AX
	ORQ AX, BX
	MOVL CX, AX
	SHRL $3, AX
	ANDL $7, AX
	SUBQ AX, SI
	ADDQ $6, SI
	ANDL $7, CX
	ORL $48, CX
	TESTB $const_literals, DX
	JZ match
	LITERALS
	TESTB $const_literals, DX
	JZ next
	LITERALS
	TESTB $const_literals, DX
	JZ next
	LITERALS
	TESTB $const_literals, DX
	JZ next
	LITERALS
	JMP next

match:
	BTL $8, DX
	JCS special

length:
	MOVL DX, AX
	SHRL $const_beforeAt, AX
	MOVB AX, (DI)
	BTL $const_afterAt, DX
	ADCQ $0, DI
	MOVQ BX, R11
	SHRQ $2, R11
	BZHIQ DX, R11, R11
	MOVL DX, AX
	SHRL $const_lengthBits, AX
	SHRXQ AX, R11, R11
	MOVL DX, AX
	SHRL $const_lengthAt, AX
	ANDL $const_lengthMask, AX
	SHRXQ DX, BX, BX
	SUBL DX, CX
	ADDQ AX, R11 // the length
	MOVL BX, DX
	ANDL $(4*(1<<const_distBits-1)), DX
	MOVL Decoder_dist(R10)(DX*1), DX
	BTL $8, DX
	JCS farther

distance:
	MOVQ BX, AX
	SHRQ $2, AX
	BZHIQ DX, AX, AX
	MOVL DX, R14
	SHRL $const_distBitsAt, R14
	SHRXQ R14, AX, AX
	MOVL DX, R14
	SHRL $const_distAt, R14
	ADDQ R14, AX // the distance
	MOVQ DI, R14
	SUBQ R12, R14
	CMPQ AX, R14
	JHI wrong
	SHRXQ DX, BX, BX
	SUBL DX, CX
	MOVL BX, DX
	ANDL R13, DX
	MOVL Decoder_lit(R10)(DX*1), DX // before the copy, which it does not have to wait for
	MOVQ DI, R14
	MOVQ DI, R15
	SUBQ AX, R15
	ADDQ R11, DI
	CMPQ AX, $32
	JCS near
	VMOVDQU (R15), Y0
	VMOVDQU Y0, (R14)
	CMPQ R11, $32
	JLS next
copy32:
	VMOVDQU 32(R15), Y0
	VMOVDQU Y0, 32(R14)
	ADDQ $32, R15
	ADDQ $32, R14
	SUBQ $32, R11
	CMPQ R11, $32
	JHI copy32
	JMP next

near:
	CMPQ AX, $1
	JNE pattern
	VPBROADCASTB (R15), Y0
	VMOVDQU Y0, (R14)
	CMPQ R11, $32
	JLS next
fill32:
	VMOVDQU Y0, 32(R14)
	ADDQ $32, R14
	SUBQ $32, R11
	CMPQ R11, $32
	JHI fill32
	JMP next

pattern:
	CMPQ AX, $16
	JCC copy16
	// 16 bytes of the repeated ones, of which whole periods are kept.
	VMOVDQU (R15), X0
	LEAQ ·periods(SB), R15
	MOVBQZX (R15)(AX*1), R11
	SHLQ $4, AX
	VPSHUFB 16(R15)(AX*1), X0, X0
fill16:
	VMOVDQU X0, (R14)
	ADDQ R11, R14
	CMPQ R14, DI
	JCS fill16
	JMP next

copy16:
	VMOVDQU (R15), X0
	VMOVDQU X0, (R14)
	ADDQ $16, R15
	ADDQ $16, R14
	CMPQ R14, DI
	JCS copy16
	JMP next

special:
	BTL $30, DX
	JCC ended
	MOVQ Decoder_litBits(R10), AX
	SHRXQ AX, BX, AX
	SHRQ $2, AX
	MOVL DX, R11
	SHRL $const_indexAt, R11
	ANDL $const_indexMask, R11
	ANDL R11, AX
	SHRL $const_tableAt, DX
	ADDL AX, DX
	ANDL $(const_litSize-1), DX
	MOVL Decoder_lit(R10)(DX*4), DX
	TESTB $const_literals, DX
	JNZ rare
	BTL $8, DX
	JCC length

ended:
	MOVQ $const_blockEnded, R11
	BTL $9, DX
	JCC wrong
	SHRXQ DX, BX, BX
	SUBL DX, CX
	JMP done

rare:
	LITERALS
	JMP next

farther:
	BTL $30, DX
	JCC wrong
	MOVQ BX, AX
	SHRQ $(2+const_distBits), AX
	MOVL DX, R14
	SHRL $const_indexAt, R14
	ANDL $const_indexMask, R14
	ANDL R14, AX
	SHRL $const_tableAt, DX
	ADDL AX, DX
	ANDL $(const_distSize-1), DX
	MOVL Decoder_dist(R10)(DX*4), DX
	BTL $8, DX
	JCC distance

wrong:
	MOVQ $const_damaged, R11
	JMP done

full:
	MOVQ $const_noSpace, R11

done:
	ANDL $63, CX
	SUBQ src+24(FP), SI
	SUBQ R12, DI
	MOVQ SI, Decoder_in(R10)
	MOVQ DI, Decoder_out(R10)
	SHRQ $2, BX
	MOVQ BX, Decoder_buf(R10)
	MOVQ CX, Decoder_have(R10)
	MOVQ R11, ret+40(FP)
	VZEROUPPER
	RET

// periods has for each period of 0 to 15 bytes how many of 16 bytes its whole repetitions take, and
// after these the shuffles that repeat them.
DATA ·periods+0(SB)/8, $0x0e0c0f100f101000
DATA ·periods+8(SB)/8, $0x0f0e0d0c0b0a0910
DATA ·periods+16(SB)/8, $0x0000000000000000
DATA ·periods+24(SB)/8, $0x0000000000000000
DATA ·periods+32(SB)/8, $0x0000000000000000
DATA ·periods+40(SB)/8, $0x0000000000000000
DATA ·periods+48(SB)/8, $0x0100010001000100
DATA ·periods+56(SB)/8, $0x0100010001000100
DATA ·periods+64(SB)/8, $0x0100020100020100
DATA ·periods+72(SB)/8, $0x0002010002010002
DATA ·periods+80(SB)/8, $0x0302010003020100
DATA ·periods+88(SB)/8, $0x0302010003020100
DATA ·periods+96(SB)/8, $0x0201000403020100
DATA ·periods+104(SB)/8, $0x0004030201000403
DATA ·periods+112(SB)/8, $0x0100050403020100
DATA ·periods+120(SB)/8, $0x0302010005040302
DATA ·periods+128(SB)/8, $0x0006050403020100
DATA ·periods+136(SB)/8, $0x0100060504030201
DATA ·periods+144(SB)/8, $0x0706050403020100
DATA ·periods+152(SB)/8, $0x0706050403020100
DATA ·periods+160(SB)/8, $0x0706050403020100
DATA ·periods+168(SB)/8, $0x0605040302010008
DATA ·periods+176(SB)/8, $0x0706050403020100
DATA ·periods+184(SB)/8, $0x0504030201000908
DATA ·periods+192(SB)/8, $0x0706050403020100
DATA ·periods+200(SB)/8, $0x04030201000a0908
DATA ·periods+208(SB)/8, $0x0706050403020100
DATA ·periods+216(SB)/8, $0x030201000b0a0908
DATA ·periods+224(SB)/8, $0x0706050403020100
DATA ·periods+232(SB)/8, $0x0201000c0b0a0908
DATA ·periods+240(SB)/8, $0x0706050403020100
DATA ·periods+248(SB)/8, $0x01000d0c0b0a0908
DATA ·periods+256(SB)/8, $0x0706050403020100
DATA ·periods+264(SB)/8, $0x000e0d0c0b0a0908
GLOBL ·periods(SB), RODATA|NOPTR, $272
