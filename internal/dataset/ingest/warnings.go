package ingest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
)

// Codes of warnings.
const (
	WarnConstant    = "constant"     // the column has one value
	WarnAllMissing  = "all_missing"  // the column has no value
	WarnIDLike      = "id_like"      // almost every row has a distinct value
	WarnLeak        = "leak"         // the column alone predicts the label almost perfectly
	WarnKeyless     = "keyless"      // rows have no key to split by
	WarnFewRows     = "few_rows"     // a split has too few rows to measure or learn much
	WarnRateDiffers = "rate_differs" // a split's share of positive rows differs from train's
	WarnDropped     = "dropped"      // a column is not a feature, because nothing can be learnt from it
	WarnCode        = "extreme_code" // a number far from all others is likely a code
	WarnUnripe      = "unripe"       // the newest row, from which the age of labels is counted, may be wrong
	WarnSpelling    = "spelling"     // a class is written in several ways
	WarnOdd         = "odd_texts"    // all texts of a column, or all but a few, are numbers, or times
	WarnRare        = "rare_class"   // a class has one row
	WarnUnlearnt    = "unlearnt"     // a class has no row of train
	WarnFormat      = "format_open"  // the values of a column do not tell how it is to be read
	HintFormat      = "format"       // the texts of a column are read as numbers or times
	HintIDs         = "ids"          // whole numbers may be ids
	HintKey         = "key"          // the key of a split is not a feature
	HintIndex       = "index"        // the index of a pandas.DataFrame is not a feature
)

const (
	idShare   = 0.95 // least distinct categories per row for a column to look like an id
	idRows    = 100  // least sampled rows to judge that by
	leakScore = 0.99 // least AUC or R2 of a single feature for it to look like a leak
	leakRows  = 100  // least sampled rows to judge that by
	fewRows   = 1000 // splits of fewer rows get a warning
)

// warnings returns what is worth knowing about one feature: that it has no values or one only, that its texts or
// numbers look like mistakes or codes, that it looks like an id, or that it gives the label away. A feature that was
// derived without being asked for has none: it is left out later if it is useless. f is the feature made from the
// column, bins its bins by row of train. folds is memory that is used again for each feature.
func (s *columnSurvey) warnings(f *built, bins []uint8, train *trainSample, label dataset.LabelKind,
	folds *folded) []dataset.Warning {
	var out []dataset.Warning
	warn := func(code, format string, args ...any) {
		out = append(out, dataset.Warning{Code: code, Column: f.Name, Text: fmt.Sprintf(format, args...)})
	}

	if s.feature.auto {
		return nil
	}
	if s.present == 0 {
		warn(WarnAllMissing, "every value is missing: the column is not used as a feature")
		return out
	}
	s.warnOfOdd(warn)

	// With missing values a constant column still says something: whether there is a value. The range is that of all
	// rows. Categories are those of the sample, so the count of levels has to tell that no other row has another one.
	constant := f.Range != nil && f.Range.Min == f.Range.Max ||
		f.Kind == dataset.Categorical && f.different == 1 && s.levels.Levels(1) <= 1
	if constant && f.MissingBin < 0 {
		warn(WarnConstant, "every row has the same value; drop the column")
	}

	// A column looks like an id if (almost) every row has a category, or a whole number, of its own. It is not looked
	// at for other oddities of its numbers, and neither is a constant one.
	idLike := f.Kind == dataset.Categorical && float64(f.different) >= idShare*float64(f.present) ||
		f.Kind == dataset.Numeric && f.whole && f.different == f.present
	if f.present >= idRows && idLike {
		every := "every value is unique"
		if f.different < f.present {
			every = fmt.Sprintf("%d of %d sampled values are unique", f.different, f.present)
		}
		warn(WarnIDLike, "%s (looks like an id); consider drop: [%s]", every, f.Name)
	} else if !constant {
		f.warnHints(warn)
	}

	if len(train.labels) < leakRows {
		return out
	}

	// Whether the column alone predicts the label almost perfectly: by AUC, or by the share of variance explained (R2).
	switch label {
	case dataset.Binary:
		if auc := folds.fold(bins, train).auc(); auc >= leakScore {
			warn(WarnLeak, "the column alone ranks the label with an AUC of %.4f on rows that it was not fitted to; "+
				"possible target leakage: is this column available at prediction time?", auc)
		}
	case dataset.Classes:
		if share := folds.classesExplained(bins, train); share >= leakScore {
			warn(WarnLeak,
				"the column alone explains %.2f %% of the variance of the label's classes on rows that it was "+
					"not fitted to; possible target leakage: is this column available at prediction time?", 100*share)
		}
	default:
		r2 := folds.fold(bins, train).r2()
		if r2 < leakScore {
			break
		}
		warn(WarnLeak, "the column alone explains %.2f %% of the label's variance on rows that it was not fitted "+
			"to; possible target leakage: is this column available at prediction time?", 100*r2)
	}
	return out
}

