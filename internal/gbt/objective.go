package gbt

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
	"coppice/internal/strictyaml"
)

// objective computes gradients and hessians of the loss from raw scores. Sums of both are kept in fixed point; see
// packing.
type objective interface { //nolint:interfacebloat // what a training asks of its loss
	// init returns the constant raw score to begin with.
	init(fromAverage bool) float64
	// prepare is called before each tree, by its number, and sets its units. rows are the rows in use, in any order;
	// nil if only at is called afterwards.
	prepare(tree int, raw []float64, rows []uint32, pool *pool) packing
	// fill writes the packed gradients of the rows lo <= i < hi of a set, whose raw scores are raw[r], to gh[r], with
	// the random numbers of k for rounding. It is called after prepare, for parts of the rows at once.
	fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key)
	// gradients replaces rows' raw scores in g, of at most blockRows, by their exact gradients, and sets h to their
	// hessians. It is called after prepare with these scores.
	gradients(rows []uint32, g, h []float64)
	// renew gives the leaves of a tree just grown, whose rows the grower has, other values than a Newton step where
	// the loss asks for it.
	renew(g *grower, t *Tree, raw []float64)
	// String returns the objective as written in the model file.
	String() string
}

// outputKind says what a raw score is.
type outputKind int

const (
	asIs      outputKind = iota // the prediction
	logOdds                     // of a probability
	logMean                     // the logarithm of a prediction
	root                        // the signed square root of a prediction
	softmax                     // one for each class, of which e^raw are in proportion to probabilities
	oneVsRest                   // one for each class, the log odds of it against all others
)

// objectiveSpec is all there is to know of an objective: adding one is adding a row to objectives.
type objectiveSpec struct {
	name, aliases string
	text          string // in the model file
	output        outputKind
	uses          string // the parameters that only some objectives use, separated by blanks
	renews        bool   // leaves get quantiles of their rows' residuals
	ranks         bool   // gradients are those of whole queries
	classes       bool   // one output for each of num_class classes; newClasses makes it
	about         string
	make          func(p *Params, d *Data, text string) (objective, error)
}

// objectives is the table of all objectives, with LightGBM's other names for each.
func objectives() []objectiveSpec {
	of := func(loss func(p *Params) rowLoss) func(*Params, *Data, string) (objective, error) {
		return func(p *Params, d *Data, text string) (objective, error) {
			return newPointwise(p, d, text, loss(p))
		}
	}
	mean := (*pointwise).mean
	labels := (*pointwise).labels

	return []objectiveSpec{
		{name: "binary", text: binaryObjective, output: logOdds, make: newBinary,
			uses:  scalePosWeight + " " + isUnbalance,
			about: "log loss of labels 0 and 1"},
		{name: "cross_entropy", aliases: "xentropy", text: "cross_entropy", output: logOdds,
			about: "log loss of labels from 0 to 1, such as shares",
			make: of(func(*Params) rowLoss {
				return rowLoss{slopes: crossEntropySlopes, wrong: fromZeroToOne, start: func(o *pointwise) float64 {
					return exact.Log(mean(o) / (1 - mean(o)))
				}}
			})},
		{name: "regression", aliases: "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
			text: "regression", uses: regSqrt, about: "squared error",
			make: of(func(p *Params) rowLoss {
				if p.RegSqrt {
					return rowLoss{slopes: each(squaredOfRoot), unit: true, start: (*pointwise).meanRoot}
				}
				return rowLoss{slopes: each(squared), unit: true, start: mean}
			})},
		{name: "regression_l1", aliases: "l1 mean_absolute_error mae", text: "regression_l1", renews: true,
			about: "absolute error; leaves are medians",
			make: of(func(*Params) rowLoss {
				return rowLoss{slopes: each(absolute), unit: true, start: labels, level: 0.5}
			})},
		{name: "huber", text: "huber", uses: alpha, about: "squared error up to alpha, absolute beyond",
			make: of(func(p *Params) rowLoss {
				return rowLoss{slopes: each(huberSlope(p.Alpha)), unit: true, start: mean}
			})},
		{name: "quantile", text: "quantile", uses: alpha, renews: true,
			about: "pinball loss at alpha; leaves are quantiles",
			make: of(func(p *Params) rowLoss {
				return rowLoss{slopes: each(pinballSlope(p.Alpha)), unit: true, start: labels, level: p.Alpha}
			})},
		{name: "poisson", text: "poisson", output: logMean, uses: poissonStep,
			about: "counts: Poisson deviance",
			make: of(func(p *Params) rowLoss {
				return rowLoss{slopes: poissonSlopes(p.PoissonMaxDeltaStep), wrong: zeroOrMore, start: logOfMean}
			})},
		{name: "gamma", text: "gamma", output: logMean, about: "amounts above 0: gamma deviance",
			make: of(func(*Params) rowLoss {
				return rowLoss{slopes: gammaSlopes, wrong: aboveZero, start: logOfMean, least: gammaLeast}
			})},
		{name: "tweedie", text: "tweedie", output: logMean, uses: tweediePower,
			about: "amounts that are often 0: Tweedie deviance",
			make: of(func(p *Params) rowLoss {
				return rowLoss{slopes: tweedieSlopes(p.TweedieVariancePower), wrong: zeroOrMore, start: logOfMean}
			})},
		{name: "lambdarank", text: "lambdarank", ranks: true, make: newRanking,
			uses:  strings.Join([]string{truncationLevel, rankNorm, labelGain, sigmoidFactor}, " "),
			about: "the order of the rows of a query, by what exchanging two would change of NDCG"},
		{name: xendcg, aliases: "xendcg xe_ndcg xe_ndcg_mart xendcg_mart", text: xendcg, ranks: true,
			make: newRanking, about: "the order of the rows of a query, by a cross entropy; faster"},
		{name: softmaxName, aliases: "softmax", classes: true, output: softmax, uses: numClass,
			about: "several classes: log loss of their softmax"},
	}
}

