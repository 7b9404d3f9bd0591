//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Predicates of comparisons: of integers, and of floating-point numbers where NaN is neither.
#define EQUAL 0
#define AT_MOST 2
#define NOT_EQUAL 4
#define UNORDERED 3
#define NOT_LESS 5
#define GREATER 0x1E

// Each routine here has a twin in Go, in the _hot.go files, that gives the same bits; assembly_test.go compares them.
// Assembly is used for what the compiler cannot say: prefetching, and AVX-512.

// All routines that add rows have these registers:
//
//	AX  words     BX  table     DI  gradients   SI  row numbers
//	CX  rows      DX  width     R8  this row    R9  its bins    R10 its word

// begin loads the arguments that stay in registers.
#define begin \
	MOVQ words+0(FP), AX; \
	MOVQ table+8(FP), BX; \
	MOVQ gh+16(FP), DI; \
	MOVQ rows+24(FP), SI; \
	MOVQ n+32(FP), CX; \
	MOVQ width+48(FP), DX; \
	XORQ R8, R8

// prefetch asks for the gradient and all cache lines of the bins of the row that is due ahead rows later.
#define prefetch \
	MOVQ ahead+40(FP), R13; \
	ADDQ R8, R13; \
	CMPQ R13, CX; \
	JGE  now; \
	MOVL (SI)(R13*4), R13; \
	PREFETCHT0 (DI)(R13*4); \
	IMULQ DX, R13; \
	ADDQ BX, R13; \
	LEAQ -1(R13)(DX*1), R12; \
	PREFETCHT0 (R12); \
line: \
	PREFETCHT0 (R13); \
	ADDQ $64, R13; \
	CMPQ R13, R12; \
	JLT  line; \
now:

// fetch makes the row's word, as packing.word does, and finds its bins.
#define fetch \
	MOVL (SI)(R8*4), R9; \
	MOVLQSX (DI)(R9*4), R10; \
	IMULQ DX, R9; \
	ADDQ BX, R9; \
	CMPQ hessianBits+56(FP), $const_bitsUnitHessian; \
	JEQ  unit; \
	MOVWLZX R10, R12; \
	SARQ $16, R10; \
	SHLQ $const_bitsVaryingHessian, R10; \
	ORQ  R12, R10; \
	JMP  bins; \
unit: \
	SHLQ $const_bitsUnitHessian, R10; \
	ORQ  $1, R10; \
bins:

// add adds the row's word to the bin in the lowest byte of R11, of the feature whose words lie off bytes behind R15, and
// shifts the next feature's bin down.
#define add(off) \
	MOVBLZX R11, R12; \
	SHRQ $8, R11; \
	ADDQ R10, (off)(R15)(R12*8)

// addAll adds the row's word to the bins of R13 features: eight at a time, then one by one.
#define addAll \
	MOVQ AX, R15; \
	SUBQ $8, R13; \
	JLT  rest; \
eight: \
	MOVQ (R9), R11; \
	add(0); \
	add(1*const_strideBytes); \
	add(2*const_strideBytes); \
	add(3*const_strideBytes); \
	add(4*const_strideBytes); \
	add(5*const_strideBytes); \
	add(6*const_strideBytes); \
	ADDQ R10, (7*const_strideBytes)(R15)(R11*8); \
	ADDQ $8, R9; \
	ADDQ $(8*const_strideBytes), R15; \
	SUBQ $8, R13; \
	JGE  eight; \
rest: \
	ADDQ $8, R13; \
	JZ   next; \
one: \
	MOVBLZX (R9), R12; \
	ADDQ R10, (R15)(R12*8); \
	INCQ R9; \
	ADDQ $const_strideBytes, R15; \
	DECQ R13; \
	JNZ  one; \
next:

// exponential replaces Z0 by e^-Z0, as sigmoid's expNegative does it, in Z3: the same operations in the same order, none
// of them fused. AX points at sigmoidConstants, Z8 is 1, and Z1 and Z2 are lost.
#define exponential \
	VMAXPD.BCST sigmoidConstants_lowest(AX), Z0, Z0; \
	VMINPD.BCST sigmoidConstants_highest(AX), Z0, Z0; \
	VMULPD.BCST sigmoidConstants_negLog2e(AX), Z0, Z0; \
	VADDPD.BCST sigmoidConstants_magic(AX), Z0, Z1; \
	VSUBPD.BCST sigmoidConstants_magic(AX), Z1, Z2; \
	VSUBPD Z2, Z0, Z2; \
	VMULPD.BCST sigmoidConstants_ln2(AX), Z2, Z2; \
	VMULPD.BCST sigmoidConstants_taylor(AX), Z2, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+8)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+16)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+24)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+32)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+40)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD.BCST (sigmoidConstants_taylor+48)(AX), Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD Z8, Z3, Z3; \
	VMULPD Z2, Z3, Z3; \
	VADDPD Z8, Z3, Z3; \
	VPSLLQ $const_mantissaBits, Z1, Z1; \
	VPADDQ Z1, Z3, Z3