// leakFolds is the number of folds of the sample. Each bin's label is learnt on all folds but one and applied to that
// one. Otherwise a column of many rare categories would seem to predict what it merely memorises.
const leakFolds = 5

// leakFold returns the fold of a table row.
func leakFold(row int64) uint8 { return encode.Fold(cell.HashRow(row), leakFolds) }

// leakPrior is the weight, in rows, of the overall mean in each bin's prediction. It is just enough to predict bins
// that have no rows in the other folds.
const leakPrior = 0.01

// folded predicts the label from a single feature: all rows in the same bin and fold get the same prediction. One
// folded is used for thousands of features, one after the other; fold or predict begins each.
type folded struct {
	all    foldedGroups
	groups []foldedGroup // those of all that have rows
	mean   float64       // mean label of all rows
}

// foldedGroup is the rows of one bin in one fold.
type foldedGroup struct {
	predicted    float64 // mean label of the same bin in the other folds
	rows         float64
	positive     float64 // rows with a label above 0
	sum, squares float64 // of labels
}

// foldedGroups are the groups by fold and bin.
type foldedGroups [leakFolds][256]foldedGroup

// groupLabels sets the groups to the sums of the labels by fold and bin. bins is by row of train.
func (groups *foldedGroups) groupLabels(bins []uint8, train *trainSample) {
	clear(groups[:])
	for i, bin := range bins {
		g := &groups[train.folds[i]][bin]
		y := float64(train.labels[i])
		g.rows++
		g.sum += y
		g.squares += y * y
		if y > 0 {
			g.positive++
		}
	}
}

// groupBinary does the same as groupLabels for labels 0 and 1, faster. Each count is a word: its lower half counts
// rows, its upper half positive rows.
func (groups *foldedGroups) groupBinary(bins []uint8, train *trainSample) {
	var counts [leakFolds * 256]uint64
	labels, folds := train.labels[:len(bins)], train.folds[:len(bins)]

	for i, bin := range bins {
		positive := uint64(0) // without a branch, which would be mispredicted half of the time
		if labels[i] > 0 {
			positive = 1 << 32
		}
		counts[uint(folds[i])<<8|uint(bin)] += positive + 1
	}

	for i, n := range counts {
		rows, positive := float64(uint32(n)), float64(n>>32)
		groups[i>>8][i&255] = foldedGroup{rows: rows, positive: positive, sum: positive, squares: positive}
	}
}

// fold predicts each row's label by the mean of its bin in the other folds. bins is by row of train. It returns f.
func (f *folded) fold(bins []uint8, train *trainSample) *folded {
	if train.binary {
		f.all.groupBinary(bins, train)
	} else {
		f.all.groupLabels(bins, train)
	}
	return f.predict()
}

// predict makes groups and mean from all. Each group is predicted by the mean label of the same bin in the other folds,
// with a little of the mean of all rows there (leakPrior). Where there are no rows, max(1, ...) avoids 0/0.
func (f *folded) predict() *folded {
	var perFold [leakFolds]foldedGroup
	var perBin [256]foldedGroup
	var all foldedGroup

	for fold := range f.all {
		for bin, g := range f.all[fold] {
			perFold[fold].rows, perFold[fold].sum = perFold[fold].rows+g.rows, perFold[fold].sum+g.sum
			perBin[bin].rows, perBin[bin].sum = perBin[bin].rows+g.rows, perBin[bin].sum+g.sum
			all.rows, all.sum = all.rows+g.rows, all.sum+g.sum
		}
	}

	f.groups, f.mean = f.groups[:0], all.sum/max(1, all.rows)
	for fold := range f.all {
		mean := (all.sum - perFold[fold].sum) / max(1, all.rows-perFold[fold].rows)
		for bin, g := range f.all[fold] {
			if g.rows > 0 {
				g.predicted = (perBin[bin].sum - g.sum + leakPrior*mean) / (perBin[bin].rows - g.rows + leakPrior)
				f.groups = append(f.groups, g)
			}
		}
	}
	return f
}

