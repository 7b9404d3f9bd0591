package search_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"coppice/internal/expression"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// example is a complete configuration, as a trainer would make it.
func example() map[string]any {
	return map[string]any{
		"num_leaves": 31, "max_depth": -1, "learning_rate": 0.1, "min_data_in_leaf": 20.0, "lambda_l2": 0.0,
		"boosting": "gbdt", "deterministic": true, "list": []any{1.0},
	}
}

// TestConstraintHolds: a constraint holds as one reads it, on the example's configuration. A comparison with NaN does
// not hold, and a max_depth of -1 is no limit, so larger than any number.
func TestConstraintHolds(t *testing.T) {
	for text, want := range map[string]bool{
		"num_leaves <= 2 ^ max_depth":                     true, // no limit
		"max_depth > 1000":                                true,
		"num_leaves == 31":                                true,
		"num_leaves in [15, 31]":                          true,
		"num_leaves not in [15, 31]":                      false,
		"not (num_leaves < 31)":                           true,
		"num_leaves / 2 == 15.5":                          true,
		"7 / 2 == 3.5":                                    true,
		"15 < num_leaves < 63":                            true,
		"31 < num_leaves < 63":                            false,
		"boosting == \"gbdt\" && deterministic":           true,
		"boosting in [\"dart\", 'goss'] or lambda_l2 > 0": false,
		"num_leaves > 63 ? learning_rate < 0.05 : learning_rate < 0.2":  true,
		"min(num_leaves, 7, 9) == 7 && max(1, num_leaves) == 31":        true,
		"abs(-3) == 3 && floor(2.7) == 2 && ceil(2.1) == 3":             true,
		"log(exp(1)) == 1 && sqrt(16) == 4 && 2 ** 3 == 8":              true,
		"min_data_in_leaf * num_leaves <= 1e4":                          true,
		"-learning_rate < 0 and +learning_rate > 0":                     true,
		"lambda_l2 / lambda_l2 > 0 || lambda_l2 / lambda_l2 <= 0":       false, // not a number
		"log(learning_rate) / log(10) < -0.999 && 0x10 == 16 && 1_0>9":  true,
		"if num_leaves > 3 { true } else { false }":                     true,
		"// the whole line is a comment\nnum_leaves > 3 /* and this */": true,
	} {
		c, err := search.CompileConstraint(text, example())
		if err != nil {
			t.Errorf("%s: %v, expected a valid constraint", text, err)
			continue
		}
		must.Equal(t, must.Get(c.Holds(example()))(t), want, "%s", text)
	}
}

// TestMaxDepthLimits: a max_depth of 0 or less is no limit, in constraints as in training. A configuration that lacks a
// parameter of the constraint, or has one of another type, is an error.
func TestMaxDepthLimits(t *testing.T) {
	c := must.Get(search.CompileConstraint("num_leaves <= 2 ^ max_depth", example()))(t)
	for _, tc := range []struct {
		leaves, depth float64
		want          bool
	}{{31, 5, true}, {32, 5, true}, {33, 5, false}, {33, 0, true}, {33, -1, true}, {255, 6, false}} {
		got, err := c.Holds(map[string]any{"num_leaves": tc.leaves, "max_depth": tc.depth})
		if err != nil || got != tc.want {
			t.Errorf("%v leaves at a max_depth of %v: got %v (error %v), want %v", tc.leaves, tc.depth, got, err,
				tc.want)
		}
	}
	for _, params := range []map[string]any{{"num_leaves": 3.0}, {"num_leaves": 3.0, "max_depth": []any{}},
		{"num_leaves": "many", "max_depth": 3}} {
		if _, err := c.Holds(params); !problem.Is(err, problem.Input) {
			t.Errorf("a constraint on %v: got error %v; want one of kind input", params, err)
		}
	}
}