// beginRounding loads what random needs.
#define beginRounding \
	MOVQ c+0(FP), DX; \
	MOVQ gh+8(FP), BX; \
	VMOVDQU64 rounding_counter(DX), Z15; \
	VPBROADCASTQ rounding_step(DX), Z14; \
	VPBROADCASTQ rounding_mul1(DX), Z13; \
	VPBROADCASTQ rounding_mul2(DX), Z12

// randomly rounds eight gradients in Z0 and hessians in Z1 as roundPair does and writes them. Their random numbers are
// mixed from the counters in Z15. The conversion cuts, and the offset's low 16 bits are zero, so taking it off again is
// not needed.
#define randomly \
	VPSRLQ $const_mixShift1, Z15, Z4; \
	VPXORQ Z15, Z4, Z4; \
	VPMULLQ Z13, Z4, Z4; \
	VPSRLQ $const_mixShift2, Z4, Z5; \
	VPXORQ Z5, Z4, Z4; \
	VPMULLQ Z12, Z4, Z4; \
	VPSRLQ $const_mixShift3, Z4, Z5; \
	VPXORQ Z5, Z4, Z4; \
	VPADDQ Z14, Z15, Z15; \
	VPMOVQD Z4, Y5; \
	VCVTUDQ2PD Y5, Z5; \
	VMULPD.BCST rounding_unit(DX), Z5, Z5; \
	VPSRLQ $32, Z4, Z4; \
	VPMOVQD Z4, Y4; \
	VCVTUDQ2PD Y4, Z4; \
	VMULPD.BCST rounding_unit(DX), Z4, Z4; \
	VADDPD Z5, Z0, Z0; \
	VADDPD.BCST rounding_offset(DX), Z0, Z0; \
	VCVTTPD2DQ Z0, Y0; \
	VPSLLD $16, Y0, Y0; \
	VADDPD Z4, Z1, Z1; \
	VADDPD.BCST rounding_offset(DX), Z1, Z1; \
	VCVTTPD2DQ Z1, Y1; \
	VPSLLD $16, Y1, Y1; \
	VPSRLD $16, Y1, Y1; \
	VPOR  Y0, Y1, Y1; \
	VMOVDQU Y1, (BX); \
	ADDQ  $32, BX

// func addRows(words, table unsafe.Pointer, gh, rows *uint32, n, ahead, width, hessianBits int)
//
// Every feature of every row.
TEXT ·addRows(SB), NOSPLIT, $0-64
	begin

row:
	CMPQ R8, CX
	JGE  done
	prefetch
	fetch
	MOVQ DX, R13
	addAll
	INCQ R8
	JMP  row

done:
	RET