// auc returns the area under the ROC curve of the predictions, with ties counting half; 0 if there is only one class.
// It sorts f.groups.
func (f *folded) auc() float64 {
	slices.SortFunc(f.groups, func(a, b foldedGroup) int { return cmp.Compare(a.predicted, b.predicted) })

	area, negatives, positives := 0.0, 0.0, 0.0
	for from := 0; from < len(f.groups); {
		// Groups from and on with the same prediction are one point of the curve, with p positive and n negative rows.
		to, p, n := from, 0.0, 0.0
		for ; to < len(f.groups) && f.groups[to].predicted == f.groups[from].predicted; to++ {
			p += f.groups[to].positive
			n += f.groups[to].rows - f.groups[to].positive
		}

		// Each positive row counts the negative ones that are predicted lower, and half of those predicted the same.
		area += p * (negatives + n/2)
		negatives, positives, from = negatives+n, positives+p, to
	}

	if negatives == 0 || positives == 0 {
		return 0
	}
	return area / (negatives * positives)
}

// classesExplained returns the share of variance that single-feature predictions explain, over the 0-1 indicators of
// all classes together: for each class in turn, the label is 1 in its rows and 0 in all others. bins is by row of
// train.
func (f *folded) classesExplained(bins []uint8, train *trainSample) float64 {
	rest, all := 0.0, 0.0
	one := trainSample{labels: make([]float32, len(bins)), folds: train.folds}
	for c := range train.classes {
		for i := range bins {
			one.labels[i] = 0
			if int(train.labels[i]) == c {
				one.labels[i] = 1
			}
		}
		f.all.groupBinary(bins, &one)
		r, a := f.predict().squares()
		rest, all = rest+r, all+a
	}
	if all <= 0 {
		return 0
	}
	return 1 - rest/all
}

// r2 returns the share of the label's variance that the predictions explain, 0 if the label is constant.
func (f *folded) r2() float64 {
	rest, all := f.squares()
	if all <= 0 {
		return 0
	}
	return 1 - rest/all
}

// squares returns two sums over all rows: rest, of the squared errors of the predictions, and all, of those of the mean
// label. Of a group with n labels y and the prediction p, the sum of (y-p)^2 is that of y^2, less 2p times that of y,
// plus n times p^2.
func (f *folded) squares() (rest, all float64) {
	for _, g := range f.groups {
		rest += g.squares - 2*g.predicted*g.sum + g.rows*g.predicted*g.predicted
		all += g.squares - 2*f.mean*g.sum + g.rows*f.mean*f.mean
	}
	return rest, all
}

// splitWarnings returns what is worth knowing about the splits: classes that train lacks, splits with few rows, and
// shares of positive rows that differ from train's. learnt tells for each class whether train has it.
func splitWarnings(manifest *dataset.Manifest, learnt []bool) []dataset.Warning {
	var out []dataset.Warning
	// Classes that only other splits have, such as one that first came in the last days.
	var absent []string
	for i, name := range manifest.Label.Classes {
		if !learnt[i] {
			absent = append(absent, name)
		}
	}
	if absent != nil {
		out = append(out, dataset.Warning{Code: WarnUnlearnt, Column: manifest.Label.Column,
			Text: fmt.Sprintf("no row of train has %.200q, so no trial learns it, and each row of it counts against "+
				"the model: leave its rows out, or split otherwise", absent)})
	}
	train := manifest.Splits[0]
	trainRows := float64(manifest.TableRows(train.Name))

	// All small splits are named in one warning, which stands where the first of them would have had its own.
	few, at := "", 0
	for _, s := range manifest.Splits {
		rows := manifest.TableRows(s.Name)
		switch {
		case rows < fewRows && few == "":
			few, at = fmt.Sprintf("%s has only %d rows", s.Name, rows), len(out)
		case rows < fewRows:
			few += fmt.Sprintf(", %s %d", s.Name, rows)
		}

		if manifest.Label.Kind != dataset.Binary { // others have no positive rows
			continue
		}
		// Warn if the share is more than half as much again as train's, or more than a third less, and the difference
		// is beyond chance: 4 standard errors, so that many splits of many tables give no false alarm. The standard
		// error of a difference of two shares is taken from the share in both splits together, as if they had the same
		// one.
		ratio := s.LabelMean / train.LabelMean
		pooled := (s.LabelMean*float64(rows) + train.LabelMean*trainRows) / (float64(rows) + trainRows)
		chance := math.Sqrt(pooled * (1 - pooled) * (1/float64(rows) + 1/trainRows))
		if (ratio > 1.5 || ratio < 1/1.5) && math.Abs(s.LabelMean-train.LabelMean) > 4*chance {
			out = append(out, dataset.Warning{Code: WarnRateDiffers,
				Text: fmt.Sprintf("%.3g %% of the rows of %s are positive, but %.3g %% of train's", 100*s.LabelMean,
					s.Name, 100*train.LabelMean)})
		}
	}
	if few != "" {
		out = slices.Insert(out, at, dataset.Warning{Code: WarnFewRows, Text: few})
	}
	return out
}
