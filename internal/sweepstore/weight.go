package sweepstore

import (
	"context"
	"time"
)

// Weight is the size of a sweep's objects.
type Weight struct {
	Newest time.Time // write time of the newest object
	Trials map[int][]Weighed
	Others []Weighed // plan, ending, conclusion, records of jobs
}

// Weighed is an object's name and size.
type Weighed struct {
	Object string
	Bytes  int64
}

// Weigh lists all objects of the sweep.
func (s *Sweep) Weigh(ctx context.Context) (Weight, error) {
	w := Weight{Trials: map[int][]Weighed{}}
	for _, prefix := range []string{s.names.Prefix(), s.names.Plan()} {
		for a, err := range s.bucket.List(ctx, prefix) {
			if err != nil {
				return Weight{}, err
			}
			if a.Updated.After(w.Newest) {
				w.Newest = a.Updated
			}
			object := Weighed{a.Name, a.Size}
			if trial, _, _, ok := s.names.ParseTrialObject(a.Name); ok {
				w.Trials[trial] = append(w.Trials[trial], object)
			} else {
				w.Others = append(w.Others, object)
			}
		}
	}

	return w, nil
}