// Objectives returns the names of all objectives.
func Objectives() []string {
	var names []string
	for _, o := range objectives() {
		names = append(names, o.name)
	}
	return names
}

// objectiveTexts are the objectives of models that can be read, without those of square roots.
func objectiveTexts() []string {
	var texts []string
	for _, o := range objectives() {
		if !o.classes {
			texts = append(texts, strconv.Quote(o.text))
		}
	}
	return append(texts, `"fair"`, `"mape"`, classExamples)
}

// ObjectiveArgument is the parameter that is written behind the @ of an objective, as in quantile@0.5; empty if it has
// none.
func ObjectiveArgument(objective string) string {
	switch objective {
	case "huber", "quantile":
		return alpha
	case "tweedie":
		return tweediePower
	}
	return ""
}

// foreignObjectives are LightGBM's that are not trained here, with their aliases, and why.
var foreignObjectives = map[string]string{
	"fair": noFair, "mape": noMAPE, "mean_absolute_percentage_error": noMAPE,
	oneVsRestName: noOVA, "multiclass_ova": noOVA, "ova": noOVA, "ovr": noOVA,
	"cross_entropy_lambda": "it is cross_entropy with another meaning of weights; use cross_entropy",
	"xentlambda":           "it is cross_entropy with another meaning of weights; use cross_entropy",
	"custom":               "a function cannot travel to another machine",
	"none":                 "a function cannot travel to another machine",
	"null":                 "a function cannot travel to another machine",
	"na":                   "a function cannot travel to another machine",
}

const (
	noFair = "use huber, whose loss is squared near 0 and absolute beyond, too"
	noMAPE = "use regression_l1, with weights that are 1 / max(1, |label|), for the same loss"
	noOVA  = "use multiclass, which has the lower log loss"
)

// CanonicalObjective returns the name of an objective by its name or one of LightGBM's aliases.
func CanonicalObjective(name string) (string, error) {
	if o := findObjective(name); o != nil {
		return o.name, nil
	}
	if why, ok := foreignObjectives[name]; ok {
		return "", fmt.Errorf("LightGBM has objective %q, Coppice does not: %s", name, why)
	}
	return "", fmt.Errorf("there is no objective %.40q%s", name, strictyaml.Suggest(name, Objectives()))
}

// checkObjective refuses parameters of other objectives: what is set should do something.
func (p *Params) checkObjective() error {
	own := findObjective(p.Objective)
	if own == nil {
		_, err := CanonicalObjective(p.Objective)
		return &ParamError{"objective", err.Error()}
	}
	defaults := Defaults()
	for _, o := range objectives() {
		for name := range strings.FieldsSeq(o.uses) {
			s := findParam(name)
			if equal := reflect.DeepEqual(s.field(p), s.field(&defaults)); !equal &&
				!slices.Contains(strings.Fields(own.uses), name) {
				return &ParamError{name, fmt.Sprintf("has no effect with objective %s; it belongs to %s", own.name,
					strings.Join(usersOf(name), " and "))}
			}
		}
	}
	if own.name == "quantile" && p.Alpha >= 1 {
		return &ParamError{alpha, fmt.Sprintf("%v is not a quantile; use a number between 0 and 1", p.Alpha)}
	}
	return nil
}

