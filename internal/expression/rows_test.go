package expression

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"coppice/internal/must"
)

// TestRows: the value of an expression on one row is what arithmetic gives. The expected values were computed by hand.
func TestRows(t *testing.T) {
	of := map[string]float64{"label": 1, "prediction": 0.25, "bid": 3, "weight": 2}
	for text, want := range map[string]float64{
		"label*4-(prediction>0.1?1:0)":                     3,
		"label * 4 - (prediction > 0.3 ? 1 : 0)":           4,
		"bid > prediction * 4 ? label * (5 - bid) : 0":     2,
		"-weight * (label - prediction) ^ 2":               -1.125,
		"label in [1, 2] && not (bid < 2) ? exp(0) : 7":    1,
		"if label == 0 { 1 } else { max(bid, 2, weight) }": 3,
		"min(floor(bid / 2), ceil(prediction)) + abs(-1)":  2,
		"log(exp(1)) + sqrt(4) + 0x10 + 1_0":               29,
		"1 < bid <= 3 || false ? 8 : 9":                    8,
		"bid not in [3] ? 1 : 2":                           2,
		"2 ^ -2 * bid":                                     0.75,
		"-(2 - 3 - bid) - (1 - 2)":                         5,
		"label /* of a click */ // and no more":            1,
	} {
		r, err := CompileRows(text)
		if err != nil {
			t.Errorf("%s: %v, expected an expression", text, err)
			continue
		}
		row := make([]float64, 0, 4)
		for _, name := range r.Names {
			row = append(row, of[name])
		}
		must.Equal(t, r.Of(row), want, "%s", r.Text)
	}
}

// TestSpelling: Text writes an expression in one form, whatever spaces, brackets and forms of numbers it came with.
func TestSpelling(t *testing.T) {
	for text, want := range map[string]string{
		" label*4-(( prediction>.1 ) ?1:0)\n": "label * 4 - (prediction > 0.1 ? 1 : 0)",
		"(label)-(bid-1.50)/2e0":              "label - (bid - 1.5) / 2",
		"max( label,bid )":                    "max(label, bid)",
	} {
		if r, err := CompileRows(text); err != nil || r.Text != want {
			t.Errorf("%q: got %v and error %v, expected the text %q", text, r, err, want)
		}
	}
}

// TestRowsRefuse: an expression that does not give one number for each row is refused, with the column of the fault
// and, where that can be guessed, with what to write instead.
func TestRowsRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"prediction > 0.1":       "column 12: a number is needed here, such as: condition ? 1 : 0",
		"bid ? 1 : 0":            "column 1: a condition is needed here, such as: prediction > 0.1",
		"label == \"x\" ? 1 : 0": "column 10: a number is needed here, such as: condition ? 1 : 0",
		"sin(label)":             "column 1: unknown function \"sin\" (did you mean \"min\"?)",
		"label ^ bid":            "column 9: use a whole number up to 64 as an exponent; x ^ y is exp(y * log(x))",
		"label ^ 0.5":            "column 9: use a whole number up to 64 as an exponent; x ^ y is exp(y * log(x))",
		"label + 1 / 0":          "column 11: this is +Inf, no number that anything can be compared with",
		"label in bid ? 1 : 0":   "column 10: a list of numbers is needed here, such as: label in [1, 2]",
		"label.x":                "column 7: only arithmetic, comparisons and the functions",
		"log(log)":               "column 5: \"log\" cannot be the name of a column here",
		"label +":                "column 7: unexpected token EOF",
		strings.Repeat("0<(", 60) + "0" + strings.Repeat(")<0", 60): "more than the 2000 parts",
		strings.Repeat("1+", 501):                                   "1002 bytes, more than the 1000",
		"(true ? true : 1) ? 1 : 2":                                 "column 16: a condition is needed here",
	} {
		_, err := CompileRows(text)
		must.Say(t, text, err, want)
	}
}

