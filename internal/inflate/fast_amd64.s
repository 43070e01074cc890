#include "go_asm.h"
#include "textflag.h"

// The loop of fast with BMI2 and AVX2. Shifts take the lowest six bits of an entry as they are,
// and BZHI the lowest eight. The buffer is shifted to the left by 2, so that masking it gives the
// offset of an entry: a load whose index is scaled takes a cycle more, and each entry waits for the
// one before it. The lowest two bits are old ones, which count: 54 to 61 others are counted after a
// refill, and all 62 are there. Four entries of literals take 48 at most, as do a length and a
// distance; the 14 that are left are enough for the next entry.
//
//	SI, R8   next byte of the source, the last one at which 8 bytes can be loaded
//	DI, R9   next byte of the target, the last one at which any symbol fits
//	BX, CX   buf<<2, have+2, of which the lowest six bits count
//	DX       entry of the next bits
//	R10      the decoder
//	R12      first byte of the target
//	R13      the mask of offsets in the table of literals and lengths

// manySpace is how many bytes before R9 the last of several matches must begin, for copies in steps
// of 128.
#define manySpace 96

// ENTER loads the registers and the first entry, which needs bits.
#define ENTER \
	MOVQ d+0(FP), R10 \
	MOVQ dst+8(FP), R12 \
	MOVQ outEnd+16(FP), R9 \
	MOVQ src+24(FP), SI \
	MOVQ inEnd+32(FP), R8 \
	ADDQ R12, R9 \
	ADDQ SI, R8 \
	MOVQ R12, DI \
	ADDQ Decoder_in(R10), SI \
	ADDQ Decoder_out(R10), DI \
	MOVQ Decoder_buf(R10), BX \
	MOVQ Decoder_have(R10), CX \
	MOVQ Decoder_litBits(R10), AX \
	MOVL $4, R13 \
	SHLXQ AX, R13, R13 \
	SUBQ $4, R13 \
	SHLQ $2, BX \
	ADDQ $2, CX \
	SHLXQ CX, (SI), AX \
	ORQ AX, BX \
	NEXT

// LEAVE stores the state and returns R11.
#define LEAVE \
	ANDL $63, CX \
	SUBQ $2, CX \
	SUBQ src+24(FP), SI \
	SUBQ R12, DI \
	MOVQ SI, Decoder_in(R10) \
	MOVQ DI, Decoder_out(R10) \
	SHRQ $2, BX \
	MOVQ BX, Decoder_buf(R10) \
	MOVQ CX, Decoder_have(R10) \
	MOVQ R11, ret+40(FP) \
	VZEROUPPER \
	RET

// REFILL fills the buffer.
#define REFILL \
	SHLXQ CX, (SI), AX \
	ORQ AX, BX \
	MOVL CX, AX \
	SHRL $3, AX \
	ANDL $7, AX \
	SUBQ AX, SI \
	ADDQ $7, SI \
	ORL $56, CX

// NEXT looks up the entry of the next bits.
#define NEXT \
	MOVL BX, DX \
	ANDL R13, DX \
	MOVL Decoder_lit(R10)(DX*1), DX

// LITERALS stores the literals of the entry in DX and looks up the next entry.
#define LITERALS \
	MOVL DX, AX \
	SHRXQ DX, BX, BX \
	SUBL DX, CX \
	NEXT \
	MOVL AX, R11 \
	SHRL $const_byteAt, AX \
	SHRL $const_literalsAt, R11 \
	ANDL $const_literalsMask, R11 \
	MOVL AX, (DI) \
	ADDQ R11, DI

// LENGTH gives in R11 the length of the entry in DX and drops its bits.
#define LENGTH \
	RORXQ $2, BX, R11 \
	BZHIQ DX, R11, R11 \
	MOVL DX, R14 \
	SHRL $const_wordAt, R14 \
	ANDL $const_wordMask, R14 \
	SHRXQ R14, R11, R11 \
	MOVL DX, R14 \
	SHRL $const_lengthAt, R14 \
	SHRXQ DX, BX, BX \
	SUBL DX, CX \
	LEAQ const_shortest(R11)(R14*1), R11

