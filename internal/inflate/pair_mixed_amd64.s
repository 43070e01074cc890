#include "go_asm.h"
#include "textflag.h"
#include "pair_amd64.h"

// The loop of Pair for mixed blocks, with BMI2 and AVX2. A step takes the literals of an entry and
// the match after them without a branch between the two, which would often be mispredicted; after
// literals alone, a match of no bytes. The buffers are those of fast_amd64.s, but not shifted: here
// fewer instructions matter more than the time of one load.
//
//	SI, R8   next byte of the source
//	DI, R9   next byte of the target
//	BX, R12  buf
//	CX, R13  have, of which the lowest six bits count
//	DX, BP   entry of the next bits
//	R10      the pair

// LITERALS stores the literals of e, gives the length after them in R11 and the entry of the
// distance in AX; after literals alone, zero and noDistance.
#define LITERALS(dec, out, buf, have, e) \
	RORXL $const_byteAt, e, AX \
	MOVW AX, (out) \
	RORXL $const_literalsAt, e, R11 \
	ANDL $const_literalsMask, R11 \
	ADDQ R11, out \
	MOVL e, R11 \
	SHRL $const_lengthAt, R11 \
	ADDL $const_shortest, R11 \
	SHRXQ e, buf, buf \
	SUBL e, have \
	MOVBLZX buf, AX \
	TESTL $const_literal, e \
	MOVL (dec+Decoder_dist)(R10)(AX*4), AX \
	CMOVLNE ·noDistance(SB), AX \
	CMOVLNE ·zero(SB), R11

// FAR copies the bytes of a match from a distance of 16 at least.
#define FAR(out, loop, end) \
	MOVQ out, AX \
	ADDQ R11, out \
loop: \
	VMOVDQU 16(R15), X0 \
	VMOVDQU X0, 16(AX) \
	ADDQ $16, R15 \
	ADDQ $16, AX \
	SUBQ $16, R11 \
	CMPQ R11, $16 \
	JHI loop \
	JMP end

// NEAR copies those of a match from a distance that is shorter than the match and than 16, of which
// X0 has the first bytes: whole periods of 16 bytes.
#define NEAR(out, loop, end) \
	MOVQ out, AX \
	ADDQ R11, out \
	LEAQ ·periods(SB), R15 \
	MOVBQZX (R15)(R14*1), R11 \
	SHLQ $4, R14 \
	VPSHUFB 16(R15)(R14*1), X0, X0 \
loop: \
	VMOVDQU X0, (AX) \
	ADDQ R11, AX \
	CMPQ AX, out \
	JCS loop \
	JMP end

// SPECIAL looks up the entry of a long word. It goes to extra for a length with extra bits, and to
// ended for the end of the block and for no word.
#define SPECIAL(dec, buf, e, symbols, extra, ended) \
	TESTL $const_special, e \
	JZ extra \
	BTL $const_furtherAt, e \
	JCC ended \
	SECOND(dec, buf, e) \
	TESTL $(const_special|const_hasExtra), e \
	JZ symbols \
	TESTL $const_special, e \
	JNZ ended

// func pairMixedAVX2(p *Pair, dstA *byte, outEndA int, srcA *byte, inEndA int, dstB *byte, outEndB int, srcB *byte, inEndB int) (a, b ending)
TEXT ·pairMixedAVX2(SB), NOSPLIT, $24-88
	MOVQ p+0(FP), R10
	MOVQ $const_noSpace, R11
	MOVQ R11, a+72(FP)
	MOVQ R11, b+80(FP)
	ENTER(Pair_a, SI, DI, BX, CX, DX, dstA+8(FP), outEndA+16(FP), srcA+24(FP), inEndA+32(FP), maskA-8(SP))
	ENTER(Pair_b, R8, R9, R12, R13, BP, dstB+40(FP), outEndB+48(FP), srcB+56(FP), inEndB+64(FP), maskB-16(SP))

again:
	MOVL $(1<<20), AX
	STEPS(SI, DI, outEndA+16(FP), inEndA+32(FP))
	STEPS(R8, R9, outEndB+48(FP), inEndB+64(FP))
	INCQ AX
	MOVQ AX, left-24(SP)

next:
	REFILL(SI, BX, CX)
	REFILL(R8, R12, R13)
	TESTL $(const_special|const_hasExtra), DX
	JNZ specialA
symbolsA:
	LITERALS(Pair_a, DI, BX, CX, DX)
lengthA:
	TESTL $const_special, AX
	JNZ fartherA
distanceA:
	DISTANCE(Pair_a, DI, BX, CX, DX, maskA-8(SP), dstA+8(FP), wrongA)
	VMOVDQU (R15), X0
	VMOVDQU X0, (DI)
	CMPQ R11, $16
	JHI farA
	CMPQ R14, R11
	JCS nearA
	ADDQ R11, DI
other:
	TESTL $(const_special|const_hasExtra), BP
	JNZ specialB
symbolsB:
	LITERALS(Pair_b, R9, R12, R13, BP)
lengthB:
	TESTL $const_special, AX
	JNZ fartherB
distanceB:
	DISTANCE(Pair_b, R9, R12, R13, BP, maskB-16(SP), dstB+40(FP), wrongB)
	VMOVDQU (R15), X0
	VMOVDQU X0, (R9)
	CMPQ R11, $16
	JHI farB
	CMPQ R14, R11
	JCS nearB
	ADDQ R11, R9
both:
	DECQ left-24(SP)
	JNZ next
	JMP again

nearA:
	NEAR(DI, fillA, other)
nearB:
	NEAR(R9, fillB, both)
farA:
	CMPQ R14, $16
	JCS nearA
	FAR(DI, copyA, other)
farB:
	CMPQ R14, $16
	JCS nearB
	FAR(R9, copyB, both)

specialA:
	SPECIAL(Pair_a, BX, DX, symbolsA, extraA, endedA)
extraA:
	LENGTH(Pair_a, DI, BX, CX, DX)
	JMP lengthA
endedA:
	ENDED(BX, CX, DX, a+72(FP), wrongA)
fartherA:
	FARTHER(Pair_a, BX, distanceA, wrongA)
wrongA:
	MOVQ $const_damaged, a+72(FP)
	JMP done

specialB:
	SPECIAL(Pair_b, R12, BP, symbolsB, extraB, endedB)
extraB:
	LENGTH(Pair_b, R9, R12, R13, BP)
	JMP lengthB
endedB:
	ENDED(R12, R13, BP, b+80(FP), wrongB)
fartherB:
	FARTHER(Pair_b, R12, distanceB, wrongB)
wrongB:
	MOVQ $const_damaged, b+80(FP)

done:
	LEAVE(Pair_a, SI, DI, BX, CX, dstA+8(FP), srcA+24(FP))
	LEAVE(Pair_b, R8, R9, R12, R13, dstB+40(FP), srcB+56(FP))
	VZEROUPPER
	RET

// noDistance takes the place of a distance's entry after literals alone: no bits, from where bytes
// have long been stored.
DATA ·noDistance+0(SB)/4, $(const_noDistance<<const_distAt)
GLOBL ·noDistance(SB), RODATA|NOPTR, $4

// seven is the operand of an instruction that takes no constant.
DATA ·seven+0(SB)/4, $7
GLOBL ·seven(SB), RODATA|NOPTR, $4

// zero is the length after literals alone.
DATA ·zero+0(SB)/4, $0
GLOBL ·zero(SB), RODATA|NOPTR, $4
