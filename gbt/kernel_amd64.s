//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Each routine here has a twin in Go, in the _hot.go files, that gives the same bits; TestAssemblyEqualsGo compares them.
// Assembly is used for what the compiler cannot say: prefetching, and AVX-512.

// add adds the row's word R10 to the bin in the lowest byte of R11, of the feature whose words lie off bytes behind R15,
// and shifts the next feature's bin down.
#define add(off) \
	MOVBLZX R11, R12; \
	SHRQ $8, R11; \
	ADDQ R10, off(R15)(R12*8)

// func countRows(words, table unsafe.Pointer, gh, rows *uint32, n, ahead, width, shift int)
//
// For each of n rows: ask for the bins and the gradient of the row that is due ahead rows later, make the row's word, and
// add it to every feature's bin, eight features at a time and the rest one by one.
TEXT ·countRows(SB), NOSPLIT, $0-64
	MOVQ words+0(FP), AX
	MOVQ table+8(FP), BX
	MOVQ gh+16(FP), DI
	MOVQ rows+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ width+48(FP), DX
	XORQ R8, R8

row:
	CMPQ R8, CX
	JGE  done

	// The row that is due later: its gradient and all cache lines of its bins.
	MOVQ ahead+40(FP), R13
	ADDQ R8, R13
	CMPQ R13, CX
	JGE  now
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

now:
	MOVL (SI)(R8*4), R9
	MOVLQSX (DI)(R9*4), R10
	CMPQ shift+56(FP), $24
	JEQ  count
	MOVWLZX R10, R12
	SARQ $16, R10
	SHLQ $32, R10
	ORQ  R12, R10
	JMP  bins
count:
	SHLQ $24, R10
	ORQ  $1, R10

bins:
	IMULQ DX, R9
	ADDQ BX, R9
	MOVQ AX, R15
	MOVQ DX, R13
	SHRQ $3, R13
	JZ   rest

eight:
	MOVQ (R9), R11
	add(0)
	add(2112)
	add(4224)
	add(6336)
	add(8448)
	add(10560)
	add(12672)
	ADDQ R10, 14784(R15)(R11*8)
	ADDQ $8, R9
	ADDQ $16896, R15
	DECQ R13
	JNZ  eight

rest:
	MOVQ DX, R13
	ANDQ $7, R13
	JZ   next

one:
	MOVBLZX (R9), R12
	ADDQ R10, (R15)(R12*8)
	INCQ R9
	ADDQ $2112, R15
	DECQ R13
	JNZ  one

next:
	INCQ R8
	JMP  row

done:
	RET

// func fillBinary8(c *binaryConstants, gh *uint32, score *float64, label, weight *float32, n int)
//
// The gradients of n rows, a multiple of eight, as fillBinaryGo computes them: the same operations in the same order,
// none of them fused.
TEXT ·fillBinary8(SB), NOSPLIT, $0-48
	MOVQ c+0(FP), AX
	MOVQ gh+8(FP), BX
	MOVQ score+16(FP), SI
	MOVQ label+24(FP), DI
	MOVQ weight+32(FP), R8
	MOVQ n+40(FP), CX
	VMOVDQU64 binaryConstants_counter(AX), Z15 // of these eight rows
	VPBROADCASTQ binaryConstants_step(AX), Z14
	VPBROADCASTQ binaryConstants_mul1(AX), Z13
	VPBROADCASTQ binaryConstants_mul2(AX), Z12
	VPXORQ Z11, Z11, Z11
	VBROADCASTSD binaryConstants_negative(AX), Z10
	VBROADCASTSD binaryConstants_positive(AX), Z9
	VBROADCASTSD binaryConstants_one(AX), Z8

eight:
	SUBQ $8, CX
	JLT  done

	// Z3 = sigmoid(score)
	VMOVUPD (SI), Z0
	VMAXPD.BCST binaryConstants_lowest(AX), Z0, Z0
	VMINPD.BCST binaryConstants_highest(AX), Z0, Z0
	VMULPD.BCST binaryConstants_negLog2e(AX), Z0, Z0
	VADDPD.BCST binaryConstants_magic(AX), Z0, Z1
	VSUBPD.BCST binaryConstants_magic(AX), Z1, Z2
	VSUBPD Z2, Z0, Z2
	VMULPD.BCST binaryConstants_ln2(AX), Z2, Z2
	VMULPD.BCST binaryConstants_taylor(AX), Z2, Z3
	VADDPD.BCST (binaryConstants_taylor+8)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD.BCST (binaryConstants_taylor+16)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD.BCST (binaryConstants_taylor+24)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD.BCST (binaryConstants_taylor+32)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD.BCST (binaryConstants_taylor+40)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD.BCST (binaryConstants_taylor+48)(AX), Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD Z8, Z3, Z3
	VMULPD Z2, Z3, Z3
	VADDPD Z8, Z3, Z3
	VPSLLQ $52, Z1, Z1
	VPADDQ Z1, Z3, Z3
	VADDPD Z8, Z3, Z3
	VDIVPD Z3, Z8, Z3

	// Z5 and Z4 = random numbers below 1 for the gradient and the hessian
	VPSRLQ $30, Z15, Z4
	VPXORQ Z15, Z4, Z4
	VPMULLQ Z13, Z4, Z4
	VPSRLQ $27, Z4, Z5
	VPXORQ Z5, Z4, Z4
	VPMULLQ Z12, Z4, Z4
	VPSRLQ $31, Z4, Z5
	VPXORQ Z5, Z4, Z4
	VPADDQ Z14, Z15, Z15
	VPMOVQD Z4, Y5
	VCVTUDQ2PD Y5, Z5
	VMULPD.BCST binaryConstants_unit(AX), Z5, Z5
	VPSRLQ $32, Z4, Z4
	VPMOVQD Z4, Y4
	VCVTUDQ2PD Y4, Z4
	VMULPD.BCST binaryConstants_unit(AX), Z4, Z4

	// Z6 = label, Z7 = weight
	VCVTPS2PD (DI), Z6
	VCMPPD $4, Z11, Z6, K1
	VBLENDMPD Z9, Z10, K1, Z7
	TESTQ R8, R8
	JZ    weighted
	VCVTPS2PD (R8), Z0
	VMULPD Z0, Z7, Z7
	ADDQ  $32, R8

weighted:
	// The conversion cuts, and the offset's low 16 bits are zero, so taking it off again is not needed.
	VSUBPD Z6, Z3, Z0
	VMULPD Z7, Z0, Z0
	VMULPD.BCST binaryConstants_gInv(AX), Z0, Z0
	VADDPD Z5, Z0, Z0
	VADDPD.BCST binaryConstants_offset(AX), Z0, Z0
	VCVTTPD2DQ Z0, Y0
	VPSLLD $16, Y0, Y0
	VSUBPD Z3, Z8, Z1
	VMULPD Z3, Z1, Z1
	VMULPD Z7, Z1, Z1
	VMULPD.BCST binaryConstants_hInv(AX), Z1, Z1
	VADDPD Z4, Z1, Z1
	VADDPD.BCST binaryConstants_offset(AX), Z1, Z1
	VCVTTPD2DQ Z1, Y1
	VPSLLD $16, Y1, Y1
	VPSRLD $16, Y1, Y1
	VPOR  Y0, Y1, Y1
	VMOVDQU Y1, (BX)
	ADDQ  $64, SI
	ADDQ  $32, DI
	ADDQ  $32, BX
	JMP   eight

done:
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
