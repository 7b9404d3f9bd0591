package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
)

// Verdict is the outcome of a night in one word, for metrics and alerts.
type Verdict string

// The verdicts.
const (
	VerdictPromoted    Verdict = "promoted"     // the new version is the champion
	VerdictNotPromoted Verdict = "not_promoted" // it was compared or checked, and is not promoted
	// it could not be compared with the champion: a person has to decide
	VerdictNotComparable Verdict = "not_comparable"
	VerdictBlocked       Verdict = "blocked" // tonight's data must not make a champion
	VerdictNoWinner      Verdict = "no_winner"
	VerdictCancelled     Verdict = "cancelled"
)

// Occasion is why a notification is sent.
type Occasion string

// The occasions.
const (
	OccasionConcluded Occasion = "concluded" // the aggregator has concluded a sweep
	OccasionRefused   Occasion = "refused"   // a scheduled sweep was not started, because of its dataset
	OccasionStaged    Occasion = "staged"    // a dataset was staged, and is blocked
)

// VerdictWords is a verdict in words, on pages, in the terminal and in messages: those of JSON with blanks. It is
// "running" for none.
func VerdictWords(v Verdict) string {
	return cmp.Or(strings.ReplaceAll(string(v), "_", " "), "running")
}

// Verdicts returns all verdicts.
func Verdicts() []Verdict {
	return []Verdict{VerdictPromoted, VerdictNotPromoted, VerdictNotComparable, VerdictBlocked, VerdictNoWinner,
		VerdictCancelled}
}

// CheckVerdicts rejects words that are not verdicts.
func CheckVerdicts(words []string) error {
	for _, w := range words {
		if !slices.Contains(Verdicts(), Verdict(w)) {
			return fmt.Errorf("%.40q is not a verdict; use %v", w, Verdicts())
		}
	}
	return nil
}

// Mark records that a notification was sent on one channel. It counts whatever the object's contents.
type Mark struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Channel string    `json:"channel"`
	At      time.Time `json:"at"`

	Written
}

// Caution says that the predictions add up to more or less than the labels, in ten words, where the gate's check of the
// calibration has passed but chance does not explain the difference: "predicts 4 % more than observed (2 to 6 %)". It
// is empty for any other check, and where the interval of the ratio includes 1 or is unknown.
func (k *GateCheck) Caution() string {
	if k.Name != "calibration" || !k.Passed || k.Low <= 1 && k.High >= 1 || k.Low == k.High {
		return ""
	}
	// off is by how much percent a ratio is off; low and high are the ends of the interval, the nearer one to 1 first.
	off := func(ratio float64) string { return strings.TrimSuffix(Percent(math.Abs(ratio-1)), " %") }
	way, low, high := "more", k.Low, k.High
	if k.Value < 1 {
		way, low, high = "less", k.High, k.Low
	}
	return fmt.Sprintf("predicts %s %% %s than observed (%s to %s %%)", off(k.Value), way, off(low), off(high))
}

// Check returns the first of the gate's checks with a name, which is the one on tonight's rows; nil if there is none.
func (c *Conclusion) Check(name string) *GateCheck {
	if c.Gate != nil {
		for i := range c.Gate.Checks {
			if k := &c.Gate.Checks[i]; k.Name == name {
				return k
			}
		}
	}
	return nil
}

// Caution is that of the gate's check of calibration, if the version went live; otherwise it is empty.
func (c *Conclusion) Caution() string {
	if k := c.Check("calibration"); k != nil && c.Gate.Promoted {
		return k.Caution()
	}
	return ""
}

// compareInWords says in a line how the new version compares with the one before: whether it is better, as good or
// worse, by how much in percent of the old value, and with which interval. It adds how far the sum of predictions may
// be off, if that is known to be at most a half. It speaks only of a version that went live, or that was held back
// since it is worse beyond chance. Otherwise, and where nothing was compared, it is empty.
func (c *Conclusion) compareInWords() string {
	// Nothing was compared if there is no old value or no interval.
	k, where := c.decisive()
	if k == nil || c.Gate.Champion == 0 || k.Old == 0 || k.Low == k.High {
		return ""
	}
	held := c.Verdict() == VerdictNotPromoted && k.High < 0 && !k.Passed
	if !held && !c.Gate.Promoted {
		return ""
	}

	// A gain is above 0 where the new version is better, whatever the metric; by makes it a percentage.
	by := 100 / math.Abs(k.Old)
	stands, within, way := "as good as", "", "better"
	switch {
	case k.Low > 0:
		stands = "better than"
	case held:
		stands, way = "worse than", "worse"
	case k.High < 0:
		stands, within, way = "worse than", ", within the gate's limit", "worse"
	case k.Value < 0:
		stands, way = "not shown to be worse than", "worse"
	}
	text := fmt.Sprintf("%s version %d%s%s: %s %s %% %s (%s)", stands, cmp.Or(k.Version, c.Gate.Champion), where,
		within, c.Gate.Metric, Digits(math.Abs(by*k.Value), 2), way,
		intervalInWords(by*k.Low, by*k.High, way == "worse"))

	// The ratio of predictions and labels, where it needs no caution of its own. The small number keeps rounding errors
	// from raising a whole percentage.
	if o := c.Check("calibration"); !held && o != nil && o.Low != o.High && o.Caution() == "" && o.Low >= 0.5 &&
		o.High <= 1.5 {
		text += fmt.Sprintf("; calibrated within %.0f %%", math.Ceil(100*max(o.High-1, 1-o.Low)-1e-9))
	}
	return text
}

