package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"coppice/internal/problem"
)

var namePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// CheckName rejects a sweep's, dataset's or model's name that is not 1 to 40 characters of a-z, 0-9 and '-', beginning
// with a letter and ending with a letter or digit: the rule of Batch job ids, which are made from them, and safe in
// paths.
func CheckName(kind, name string) error {
	if !namePattern.MatchString(name) {
		return nameError(kind+" name", name, 40)
	}
	return nil
}

// nameError returns the error that a name, described by what, is not one of 1 to longest characters as prescribed.
func nameError(what, name string, longest int) error {
	return problem.New(problem.Input,
		"%s %.60q: use 1 to %d of a-z, 0-9 and '-', beginning with a letter and not ending with '-'", what, name,
		longest)
}

// ID names one sweep, and is its Batch job's id.
type ID string

var idPattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// maxID is Batch's limit for the length of a job's id.
const maxID = 63

// CheckID rejects a sweep id that is not a valid job id for Batch, or that could leave its folder.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return nameError("sweep id", id, maxID)
	}
	return nil
}

var jobPattern = regexp.MustCompile(`-f[0-9]{1,3}$`)

// LikeJob reports whether an id ends as the ids of a sweep's jobs after the first do. No new sweep should have such an
// id, since it could be that of another sweep's job.
func (id ID) LikeJob() bool { return jobPattern.MatchString(string(id)) }

// JobID returns the Batch id of the sweep's job n: the sweep's own id for job 0, and with the suffix -fN for others. An
// id that would be too long with the suffix is cut, and ends with a hash of the whole id and the suffix, so that ids of
// different sweeps stay different.
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

// All objects of a sweep are in the sweeps bucket: its plan under plans/, so that sweeps can be listed without their
// trials, everything else under sweeps/ID/. WIRE.md describes the writers and contents.
const (
	plansRoot  = "plans/"
	sweepsRoot = "sweeps/"
)

// Names returns the names of a sweep's objects. Only package sweepstore reads and writes these objects and uses the
// names (a test of internal/arch): the meaning of an object is to be decided in one place.
type Names ID

// Prefix is the folder of the sweep, ending in a slash.
func (n Names) Prefix() string { return sweepsRoot + string(n) + "/" }

// Plan is the object whose existence makes the sweep exist.
func (n Names) Plan() string { return plansRoot + string(n) + ".json" }

// Cancel is the object that asks every task to stop.
func (n Names) Cancel() string { return n.Prefix() + "cancel.json" }

// Ending is the object that says which results count; later ones do not.
func (n Names) Ending() string { return n.Prefix() + "ending.json" }

// ParseJobRecord returns the number of the job, from 1, whose record has this name. Each number has one spelling.
func (n Names) ParseJobRecord(name string) (number int, ok bool) {
	rest, in := strings.CutPrefix(name, n.Jobs())
	text, file := strings.CutSuffix(rest, ".json")
	number, err := strconv.Atoi(text)
	return number, in && file && err == nil && number >= 1 && text == strconv.Itoa(number)
}

// Conclusion is the object that concludes a sweep.
func (n Names) Conclusion() string { return n.Prefix() + "conclusion.json" }

// Jobs is the folder with the records of the sweep's jobs after the first, ending in a slash.
func (n Names) Jobs() string { return n.Prefix() + "jobs/" }

// JobRecord is the object that makes a job, from 1, one of the sweep's. It is created before the job is submitted.
func (n Names) JobRecord(number int) string { return fmt.Sprintf("%s%d.json", n.Jobs(), number) }

// Told is the object that marks the notification of the sweep's outcome as sent on a channel.
func (n Names) Told(o Occasion, channel string) string {
	return fmt.Sprintf("%stold/%s.%s.json", n.Prefix(), o, channel)
}

// Trials is the folder of all trials.
func (n Names) Trials() string { return n.Prefix() + "trials/" }

// Trial is the folder of one trial.
func (n Names) Trial(trial int) string { return fmt.Sprintf("%s%04d/", n.Trials(), trial) }

// Claim is the object by which a task claims a trial; the highest claim holds it.
func (n Names) Claim(trial, claim int) string {
	return fmt.Sprintf("%sclaims/%d", n.Trial(trial), claim)
}

// Heartbeat is rewritten by the holder of a claim while it is alive.
func (n Names) Heartbeat(trial, claim int) string {
	return fmt.Sprintf("%sheartbeats/%d", n.Trial(trial), claim)
}

// Release is written by a task that has to stop before its trial has ended: the trial may be claimed at once, and this
// claim does not count as a death.
func (n Names) Release(trial, claim int) string {
	return fmt.Sprintf("%sreleases/%d", n.Trial(trial), claim)
}

