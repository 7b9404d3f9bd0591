package scorer

import (
	"errors"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
)

// checkTogether returns an error if the files of a version, each of which is valid by itself, do not belong together:
// names and kinds of features, the number of classes, and the presence of a calibrator must agree, and statistics of
// levels must be possible for the model's labels. New has checked that the numbers of features agree. _check_together
// in python/coppice/model.py checks the same. Errors use these names of the files.
func (s *Scorer) checkTogether(names fileNames) error {
	// Names: in the model file, characters that LightGBM does not allow are replaced.
	features := make([]string, len(s.Encoding.Features))
	for i := range features {
		features[i] = s.Encoding.Features[i].Name
	}
	for i, want := range gbt.PlainNames(features) {
		if have := s.Model.FeatureNames[i]; have != want {
			return fmt.Errorf("%s: feature %d is %.60q; that of %s would be %.60q", names.model, i, have,
				names.features, want)
		}
	}

	// Kinds: no tree may split a number as a category or the other way round.
	numbers, categories := s.Model.Splits()
	for i := range s.Encoding.Features {
		f := &s.Encoding.Features[i]
		if categorical := f.Kind == dataset.Categorical; numbers[i] && categorical || categories[i] && !categorical {
			return fmt.Errorf("%s: a node splits the %s feature %.60q as one of another kind", names.model, f.Kind,
				f.Name)
		}
	}

	// Classes: the encoding names them only if there are several, else the model has one output.
	if n := s.Model.Outputs(); n != max(1, len(s.Encoding.Classes)) {
		return fmt.Errorf("%s has %d outputs, and %s names %d classes", names.model, n, names.features,
			len(s.Encoding.Classes))
	}

	// A model of probabilities has a calibrator, and statistics of labels 0 and 1. Any other model has no calibrator.
	if !s.Model.Binary() {
		if s.Calibrator != nil {
			return fmt.Errorf("%s belongs to a model of probabilities, which %s is not", names.calibrator,
				names.model)
		}
		return nil
	}
	if s.Calibrator == nil {
		return errors.New(names.calibrator + " is missing, which a model of probabilities needs")
	}
	for i := range s.Encoding.Tables {
		if prior := s.Encoding.Tables[i].Prior; !(prior >= 0 && prior <= 1) {
			return fmt.Errorf("%s: tables[%d]: prior %v, where labels are 0 and 1", names.features, i, prior)
		}
	}
	if s.levels != nil {
		return s.levels.CheckBinary()
	}
	return nil
}