// usersOf are the objectives that use a parameter.
func usersOf(name string) (users []string) {
	for _, o := range objectives() {
		if slices.Contains(strings.Fields(o.uses), name) {
			users = append(users, o.name)
		}
	}
	return users
}

// Ranks reports whether an objective learns the order of the rows of a query; Data.Group says which these are.
func Ranks(objective string) bool {
	o := findObjective(objective)
	return o != nil && o.ranks
}

// LogOdds reports whether an objective's raw scores are log odds.
func LogOdds(objective string) bool {
	o := findObjective(objective)
	return o != nil && o.output == logOdds
}

// findObjective finds an objective by its name or an alias; nil if there is none.
func findObjective(name string) *objectiveSpec {
	for _, o := range objectives() {
		if o.name == name || slices.Contains(strings.Fields(o.aliases), name) {
			return &o
		}
	}
	return nil
}

// rootText is the objective of a model of square roots (reg_sqrt).
const rootText = "regression sqrt"

// outputOf returns what the raw scores of a model are. text is its objective as the model's text has it, which may be
// LightGBM's or of an earlier build of ours; ok is false if it is unknown.
func outputOf(text string) (out outputKind, ok bool) {
	if out, _, ok := classesOf(text); ok {
		return out, true
	}
	switch text {
	case "fair", "mape": // not trained here any more; LightGBM and earlier builds of ours wrote them
		return asIs, true
	case rootText, "regression_l1 sqrt", "quantile sqrt", "fair sqrt":
		// The last three are LightGBM's: ours learns roots (reg_sqrt) only by squared errors.
		return root, true
	}
	for _, o := range objectives() {
		if o.text == text && !o.classes {
			return o.output, true
		}
	}
	return 0, false
}

// transform turns raw scores, rows of so many outputs, into predictions, in place.
func (o outputKind) transform(scores []float64, outputs int) {
	switch o {
	case softmax:
		softmaxAll(scores, outputs)
	case logOdds, oneVsRest:
		Probabilities(scores)
	case logMean:
		exponentials(scores, 1)
	case root:
		for i, s := range scores {
			scores[i] = math.Copysign(float64(s*s), s)
		}
	}
}

// Transform turns raw scores of a model that is trained with p into predictions, in place.
func (p *Params) Transform(scores []float64) {
	if out, ok := outputOf(p.objectiveText()); ok {
		out.transform(scores, p.NumClass)
	}
}

// objectiveText is the objective in the model's file; one that is not known is returned as it is.
func (p *Params) objectiveText() string {
	if p.RegSqrt {
		return rootText
	}
	if o := findObjective(p.Objective); o != nil && o.classes {
		return classesText(o.name, p.NumClass)
	} else if o != nil {
		return o.text
	}
	return p.Objective
}

// packing says how a gradient g and a hessian h are stored in a row's 32 bits and in a histogram's 64-bit word, which
// holds the sum of g above hessianBits bits for the sum of h. A word can take maxPackedRows rows before the lower sum
// could reach the upper one or the upper one overflow.
//
// If hessians vary, a row is int16 g, uint16 h, and hessianBits is 32. If all are equal, h is 1 in every row, so a
// row's 32 bits are all g's, a word's lower sum is a count, and hessianBits is 24.
type packing struct {
	hessianBits uint
	g1, h1      float64 // value of one unit of g and of h
}

// maxPackedRows is the most rows whose sums fit a word: with n of them, n x (2^16-1) < 2^32 and n x 2^15 <= 2^31 if
// hessians vary, and n < 2^24 and n x 2^23 <= 2^39 if all are 1.
const maxPackedRows = 1 << 16

// The largest multiples of the units before rounding, which can add one.
const (
	maxG16 = 1<<15 - 2
	maxH16 = 1<<16 - 2
	maxG24 = 1<<23 - 2
)

// The two values of packing.hessianBits.
const (
	bitsVaryingHessian = 32
	bitsUnitHessian    = 24
)

// word widens a row's 32 bits to a histogram's 64.
func (p packing) word(row uint32) int64 {
	if p.hessianBits == bitsUnitHessian {
		return int64(int32(row))<<bitsUnitHessian | 1
	}
	return int64(int32(row)>>16)<<bitsVaryingHessian | int64(row&0xffff)
}

// sums splits a word.
func (p packing) sums(word int64) (g, h int64) {
	return word >> p.hessianBits, word & (1<<p.hessianBits - 1)
}

// errOneClass reports training data of a single class.
var errOneClass = errors.New("all rows have the same label; nothing can be learnt")