// Trouble is what holds a task of a job up, or has ended it; it is empty once that is over.
func (n Names) Trouble(job string, task int) string {
	return fmt.Sprintf("%s%s.%d", n.Troubles(), job, task)
}

// Troubles is the folder of the tasks' troubles, ending in a slash: beside the trials, to be listed with them.
func (n Names) Troubles() string { return n.Trials() + "troubles/" }

// Team is the folder where tasks meet that train a trial together with the holder of a claim, ending in a slash.
func (n Names) Team(trial, claim int) string {
	return fmt.Sprintf("%steams/%d/%d/", n.Prefix(), trial, claim)
}

// Result is the trial's result; the first one written counts.
func (n Names) Result(trial int) string { return n.Trial(trial) + "result.json" }

// Decision says what an open trial trains.
func (n Names) Decision(trial int) string { return n.Trial(trial) + "decision.json" }

// Rung is the decision about a trial at a number of trees.
func (n Names) Rung(trial, step int) string { return fmt.Sprintf("%srungs/%d", n.Trial(trial), step) }

// Pause shows in listings that a trial waits at a number of trees.
func (n Names) Pause(trial, step int) string { return fmt.Sprintf("%spauses/%d", n.Trial(trial), step) }

// Promotion says what becomes of a trial that was paused at a number of trees.
func (n Names) Promotion(trial, step int) string {
	return fmt.Sprintf("%spromotions/%d", n.Trial(trial), step)
}

// Configuration is the object by which an open trial reserves a configuration, identified by its ConfigurationKey,
// after that many trials that reserved it and were decided otherwise.
func (n Names) Configuration(key string, after int) string {
	if after > 0 {
		key = fmt.Sprintf("%s.%d", key, after)
	}
	return n.Configurations() + key + ".json"
}

// Configurations is the folder of the reserved configurations, ending in a slash.
func (n Names) Configurations() string { return n.Prefix() + "configurations/" }

// Curve is the learning curve of the trees grown under one claim.
func (n Names) Curve(trial, claim int) string {
	return fmt.Sprintf("%s%d", n.Curves(trial), claim)
}

// Curves is the folder of a trial's learning curves, ending in a slash.
func (n Names) Curves(trial int) string { return n.Trial(trial) + "curves/" }

// Attempt is the folder of one claim's files, ending in a slash.
func (n Names) Attempt(trial, claim int) string {
	return fmt.Sprintf("%sattempts/%d/", n.Trial(trial), claim)
}

// Checkpoints is the folder of all checkpoints of a trial, ending in a slash.
func (n Names) Checkpoints(trial int) string { return n.Trial(trial) + CheckpointsFolder[1:] }

// CheckpointsFolder is in the names of all checkpoints, and of no other object. Rights depend on it (terraform/iam.tf).
const CheckpointsFolder = "/checkpoints/"

// Checkpoint is the folder of one claim's checkpoints, ending in a slash.
func (n Names) Checkpoint(trial, claim int) string {
	return fmt.Sprintf("%s%d/", n.Checkpoints(trial), claim)
}

// Part is the kind of an object under a sweep's trials.
type Part string

// The kinds recognised by ParseTrialObject.
const (
	PartClaim     Part = "claim"
	PartHeartbeat Part = "heartbeat"
	PartRelease   Part = "release"
	PartResult    Part = "result"
	// PartCheckpoint shows, even if it has been emptied, that its claim got further than the previous one.
	PartCheckpoint Part = "checkpoint"
	PartCurve      Part = "curve"
	PartDecision   Part = "decision"
	PartRung       Part = "rung"      // its number is the number of trees, as that of the next two
	PartPause      Part = "pause"     // the trial waits there
	PartPromotion  Part = "promotion" // a pause there has ended, for better or worse
	PartOther      Part = "other"
)

// numbered lists the folders of a trial with one object per claim or number of trees.
var numbered = map[string]Part{"claims": PartClaim, "heartbeats": PartHeartbeat, "releases": PartRelease,
	"curves": PartCurve, "rungs": PartRung, "pauses": PartPause, "promotions": PartPromotion}

// ParseTrialObject returns what an object under Trials is, by its name: the trial, the kind, and the number of the
// claim or, for objects of rungs, of trees; 0 for kinds without one. A name in a trial's folder that it does not know
// is of kind PartOther. ok is false for a name that is not in a trial's folder, as that of a Trouble, and for a number
// in another spelling than the methods above give it.
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

// maxClaim is far above any trial's number of claims: a higher one was not made by a task.
const maxClaim = 1e6