// func pickBytes(p *picker, n, ahead int)
//
// Of n rows the bytes whose bits are set in chosen, squeezed together row after row, and the rows' gradients.
TEXT ·pickBytes(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	MOVQ picker_table(AX), BX
	MOVQ picker_gh(AX), DI
	MOVQ picker_rows(AX), SI
	MOVQ picker_width(AX), DX
	MOVQ picker_bytes(AX), R14
	XORQ R8, R8

row:
	CMPQ R8, CX
	JGE  done
	MOVQ prefetchAhead+16(FP), R13
	ADDQ R8, R13
	MOVL (SI)(R13*4), R13
	PREFETCHT0 (DI)(R13*4)
	IMULQ DX, R13
	ADDQ BX, R13
	LEAQ -1(R13)(DX*1), R12
	PREFETCHT0 (R12)
line:
	PREFETCHT0 (R13)
	ADDQ $64, R13
	CMPQ R13, R12
	JLT  line

	MOVL (SI)(R8*4), R9
	MOVL (DI)(R9*4), R10
	MOVQ picker_gradients(AX), R11
	MOVL R10, (R11)(R8*4)
	IMULQ DX, R9
	ADDQ BX, R9
	MOVQ picker_chosen(AX), R15
	MOVQ DX, R13

squeeze:
	MOVQ (R15), R12
	KMOVQ R12, K1
	VMOVDQU8.Z (R9), K1, Z0
	VPCOMPRESSB Z0, K1, Z1
	VMOVDQU64 Z1, (R14)
	POPCNTQ R12, R12
	ADDQ R12, R14
	ADDQ $8, R15
	ADDQ $64, R9
	SUBQ $64, R13
	JGT  squeeze
	INCQ R8
	JMP  row

done:
	VZEROUPPER
	RET

// func pickSparse(p *picker, n, ahead, from int)
//
// Of n rows those chosen bytes, from column from on, that are not their feature's most frequent bin: for each its place and bin as
// the index of a word, followed by indexes of a word that nobody reads, up to a multiple of eight; and how many eights.
// There are at most pickColumns columns, so that an index fits 16 bits.
TEXT ·pickSparse(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	MOVQ picker_table(AX), BX
	MOVQ picker_gh(AX), DI
	MOVQ picker_rows(AX), SI
	MOVQ picker_width(AX), DX
	MOVQ picker_indexes(AX), R14
	XORQ R8, R8
	MOVL $(const_stride-1), R9
	VPBROADCASTW R9, Z3

row:
	CMPQ R8, CX
	JGE  done
	CMPQ from+24(FP), $0
	JNE  due // the row was asked for when its first columns were
	MOVQ prefetchAhead+16(FP), R13
	ADDQ R8, R13
	MOVL (SI)(R13*4), R13
	PREFETCHT0 (DI)(R13*4)
	IMULQ DX, R13
	ADDQ BX, R13
	LEAQ -1(R13)(DX*1), R12
	PREFETCHT0 (R12)
line:
	PREFETCHT0 (R13)
	ADDQ $64, R13
	CMPQ R13, R12
	JLT  line

due:
	MOVL (SI)(R8*4), R9
	MOVL (DI)(R9*4), R10
	MOVQ picker_gradients(AX), R11
	MOVL R10, (R11)(R8*4)
	IMULQ DX, R9
	ADDQ BX, R9
	MOVQ from+24(FP), R13
	ADDQ R13, R9
	MOVQ picker_chosen(AX), R15
	SHRQ $3, R13
	ADDQ R13, R15
	MOVQ picker_frequent(AX), R12
	ADDQ from+24(FP), R12
	MOVQ picker_columns(AX), R10
	XORQ R13, R13

squeeze:
	MOVL (R15), R11
	KMOVD R11, K1
	VMOVDQU8.Z (R9)(R13*1), K1, Y0
	VPCMPB $NOT_EQUAL, (R12)(R13*1), Y0, K1, K2
	VPMOVZXBW Y0, Z1
	MOVQ picker_places(AX), R11
	VPADDW (R11)(R13*2), Z1, Z1
	VPCOMPRESSW Z1, K2, Z1
	VMOVDQU64 Z1, (R14)
	KMOVD K2, R11
	POPCNTL R11, R11
	LEAQ (R14)(R11*2), R14
	ADDQ $4, R15
	ADDQ $32, R13
	CMPQ R13, R10
	JLT  squeeze

	VMOVDQU64 Z3, (R14)
	MOVQ R8, R11
	SHLQ $const_rowIndexShift, R11
	MOVQ picker_indexes(AX), R12
	ADDQ R12, R11
	SUBQ R11, R14
	ADDQ $15, R14
	SHRQ $4, R14
	MOVQ picker_eights(AX), R13
	MOVQ R14, (R13)(R8*8)
	LEAQ const_rowIndexBytes(R11), R14
	INCQ R8
	JMP  row

done:
	VZEROUPPER
	RET

// func addIndexes(p *picker, words, rowWords *int64, n int)
//
// Adds rowWords to the words that n rows' indexes name.
TEXT ·addIndexes(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ words+8(FP), BX
	MOVQ rowWords+16(FP), DI
	MOVQ n+24(FP), CX
	MOVQ picker_indexes(AX), SI
	MOVQ picker_eights(AX), DX
	XORQ R8, R8

row:
	CMPQ R8, CX
	JGE  done
	MOVQ (DI)(R8*8), R10
	MOVQ (DX)(R8*8), R9
	MOVQ SI, R11
	TESTQ R9, R9
	JZ   next

eight:
	MOVWLZX 0(R11), R12
	ADDQ R10, (BX)(R12*8)
	MOVWLZX 2(R11), R13
	ADDQ R10, (BX)(R13*8)
	MOVWLZX 4(R11), R12
	ADDQ R10, (BX)(R12*8)
	MOVWLZX 6(R11), R13
	ADDQ R10, (BX)(R13*8)
	MOVWLZX 8(R11), R12
	ADDQ R10, (BX)(R12*8)
	MOVWLZX 10(R11), R13
	ADDQ R10, (BX)(R13*8)
	MOVWLZX 12(R11), R12
	ADDQ R10, (BX)(R12*8)
	MOVWLZX 14(R11), R13
	ADDQ R10, (BX)(R13*8)
	ADDQ $16, R11
	DECQ R9
	JNZ  eight

next:
	ADDQ $const_rowIndexBytes, SI
	INCQ R8
	JMP  row

done:
	RET

// func fillRows8(c *rounding, gh *uint32, raw *float64, label, weight *float32, n int, s *sigmoidConstants)
//
// The gradients of n rows, a multiple of eight, as fillRowsGo computes them.
TEXT ·fillRows8(SB), NOSPLIT, $0-56
	beginRounding
	MOVQ raw+16(FP), SI
	MOVQ label+24(FP), DI
	MOVQ weight+32(FP), R8
	MOVQ n+40(FP), CX
	MOVQ s+48(FP), AX
	VBROADCASTSS rounding_positive(DX), Y11
	VBROADCASTSD rounding_others(DX), Z10
	VBROADCASTSD rounding_own(DX), Z9
	VBROADCASTSD sigmoidConstants_one(AX), Z8

eight:
	SUBQ $8, CX
	JLT  done

	// Z3 = sigmoid(score)
	VMOVUPD (SI), Z0
	exponential
	VADDPD Z8, Z3, Z3
	VDIVPD Z3, Z8, Z3

	// Z6 = whether the label is the positive one, Z7 = weight
	VMOVUPS (DI), Y6
	VCMPPS $EQUAL, Y11, Y6, K1
	VMOVAPD.Z Z8, K1, Z6
	VBLENDMPD Z9, Z10, K1, Z7
	TESTQ R8, R8
	JZ    weighted
	VCVTPS2PD (R8), Z0
	VMULPD Z0, Z7, Z7
	ADDQ  $32, R8

weighted:
	VSUBPD Z6, Z3, Z0
	VMULPD Z7, Z0, Z0
	VMULPD.BCST rounding_gInv(DX), Z0, Z0
	VSUBPD Z3, Z8, Z1
	VMULPD Z3, Z1, Z1
	VMULPD Z7, Z1, Z1
	VMULPD.BCST rounding_hInv(DX), Z1, Z1
	randomly
	ADDQ  $64, SI
	ADDQ  $32, DI
	JMP   eight

done:
	VZEROUPPER
	RET

// func round8(c *rounding, gh *uint32, gradient, hessian *float64, n int)
//
// The gradients and hessians of n rows, a multiple of eight, as roundBlockGo rounds them.
TEXT ·round8(SB), NOSPLIT, $0-40
	beginRounding
	MOVQ gradient+16(FP), SI
	MOVQ hessian+24(FP), DI
	MOVQ n+32(FP), CX

eight:
	SUBQ $8, CX
	JLT  done
	VMOVUPD (SI), Z0
	VMOVUPD (DI), Z1
	VMULPD.BCST rounding_gInv(DX), Z0, Z0
	VMULPD.BCST rounding_hInv(DX), Z1, Z1
	VMAXPD.BCST rounding_least(DX), Z0, Z0
	VMINPD.BCST rounding_most(DX), Z0, Z0
	VMAXPD.BCST rounding_least(DX), Z1, Z1
	VMINPD.BCST rounding_most(DX), Z1, Z1
	randomly
	ADDQ $64, SI
	ADDQ $64, DI
	JMP  eight

done:
	VZEROUPPER
	RET

// addLanes adds the eight numbers of z, whose first two are x, to X0, the first one first. X1, X2 and Y3 are lost.
#define addLanes(x, y, z) \
	VADDSD x, X0, X0; \
	VPERMILPD $1, x, X1; \
	VADDSD X1, X0, X0; \
	VEXTRACTF128 $1, y, X2; \
	VADDSD X2, X0, X0; \
	VPERMILPD $1, X2, X1; \
	VADDSD X1, X0, X0; \
	VEXTRACTF64X4 $1, z, Y3; \
	VADDSD X3, X0, X0; \
	VPERMILPD $1, X3, X1; \
	VADDSD X1, X0, X0; \
	VEXTRACTF128 $1, Y3, X2; \
	VADDSD X2, X0, X0; \
	VPERMILPD $1, X2, X1; \
	VADDSD X1, X0, X0

// func pairs8(p *pairs, first, n int, score, label, gain, discount, gradient, hessian *float64, s *sigmoidConstants)
//
// The pairs of each of the first rows with those behind it, eight at a time, as addGo computes them. Of the last ones
// that do not fill a vector, those behind the end have no weight. first is at least 1 and less than n.
TEXT ·pairs8(SB), NOSPLIT, $0-80
	MOVQ p+0(FP), DX
	MOVQ first+8(FP), R13
	MOVQ n+16(FP), R15
	MOVQ score+24(FP), SI
	MOVQ label+32(FP), DI
	MOVQ gain+40(FP), R8
	MOVQ discount+48(FP), R9
	MOVQ gradient+56(FP), R10
	MOVQ hessian+64(FP), R11
	MOVQ s+72(FP), AX
	VBROADCASTSD sigmoidConstants_one(AX), Z8
	VPXORQ Z16, Z16, Z16
	VSUBPD Z8, Z16, Z17 // -1
	VMOVSD pairs_sum(DX), X18

row: // the first of R15
	DECQ R15
	VBROADCASTSD (SI), Z9
	VBROADCASTSD (DI), Z10
	VBROADCASTSD (R8), Z11
	VBROADCASTSD (R9), Z12
	VPXORQ Z13, Z13, Z13 // what g, h and sum have of it
	VPXORQ Z14, Z14, Z14
	VPXORQ Z15, Z15, Z15
	ADDQ $8, SI
	ADDQ $8, DI
	ADDQ $8, R8
	ADDQ $8, R9
	ADDQ $8, R10
	ADDQ $8, R11
	MOVQ R15, CX
	XORQ BX, BX
	MOVQ $0xff, R12

eight:
	CMPQ CX, $8
	JGE  full
	TESTQ CX, CX
	JLE  done
	MOVQ $1, R12 // the last few: (1 << CX) - 1
	SHLQ CX, R12
	DECQ R12

full:
	KMOVQ R12, K1
	VMOVUPD.Z (SI)(BX*8), K1, Z4
	VSUBPD Z4, Z9, Z4 // how far the scores are apart
	VMOVUPD.Z (DI)(BX*8), K1, Z5
	VSUBPD Z5, Z10, Z5
	VMAXPD Z17, Z5, Z5
	VMINPD Z8, Z5, Z5 // 1 if the row's label is the higher one, -1 if it is the lower one, or 0
	VMULPD Z4, Z5, Z0
	VMULPD.BCST pairs_negSigma(DX), Z0, Z0
	exponential
	VADDPD Z8, Z3, Z3
	VMULPD.BCST pairs_far(DX), Z4, Z4
	VADDPD.BCST pairs_near(DX), Z4, Z4
	VMULPD Z4, Z3, Z3
	VDIVPD Z3, Z8, Z3
	VMOVUPD.Z (R8)(BX*8), K1, Z6
	VSUBPD Z6, Z11, Z6
	VMULPD Z5, Z6, Z6
	VMOVUPD.Z (R9)(BX*8), K1, Z7
	VSUBPD Z7, Z12, Z7
	VMULPD Z6, Z7, Z7
	VMULPD.BCST pairs_factor(DX), Z7, Z7
	VMULPD.Z Z3, Z7, K1, Z7 // lambda
	VMULPD Z3, Z4, Z4
	VSUBPD Z4, Z8, Z4
	VMULPD.BCST pairs_sigma(DX), Z7, Z6
	VMULPD.Z Z4, Z6, K1, Z6 // hessian; behind the end 0 may have met infinity
	VMULPD Z5, Z7, Z5
	VSUBPD Z5, Z13, Z13
	VADDPD Z6, Z14, Z14
	VADDPD Z7, Z15, Z15
	VMOVUPD.Z (R10)(BX*8), K1, Z0
	VADDPD Z5, Z0, Z0
	VMOVUPD Z0, K1, (R10)(BX*8)
	VMOVUPD.Z (R11)(BX*8), K1, Z0
	VADDPD Z6, Z0, Z0
	VMOVUPD Z0, K1, (R11)(BX*8)
	ADDQ $8, BX
	SUBQ $8, CX
	JMP  eight

done:
	VMOVSD -8(R10), X0
	addLanes(X13, Y13, Z13)
	VMOVSD X0, -8(R10)
	VMOVSD -8(R11), X0
	addLanes(X14, Y14, Z14)
	VMOVSD X0, -8(R11)
	VADDPD Z15, Z15, Z15 // each pair is counted from both sides
	VMOVAPD Z18, Z0
	addLanes(X15, Y15, Z15)
	VMOVAPD Z0, Z18
	DECQ R13
	JNZ  row
	VMOVSD X18, pairs_sum(DX)
	VZEROUPPER
	RET

// func partition16(rows, left, right *uint32, n int, column *byte, set *binSet) int
//
// Sixteen rows at a time: their bins, whether each bin is in the set, and the rows of either kind squeezed together. Both
// stores are 16 rows wide; what is too much is written over by the next. n is a multiple of 16.
TEXT ·partition16(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), SI
	MOVQ left+8(FP), DI
	MOVQ right+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ column+32(FP), BX
	MOVQ set+40(FP), AX
	VMOVDQU (AX), Y3 // 8 x 32 bins
	MOVL $255, R9
	VPBROADCASTD R9, Z6
	MOVL $1, R9
	VPBROADCASTD R9, Z7
	XORQ R12, R12 // rows on the left

sixteen:
	SUBQ $16, CX
	JLT  done
	VMOVDQU32 (SI), Z0
	MOVL (SI), R9
	MOVL 60(SI), R10
	SUBL R9, R10
	CMPL R10, $15
	JEQ  consecutive
	KXNORW K1, K1, K1
	VPGATHERDD (BX)(Z0*1), K1, Z1
	VPANDD Z6, Z1, Z1
	JMP  look

consecutive: // as all rows of the table are at the root
	VPMOVZXBD (BX)(R9*1), Z1

look:
	VPSRLD $5, Z1, Z2
	VPERMD Z3, Z2, Z2
	VPRORVD Z1, Z2, Z2
	VPTESTMD Z7, Z2, K2
	KNOTW K2, K3
	KMOVW K2, R11
	POPCNTL R11, R11
	VPCOMPRESSD Z0, K2, Z4
	VPCOMPRESSD Z0, K3, Z5
	VMOVDQU32 Z4, (DI)
	VMOVDQU32 Z5, (DX)
	LEAQ (DI)(R11*4), DI
	ADDQ R11, R12
	NEGQ R11
	LEAQ 64(DX)(R11*4), DX
	ADDQ $64, SI
	JMP  sixteen

done:
	MOVQ R12, ret+48(FP)
	VZEROUPPER
	RET

// func scanWords(words *int64, n int, t *wordScan, goal float64) (gain float64, at int)
//
// Eight thresholds at a time: running sums of the words, and whether one of them may gain more than the best so far. A
// gain is G^2/(H+l2) on the left plus the same on the right. Multiplying by both denominators compares without dividing,
// but not with the bits of the quotients; so what is not clearly less is divided after all.
TEXT ·scanWords(SB), NOSPLIT, $0-48
	MOVQ words+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ t+16(FP), AX
	MOVQ $-1, DI // the best bin
	XORQ R8, R8 // the first of these bins
	VPXORQ Z0, Z0, Z0
	VPBROADCASTQ wordScan_before(AX), Z1 // sum of the words so far, in all lanes
	VPBROADCASTQ wordScan_hessianBits(AX), Z2
	VPBROADCASTQ wordScan_hessianMask(AX), Z3
	VBROADCASTSD wordScan_l2(AX), Z4
	VBROADCASTSD goal+24(FP), Z6 // the best gain, in all lanes
	VBROADCASTSD wordScan_clearlyLess(AX), Z8
	VMULPD Z8, Z6, Z7
	VBROADCASTSD wordScan_totalG(AX), Z9
	VBROADCASTSD wordScan_totalH(AX), Z18
	VPBROADCASTQ wordScan_leastH(AX), Z19
	VPBROADCASTQ wordScan_rangeH(AX), Z20
	MOVQ $7, R9
	VPBROADCASTQ R9, Z10
	MOVQ $255, R9
	KMOVQ R9, K1

eight:
	CMPQ CX, $8
	JGE  load
	TESTQ CX, CX
	JLE  done
	MOVQ $1, R9 // the last few: (1 << CX) - 1
	SHLQ CX, R9
	DECQ R9
	KMOVQ R9, K1

load:
	VMOVDQU64.Z (SI), K1, Z11
	VALIGNQ $7, Z0, Z11, Z12
	VPADDQ Z12, Z11, Z11
	VALIGNQ $6, Z0, Z11, Z12
	VPADDQ Z12, Z11, Z11
	VALIGNQ $4, Z0, Z11, Z12
	VPADDQ Z12, Z11, Z11
	VPERMQ Z11, Z10, Z12
	VPADDQ Z1, Z11, Z11
	VPADDQ Z12, Z1, Z1

	// On the left Z12 = G^2 and Z13 = H + l2, on the right Z14 and Z15; K2 = where both H are large enough.
	VPSRAVQ Z2, Z11, Z12
	VPANDQ Z3, Z11, Z13
	VPSUBQ Z19, Z13, Z16
	VPCMPUQ $AT_MOST, Z20, Z16, K1, K2
	VCVTQQ2PD Z12, Z12
	VCVTQQ2PD Z13, Z13
	VSUBPD Z12, Z9, Z14
	VSUBPD Z13, Z18, Z15
	VADDPD Z4, Z13, Z13
	VADDPD Z4, Z15, Z15
	VMULPD Z12, Z12, Z12
	VMULPD Z14, Z14, Z14
	VMULPD Z13, Z15, Z17
	VMULPD Z15, Z12, Z16
	VMULPD Z7, Z17, Z17
	VFMADD231PD Z13, Z14, Z16
	VCMPPD $NOT_LESS, Z17, Z16, K2, K2
	KORTESTB K2, K2
	JNZ  divide

next:
	ADDQ $8, R8
	ADDQ $64, SI
	SUBQ $8, CX
	JMP  eight

divide:
	VDIVPD Z13, Z12, Z12
	VDIVPD Z15, Z14, Z14
	VADDPD Z14, Z12, Z12
	VCMPPD $GREATER, Z6, Z12, K2, K2
	KORTESTB K2, K2
	JZ   next

	// The greatest of them, in all lanes, and the first lane that has it.
	VMOVAPD Z12, K2, Z6
	VALIGNQ $4, Z6, Z6, Z13
	VMAXPD Z13, Z6, Z6
	VALIGNQ $2, Z6, Z6, Z13
	VMAXPD Z13, Z6, Z6
	VALIGNQ $1, Z6, Z6, Z13
	VMAXPD Z13, Z6, Z6
	VMULPD Z8, Z6, Z7
	VCMPPD $EQUAL, Z6, Z12, K2, K2
	KMOVQ K2, DI
	TZCNTQ DI, DI
	ADDQ R8, DI
	JMP  next

done:
	VMOVSD X6, gain+32(FP)
	MOVQ DI, at+40(FP)
	VZEROUPPER
	RET

// func subtract8(from, words *int64, n int)
TEXT ·subtract8(SB), NOSPLIT, $0-24
	MOVQ from+0(FP), DI
	MOVQ words+8(FP), SI
	MOVQ n+16(FP), CX

eight:
	SUBQ $8, CX
	JLT  rest
	VMOVDQU64 (DI), Z0
	VPSUBQ (SI), Z0, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	JMP  eight

rest:
	ADDQ $8, CX
	JZ   done
	MOVQ $1, R9 // the last few: (1 << CX) - 1
	SHLQ CX, R9
	DECQ R9
	KMOVQ R9, K1
	VMOVDQU64.Z (DI), K1, Z0
	VMOVDQU64.Z (SI), K1, Z1
	VPSUBQ Z1, Z0, Z0
	VMOVDQU64 Z0, K1, (DI)

done:
	VZEROUPPER
	RET

// func exponentials8(c *exponentialConstants, x *float64, n int)
//
// e^-(factor x) of n numbers, or 1 / (1 + that), in place; n is a multiple of 8.
TEXT ·exponentials8(SB), NOSPLIT, $0-24
	MOVQ c+0(FP), AX
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD exponentialConstants_lowest(AX), Z15
	VBROADCASTSD exponentialConstants_highest(AX), Z14
	VBROADCASTSD exponentialConstants_negLog2e(AX), Z13
	VBROADCASTSD exponentialConstants_magic(AX), Z12
	VBROADCASTSD exponentialConstants_ln2High(AX), Z11
	VBROADCASTSD exponentialConstants_ln2Low(AX), Z10
	VBROADCASTSD exponentialConstants_one(AX), Z9
	VBROADCASTSD exponentialConstants_alternating(AX), Z8

eight:
	SUBQ $8, CX
	JLT  done
	VMOVUPD (SI), Z5
	VMULPD.BCST exponentialConstants_factor(AX), Z5, Z5
	VMAXPD Z5, Z15, Z0
	VMINPD Z0, Z14, Z0
	VMOVAPD Z0, Z1
	VFMADD213PD Z12, Z13, Z1 // n, in the lowest bits
	VSUBPD Z12, Z1, Z2
	VFMADD231PD Z11, Z2, Z0
	VFMADD231PD Z10, Z2, Z0 // u
	VMOVAPD Z8, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+8)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+16)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+24)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+32)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+40)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+48)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+56)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+64)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+72)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+80)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+88)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+96)(AX), Z0, Z3
	VFMADD213PD.BCST (exponentialConstants_alternating+104)(AX), Z0, Z3
	VPSLLQ $const_mantissaBits, Z1, Z1
	VPADDQ Z1, Z3, Z3
	CMPQ exponentialConstants_odds(AX), $0
	JEQ  numbers
	VADDPD Z9, Z3, Z3
	VDIVPD Z3, Z9, Z3