// decisive returns the check that decided how the version compares with another one, nil if there is none, and on which
// rows, as the end of a sentence. It is the check on tonight's rows, unless that passed and only the one on the rows of
// earlier nights failed.
func (c *Conclusion) decisive() (k *GateCheck, where string) {
	tonight, earlier := c.Check("tonight"), c.Check("reference")
	if c.Verdict() == VerdictNotPromoted && earlier != nil && !earlier.Passed && (tonight == nil || tonight.Passed) {
		return earlier, " on rows of earlier nights"
	}
	return tonight, ""
}

// intervalInWords returns the bounds of a gain, given in percent, as text. Where the gain is a loss, it is given as
// one, without signs: "2 to 6 %", or "1 % worse to 2 % better". Otherwise the bounds have signs: "-1 to +3 %".
func intervalInWords(low, high float64, loss bool) string {
	size := func(v float64) string { return Digits(math.Abs(v), 2) }
	signed := func(v float64) string { return strings.Replace("+"+Digits(v, 2), "+-", "-", 1) }
	switch {
	case loss && high < 0:
		return fmt.Sprintf("%s to %s %%", size(high), size(low))
	case loss:
		return fmt.Sprintf("%s %% worse to %s %% better", size(low), size(high))
	}
	return fmt.Sprintf("%s to %s %%", signed(low), signed(high))
}

// Verdict returns the outcome of the sweep in one word. A winner that no gate has looked at is not promoted.
func (c *Conclusion) Verdict() Verdict {
	switch g := c.Gate; {
	case c.Outcome == OutcomeCancelled:
		return VerdictCancelled
	case c.Outcome == OutcomeNoWinner:
		return VerdictNoWinner
	case g == nil:
		return VerdictNotPromoted
	case g.Promoted:
		return VerdictPromoted
	default:
		return cmp.Or(g.Verdict, VerdictNotPromoted)
	}
}

// Why returns the reason for the verdict, for people: how the version compares with the one before or, where that
// cannot be said in a line, the gate's reason. What to be cautious about comes before it.
func (c *Conclusion) Why() string {
	if c.Outcome != OutcomeWinner || c.Gate == nil {
		return c.Reason
	}
	why := cmp.Or(c.compareInWords(), c.Gate.Reason)
	if text := c.Caution(); text != "" {
		return "it " + text + "; " + why
	}
	return why
}

// Todo has all facts that decide what a sweep asks of a person; String has the answer.
type Todo struct {
	Verdict        Verdict // empty while it runs
	Sweep, Dataset string  // the dataset as NAME@VERSION; only NAME if there is no version
	Model          string
	Version, Live  int    // the version that the sweep has registered, and the one that is live; 0 for none
	Nights         int    // in a row without a new champion, this one included
	Passed, Never  bool   // it passed the gate but was not promoted; its spec has gate.promote: never
	Worse          bool   // what is live was found to be worse than what it replaced
	Warned         string // what about its table differs from earlier nights', without blocking it
	OverBudget     bool   // its budget will end what runs
	Stopped        bool   // its job is gone, and trials are left
}

// String says what a person has to do, or that there is nothing to do, in the same words wherever it is asked. If
// nothing else is to do, a table that staging has warned about is to be looked at.
func (t Todo) String() string {
	answer := t.answer()
	if t.Warned == "" || t.Verdict == "" || t.Verdict == VerdictCancelled {
		return answer
	}
	if rest, nothing := strings.CutPrefix(answer, "Nothing to do: "); nothing {
		warned := strings.ReplaceAll(t.Warned, "`", "'") // on pages, backquotes enclose a command
		return fmt.Sprintf("To do: look at `launcher datasets show %s` (%s); %s", t.Dataset, warned, rest)
	}
	return answer
}