// DISTANCE gives in R14 the distance of the entry in AX and drops its bits.
#define DISTANCE \
	RORXQ $2, BX, R14 \
	BZHIQ AX, R14, R14 \
	MOVL AX, R15 \
	SHRL $const_wordAt, R15 \
	SHRXQ R15, R14, R14 \
	MOVL AX, R15 \
	SHRL $const_distAt, R15 \
	ADDQ R15, R14 \
	SHRXQ AX, BX, BX \
	SUBL AX, CX

// SECOND turns an entry that leads to a second-level table into the index of the table's start, and
// AX, the bits after those of the first lookup, into the index in that table.
#define SECOND(entry) \
	MOVL entry, R15 \
	SHRL $const_indexAt, R15 \
	BZHIQ R15, AX, AX \
	SHRL $const_tableAt, entry \
	ANDL $const_tableMask, entry

// func fastAVX2(d *Decoder, dst *byte, outEnd int, src *byte, inEnd int) ending
TEXT ·fastAVX2(SB), NOSPLIT, $0-48
	ENTER

next:
	CMPQ SI, R8
	JHI full
	CMPQ DI, R9
	JHI full
	REFILL
	TESTB $const_literal, DX
	JZ match
	LITERALS
	TESTB $const_literal, DX
	JZ next
	LITERALS
	TESTB $const_literal, DX
	JZ next
	LITERALS
	TESTB $const_literal, DX
	JZ next
	LITERALS
	JMP next

match:
	TESTB $const_special, DX
	JNZ special

	CMPL DX, $const_longestMatch
	JCC repeats

length:
	// The literal before the match, or a byte that the match overwrites.
	MOVL DX, AX
	SHRL $const_byteAt, AX
	MOVB AX, (DI)
	BTL $const_literalsAt, DX
	ADCQ $0, DI
	LENGTH
	MOVL BX, AX
	ANDL $(4*(1<<const_distBits-1)), AX
	MOVL Decoder_dist(R10)(AX*1), AX
	TESTB $const_special, AX
	JNZ farther

distance:
	DISTANCE
copy:
	MOVQ DI, R15
	SUBQ R12, R15
	CMPQ R14, R15
	JHI wrong
	NEXT // before the copy, which it does not have to wait for
	MOVQ DI, R15
	SUBQ R14, R15
	CMPQ R14, $32
	JCS near
	VMOVDQU (R15), Y0
	VMOVDQU Y0, (DI)
	MOVQ DI, AX
	ADDQ R11, DI
	CMPQ R11, $32
	JLS next
copy32:
	VMOVDQU 32(R15), Y0
	VMOVDQU Y0, 32(AX)
	ADDQ $32, R15
	ADDQ $32, AX
	SUBQ $32, R11
	CMPQ R11, $32
	JHI copy32
	JMP next

	// The match may be the first of several that have the same bits. R14 becomes the buffer after
	// the length, then after the first distance, and R15 that distance.
repeats:
	BTL $const_literalsAt, DX
	JCS length
	SHRXQ DX, BX, R14
	MOVL R14, AX
	ANDL $(4*(1<<const_distBits-1)), AX
	MOVL Decoder_dist(R10)(AX*1), AX
	TESTB $const_special, AX
	JNZ length
	RORXQ $2, R14, R15
	BZHIQ AX, R15, R15
	MOVL AX, R11
	SHRL $const_wordAt, R11
	SHRXQ R11, R15, R15
	MOVL AX, R11
	SHRL $const_distAt, R11
	ADDQ R11, R15
	SHRXQ AX, R14, R14
	// AX becomes the number of bits of the match, and R11 that of the bits after it that repeat its
	// bits. R11/AX is the number of further matches.
	ADDL DX, AX
	ANDL $const_dropMask, AX
	SUBL AX, CX
	XORQ R14, BX
	SHRQ $2, BX
	TZCNTQ BX, R11
	MOVQ R14, BX
	MOVL CX, R14
	ANDL $63, R14
	SUBL $(2+const_manyBits), R14 // the next entry needs some
	CMPL R14, R11
	CMOVLCS R14, R11
	LEAQ ·inverses(SB), R14
	MOVWLZX (R14)(AX*2), R14
	IMULL R11, R14
	SHRL $16, R14
	IMULL R14, AX
	IMUL3L $258, R14, R11
	MOVQ R9, R14
	SUBQ DI, R14
	SUBQ $manySpace, R14
	CMPQ R11, R14
	JGE once
	TESTL R11, R11
	JZ once
	SHRXQ AX, BX, BX
	SUBL AX, CX
	MOVQ DI, AX
	SUBQ R12, AX
	CMPQ AX, R15
	JCS wrong
	NEXT
	MOVQ DI, AX
	MOVQ DI, R14
	SUBQ R15, R14
	LEAQ 258(DI)(R11*1), DI
	CMPQ R15, $32
	JCS nearMany
