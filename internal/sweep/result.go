package sweep

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is how a trial ended.
type Status string

// The ways in which a trial ends.
const (
	StatusDone      Status = "done"      // trained, perhaps up to its limit; may win
	StatusFailed    Status = "failed"    // an error of its own, too many deaths, or an unreadable result
	StatusTimedOut  Status = "timed_out" // at the spec's limit for a trial, before it had a model
	StatusCancelled Status = "cancelled" // by a person, or with the sweep, which its budget or its time limit may end
	StatusStopped   Status = "stopped"   // others were better, Score is that of the rung; or Untrained, without one
)

// Claim says which task works on a trial. It is created once and never changed; a later claim takes the trial over.
type Claim struct {
	Format  int       `json:"format"`
	Sweep   ID        `json:"sweep"`
	Trial   int       `json:"trial"`
	Claim   int       `json:"claim"`
	Job     string    `json:"job"`     // id of the Batch job: a sweep may have had several
	Task    int       `json:"task"`    // index in the Batch array
	Attempt int       `json:"attempt"` // which attempt of that task, from 0
	Host    string    `json:"host"`
	Nonce   string    `json:"nonce"` // tells a writer whether an existing object is its own
	At      time.Time `json:"at"`

	Written
}

// Heartbeat shows that a claim's holder is alive. Readers check whether it changes, not the time in it.
type Heartbeat struct {
	Format int       `json:"format"`
	Nonce  string    `json:"nonce"`
	Trees  int       `json:"trees"` // grown so far
	Score  *float64  `json:"score,omitempty"`
	At     time.Time `json:"at"`
}

// Release says that the holder of a claim has left. The claim is given back whatever the object's contents.
type Release struct {
	Format int `json:"format"`

	Written
}

// Trouble is what holds a task up, or has ended it.
type Trouble struct {
	Format  int       `json:"format"`
	Sweep   ID        `json:"sweep"`
	Task    int       `json:"task"`
	Version string    `json:"version"` // of the task
	Text    string    `json:"text"`
	Refused bool      `json:"refused,omitempty"` // the task cannot train this plan, and no trial is to blame
	At      time.Time `json:"at"`
}

// DecodeTrouble decodes a task's trouble, which has to have a text.
func DecodeTrouble(data []byte) (*Trouble, error) {
	return decode("trouble", data, func(t *Trouble) error {
		if t.Text == "" || len(t.Text) > maxReason {
			return fmt.Errorf("a text of %d bytes", len(t.Text))
		}
		return nil
	})
}

// DecodeClaim decodes a claim of a trial.
func DecodeClaim(data []byte) (*Claim, error) {
	return decode("claim", data, func(c *Claim) error {
		if !isTrial(c.Trial) || c.Claim < 0 || c.Task < 0 || c.Attempt < 0 {
			return fmt.Errorf("trial %d, claim %d, task %d, attempt %d", c.Trial, c.Claim, c.Task, c.Attempt)
		}
		return nil
	})
}

// DecodeHeartbeat decodes a heartbeat of a claim's holder.
func DecodeHeartbeat(data []byte) (*Heartbeat, error) {
	return decode("heartbeat", data, func(*Heartbeat) error { return nil })
}