// TestNestedComparisons: conditions, too, refuse a short text that the library would expand to a huge one: of a chain
// of comparisons such as 0<a<0 it repeats the middle, which doubles the text with every level.
func TestNestedComparisons(t *testing.T) {
	text := strings.Repeat("0<(", 60) + "a" + strings.Repeat(")<0", 60)
	if _, err := Compile(text, text, map[string]any{"a": 0.0}); err == nil ||
		!strings.Contains(err.Error(), "more than the 2000 parts") {
		t.Errorf("sixty nested comparisons: got error %v; want one about more than the 2000 parts", err)
	}
}

var columns = []string{"label", "prediction", "bid"}

// fuzzed returns a random expression that is nested at most depth deep. It is a condition if truth is set, and
// otherwise a number.
func fuzzed(r *rand.Rand, depth int, truth bool) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	num := func() string { return fuzzed(r, depth-1, false) }
	is := func() string { return fuzzed(r, depth-1, true) }
	switch n := r.IntN(8); {
	case truth && depth == 0:
		return pick("true", "false")
	case truth && n < 4:
		return "(" + num() + pick("<", "<=", ">", ">=", "==", "!=") + num() + ")"
	case truth && n < 6:
		return "(" + is() + pick(" and ", "||", "&&", " or ") + is() + ")"
	case truth && n < 7:
		return pick("not ", "!") + "(" + is() + ")"
	case truth:
		return "(" + num() + pick(" in ", " not in ") + "[" + num() + "," + num() + "])"
	case depth == 0 || n == 0:
		return pick(append(columns, "2", "0.1", "3e2", "0", "7")...)
	case n < 4:
		return pick("", "-") + "(" + num() + pick("+", "-", "*", "/") + num() + ")" + pick("", "^2", "**3")
	case n < 5:
		return num() + pick("+", "-", "*", "/") + num()
	case n < 6:
		return pick("min", "max") + "(" + num() + "," + num() + "," + num() + ")"
	case n < 7:
		return pick("log", "exp", "abs", "sqrt", "floor", "ceil") + "(" + num() + ")"
	}
	return "(" + is() + "?" + num() + ":" + num() + ")"
}

// FuzzRows: an expression that CompileRows accepts gives, bit by bit, the values that the library's virtual machine
// gives for the same text on random rows. Its Text is accepted again and stays the same.
func FuzzRows(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(fuzzed(rand.New(rand.NewPCG(seed, 1)), 4, false), seed)
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		rows, err := CompileRows(text)
		if err != nil {
			return
		}
		if again, err := CompileRows(rows.Text); err != nil || again.Text != rows.Text {
			t.Fatalf("%q is written as %q, and that as %v: %v", text, rows.Text, again, err)
		}

		env := map[string]any{}
		for _, name := range rows.Names {
			env[name] = 0.0
		}
		options := []expr.Option{expr.Env(env), expr.Optimize(false), expr.DisableAllBuiltins(), expr.Patch(toFloat{})}
		for _, f := range functions() {
			options = append(options, f.option())
		}
		program, err := expr.Compile(text, options...)
		if err != nil {
			t.Fatalf("%q is compiled for rows, and the library says %v", text, err)
		}

		rng, row := rand.New(rand.NewPCG(seed, 2)), make([]float64, len(rows.Names))
		for range 20 {
			for i, name := range rows.Names {
				row[i] = []float64{0, 1, float64(rng.IntN(9)), rng.NormFloat64(), rng.Float64()}[rng.IntN(5)]
				env[name] = row[i]
			}
			machine := vm.VM{}
			out, err := machine.Run(program, env)
			want, ok := out.(float64)
			if got := rows.Of(row); err != nil || !ok ||
				math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) { // not both NaN
				t.Fatalf("%q of %v is %v, want the library's %v (error %v)", text, env, got, out, err)
			}
		}
	})
}