// TestConstraintErrors: a constraint that cannot be compiled is an error of kind input, with the column and what may
// stand there.
func TestConstraintErrors(t *testing.T) {
	const only = "only arithmetic, comparisons and the functions min, max, abs, log, exp, sqrt, floor, ceil are " +
		"used here"
	for text, want := range map[string]string{
		"num_leafs <= 3": `"num_leafs <= 3": column 1: unknown name "num_leafs" (did you mean ` +
			`"num_leaves"?)`,
		"1 < num_leaves + numleave": `"1 < num_leaves + numleave": column 18: unknown name "numleave" (did you ` +
			`mean "num_leaves"?)`,
		"list == 3": `"list == 3": column 1: unknown name "list" (known: boosting, deterministic, ` +
			`lambda_l2, learning_rate, max_depth, min_data_in_leaf, num_leaves)`,
		"num_leaves": `"num_leaves": expected bool, but got float64`,
		"num_leaves < \"x\"": `"num_leaves < \"x\"": column 12: invalid operation: < (mismatched types ` +
			`float64 and string)`,
		"boosting && true": `"boosting && true": column 10: invalid operation: && (mismatched types ` +
			`string and bool)`,
		"num_leaves <": `"num_leaves <": column 12: unexpected token EOF`,
		"":             `"": column 1: unexpected token EOF`,
		"sin(1) < 2":   `"sin(1) < 2": column 1: unknown function "sin" (did you mean "min"?)`,
		"len(boosting) < 2": `"len(boosting) < 2": column 1: unknown function "len" (known: abs, ceil, ` +
			`exp, floor, log, max, min, sqrt)`,
		"log(1, 2) < 2": `"log(1, 2) < 2": column 1: log with 2 arguments; it takes one`,
		"max() < 2":     `"max() < 2": column 1: max with 0 arguments; it takes one or more`,
		"num_leaves % 2 == 0": `"num_leaves % 2 == 0": column 12: operator % is not used here; use one of + ` +
			`- * / ^ ** == != < <= > >= && and || or in`,
		"boosting matches \"a*\"": `"boosting matches \"a*\"": column 10: operator matches is not used here; use ` +
			`one of + - * / ^ ** == != < <= > >= && and || or in`,
		"1..1000000000 == [1]": `"1..1000000000 == [1]": column 2: operator .. is not used here; use one of + ` +
			`- * / ^ ** == != < <= > >= && and || or in`,
		"all([1], # > 0)": `"all([1], # > 0)": column 1: unknown function "all" (known: abs, ceil, exp, ` +
			`floor, log, max, min, sqrt)`,
		"let x = 1; x < 2":       `"let x = 1; x < 2": column 5: ` + only,
		"boosting.x == 1":        `"boosting.x == 1": column 10: ` + only,
		"boosting?.x == 1":       `"boosting?.x == 1": column 11: ` + only,
		"boosting[0:1] == \"g\"": `"boosting[0:1] == \"g\"": column 9: ` + only,
		"{a: 1} == 1":            `"{a: 1} == 1": column 1: ` + only,
		"nil == 1":               `"nil == 1": column 1: ` + only,
		"boosting.x() == 1": `"boosting.x() == 1": column 10: only functions can be called: min, max, abs, ` +
			`log, exp, sqrt, floor, ceil`,
		"num_leaves < 1/0": `"num_leaves < 1/0": column 15: this is +Inf, no number that anything can be ` +
			`compared with`,
		"num_leaves < 0/0": `"num_leaves < 0/0": column 15: this is NaN, no number that anything can be ` +
			`compared with`,
		"num_leaves < log(0)": `"num_leaves < log(0)": column 14: this is -Inf, no number that anything can ` +
			`be compared with`,
		"num_leaves < -sqrt(-1)": `"num_leaves < -sqrt(-1)": column 15: this is NaN, no number that anything ` +
			`can be compared with`,
		"num_leaves in [1, 9 ^ 999]": `"num_leaves in [1, 9 ^ 999]": column 21: this is +Inf, no number that ` +
			`anything can be compared with`,
		"true; true": `"true; true": column 1: ` + only,
	} {
		_, err := search.CompileConstraint(text, example())
		if !problem.Is(err, problem.Input) || err.Error() != want {
			t.Errorf("%s\ngot  error %v\nwant %s", text, err, want)
		}
	}

	// What is too long: 1,001 bytes, and an expression of 301 terms.
	long := strings.Repeat(" ", 995) + "1 == 1"
	if _, err := search.CompileConstraint(long, example()); err == nil ||
		!strings.HasSuffix(err.Error(), "1001 bytes, more than the 1000 that an expression may have") {
		t.Errorf("an expression of 1,001 bytes: got error %v; want one with the limit of 1,000", err)
	}
	many := "1" + strings.Repeat("+1", 300) + " == 1"
	if _, err := search.CompileConstraint(many, example()); err == nil ||
		!strings.Contains(err.Error(), "exceeds maximum allowed nodes") {
		t.Errorf("an expression of too many nodes: got error %v; want one that says so", err)
	}
}