// Object is a file that a trial writes in addition to its result.
type Object struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Result is the outcome of a trial, and where its files are.
type Result struct {
	Format  int            `json:"format"`
	Sweep   ID             `json:"sweep"`
	Trial   int            `json:"trial"`
	Claim   int            `json:"claim"`
	Task    int            `json:"task"`
	Attempt int            `json:"attempt"`
	Status  Status         `json:"status"`
	Reason  string         `json:"reason,omitempty"` // for every status except done, unless AtLimit
	Params  map[string]any `json:"params"`

	// In a plan with folds: the fold and configuration of the trial, and the number of rows trained on. The refit has
	// none of these; its score and metrics are the means over the folds of its configuration.
	Configuration int `json:"configuration,omitempty"`
	Fold          int `json:"fold,omitempty"`
	TrainRows     int `json:"train_rows,omitempty"`
	// Refits, in the final training's result, is the trial whose configuration it has trained again; its score and
	// metrics are that trial's, and TrainRows is set.
	Refits *int `json:"refits,omitempty"`
	// Calibrator is that of a final training of several models of two classes, by rows that each has not learnt from.
	Calibrator json.RawMessage `json:"calibrator,omitempty"`

	Score         float64            `json:"score"`   // the spec's metric on valid, at the best iteration
	Metrics       map[string]float64 `json:"metrics"` // on valid, at the best iteration
	BestIteration int                `json:"best_iteration"`
	Trees         int                `json:"trees"`              // of the model
	TreesGrown    int                `json:"trees_grown"`        // before it stopped
	AtLimit       bool               `json:"at_limit,omitempty"` // limits.trial ended it with the trees grown so far
	Leaves        int                `json:"leaves,omitempty"`   // of all trees of the model

	// From, in a sweep that trains a population, is whose model the trial continued; nil in the first generation.
	From *Origin `json:"from,omitempty"`

	// Rungs are the trial's scores at the rungs of search.stop that its last holder has seen, ascending.
	Rungs []RungScore `json:"rungs,omitempty"`

	// ScoreSE is the standard error of Score on valid, in a sweep that picks its winner by it.
	ScoreSE *float64 `json:"score_se,omitempty"`

	Model  *Object `json:"model,omitempty"`
	Scores *Scored `json:"scores,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Usage   Usage     `json:"usage"`

	Written
}

// Scored are the model's raw scores on held-out rows, for the aggregator, which calibrates and measures without the
// dataset.
type Scored struct {
	Calib Object `json:"calib"`
	Test  Object `json:"test"`
}

// Usage is the resources that a trial used.
type Usage struct {
	// TrainSeconds is the training time that went into the model. It includes an earlier claim's time up to the
	// checkpoint that was resumed from, but not the time after that, which was lost.
	TrainSeconds float64 `json:"train_seconds"`
	ResumedTrees int     `json:"resumed_trees,omitempty"` // how many of the trees grown came from an earlier claim
	NsPerValue   float64 `json:"ns_per_value"`            // per row x feature x tree
	PrivateBytes int64   `json:"private_bytes"`           // of the process, at the end of training
	SharedBytes  int64   `json:"shared_bytes"`            // of the dataset, mapped
	PSSBytes     int64   `json:"pss_bytes"`               // proportional share of all

	// For every trial that a task has ended, with or without a model; 0 where the system does not report it.
	// of the process, from the claim to the end of training, all threads
	CPUSeconds float64 `json:"cpu_seconds,omitempty"`
	// the highest of samples half a minute apart, and of the one at the end
	PeakPSSBytes int64 `json:"peak_pss_bytes,omitempty"`
	// of the dataset's files, whether or not they were in memory
	MappedBytes int64 `json:"mapped_bytes,omitempty"`
	// of this claim, after its first tree, including evaluation
	TreesPerSecond float64 `json:"trees_per_second,omitempty"`

	// Of a final training for several machines, in this claim: the most at once, how often they have divided the rows,
	// what its holder has sent, and how long that was in exchanges, which includes waiting for the slowest.
	Machines        int     `json:"machines,omitempty"`
	Teams           int     `json:"teams,omitempty"`
	SentBytes       int64   `json:"sent_bytes,omitempty"`
	ExchangeSeconds float64 `json:"exchange_seconds,omitempty"`
}

// Together says for people how several machines trained a model together, or that one remained alone although more were
// wanted. It is empty if one machine was all that was wanted.
func (u *Usage) Together() string {
	switch u.Machines {
	case 0:
		return ""
	case 1:
		return "by one machine: no other came in time, or none could be reached at its port"
	}
	text := fmt.Sprintf("by %d machines: the first sent %.1f MB and was in exchanges for %.1f s", u.Machines,
		float64(u.SentBytes)/1e6, u.ExchangeSeconds)
	if u.Teams > 1 {
		text += fmt.Sprintf("; rows were divided %d times", u.Teams)
	}
	return text
}

// maxReason is the most bytes that the text of a reason may have.
const maxReason = 4096

// CutReason returns text as the reason of a result: valid UTF-8, and cut if it is longer than DecodeResult accepts.
func CutReason(text string) string {
	return Cut(strings.ToValidUTF8(text, string(utf8.RuneError)), maxReason)
}

// Cut shortens a text that has more bytes than the limit, which is at least 4, and ends it with " ...". It cuts between
// two characters of UTF-8.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = " ..."
	end := limit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// DecodeResult decodes a trial's result.
func DecodeResult(data []byte) (*Result, error) {
	return decode("result", data, (*Result).check)
}

// check checks what the aggregator relies on. Every result has possible numbers, a known status, and a reason and other
// parts that are not too long. A trial that is done has a finite score, and files of its own attempt or, if it is of a
// fold, none: its model is discarded.
func (r *Result) check() error {
	if err := CheckID(string(r.Sweep)); err != nil {
		return err
	}
	if !isTrial(r.Trial) || r.Claim < 0 {
		return fmt.Errorf("trial %d, claim %d", r.Trial, r.Claim)
	}

	if !slices.Contains([]Status{StatusDone, StatusFailed, StatusTimedOut, StatusCancelled, StatusStopped}, r.Status) {
		return fmt.Errorf("status %.40q", r.Status)
	}
	if len(r.Reason) > maxReason {
		return fmt.Errorf("a reason of %d bytes", len(r.Reason))
	}
	if len(r.Calibrator) > maxReason {
		return fmt.Errorf("a calibrator of %d bytes", len(r.Calibrator))
	}
	if err := checkRungs(r.Rungs); err != nil {
		return err
	}
	if err := r.From.check(r.Trial); err != nil {
		return err
	}

	// Only a trial that is done has left files.
	if r.Status != StatusDone {
		return nil
	}

	if r.Fold == 0 && (r.Model == nil || r.Scores == nil) {
		return fmt.Errorf("done, but without a model or scores")
	}
	if !Finite(r.Score) {
		return fmt.Errorf("score %v", r.Score)
	}

	if r.Fold != 0 { // its model is evaluated and discarded
		if r.Fold < 1 || r.Fold > MaxFolds || r.Configuration < 0 || r.Configuration >= MaxTrials || r.TrainRows < 1 ||
			r.Model != nil || r.Scores != nil {
			return fmt.Errorf("fold %d of configuration %d, %d rows", r.Fold, r.Configuration, r.TrainRows)
		}
		return nil
	}

	// A result must not pass off the files of another attempt as its own.
	for _, o := range []Object{*r.Model, r.Scores.Calib, r.Scores.Test} {
		if err := o.check(Names(r.Sweep).Attempt(r.Trial, r.Claim)); err != nil {
			return err
		}
	}

	return nil
}

// MaxObjectBytes bounds a trial's file: readers hold it in memory.
const MaxObjectBytes = 4 << 30

var filePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// check rejects an object whose name is not that of a plain file in a folder, which ends in a slash, or whose size is
// impossible. Whoever reads the object compares its SHA-256.
func (o Object) check(folder string) error {
	file, inside := strings.CutPrefix(o.Name, folder)
	if !inside || !filePattern.MatchString(file) {
		return fmt.Errorf("object %.80q lies outside its attempt", o.Name)
	}
	if o.Bytes < 0 || o.Bytes > MaxObjectBytes {
		return fmt.Errorf("object %.80q of %d bytes", o.Name, o.Bytes)
	}
	return nil
}

// ScoreMessage tells the aggregator that a trial has ended. It is only a hint: the result object counts.
type ScoreMessage struct {
	Format  int     `json:"format"`
	Sweep   ID      `json:"sweep"`
	Trial   int     `json:"trial"`
	Claim   int     `json:"claim"`
	Attempt int     `json:"attempt"`
	Status  Status  `json:"status"`
	Score   float64 `json:"score"`
}

// MaxMessage bounds a score message; a longer one is not ours.
const MaxMessage = 64 << 10

// DecodeScoreMessage decodes the data of a Pub/Sub message.
func DecodeScoreMessage(data []byte) (*ScoreMessage, error) {
	if len(data) > MaxMessage {
		return nil, NotA("score message", fmt.Errorf("%d bytes", len(data)))
	}
	return decode("score message", data, func(m *ScoreMessage) error {
		if err := CheckID(string(m.Sweep)); err != nil {
			return err
		}
		if !isTrial(m.Trial) {
			return fmt.Errorf("trial %d", m.Trial)
		}
		return nil
	})
}

// MaxCurve is the most scores in a learning curve: about ten kilobytes.
const MaxCurve = 1024

// Curve is a learning curve: the value on valid of Metric, which early stopping goes by, after every tree grown by one
// claim's holder. With more than MaxCurve trees it has every second one, or every fourth, and so on. It is written
// once, when the holder ends or releases its trial. A holder that vanishes without notice leaves none.
type Curve struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Trial  int       `json:"trial"`
	Claim  int       `json:"claim"`
	Metric string    `json:"metric"`
	First  int       `json:"first"`  // number of the tree of the first score; the model's first tree is 1
	Every  int       `json:"every"`  // trees between scores
	Scores []float64 `json:"scores"` // seven significant digits

	last int // number of the last tree added

	Written
}

// Add adds the score after a tree. If the tree does not follow the last one added, the curve starts over with it. If
// the score is not finite, the curve becomes empty and starts over with the next one. A full curve drops every second
// score, and from then on keeps half as many.
func (c *Curve) Add(tree int, score float64) {
	follows := tree == c.last+1
	c.last = tree
	if !Finite(score) {
		c.Scores = nil
		return
	}
	if !follows || len(c.Scores) == 0 {
		c.First, c.Every, c.Scores = tree, 1, c.Scores[:0]
	}
	if (tree-c.First)%c.Every != 0 { // between two scores
		return
	}

	if len(c.Scores) == MaxCurve {
		for i := range MaxCurve / 2 {
			c.Scores[i] = c.Scores[2*i]
		}
		c.Scores, c.Every = c.Scores[:MaxCurve/2], 2*c.Every
	}
	c.Scores = append(c.Scores, score)
}

// Rounded returns a copy with scores of seven significant digits, as written: a curve is for display.
func (c *Curve) Rounded() Curve {
	out := *c
	out.Scores = make([]float64, len(c.Scores))
	for i, s := range c.Scores {
		out.Scores[i], _ = strconv.ParseFloat(strconv.FormatFloat(s, 'g', 7, 64), 64) // cannot fail
	}
	return out
}

// DecodeCurve decodes a claim's learning curve. The numbers of its trees fit in 32 bits.
func DecodeCurve(data []byte) (*Curve, error) {
	return decode("learning curve", data, func(c *Curve) error {
		if !isTrial(c.Trial) || c.Claim < 0 || len(c.Scores) > MaxCurve ||
			c.First < 1 || c.First > math.MaxInt32 || c.Every < 1 || c.Every > math.MaxInt32/MaxCurve {
			return fmt.Errorf("trial %d, claim %d, %d scores from tree %d, one in %d",
				c.Trial, c.Claim, len(c.Scores), c.First, c.Every)
		}
		return nil
	})
}

// CurvePoint is one score of a trial.
type CurvePoint struct {
	Tree  int     `json:"tree"`
	Score float64 `json:"score"`
}

// JoinCurves joins the learning curves of a trial's claims to one, ascending by tree. A later claim resumes from a
// checkpoint or starts over, so from its first tree on its curve replaces those of earlier claims. Trees of a claim
// without a curve are missing.
func JoinCurves(curves []Curve) []CurvePoint {
	// From the newest claim back: of each, only trees before those of newer claims count.
	curves = slices.Clone(curves)
	slices.SortFunc(curves, func(a, b Curve) int { return cmp.Compare(b.Claim, a.Claim) })

	var points []CurvePoint
	before := math.MaxInt // the lowest first tree of the newer claims
	for _, c := range curves {
		for i, score := range c.Scores {
			if tree := c.First + i*c.Every; tree < before {
				points = append(points, CurvePoint{tree, score})
			}
		}

		if len(c.Scores) > 0 {
			before = min(before, c.First)
		}
	}

	slices.SortFunc(points, func(a, b CurvePoint) int { return cmp.Compare(a.Tree, b.Tree) })
	return points
}

// The scores file: raw scores of one model for a set of rows, in row order. WIRE.md has the layout.
const scoresMagic = "COPSCOR1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Finite is true of all numbers but NaN and the infinities.
func Finite(v float64) bool { return v-v == 0 }

// MaxScores bounds a scores file: 2^31 rows.
const MaxScores = 1 << 31

// EncodeScores writes raw scores (log odds, or the predicted value for regression) as a scores file.
func EncodeScores(raw []float64) []byte {
	out := make([]byte, 0, len(scoresMagic)+8+8*len(raw)+4)
	out = append(out, scoresMagic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(raw)))
	for _, s := range raw {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(s))
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// DecodeScores returns the raw scores in a scores file, by row. It is an error if the length or the checksum is wrong,
// or if a score is not finite.
func DecodeScores(data []byte) ([]float64, error) {
	const head = len(scoresMagic) + 8
	bad := func(format string, args ...any) ([]float64, error) {
		return nil, NotA("scores file", fmt.Errorf(format, args...))
	}
	if len(data) < head+4 || string(data[:len(scoresMagic)]) != scoresMagic {
		return bad("%d bytes that do not begin with %s and a number of rows", len(data), scoresMagic)
	}
	rows := binary.LittleEndian.Uint64(data[len(scoresMagic):])
	if rows > MaxScores || uint64(len(data)) != uint64(head)+8*rows+4 {
		return bad("%d bytes for %d rows", len(data), rows)
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return bad("checksum %08x, expected %08x", got, sum)
	}
	raw := make([]float64, rows)
	for i := range raw {
		raw[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[head+8*i:]))
		if !Finite(raw[i]) {
			return bad("score %v in row %d", raw[i], i)
		}
	}

	return raw, nil
}