// answer returns what to do by the verdict, without regard to warnings: the sentence of the first case that holds.
func (t Todo) answer() string {
	// In the sentences below, words in capitals stand for these.
	stays := "what is live stays live"
	if t.Live > 0 {
		stays = fmt.Sprintf("version %d stays live", t.Live)
	}
	say := strings.NewReplacer("SWEEP", t.Sweep, "TABLE", t.Dataset, "MODEL", t.Model, "LIVE", strconv.Itoa(t.Live),
		"NEW", strconv.Itoa(t.Version), "STAYS", stays).Replace
	switch v := t.Verdict; {
	// It runs.
	case v == "" && t.Stopped:
		return say("To do: run the command that started SWEEP once more, which continues it: its job is gone, and " +
			"trials are left.")
	case v == "" && t.OverBudget:
		return say("To do: decide whether its budget may end it, with the trials that have ended by then; " +
			"`launcher cancel SWEEP` ends it now.")
	case v == "":
		return "Nothing to do: it ends by itself."

	// What is live matters more than the verdict of one night.
	case t.Worse:
		return say("To do: decide whether version LIVE is taken back: `launcher registry rollback MODEL --why REASON`.")
	case t.Live > 0 && (t.Live == t.Version || v == VerdictPromoted):
		return say("Nothing to do: version LIVE is live.")

	// By the verdict. If a blocked dataset has no version, its source was missing. If a model was registered from it,
	// only its labels are in doubt.
	case v == VerdictCancelled:
		return say("Nothing to do: it was cancelled by hand; STAYS.")
	case v == VerdictBlocked && !strings.Contains(t.Dataset, "@"):
		return say("To do: mend the source of TABLE, then start the night again; STAYS.")
	case v == VerdictBlocked && t.Version > 0:
		return say("To do: look at the labels in `launcher datasets show TABLE`; only if they are right, `launcher " +
			"registry promote MODEL@NEW --why REASON`; until then STAYS.")
	case v == VerdictBlocked:
		return say("To do: look at `launcher datasets show TABLE`, then mend its source and `launcher stage " +
			"DATASET.yaml`, or `launcher datasets accept TABLE --why REASON`; until then nothing is trained on it, " +
			"and STAYS.")
	case v == VerdictNoWinner:
		return say("To do: look at `launcher leaderboard SWEEP --all` for why no trial won; STAYS.")

	// It was not promoted.
	case t.Never:
		return say("Nothing to do: its sweep promotes nothing; STAYS.")
	case t.Live == 0 || v == VerdictNotComparable || t.Passed:
		return say("To do: decide whether version NEW goes live: `launcher registry promote MODEL@NEW --why REASON`; " +
			"until then STAYS.")
	case t.Nights >= ManyNights:
		return say("To do: look at `launcher nights MODEL` for why no night makes a champion; STAYS.")
	}
	return say("Nothing to do: STAYS, and the next night tries again.")
}

// Due reports whether a person has something to do.
func (t Todo) Due() bool { return strings.HasPrefix(t.String(), "To do") }

// TodoBlocked says what to do about a dataset that staging has blocked, or that is missing.
func TodoBlocked(dataset string) string {
	return Todo{Verdict: VerdictBlocked, Dataset: dataset}.String()
}

// Todo returns what the sweep asks of a person. dataset is NAME@VERSION, and live is the version that is live now; 0 if
// that is unknown, in which case the one at the sweep's end counts. c is nil while the sweep runs.
func (c *Conclusion) Todo(dataset string, live int) Todo {
	if c == nil {
		return Todo{}
	}

	// What the gate decided.
	t := Todo{Verdict: c.Verdict(), Sweep: string(c.Sweep), Dataset: dataset, Model: c.Model, Version: c.Version,
		Warned: c.Warned}
	if g := c.Gate; g != nil {
		t.Live, t.Passed = g.Champion, g.Passed && !g.Promoted
		t.Never = t.Passed && g.Promotes == PromoteNever
		t.Worse = g.Regret != nil && !g.Regret.TakenBack && !g.Promoted
		if g.Promoted {
			t.Live = c.Version
		}
	}

	// What was live when the sweep ended, and then what is live now. A champion that was found to be worse has been
	// dealt with if another version is live by now.
	if s := c.Standing; s != nil {
		t.Live, t.Nights, t.Model = s.Champion, s.Nights, s.Model
	}
	if live > 0 {
		t.Worse = t.Worse && live == t.Live
		t.Live = live
	}
	return t
}

// Headline says what became of the winner, in a few words: "ads version 7 is live". It is empty without a winner.
func (c *Conclusion) Headline() string {
	if c.Outcome != OutcomeWinner {
		return ""
	}
	return Headline(c.Model, c.Version, c.Verdict())
}