// TestCondition: a requirement may name metrics as usual (precision@1%) or as identifiers (precision_at_1pct), is
// evaluated on a trial's values, and is written as it was read. Errors have the column in the text as it was read. A
// value that is missing or NaN is an error.
func TestCondition(t *testing.T) {
	names := append(search.FactNames(), "log_loss", "precision@1%", "lift@0.5%", "ndcg@3")
	values := map[string]float64{"log_loss": 0.25, "precision@1%": 0.3, "lift@0.5%": 4, "ndcg@3": 0.5, "trees": 120,
		"model_bytes": 1e6}
	for text, want := range map[string]bool{
		"log_loss <= 0.3":                                     true,
		"log_loss <= 0.3 && trees <= 100":                     false,
		"precision@1% >= 0.3 and lift@0.5% > 3":               true,
		"precision_at_1pct > 0.3 or lift_at_0_5pct > 3":       true,
		"ndcg@3>0.4&&model_bytes<2e6":                         true,
		"max(precision@1%,ndcg@3)==0.5":                       true,
		"not (trees > 1e2)":                                   false,
		"model_bytes < 5e5 ? true : precision@1% * 10 >= 2.9": true,
	} {
		c, err := search.CompileRequire(text, known(names))
		if err != nil {
			t.Errorf("%s: %v, expected a valid condition", text, err)
			continue
		}
		if got, err := c.Eval(values); err != nil || got != want || c.String() != text {
			t.Errorf("%s: got %v (error %v), written as %s; want %v, written as it was read", text, got, err, c, want)
		}
	}

	// What cannot be compiled.
	for text, want := range map[string]string{
		"log_los <= 0.3": `"log_los <= 0.3": column 1: unknown name "log_los" (did you mean ` +
			`"log_loss"?)`,
		"precision@1% >= 0 && lift@1% <": `"precision@1% >= 0 && lift@1% <": column 22: unknown name "lift@1%" (did ` +
			`you mean "lift@0.5%"?)`,
		"precision@1% >= 0 && trees": `"precision@1% >= 0 && trees": column 19: invalid operation: && ` +
			`(mismatched types bool and float64)`,
		"precision@1% >= \"ä\" + §": `"precision@1% >= \"ä\" + §": column 23: unrecognized character: U+00A7 '§'`,
		"precision@1% > ":           `"precision@1% > ": column 15: unexpected token EOF`,
		"log_loss":                  `"log_loss": expected bool, but got float64`,
		"precision@ > 1": `"precision@ > 1": column 1: unknown name "precision" (did you mean ` +
			`"precision@1%"?)`,
	} {
		_, err := search.CompileRequire(text, known(names))
		if !problem.Is(err, problem.Input) || err.Error() != want {
			t.Errorf("%s\ngot  error %v\nwant %s", text, err, want)
		}
	}

	// One metric under both of its names is one value.
	c := must.Get(search.CompileRequire("precision@1% > 0.1 && precision_at_1pct < trees", known(names)))(t)
	if got := c.Names(); len(got) != 2 || got[0] != "precision@1%" || got[1] != "trees" {
		t.Errorf("the names are %v, want precision@1%% and trees", got)
	}
	for _, v := range []map[string]float64{{"trees": 3}, {"trees": 3, "precision@1%": math.NaN()}} {
		if _, err := c.Eval(v); err == nil ||
			err.Error() != `"precision@1% > 0.1 && precision_at_1pct < trees": precision@1% is not known` {
			t.Errorf("values %v: got error %v; want one that says that precision@1%% is not known", v, err)
		}
	}
}