copy128:
	VMOVDQU (R14), Y0
	VMOVDQU Y0, (AX)
	VMOVDQU 32(R14), Y0
	VMOVDQU Y0, 32(AX)
	VMOVDQU 64(R14), Y0
	VMOVDQU Y0, 64(AX)
	VMOVDQU 96(R14), Y0
	VMOVDQU Y0, 96(AX)
	SUBQ $-128, R14
	SUBQ $-128, AX
	CMPQ AX, DI
	JCS copy128
	JMP next

nearMany:
	VPBROADCASTB (R14), Y0
	XCHGQ R14, R15
	CMPQ R14, $1
	JNE pattern
fill128:
	VMOVDQU Y0, (AX)
	VMOVDQU Y0, 32(AX)
	VMOVDQU Y0, 64(AX)
	VMOVDQU Y0, 96(AX)
	SUBQ $-128, AX
	CMPQ AX, DI
	JCS fill128
	JMP next

once:
	MOVL $258, R11
	MOVQ R15, R14
	JMP copy

near:
	MOVQ DI, AX
	ADDQ R11, DI
	CMPQ R14, $1
	JNE pattern
	VPBROADCASTB (R15), Y0
	VMOVDQU Y0, (AX)
	CMPQ R11, $32
	JLS next
fill32:
	VMOVDQU Y0, 32(AX)
	ADDQ $32, AX
	SUBQ $32, R11
	CMPQ R11, $32
	JHI fill32
	JMP next

pattern:
	CMPQ R14, $16
	JCC copy16
	// 16 bytes of the repeated ones, of which whole periods are kept.
	VMOVDQU (R15), X0
	LEAQ ·periods(SB), R15
	MOVBQZX (R15)(R14*1), R11
	SHLQ $4, R14
	VPSHUFB 16(R15)(R14*1), X0, X0
fill16:
	VMOVDQU X0, (AX)
	ADDQ R11, AX
	CMPQ AX, DI
	JCS fill16
	JMP next

copy16:
	VMOVDQU (R15), X0
	VMOVDQU X0, (AX)
	ADDQ $16, R15
	ADDQ $16, AX
	CMPQ AX, DI
	JCS copy16
	JMP next

special:
	BTL $const_furtherAt, DX
	JCC ended
	MOVQ Decoder_litBits(R10), AX
	SHRXQ AX, BX, AX
	SHRQ $2, AX
	SECOND(DX)
	ADDL AX, DX
	ANDL $(const_litSize-1), DX
	MOVL Decoder_lit(R10)(DX*4), DX
	TESTB $const_literal, DX
	JNZ rare
	TESTB $const_special, DX
	JZ length

ended:
	MOVQ $const_blockEnded, R11
	BTL $const_endsAt, DX
	JCC wrong
	SHRXQ DX, BX, BX
	SUBL DX, CX
	JMP done

farther:
	BTL $const_furtherAt, AX
	JCC wrong
	MOVL AX, R14
	MOVQ BX, AX
	SHRQ $(2+const_distBits), AX
	SECOND(R14)
	ADDL R14, AX
	ANDL $(const_distSize-1), AX
	MOVL Decoder_dist(R10)(AX*4), AX
	TESTB $const_special, AX
	JZ distance

wrong:
	MOVQ $const_damaged, R11
	JMP done

full:
	MOVQ $const_noSpace, R11

done:
	LEAVE

rare:
	LITERALS
	JMP next

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
