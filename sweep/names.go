package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ID names one sweep, and is its Batch job's id.
type ID string

var idPattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// maxID is Batch's limit for the length of a job's id.
const maxID = 63

// sweepID is the Kind of a *NameError about a sweep's id.
const sweepID = "sweep id"

// CheckID refuses, with a *NameError, a sweep id that Batch would refuse as a job id, or that could leave its folder.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return &NameError{sweepID, id}
	}
	return nil
}

// JobID is the Batch id of the sweep's job number n: the sweep's own for the first one. A suffix for which there is no room
// takes the place of the id's end and a hash of the whole.
func (id ID) JobID(n int) ID {
	if n == 0 {
		return id
	}
	suffix := fmt.Sprintf("-f%d", n)
	if len(id)+len(suffix) <= maxID {
		return id + ID(suffix)
	}
	sum := sha256.Sum256([]byte(id))
	suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
	return id[:maxID-len(suffix)] + ID(suffix)
}

// Everything of a sweep lies in the sweeps bucket: its plan under plans/, so that sweeps can be listed without listing
// their trials, all else under sweeps/ID/. WIRE.md says who writes what and when.
const (
	plansRoot  = "plans/"
	sweepsRoot = "sweeps/"
)

// Names are what a sweep's objects are called. Package sweepstore reads and writes them, and no other makes names of them or
// takes names apart (arch_test.go): what an object means is to be decided once.
type Names ID

// Prefix is the folder of the sweep, with the slash.
func (n Names) Prefix() string { return sweepsRoot + string(n) + "/" }

// Plan is the object that makes a sweep exist.
func (n Names) Plan() string { return plansRoot + string(n) + ".json" }

// Cancel is the object that asks every task to stop.
func (n Names) Cancel() string { return n.Prefix() + "cancel.json" }

// Ending is the object that says what the sweep is concluded from; whatever comes later does not count.
func (n Names) Ending() string { return n.Prefix() + "ending.json" }

// Conclusion is the object that ends a sweep.
func (n Names) Conclusion() string { return n.Prefix() + "conclusion.json" }

// Input is an object of the model that the sweep continues, by the SHA-256 of its contents.
func (n Names) Input(sum string) string { return n.Prefix() + "input/" + sum }

// Jobs is the folder in which the sweep's jobs after the first are written down, with the slash.
func (n Names) Jobs() string { return n.Prefix() + "jobs/" }

// JobRecord is the object that makes that job, from 1, one of the sweep's. It is created before the job is.
func (n Names) JobRecord(number int) string { return fmt.Sprintf("%s%d.json", n.Jobs(), number) }

// Told is the object that says that what became of the sweep has been told on a channel.
func (n Names) Told(o Occasion, channel string) string {
	return fmt.Sprintf("%stold/%s.%s.json", n.Prefix(), o, channel)
}

// Trials is the folder of all trials.
func (n Names) Trials() string { return n.Prefix() + "trials/" }

// Trial is the folder of one trial.
func (n Names) Trial(trial int) string { return fmt.Sprintf("%s%04d/", n.Trials(), trial) }

// Claim is the object with which a task takes a trial; the claim with the highest number holds it.
func (n Names) Claim(trial, claim int) string {
	return fmt.Sprintf("%sclaims/%d", n.Trial(trial), claim)
}

// Heartbeat is rewritten by the holder of a claim as long as it lives.
func (n Names) Heartbeat(trial, claim int) string {
	return fmt.Sprintf("%sheartbeats/%d", n.Trial(trial), claim)
}

// Release is left by a task that has to go before its trial has ended: the trial may be taken at once, and this claim is no
// sign against the candidate.
func (n Names) Release(trial, claim int) string {
	return fmt.Sprintf("%sreleases/%d", n.Trial(trial), claim)
}

// Result is the trial's end; the first to write it wins.
func (n Names) Result(trial int) string { return n.Trial(trial) + "result.json" }

// Decision is what an open trial trains.
func (n Names) Decision(trial int) string { return n.Trial(trial) + "decision.json" }

// Rung is what became of a trial when it had so many trees.
func (n Names) Rung(trial, step int) string { return fmt.Sprintf("%srungs/%d", n.Trial(trial), step) }

// Configuration is the object with which an open trial takes a configuration, known by its ConfigurationKey.
func (n Names) Configuration(key string) string {
	return n.Prefix() + "configurations/" + key + ".json"
}

// Curve is the learning curve of what one claim's holder has grown.
func (n Names) Curve(trial, claim int) string {
	return fmt.Sprintf("%s%d", n.Curves(trial), claim)
}

// Curves is the folder of a trial's learning curves, with the slash.
func (n Names) Curves(trial int) string { return n.Trial(trial) + "curves/" }

// Attempt is the folder of what one claim produced, with the slash.
func (n Names) Attempt(trial, claim int) string {
	return fmt.Sprintf("%sattempts/%d/", n.Trial(trial), claim)
}

