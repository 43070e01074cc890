#include "go_asm.h"
#include "textflag.h"
#include "pair_amd64.h"

// The loop of Pair with BMI2 and AVX2: up to four entries of literals of one stream, or a match,
// then the same of the other. A branch ends the literals where a match follows. Until it is
// mispredicted, a processor works on the entries of both streams.
//
//	SI, R8    next byte of the source
//	DI, R9    next byte of the target
//	BX, R12   buf
//	CX, R13   have, of which the lowest six bits count
//	DX, BP    entry of the next bits
//	R14, R15  the masks, except while a match is decoded
//	R10       the pair

// LITERALS stores the literals of e and looks up the next entry.
#define LITERALS(dec, out, buf, have, e, mask) \
	RORXL $const_byteAt, e, AX \
	RORXL $const_literalsAt, e, R11 \
	SHRXQ e, buf, buf \
	SUBL e, have \
	NEXT(dec, buf, e, mask) \
	ANDL $const_literalsMask, R11 \
	MOVW AX, (out) \
	ADDQ R11, out

// FOUR decodes up to four entries of literals. It goes to match if the first entry is another one.
#define FOUR(dec, in, out, buf, have, e, mask, match, end) \
	REFILL(in, buf, have) \
	TESTL $const_literal, e \
	JZ match \
	LITERALS(dec, out, buf, have, e, mask) \
	TESTL $const_literal, e \
	JZ end \
	LITERALS(dec, out, buf, have, e, mask) \
	TESTL $const_literal, e \
	JZ end \
	LITERALS(dec, out, buf, have, e, mask) \
	TESTL $const_literal, e \
	JZ end \
	LITERALS(dec, out, buf, have, e, mask)

// COPY copies the R11 bytes of a match from R15, at the distance R14.
#define COPY(out, copy32, near, fill32, pattern, fill16, copy16, end) \
	MOVQ out, AX \
	ADDQ R11, out \
	CMPQ R14, $32 \
	JCS near \
	VMOVDQU (R15), Y0 \
	VMOVDQU Y0, (AX) \
	CMPQ R11, $32 \
	JLS end \
copy32: \
	VMOVDQU 32(R15), Y0 \
	VMOVDQU Y0, 32(AX) \
	ADDQ $32, R15 \
	ADDQ $32, AX \
	SUBQ $32, R11 \
	CMPQ R11, $32 \
	JHI copy32 \
	JMP end \
near: \
	CMPQ R14, $1 \
	JNE pattern \
	VPBROADCASTB (R15), Y0 \
	VMOVDQU Y0, (AX) \
	CMPQ R11, $32 \
	JLS end \
fill32: \
	VMOVDQU Y0, 32(AX) \
	ADDQ $32, AX \
	SUBQ $32, R11 \
	CMPQ R11, $32 \
	JHI fill32 \
	JMP end \
pattern: \
	VMOVDQU (R15), X0 \
	CMPQ R14, $16 \
	JCC copy16 \
	LEAQ ·periods(SB), R15 \
	MOVBQZX (R15)(R14*1), R11 \
	SHLQ $4, R14 \
	VPSHUFB 16(R15)(R14*1), X0, X0 \
fill16: \
	VMOVDQU X0, (AX) \
	ADDQ R11, AX \
	CMPQ AX, out \
	JCS fill16 \
	JMP end \
copy16: \
	VMOVDQU X0, (AX) \
	ADDQ $16, R15 \
	ADDQ $16, AX \
	VMOVDQU (R15), X0 \
	CMPQ AX, out \
	JCS copy16 \
	JMP end

// func pairAVX2(p *Pair, dstA *byte, outEndA int, srcA *byte, inEndA int, dstB *byte, outEndB int, srcB *byte, inEndB int) (a, b ending)
TEXT ·pairAVX2(SB), NOSPLIT, $24-88
	MOVQ p+0(FP), R10
	MOVQ $const_noSpace, R11
	MOVQ R11, a+72(FP)
	MOVQ R11, b+80(FP)
	ENTER(Pair_a, SI, DI, BX, CX, DX, dstA+8(FP), outEndA+16(FP), srcA+24(FP), inEndA+32(FP), maskA-8(SP))
	ENTER(Pair_b, R8, R9, R12, R13, BP, dstB+40(FP), outEndB+48(FP), srcB+56(FP), inEndB+64(FP), maskB-16(SP))
	MOVQ maskA-8(SP), R14
	MOVQ maskB-16(SP), R15

again:
	MOVL $(1<<20), AX
	STEPS(SI, DI, outEndA+16(FP), inEndA+32(FP))
	STEPS(R8, R9, outEndB+48(FP), inEndB+64(FP))
	INCQ AX
	MOVQ AX, left-24(SP)

next:
	FOUR(Pair_a, SI, DI, BX, CX, DX, R14, matchA, other)
other:
	FOUR(Pair_b, R8, R9, R12, R13, BP, R15, matchB, both)
both:
	DECQ left-24(SP)
	JNZ next
	JMP again

matchA:
	TESTL $const_special, DX
	JNZ specialA
lengthA:
	LENGTH(Pair_a, DI, BX, CX, DX)
	TESTL $const_special, AX
	JNZ fartherA
distanceA:
	DISTANCE(Pair_a, DI, BX, CX, DX, maskA-8(SP), dstA+8(FP), wrongA)
	COPY(DI, copy32A, nearA, fill32A, patternA, fill16A, copy16A, copiedA)
copiedA:
	MOVQ maskA-8(SP), R14
	MOVQ maskB-16(SP), R15
	JMP other

specialA:
	BTL $const_furtherAt, DX
	JCC endedA
	SECOND(Pair_a, BX, DX)
	TESTL $const_literal, DX
	JNZ literalA
	TESTL $const_special, DX
	JZ lengthA
endedA:
	ENDED(BX, CX, DX, a+72(FP), wrongA)
fartherA:
	FARTHER(Pair_a, BX, distanceA, wrongA)
wrongA:
	MOVQ $const_damaged, a+72(FP)
	JMP done
literalA:
	LITERALS(Pair_a, DI, BX, CX, DX, R14)
	JMP other

matchB:
	TESTL $const_special, BP
	JNZ specialB
lengthB:
	LENGTH(Pair_b, R9, R12, R13, BP)
	TESTL $const_special, AX
	JNZ fartherB
distanceB:
	DISTANCE(Pair_b, R9, R12, R13, BP, maskB-16(SP), dstB+40(FP), wrongB)
	COPY(R9, copy32B, nearB, fill32B, patternB, fill16B, copy16B, copiedB)
copiedB:
	MOVQ maskA-8(SP), R14
	MOVQ maskB-16(SP), R15
	JMP both

specialB:
	BTL $const_furtherAt, BP
	JCC endedB
	SECOND(Pair_b, R12, BP)
	TESTL $const_literal, BP
	JNZ literalB
	TESTL $const_special, BP
	JZ lengthB
endedB:
	ENDED(R12, R13, BP, b+80(FP), wrongB)
fartherB:
	FARTHER(Pair_b, R12, distanceB, wrongB)
wrongB:
	MOVQ $const_damaged, b+80(FP)
	JMP done
literalB:
	LITERALS(Pair_b, R9, R12, R13, BP, R15)
	JMP both

done:
	LEAVE(Pair_a, SI, DI, BX, CX, dstA+8(FP), srcA+24(FP))
	LEAVE(Pair_b, R8, R9, R12, R13, dstB+40(FP), srcB+56(FP))
	VZEROUPPER
	RET