numbers:
	VCMPPD $UNORDERED, Z5, Z5, K1
	VMOVAPD Z5, K1, Z3 // NaN stays as it is
	VMOVUPD Z3, (SI)
	ADDQ $64, SI
	JMP  eight

done:
	VZEROUPPER
	RET

// node sends the rows of a node of a tree, as far as they are in the words from DI and DX on and in the answers from BX on,
// to its sides, and adds the exits on its left to the numbers of those that go right.
#define node(tree, words, number) \
	MOVL flatNode_predicate(tree), R8; \
	MOVWLZX flatNode_left(tree), R9; \
	MOVWLZX flatNode_right(tree), R10; \
	VPBROADCASTB flatNode_before(tree), Z1; \
	MOVQ (words)(DX), R11; \
	MOVQ (BX)(R8*8), R12; \
	ANDQ R11, R12; \
	XORQ R12, R11; \
	MOVQ R12, (words)(DI)(R9*8); \
	MOVQ R11, (words)(DI)(R10*8); \
	KMOVQ R11, K1; \
	VPADDB Z1, number, K1, number; \
	ADDQ $flatNode__size, tree

// func addTrees(trees *flatTree, n int, rows, answers *uint64, eights int, order, numbers *[8]uint64, sums *float64)
//
// Sends up to 64 rows down n trees, and adds the values of their exits to the sums of eights times eight rows. A node's rows
// are a bit each of its word in rows. The exits are numbered from left to right, so that a row's exit is the sum of what its
// nodes have before their right sides; that of the last tree is written in the order of batchScratch.exits. Two trees at a
// time, since a node waits for its parent.
TEXT ·addTrees(SB), NOSPLIT, $0-64
	MOVQ trees+0(FP), R13
	MOVQ n+8(FP), R14
	MOVQ rows+16(FP), DI
	MOVQ answers+24(FP), BX
	MOVQ order+40(FP), AX
	VMOVDQU64 (AX), Z16
	MOVQ $16, R8
	VPBROADCASTQ R8, Z9
	MOVQ $32, R8
	VPBROADCASTQ R8, Z10
	MOVQ $255, R8
	VPBROADCASTQ R8, Z17

