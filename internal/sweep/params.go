package sweep

import (
	"fmt"
	"maps"
	"slices"

	"coppice/internal/strictyaml"
)

// Params are training parameters by canonical name; numbers are float64, as after a round trip through JSON. ParseSpec
// resolves the aliases that a person may write, so that later code needs only one name.
type Params map[string]any

// reserved parameters have their own key in the spec, so that a sweep cannot contradict itself.
var reserved = map[string]string{
	"objective":             "the spec's key objective",
	"metric":                "the spec's key metric",
	"early_stopping_round":  "the spec's key early_stopping_rounds",
	"early_stopping_rounds": "the spec's key early_stopping_rounds",
	"num_threads":           "the spec's key machine.threads_per_task",
}

// reservedAliases are LightGBM's other names of reserved parameters, for those that the trainer does not have and so
// cannot resolve.
var reservedAliases = map[string]string{
	"metrics": "metric", "metric_types": "metric",
	"num_thread": "num_threads", "nthread": "num_threads", "nthreads": "num_threads", "n_jobs": "num_threads",
}

// checkGiven rejects, in every part of the spec with parameters, reserved ones and duplicates, under any of their
// names.
func (s *Spec) checkGiven(doc *strictyaml.Document, v Vocabulary) error {
	if err := checkGivenIn(doc, "params", s.Params, v); err != nil {
		return err
	}
	for i, fixed := range s.Search.Fixed {
		if err := checkGivenIn(doc, fmt.Sprintf("search.fixed[%d]", i), fixed, v); err != nil {
			return err
		}
	}
	if err := checkGivenIn(doc, "search.grid", s.Search.Grid, v); err != nil {
		return err
	}
	return checkGivenIn(doc, "search.random", s.Search.Random, v)
}

func checkGivenIn[V any](doc *strictyaml.Document, path string, given map[string]V, v Vocabulary) error {
	written := map[string]string{} // by canonical name
	for _, name := range slices.Sorted(maps.Keys(given)) {
		canonical := v.ParamName(name)
		if other := reservedAliases[name]; other != "" {
			canonical = other
		}

		switch {
		case reserved[name] != "":
			return doc.Errorf(path+"."+name, "%s is set by %s; say it there, and take it out here", name,
				reserved[name])
		case reserved[canonical] != "":
			return doc.Errorf(path+"."+name,
				"%s is another name of %s, which is set by %s; say it there, and take it out here", name, canonical,
				reserved[canonical])
		case written[canonical] != "":
			return givenTwice(doc, path, canonical, written[canonical], name)
		}
		written[canonical] = name
	}
	return nil
}

// givenTwice is the error at the later of two names in the file.
func givenTwice(doc *strictyaml.Document, path, canonical, first, second string) error {
	a, b := doc.Errorf(path+"."+first, ""), doc.Errorf(path+"."+second, "")
	if b.Line < a.Line || b.Line == a.Line && b.Column < a.Column {
		a, first, second = b, second, first
	}
	return doc.Errorf(path+"."+second, "%s is given twice: here as %s, and as %s in line %d; keep one of them",
		canonical, second, first, a.Line)
}

// resolve replaces all parameters' names by canonical ones. It runs after all checks, whose errors use the names in the
// file.
func (s *Spec) resolve(v Vocabulary) {
	s.Params = renamed(s.Params, v)
	for i, fixed := range s.Search.Fixed {
		s.Search.Fixed[i] = renamed(fixed, v)
	}
	s.Search.Grid = renamed(s.Search.Grid, v)

	for name, d := range s.Search.Random {
		if v.ParamName(name) != name {
			d.DrawnAs = name
			s.Search.Random[name] = d
		}
	}
	s.Search.Random = renamed(s.Search.Random, v)
}

func renamed[M ~map[string]V, V any](given M, v Vocabulary) M {
	if given == nil {
		return nil
	}
	out := make(M, len(given))
	for name, value := range given {
		out[v.ParamName(name)] = value
	}
	return out
}