// TestCompileRequireAsksForMetrics: names of metrics are resolved by the caller's function, several names of one metric
// to one. A name that cannot be resolved is an error with its column, counted in characters.
func TestCompileRequireAsksForMetrics(t *testing.T) {
	resolve := func(name string) (string, error) {
		switch name {
		case "precision@0.01", "precision_at_1pct":
			return "precision@1%", nil
		case "auc":
			return "auc", nil
		}
		return "", errors.New("no such metric")
	}
	c := must.Get(search.CompileRequire("precision@0.01 > 0.2 and precision_at_1pct < 0.9 and auc > 1e-1", resolve))(t)
	if got := c.Names(); len(got) != 2 || got[0] != "auc" || got[1] != "precision@1%" {
		t.Errorf("the names are %v, want auc and precision@1%%", got)
	}
	if holds, err := c.Eval(map[string]float64{"auc": 0.7, "precision@1%": 0.3}); err != nil || !holds {
		t.Errorf("auc and precision are high enough: holds is %t (error %v); want true", holds, err)
	}
	_, err := search.CompileRequire("auc > 1 and\n ä", resolve)
	if err == nil || err.Error() != `"auc > 1 and\n ä": column 14: unknown name "ä" (known: auc)` {
		t.Errorf("an unknown name on the second line: got error %v; want column 14 and the known names", err)
	}
	_, err = search.CompileRequire("auc > rocauc", resolve)
	if err == nil || err.Error() != `"auc > rocauc": column 7: no such metric` {
		t.Errorf("an unknown metric: got error %v; want column 7 and the resolver's reason", err)
	}
}

// TestConditionOnValues: value(EXPRESSION), which a resolver knows whatever its spaces, stands in a condition like any
// metric, even if the expression has parentheses of its own.
func TestConditionOnValues(t *testing.T) {
	const one, two = "value(label * 4 - prediction)", "value(label + (prediction > 0.1 ? 1 : 0))"
	resolve := func(name string) (string, error) {
		switch strings.ReplaceAll(name, " ", "") {
		case "value(label*4-prediction)":
			return one, nil
		case "value(label+(prediction>0.1?1:0))":
			return two, nil
		}
		return "", errors.New("no such metric")
	}
	values := map[string]float64{one: 0.25, two: 0.5, "trees": 10}
	for text, want := range map[string]bool{
		"value(label*4-prediction) > 0.2": true,
		"trees < 3 or value(label*4 - prediction) > value(label + (prediction>0.1 ? 1 : 0))": false,
		"value(label * 4-prediction) * 2 == value(label+(prediction > 0.1?1:0))":             true,
	} {
		c, err := search.CompileRequire(text, resolve)
		if err != nil {
			t.Errorf("%s: got error %v, want none", text, err)
			continue
		}
		must.Equal(t, must.Get(c.Eval(values))(t), want, "%s", text)
	}

	// A value that the resolver does not know, and one without its closing parenthesis.
	for text, want := range map[string]string{
		"trees > 1 && value(bid) > 1": "column 14: no such metric",
		"value(label > 1":             "no such metric",
	} {
		_, err := search.CompileRequire(text, resolve)
		must.Say(t, text, err, want)
	}
}