trees:
	VPXORQ Z8, Z8, Z8
	VPXORQ Z18, Z18, Z18
	MOVQ DI, DX
	MOVQ $-1, (DI)
	MOVQ flatTree_nodes(R13), SI
	MOVQ (flatTree_nodes+8)(R13), CX
	XORQ R15, R15 // trees whose values are not added yet, after the first
	CMPQ R14, $1
	JEQ  first
	MOVQ $1, R15
	MOVQ $-1, 4096(DI)
	MOVQ (flatTree__size+flatTree_nodes)(R13), AX
	MOVQ (flatTree__size+flatTree_nodes+8)(R13), R8
	CMPQ R8, CX
	CMOVQLT R8, CX

both:
	node(SI, 0, Z8)
	node(AX, 4096, Z18)
	ADDQ $8, DX
	DECQ CX
	JNZ  both

	MOVQ (flatTree_nodes+8)(R13), CX
	SUBQ (flatTree__size+flatTree_nodes+8)(R13), CX
	JGT  first
	JEQ  numbered
	NEGQ CX

second:
	node(AX, 4096, Z18)
	ADDQ $8, DX
	DECQ CX
	JNZ  second
	JMP  numbered

first:
	node(SI, 0, Z8)
	ADDQ $8, DX
	DECQ CX
	JNZ  first

