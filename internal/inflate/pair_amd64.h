// Steps of the loops of Pair. Of a stream, in is the next byte of the source and out that of the
// target. buf has the next bits, and have, of which the lowest six bits count, their number. e is
// the entry of the next bits, and mask the mask of indexes in the table of literals and lengths.
// R10 has the pair.

// ENTER loads the registers of a stream and its first entry.
#define ENTER(dec, in, out, buf, have, e, dst, outEnd, src, inEnd, mask) \
	MOVQ dst, AX \
	MOVQ AX, out \
	ADDQ AX, outEnd \
	ADDQ (dec+Decoder_out)(R10), out \
	MOVQ src, AX \
	MOVQ AX, in \
	ADDQ AX, inEnd \
	ADDQ (dec+Decoder_in)(R10), in \
	MOVQ (dec+Decoder_buf)(R10), buf \
	MOVQ (dec+Decoder_have)(R10), have \
	MOVQ (dec+Decoder_litBits)(R10), AX \
	MOVL $1, R11 \
	SHLXQ AX, R11, R11 \
	DECQ R11 \
	MOVQ R11, mask \
	SHLXQ have, (in), AX \
	ORQ AX, buf \
	NEXT(dec, buf, e, mask)

// LEAVE stores the state of a stream.
#define LEAVE(dec, in, out, buf, have, dst, src) \
	ANDL $63, have \
	SUBQ src, in \
	SUBQ dst, out \
	MOVQ in, (dec+Decoder_in)(R10) \
	MOVQ out, (dec+Decoder_out)(R10) \
	MOVQ buf, (dec+Decoder_buf)(R10) \
	MOVQ have, (dec+Decoder_have)(R10)

// STEPS lowers AX to the number of steps, less one, that can't reach the ends of a stream: each
// takes 7 bytes at most, and gives fewer than 512. It jumps to done if there is no such step.
#define STEPS(in, out, outEnd, inEnd) \
	MOVQ inEnd, R11 \
	SUBQ in, R11 \
	JLT done \
	SHRQ $3, R11 \
	CMPQ R11, AX \
	CMOVQCS R11, AX \
	MOVQ outEnd, R11 \
	SUBQ out, R11 \
	JLT done \
	SHRQ $9, R11 \
	CMPQ R11, AX \
	CMOVQCS R11, AX

// REFILL fills the buffer.
#define REFILL(in, buf, have) \
	SHLXQ have, (in), AX \
	ORQ AX, buf \
	RORXL $3, have, AX \
	ANDNL ·seven(SB), AX, AX \
	ADDQ AX, in \
	ORL $56, have

// NEXT looks up the entry of the next bits.
#define NEXT(dec, buf, e, mask) \
	MOVL buf, e \
	ANDL mask, e \
	MOVL (dec+Decoder_lit)(R10)(e*4), e

// SECOND looks up the entry of the long word to whose table e leads.
#define SECOND(dec, buf, e) \
	MOVQ (dec+Decoder_litBits)(R10), AX \
	SHRXQ AX, buf, AX \
	MOVL e, R11 \
	SHRL $const_indexAt, R11 \
	BZHIQ R11, AX, AX \
	SHRL $const_tableAt, e \
	ANDL $const_tableMask, e \
	ADDL AX, e \
	ANDL $(const_litSize-1), e \
	MOVL (dec+Decoder_lit)(R10)(e*4), e

// LENGTH stores the literal of e before a length, or a byte that the match overwrites, and drops
// the bits of e. It gives the length in R11 and the entry of the distance in AX.
#define LENGTH(dec, out, buf, have, e) \
	RORXL $const_byteAt, e, AX \
	MOVB AX, (out) \
	BTL $const_literalsAt, e \
	ADCQ $0, out \
	BZHIQ e, buf, R11 \
	RORXL $const_wordAt, e, R14 \
	ANDL $const_wordMask, R14 \
	SHRXQ R14, R11, R11 \
	MOVL e, R14 \
	SHRL $const_lengthAt, R14 \
	LEAQ const_shortest(R11)(R14*1), R11 \
	SHRXQ e, buf, buf \
	SUBL e, have \
	MOVBLZX buf, AX \
	MOVL (dec+Decoder_dist)(R10)(AX*4), AX

// DISTANCE gives in R14 the distance of the entry in AX, of which AH has the word's bits, and in
// R15 the first byte at it, and looks up the next entry. It jumps to wrong if the distance reaches
// before the target.
#define DISTANCE(dec, out, buf, have, e, mask, dst, wrong) \
	BZHIQ AX, buf, R14 \
	MOVBLZX AH, e \
	SHRXQ e, R14, R14 \
	SHRXQ AX, buf, buf \
	SUBL AX, have \
	SHRL $const_distAt, AX \
	NEXT(dec, buf, e, mask) \
	ADDQ AX, R14 \
	MOVQ out, R15 \
	SUBQ R14, R15 \
	CMPQ R15, dst \
	JCS wrong

// FARTHER looks up the entry of a distance's long word.
#define FARTHER(dec, buf, distance, wrong) \
	BTL $const_furtherAt, AX \
	JCC wrong \
	MOVL AX, R14 \
	MOVQ buf, AX \
	SHRQ $const_distBits, AX \
	MOVL R14, R15 \
	SHRL $const_indexAt, R15 \
	BZHIQ R15, AX, AX \
	SHRL $const_tableAt, R14 \
	ANDL $const_tableMask, R14 \
	ADDL R14, AX \
	ANDL $(const_distSize-1), AX \
	MOVL (dec+Decoder_dist)(R10)(AX*4), AX \
	TESTL $const_special, AX \
	JZ distance

// ENDED drops the bits of e, the end of the block, stores that in ending, and jumps to done. It
// jumps to wrong if e is not the end.
#define ENDED(buf, have, e, ending, wrong) \
	BTL $const_endsAt, e \
	JCC wrong \
	SHRXQ e, buf, buf \
	SUBL e, have \
	MOVQ $const_blockEnded, ending \
	JMP done
