package sweep

import (
	"fmt"
	"strings"
	"time"
)

// Headline is what became of the winner, in a few words: "ads v7 is live". Empty without a winner.
func (c *Conclusion) Headline() string {
	if c.Outcome != OutcomeWinner {
		return ""
	}
	return headline(c.Model, c.Version, c.Verdict())
}

func headline(model string, version int, v Verdict) string {
	if v == VerdictPromoted {
		return fmt.Sprintf("%s v%d is live", model, version)
	}
	return fmt.Sprintf("%s v%d is not live: %s", model, version, VerdictWords(v))
}

// Facts are the sentences behind a headline: how good the winner is, why it is live or not, what it took. planned is
// when the sweep was; zero if that is unknown. Empty without a winner.
func (c *Conclusion) Facts(planned time.Time) (all []string) {
	if c.Outcome != OutcomeWinner {
		return nil
	}
	add := func(text string) {
		if text = strings.TrimSuffix(text, "."); text != "" {
			all = append(all, strings.ToUpper(text[:1])+text[1:]+".")
		}
	}
	if g := c.Gate; g != nil && c.brief() == "" {
		if v, ok := c.Test[g.Metric]; ok {
			within := ""
			if c.Within != nil && c.Within.Metric == g.Metric { // the gate may have another metric than the sweep
				within = fmt.Sprintf(" (%.3g to %.3g)", c.Within.Low, c.Within.High)
			}
			add(fmt.Sprintf("on test %s %.3g%s", g.Metric, v, within))
		}
	}
	add(c.Why())
	if c.Gate != nil && c.Gate.Regret != nil && !strings.Contains(c.Why(), c.Gate.Regret.Reason) {
		add(c.Gate.Regret.Reason)
	}

	took := fmt.Sprintf("%d trials", c.Done+c.Failed)
	switch c.Done + c.Failed {
	case 0: // of another time
		return all
	case 1:
		took = "1 trial"
	}
	if c.Cost != nil && c.Cost.USD >= 0.005 {
		took += fmt.Sprintf(", $%.2f", c.Cost.USD)
	}
	if d := c.At.Sub(planned); !planned.IsZero() && d >= 2*time.Minute {
		took += fmt.Sprintf(", %.0f min", d.Minutes())
	} else if !planned.IsZero() && d >= time.Second {
		took += fmt.Sprintf(", %.0f s", d.Seconds())
	}
	add(took)
	return all
}