numbered:
	VPERMB Z8, Z16, Z8
	MOVQ numbers+48(FP), AX
	VMOVDQU64 Z8, (AX)
	MOVQ flatTree_values(R13), AX
	MOVQ eights+32(FP), CX
	MOVQ sums+56(FP), DX
	CMPQ flatTree_exits(R13), $64
	JGT  gather
	VMOVUPD (AX), Z0
	VMOVUPD 64(AX), Z1
	VMOVUPD 128(AX), Z2
	VMOVUPD 192(AX), Z3
	VMOVUPD 256(AX), Z4
	VMOVUPD 320(AX), Z5
	VMOVUPD 384(AX), Z6
	VMOVUPD 448(AX), Z7

eight: // a value among sixteen by four bits of its number, and among the sixteens by the next two
	VPTESTMQ Z9, Z8, K1
	VPTESTMQ Z10, Z8, K2
	VMOVDQA64 Z8, Z11
	VMOVDQA64 Z8, Z12
	VMOVDQA64 Z8, Z13
	VMOVDQA64 Z8, Z14
	VPERMI2PD Z1, Z0, Z11
	VPERMI2PD Z3, Z2, Z12
	VPERMI2PD Z5, Z4, Z13
	VPERMI2PD Z7, Z6, Z14
	VBLENDMPD Z12, Z11, K1, Z11
	VBLENDMPD Z14, Z13, K1, Z13
	VBLENDMPD Z13, Z11, K2, Z11
	VADDPD (DX), Z11, Z11
	VMOVUPD Z11, (DX)
	VPSRLQ $8, Z8, Z8
	ADDQ $64, DX
	DECQ CX
	JNZ  eight
	JMP  next