// Checkpoints is the folder of what a trial's claims have saved of their training, with the slash.
func (n Names) Checkpoints(trial int) string { return n.Trial(trial) + "checkpoints/" }

// Checkpoint is the folder of one claim's, with the slash.
func (n Names) Checkpoint(trial, claim int) string {
	return fmt.Sprintf("%s%d/", n.Checkpoints(trial), claim)
}

// Part is what an object under a sweep's trials is.
type Part string

// The parts of a trial that ParseTrialObject tells apart.
const (
	PartClaim     Part = "claim"
	PartHeartbeat Part = "heartbeat"
	PartRelease   Part = "release"
	PartResult    Part = "result"
	// PartCheckpoint shows, even when it is empty by now, that its claim has got further than the claim before.
	PartCheckpoint Part = "checkpoint"
	PartCurve      Part = "curve"
	PartDecision   Part = "decision"
	PartRung       Part = "rung" // of which the number is that of the trees
	PartOther      Part = "other"
)

// numbered are the folders of a trial in which every claim has one object.
var numbered = map[string]Part{"claims": PartClaim, "heartbeats": PartHeartbeat, "releases": PartRelease, "curves": PartCurve, "rungs": PartRung}

// ParseTrialObject takes an object's name under Trials apart. ok is false for names that no Coppice wrote: of two ways to write
// a number, only the one that the methods above have counts.
func (n Names) ParseTrialObject(name string) (trial int, part Part, claim int, ok bool) {
	rest, found := strings.CutPrefix(name, n.Trials())
	if !found {
		return 0, "", 0, false
	}
	parts := strings.Split(rest, "/")
	trial, err := strconv.Atoi(parts[0])
	if err != nil || trial < 0 || trial >= MaxTrials || len(parts) < 2 || parts[0] != fmt.Sprintf("%04d", trial) {
		return 0, "", 0, false
	}

	switch {
	case len(parts) == 2 && parts[1] == "result.json":
		return trial, PartResult, 0, true
	case len(parts) == 2 && parts[1] == "decision.json":
		return trial, PartDecision, 0, true
	case len(parts) == 3 && numbered[parts[1]] != "":
		part = numbered[parts[1]]
	case len(parts) == 4 && parts[1] == "checkpoints":
		part = PartCheckpoint
	default:
		return trial, PartOther, 0, true
	}
	claim, err = strconv.Atoi(parts[2])
	if err != nil || claim < 0 || claim > maxClaim || parts[2] != strconv.Itoa(claim) {
		return 0, "", 0, false
	}
	return trial, part, claim, true
}

// maxClaim is far above what any trial can have: whoever made a claim of a higher number was no task.
const maxClaim = 1e6

// PlansPrefix is the folder of all sweeps' plans; ParsePlanName tells which sweep a plan found there belongs to.
const PlansPrefix = plansRoot

// ParsePlanName is the id of the sweep whose plan has this name.
func ParsePlanName(name string) (ID, bool) {
	rest, a := strings.CutPrefix(name, plansRoot)
	id, b := strings.CutSuffix(rest, ".json")
	return ID(id), a && b && CheckID(id) == nil
}

const versionDigits = 16

var versionPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// DatasetVersions is the folder of all versions of a dataset in the datasets bucket, or of all datasets where name is empty, with the slash.
func DatasetVersions(name string) string {
	if name == "" {
		return "datasets/"
	}
	return "datasets/" + name + "/"
}

// DatasetDir is the folder of one dataset version in the datasets bucket, with the slash. manifest.json is written last.
func DatasetDir(name, version string) string { return "datasets/" + name + "/" + version + "/" }

// DatasetLatest is the object that says which version NAME alone means.
func DatasetLatest(name string) string { return "datasets/" + name + "/latest.json" }

// DatasetStaging is the folder in which a staging job says how far it is and how it ended, with the slash.
func DatasetStaging(name, job string) string { return "datasets/" + name + "/staging/" + job + "/" }

// DatasetBacktest is the folder of a backtest's report, by its key, with the slash.
func DatasetBacktest(name, key string) string { return "datasets/" + name + "/backtests/" + key + "/" }

// DatasetBacktestRun is the folder in which a backtest's job says how far it is and how it ended, with the slash.
func DatasetBacktestRun(name, job string) string {
	return "datasets/" + name + "/backtests/jobs/" + job + "/"
}

// DatasetInput is the object that says which version an input, known by its fingerprint, was staged as.
func DatasetInput(name, fingerprint string) string {
	return "datasets/" + name + "/inputs/" + fingerprint + ".json"
}

// DatasetNights is the folder of the records of a dataset's nights, with the slash.
func DatasetNights(name string) string { return "datasets/" + name + "/nights/" }

// DatasetNight is the object that says what was found out about a version's table when it was staged.
func DatasetNight(name, version string) string { return DatasetNights(name) + version + ".json" }

// DatasetTold is the object that says that a version being blocked has been told on a channel.
func DatasetTold(name, version, channel string) string {
	return "datasets/" + name + "/told/" + version + "." + channel + ".json"
}