// newObjective returns the objective of each output.
func newObjective(p *Params, d *Data) ([]objective, error) {
	o := findObjective(p.Objective)
	if o == nil {
		return nil, fmt.Errorf("objective %q", p.Objective)
	}
	if o.classes {
		return newClasses(p, d)
	}
	one, err := o.make(p, d, p.objectiveText())
	return []objective{one}, err
}

// logistic is logistic loss of rows with one label against all others.
type logistic struct {
	d        *Data
	positive float32    // the label
	weight   [2]float64 // of the others, and of rows with it
	pack     packing
}

// fill packs the gradients of rows lo to hi into gh, which is by row of data.
func (l *logistic) fill(gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	if rows.subset == nil {
		l.fillRows(gh, raw, lo, hi, k)
		return
	}
	for _, r := range rows.subset[lo:hi] {
		l.fillRows(gh, raw, int(r), int(r)+1, k)
	}
}

// weigh makes probabilities in g gradients and hessians.
func (l *logistic) weigh(rows []uint32, g, h []float64) {
	for i, r := range rows {
		p, y, w := g[i], 0.0, l.weight[0]
		if l.d.Label[r] == l.positive {
			y, w = 1, l.weight[1]
		}
		if l.d.Weight != nil {
			w *= float64(l.d.Weight[r])
		}
		g[i], h[i] = float64((p-y)*w), float64(float64(p*(1-p))*w)
	}
}

// binary is logistic loss on labels 0 and 1.
type binary struct {
	logistic
	heaviest float64 // largest product of a row's and its class's weight
}

// newBinary checks that the labels are 0 and 1 and that both have rows, weighs the classes as scale_pos_weight or
// is_unbalance say, and finds the heaviest row, on which the grid of gradients depends.
func newBinary(p *Params, d *Data, _ string) (objective, error) {
	b := &binary{logistic: logistic{d: d, positive: 1, weight: [2]float64{1, p.ScalePosWeight}}}
	var seen [4]float64 // one array, since it is what the workers of a team pass on
	count, heaviest := seen[:2], seen[2:]

	err := d.each(seen[:], func(r uint32, w float64) error {
		y := d.Label[r]
		if y != 0 && y != 1 {
			return fmt.Errorf("%w: label %v in row %d; the binary objective takes 0 and 1", ErrData, y,
				d.first()+uint64(r))
		}
		if w > 0 {
			count[int(y)]++
			heaviest[int(y)] = max(heaviest[int(y)], w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	if count[0] == 0 || count[1] == 0 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}

	if p.IsUnbalance { // the rarer class is weighted up, as LightGBM does
		if count[1] > count[0] {
			b.weight[0] = count[1] / count[0]
		} else {
			b.weight[1] = count[0] / count[1]
		}
	}

	b.heaviest = max(heaviest[0]*b.weight[0], heaviest[1]*b.weight[1])
	// |gradient| < weight and hessian <= weight/4 for any raw scores, so the grid is the same for every tree.
	b.pack = packing{hessianBits: bitsVaryingHessian, g1: b.heaviest / maxG16, h1: b.heaviest / 4 / maxH16}

	return b, nil
}

// init is the log odds of the share of positive rows, by weight; 0 unless it begins from the average.
func (b *binary) init(fromAverage bool) float64 {
	if !fromAverage {
		return 0
	}
	var sum [2]float64
	_ = b.d.each(sum[:], func(r uint32, w float64) error {
		sum[int(b.d.Label[r])] += w // without its class's weight, as in LightGBM
		return nil
	})
	return exact.Log(sum[1] / sum[0])
}

func (b *binary) prepare(int, []float64, []uint32, *pool) packing { return b.pack }
func (b *binary) renew(*grower, *Tree, []float64)                 {}
func (b *binary) String() string                                  { return binaryObjective }

func (b *binary) gradients(rows []uint32, g, h []float64) {
	Probabilities(g)
	b.weigh(rows, g, h)
}

// each calls f with every used row and its weight, ascending, until the first error. All that f carries from row to row
// has to be in state: in a team, each worker goes on with the state of the one before, and all end with the last one's.
func (d *Data) each(state []float64, f func(r uint32, w float64) error) error {
	return d.link.floatsInTurn(state, func() error { return d.eachOwn(f) })
}

// eachOwn is each of this worker's rows.
func (d *Data) eachOwn(f func(r uint32, w float64) error) error {
	for i := range d.Used() {
		r := uint32(i)
		if d.Subset != nil {
			r = d.Subset[i]
		}

		w := 1.0
		if d.Weight != nil {
			w = float64(d.Weight[r])
		}

		if err := f(r, w); err != nil {
			return err
		}
	}
	return nil
}