gather:
	VPANDQ Z17, Z8, Z11
	KXNORQ K1, K1, K1
	VGATHERQPD (AX)(Z11*8), K1, Z12
	VADDPD (DX), Z12, Z12
	VMOVUPD Z12, (DX)
	VPSRLQ $8, Z8, Z8
	ADDQ $64, DX
	DECQ CX
	JNZ  gather

next:
	ADDQ $flatTree__size, R13
	DECQ R14
	JZ   done
	VMOVDQA64 Z18, Z8
	SUBQ $1, R15
	JEQ  numbered
	JMP  trees

done:
	VZEROUPPER
	RET

// func findBounds(x *float64, step, n int, missing float64, bounds, answers *uint64)
//
// Sets the bit of each of n values, which are step bytes apart, in the answer to the first bound that is not below it. Instead
// of NaN it takes missing. bounds are a tree in which a node has eight bounds side by side, so that the number of bounds below
// a value is three sums of comparisons: 8 bounds, each the last of 64, and then for each 64 of them 8, each the last of eight,
// and the 64.
TEXT ·findBounds(SB), NOSPLIT, $0-48
	MOVQ x+0(FP), SI
	MOVQ step+8(FP), DX
	MOVQ n+16(FP), CX
	VBROADCASTSD missing+24(FP), Z3
	MOVQ bounds+32(FP), BX
	MOVQ answers+40(FP), DI
	VMOVUPD (BX), Z0
	ADDQ $64, BX
	MOVQ $1, R12

value:
	VBROADCASTSD (SI), Z2
	VCMPPD $UNORDERED, Z2, Z2, K1
	VMOVAPD Z3, K1, Z2
	VCMPPD $GREATER, Z0, Z2, K1
	KMOVB K1, R9
	POPCNTL R9, R9
	LEAQ (R9)(R9*8), R10
	SHLQ $6, R10
	VCMPPD $GREATER, (BX)(R10*1), Z2, K2
	KMOVB K2, R11
	POPCNTL R11, R11
	SHLQ $6, R11
	ADDQ R11, R10
	VCMPPD $GREATER, 64(BX)(R10*1), Z2, K3
	KMOVB K3, R13
	POPCNTL R13, R13
	SHLQ $9, R9
	ADDQ R11, R9
	LEAQ (R9)(R13*8), R9
	ORQ  R12, (DI)(R9*1)
	ADDQ R12, R12
	ADDQ DX, SI
	DECQ CX
	JNZ  value
	VZEROUPPER
	RET

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