// PlansPrefix is the folder of all sweeps' plans; ParsePlanName returns the sweep of a plan found there.
const PlansPrefix = plansRoot

// ParsePlanName returns the id of the sweep whose plan has this name.
func ParsePlanName(name string) (ID, bool) {
	rest, a := strings.CutPrefix(name, plansRoot)
	id, b := strings.CutSuffix(rest, ".json")
	return ID(id), a && b && CheckID(id) == nil
}

// ParseSweepObject returns the id of the sweep to which an object belongs.
func ParseSweepObject(name string) (ID, bool) {
	if id, ok := ParsePlanName(name); ok {
		return id, true
	}
	rest, a := strings.CutPrefix(name, sweepsRoot)
	id, _, b := strings.Cut(rest, "/")
	return ID(id), a && b && CheckID(id) == nil
}

const versionDigits = 16

var versionPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// SplitDatasetRef splits NAME or NAME@VERSION. The version is empty for NAME alone, which stands for the latest.
func SplitDatasetRef(ref string) (name, version string, err error) {
	name, version, pinned := strings.Cut(ref, "@")
	if err := CheckName("dataset", name); err != nil {
		return "", "", err
	}
	if pinned && !versionPattern.MatchString(version) {
		return "", "", problem.New(problem.Input, "dataset version %.60q: use the %d hexadecimal digits that "+
			"`launcher stage` prints", version, versionDigits)
	}
	return name, version, nil
}

// SplitModelRef splits MODEL, MODEL@VERSION or MODEL@ALIAS; ref is empty for MODEL alone.
func SplitModelRef(arg string) (model, ref string, err error) {
	model, ref, pinned := strings.Cut(arg, "@")
	if err := CheckName("model", model); err != nil {
		return "", "", err
	}
	if pinned && ref == "" {
		return "", "", problem.New(problem.Usage, "%q: expected MODEL, MODEL@VERSION or MODEL@ALIAS", arg)
	}
	return model, ref, nil
}

// DatasetVersions is the folder of all versions of a dataset in the datasets bucket, or of all datasets if name is
// empty, ending in a slash.
func DatasetVersions(name string) string {
	if name == "" {
		return "datasets/"
	}
	return "datasets/" + name + "/"
}

// DatasetDir is the folder of one dataset version in the datasets bucket, ending in a slash. manifest.json is written
// last.
func DatasetDir(name, version string) string { return "datasets/" + name + "/" + version + "/" }

// DatasetLatest is the object with the version that NAME alone refers to.
func DatasetLatest(name string) string { return "datasets/" + name + "/latest.json" }

// DatasetStaging is the folder in which a staging job reports its progress and outcome, ending in a slash.
func DatasetStaging(name, job string) string { return "datasets/" + name + "/staging/" + job + "/" }

// DatasetInput is the object with the version that an input, identified by its fingerprint, was staged as.
func DatasetInput(name, fingerprint string) string {
	return "datasets/" + name + "/inputs/" + fingerprint + ".json"
}

// DatasetNights is the folder of the records of a dataset's nights, ending in a slash.
func DatasetNights(name string) string { return "datasets/" + name + "/nights/" }

// DatasetNight is the object with the findings about a version's table when it was staged.
func DatasetNight(name, version string) string { return DatasetNights(name) + version + ".json" }

// DatasetTold is the object that marks the notification of a blocked version as sent on a channel.
func DatasetTold(name, version, channel string) string {
	return "datasets/" + name + "/told/" + version + "." + channel + ".json"
}

// A sweep has one trace id everywhere: in the log lines of launcher, tasks and aggregator, in the attributes of its
// messages, on the version in the registry. It is derived from the sweep's own id, so it need not be passed on, and a
// line written by a task that only knows its sweep has it, too.

// Trace is the sweep's trace id: 32 hexadecimal digits, as W3C Trace Context wants it.
// Source: https://www.w3.org/TR/trace-context/#trace-id
func (id ID) Trace() string { return digest("trace", string(id))[:32] }

// Span is the id of one piece of work within the trace, such as Span("trial", "7"): 16 hexadecimal digits. All claims
// of a trial are the same piece of work.
func (id ID) Span(work ...string) string {
	return digest("span", string(id), strings.Join(work, "\x00"))[:16]
}

// TraceParent is trace and span in one, as the attribute traceparent of a message. The last two digits say that nothing
// is recorded elsewhere.
// Source: https://www.w3.org/TR/trace-context/#traceparent-header
func (id ID) TraceParent(work ...string) string {
	return "00-" + id.Trace() + "-" + id.Span(work...) + "-00"
}

// digest cannot begin with enough zeros to make an id invalid: that would be a preimage.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte("coppice\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