// TestFacts: the facts of a result are those in FactNames, which a requirement may name, and its metrics. The result
// itself is not changed.
func TestFacts(t *testing.T) {
	r := &sweep.Result{
		Score: 0.7, Metrics: map[string]float64{"auc": 0.7}, Trees: 3, Leaves: 12, TreesGrown: 5, BestIteration: 3,
		Model: &sweep.Object{Bytes: 99}, Usage: sweep.Usage{TrainSeconds: 1.5, PrivateBytes: 7},
	}
	facts := r.Facts()
	for _, name := range search.FactNames() {
		if _, ok := facts[name]; !ok {
			t.Errorf("the fact %s is missing from %v", name, facts)
		}
	}
	if len(facts) != len(search.FactNames())+1 || facts["auc"] != 0.7 || facts["model_bytes"] != 99 ||
		facts["trees_grown"] != 5 {
		t.Errorf("facts of a trial: got %v; want all known ones and auc, with auc 0.7, 99 bytes and 5 trees grown",
			facts)
	}
	if len(r.Metrics) != 1 {
		t.Errorf("after Facts the result has the metrics %v, want auc alone", r.Metrics)
	}
}

// FuzzConstraint: whatever text is compiled as a constraint or as a requirement, and then evaluated, an error is of
// kind input, and the same evaluation twice gives the same.
func FuzzConstraint(f *testing.F) {
	for _, s := range []string{
		"num_leaves <= 2 ^ max_depth", "a", "1 in [1,2]", "not true", "min(1, 2) < 3 ? true : false", "\"",
		"let x = 1; x", "1..9 == 1",
		"((((1))))==1", "precision@1% > 3", "- - -1 < 2 ** 3 ** 4", "boosting + boosting == ''", "[[1],[2]] == [[1]]",
		"learning_rate in [[1]]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := search.CompileConstraint(text, example())
		if err != nil && !problem.Is(err, problem.Input) {
			t.Fatalf("error %v; want one of kind input", err)
		}
		if err == nil {
			first, err := c.Holds(example())
			if err != nil && !problem.Is(err, problem.Input) {
				t.Fatalf("error %v; want one of kind input", err)
			}
			if again, _ := c.Holds(example()); again != first {
				t.Fatalf("%q holds is %t, and then %t, on the same configuration; want the same twice", text, first,
					again)
			}
		}
		r, err := search.CompileRequire(text, known([]string{"auc", "precision@1%"}))
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("error %v; want one of kind input", err)
			}
			return
		}
		if _, err := r.Eval(map[string]float64{"auc": 0.5, "precision@1%": 0.1, "trees": 10}); err != nil &&
			!problem.Is(err, problem.Input) {
			t.Fatalf("error %v; want one of kind input", err)
		}
	})
}

// TestRenameInConstraint: Rename replaces the aliases of parameters by their names, anywhere in a constraint, and
// changes nothing else: not functions of the same name, texts, or longer names. A text that cannot be compiled, or is
// too long, stays as it is, since errors are to quote it.
func TestRenameInConstraint(t *testing.T) {
	name := func(alias string) string {
		if full, ok := map[string]string{"eta": "learning_rate", "log": "loglog",
			"max_leaves": "num_leaves"}[alias]; ok {
			return full
		}
		return alias
	}
	for text, want := range map[string]string{
		"num_leaves <= 31":                       "num_leaves <= 31",
		"eta<0.1||(eta > 1) ":                    "learning_rate<0.1||(learning_rate > 1) ",
		"log(eta) < max(max_leaves, eta, 3)":     "log(learning_rate) < max(num_leaves, learning_rate, 3)",
		`boosting != "etaä" && -eta ** 2 < 1`:    `boosting != "etaä" && -learning_rate ** 2 < 1`,
		"eta in [0.1, eta] ? true : etas < 1":    "learning_rate in [0.1, learning_rate] ? true : etas < 1",
		"0 < eta < (0 < max_leaves < 9 ? 1 : 2)": "0 < learning_rate < (0 < num_leaves < 9 ? 1 : 2)",
		"eta <":                                  "eta <",
		"":                                       "",
		strings.Repeat("eta + ", 500) + "1 < 2":  strings.Repeat("eta + ", 500) + "1 < 2",
	} {
		if got := expression.Rename(text, name); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}

	// Of a chain a < b < c the middle is compared twice. So sixty of them in each other would take 2^60 steps.
	text := strings.Repeat("0<(", 60) + "eta" + strings.Repeat(")<0", 60)
	must.Equal(t, expression.Rename(text, name), text, "sixty nested comparisons, renamed")
}
