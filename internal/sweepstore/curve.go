package sweepstore

import (
	"context"
	"encoding/json"
	"fmt"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

var curveKind = kind{"learning curve", 64 << 10}

// CreateCurve writes the learning curve seen by a claim's holder. created is false if it exists already.
func (t *Trials) CreateCurve(ctx context.Context, c sweep.Curve) (created bool, err error) {
	c = c.Rounded()
	c.Written = written()
	data, err := json.Marshal(c) // not indented: a line per score would make it half as long again
	if err != nil {
		return false, err
	}
	return createBytes(ctx, t.bucket, t.names.Curve(c.Trial, c.Claim), append(data, '\n'))
}

// Curve reads one claim's learning curve.
func (t *Trials) Curve(ctx context.Context, trial, claim int) (*sweep.Curve, error) {
	c, _, err := read(ctx, t.bucket, curveKind, t.names.Curve(trial, claim), func(data []byte) (*sweep.Curve, error) {
		c, err := sweep.DecodeCurve(data)
		if err == nil && (c.Sweep != t.plan.Sweep || c.Trial != trial || c.Claim != claim) {
			err = fmt.Errorf("it is of claim %d of trial %d of sweep %s", c.Claim, c.Trial, c.Sweep)
		}
		return c, err
	})
	return c, err
}

// Curves reads the learning curves of a listed trial, by claim; sweep.JoinCurves joins them. Damaged ones are left out.
func (t *Trials) Curves(ctx context.Context, listed Listed) ([]sweep.Curve, error) {
	var all []sweep.Curve
	for _, claim := range listed.Claims {
		if !claim.Curve {
			continue
		}

		c, err := t.Curve(ctx, listed.Number, claim.Number)
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return nil, err
		}

		all = append(all, *c)
	}

	return all, nil
}