// HeadlineNow is Headline, unless it is no longer true: then it says what the verdict was, and which version is live
// now. live is that version; 0 if it is unknown.
func (c *Conclusion) HeadlineNow(live int) string {
	v := c.Verdict()
	isLive, wentLive := live == c.Version, v == VerdictPromoted
	if live == 0 || c.Version == 0 || isLive == wentLive {
		return c.Headline()
	}
	return fmt.Sprintf("%s version %d was %s; version %d is live", c.Model, c.Version, VerdictWords(v), live)
}

// Headline is what became of a version, by the verdict of its night.
func Headline(model string, version int, v Verdict) string {
	if v == VerdictPromoted {
		return fmt.Sprintf("%s version %d is live", model, version)
	}
	return fmt.Sprintf("%s version %d is not live: %s", model, version, VerdictWords(v))
}

// Won says how sure it is that the winner is the best trial: how far it is from the next best on test, with an
// interval, or only which trial is as good. It is empty if neither is known, or if c is nil.
func (c *Conclusion) Won() string {
	if c == nil || c.Lead == nil && c.AsGood == nil {
		return ""
	}
	// Of an earlier build only a trial that is as good is known.
	l := c.Lead
	if l == nil {
		return fmt.Sprintf("trial %d was chosen on valid; on test trial %d is as good", c.Trial, *c.AsGood)
	}
	way, stands := "better", "is as good"
	if l.Gain < 0 {
		way = "worse"
	}
	by := fmt.Sprintf("%s %% %s (%s)", Digits(100*math.Abs(l.Gain), 2), way,
		intervalInWords(100*l.Low, 100*l.High, way == "worse"))
	switch {
	case l.Low > 0:
		return fmt.Sprintf("trial %d won: on test its %s is %s than trial %d's", c.Trial, l.Metric, by, l.Trial)
	case l.High < 0:
		stands = "is better"
	}
	return fmt.Sprintf("trial %d was chosen on valid; on test trial %d %s: the winner's %s is %s", c.Trial, l.Trial,
		stands, l.Metric, by)
}

// compareWithBase returns the end of a sentence that compares v, a score by the sweep's metric, with that of a model
// without features: ", 3.1 times the base rate". It begins with a comma, and is empty if that score is unknown.
func (c *Conclusion) compareWithBase(metric string, v float64) string {
	if c.Without == nil {
		return ""
	}
	if times := TimesBase(metric, v, *c.Without); times != "" {
		return ", " + times
	}
	return ", without features " + Score(*c.Without, 0)
}

// TimesBase says how many times the base rate an average precision is, which is what rows in random order have.
func TimesBase(metric string, v, alone float64) string {
	if metric != "average_precision" || !(alone > 0) {
		return ""
	}
	return Digits(v/alone, 2) + " times the base rate"
}

// Sentence returns a text with a capital letter and a full stop, which it may have already. It is empty for an empty
// text.
func Sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:] + "."
}

// AndTheFinal is said behind the number of a sweep's trials, which does not count the final training.
const AndTheFinal = " and the final"

// Facts returns the sentences that follow a headline: how good the winner is, why it is live or not, and what the sweep
// took. metric is the sweep's, and planned is when the sweep was planned, zero if that is unknown. There are none
// without a winner.
func (c *Conclusion) Facts(metric string, planned time.Time) (all []string) {
	if c.Outcome != OutcomeWinner {
		return nil
	}
	add := func(text string) {
		if text = Sentence(text); text != "" {
			all = append(all, text)
		}
	}
	// How good the winner is, where the comparison with the version before does not say it.
	if g := c.Gate; g != nil && c.compareInWords() == "" {
		if _, ok := c.Test[metric]; !ok {
			metric = g.Metric // of a sweep whose plan cannot be read
		}
		add(c.Won())
		if v, ok := c.Test[metric]; ok {
			add(fmt.Sprintf("on test %s %s%s", metric, Score(v, c.Within.ErrorOf(metric)),
				c.compareWithBase(metric, v)))
		}
	}

	// Why it is live or not, and what was found about the champion.
	add(c.Why())
	if c.Gate != nil && c.Gate.Regret != nil && !strings.Contains(c.Why(), c.Gate.Regret.Reason) {
		add(c.Gate.Regret.Reason)
	}

	// How many trials, USD and minutes it took. Trials that were stopped are not counted, since a conclusion does not
	// say how many they were. Conclusions written before any were counted have none.
	if c.Done+c.Failed == 0 {
		return all
	}
	took := english.Plural(c.Done+c.Failed, "trial", "")
	if c.Final != nil {
		took += AndTheFinal
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
