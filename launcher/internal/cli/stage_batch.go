package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"coppice/blob"
	"coppice/dataset"
	"coppice/launcher/internal/stagejob"
	"coppice/launcher/internal/stager"
	"coppice/machines"
	"coppice/program"
	"coppice/sweep"
)

// batchFlags say on what `launcher stage --batch` runs.
type batchFlags struct {
	on       bool
	machine  string
	spot     bool
	localSSD int
}

func (f *batchFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "batch", false, "stage in the cloud, as a Batch job of one task next to the data; Ctrl-C cancels it, unless it had been started before")
	cmd.Flags().StringVar(&f.machine, "machine", "n2-highmem-8", "machine type for --batch")
	cmd.Flags().BoolVar(&f.spot, "spot", false, "use a Spot machine for --batch")
	cmd.Flags().IntVar(&f.localSSD, "local-ssd", 0, "local SSDs for --batch; as few as should hold source and dataset without")
}

// check refuses what cannot go together. cmd knows which flags were given.
func (f batchFlags) check(cmd *cobra.Command) error {
	where := "with"
	others := []string{"out", "scratch", "threads"}
	if !f.on {
		where = "without"
		others = []string{"machine", "spot", "local-ssd"}
	}

	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return program.Usagef("--%s says nothing %s --batch", name, where)
		}
	}

	if f.localSSD < 0 {
		return program.Usagef("--local-ssd is %d", f.localSSD)
	}
	return nil
}

// machineType is the type of --machine, which must take as many disks as --local-ssd says.
func (f batchFlags) machineType() (machines.Type, error) {
	t, err := findType(f.machine)
	if err != nil {
		return t, program.Usagef("--machine: %v", err)
	}
	if f.localSSD > 0 {
		if err := t.CheckDisks(f.localSSD); err != nil {
			return t, program.Usagef("--local-ssd: %v", err)
		}
	}
	return t, nil
}

// disks are those of --local-ssd, or the fewest that the type takes and that hold what staging may need. Where it takes no such number, all
// that it takes, if these hold at least what every staging needs: few sources need the most.
func (f batchFlags) disks(t machines.Type, spec *dataset.Spec, bytes int64) (int, error) {
	if f.localSSD > 0 {
		return f.localSSD, nil
	}
	if n, err := t.FewestDisks(diskNeed(spec, bytes)); err == nil {
		return n, nil
	}
	_, err := t.FewestDisks(diskFactor * bytes)
	if err != nil {
		return 0, program.Usagef("--machine: %v", err)
	}
	return t.Disks[len(t.Disks)-1], nil
}

const (
	// diskFactor is how much disk the work may need for each byte of the source: the source itself, the dataset, which may be
	// larger than well compressed Parquet, and room.
	diskFactor = 8
	// encodedFactor and copyFactor, times the orders in which train has its rows, are the same where statistics of ids may be made: the
	// dataset has more columns then, and temporary files hold 8 bytes for each row and part of a key, and the bins of statistics once
	// more. So it is where little but ids is well compressed; text that is not compressed is textShare times as large.
	encodedFactor = 56
	copyFactor    = 28
	textShare     = 3
	// stageLimit bounds a staging job.
	stageLimit = 24 * time.Hour
	// stageEvery is how often a staging task says how far it is, and the launcher looks.
	stageEvery = time.Second
	// stageGoodbye is how long the launcher waits for a job that it has cancelled.
	stageGoodbye = 2 * time.Minute
)

// diskNeed is how many bytes of disk staging a source of so many bytes may need. Where the spec does not say how often train is to hold
// each of its rows, only small tables have them more than once.
func diskNeed(spec *dataset.Spec, bytes int64) int64 {
	if spec.Encodings.Off {
		return diskFactor * bytes
	}
	factor := int64(encodedFactor + copyFactor*max(1, spec.Encodings.Order.Copies))
	if ext := filepath.Ext(spec.Source); ext == ".csv" || ext == ".tsv" {
		factor /= textShare
	}
	return factor * bytes
}

// stageInBatch submits the staging of a source in a bucket and follows it to its end.
func (w *World) stageInBatch(ctx context.Context, file string, text []byte, spec *dataset.Spec, f stageFlags) error {
	if !stager.Remote(spec.Source) {
		return program.Usagef("--batch stages what lies in a bucket, and the source of %s is %.100q; copy it there first: gcloud storage cp", file, spec.Source)
	}

	machine, err := f.batch.machineType()
	if err != nil {
		return err
	}

	return w.with(ctx, func(c *cloud) error {
		s := &stager.Stager{Bucket: func(_ context.Context, name string) (blob.Store, error) { return c.Bucket(name), nil }}
		dst, err := c.destination("")
		if err != nil {
			return err
		}

		// An input that was staged before needs no machine.
		in, err := s.Look(ctx, spec, dst)
		if err != nil {
			return err
		}
		if in.Staged != nil {
			return w.staged(ctx, c, in.Staged, dst, f)
		}

		// The disks hold the source and the dataset that is made of it.
		disks, err := f.batch.disks(machine, spec, in.Bytes)
		if err != nil {
			return err
		}

		j, err := stagejob.Submit(ctx, c.Stages, stagejob.Request{Dataset: spec.Name, Fingerprint: in.Fingerprint,
			Env:     sweep.StageEnv{Project: c.env.Project, DatasetsBucket: c.env.DatasetsBucket, File: file, Spec: string(text)},
			Machine: machine.Name, VCPUs: machine.VCPUs, Memory: machine.MemoryBytes, Spot: f.batch.spot, LocalSSD: disks, Limit: stageLimit})
		if err != nil {
			return err
		}

		o, err := w.followStage(ctx, c, spec.Name, j, f.json)
		if err != nil {
			return err
		}

		m, err := stager.Manifest(ctx, c.datasets, spec.Name, o.Version)
		if err != nil {
			return err
		}
		night, err := dst.Night(ctx, m.Name, m.Version)
		if err != nil {
			return err
		}
		return w.staged(ctx, c, &stager.Staged{Manifest: m, Place: dst.Place(m), Existed: o.Existed, Night: night}, dst, f)
	})
}

// followStage shows the job until it has ended. When the launcher is interrupted, it cancels the job if it has started it.
func (w *World) followStage(ctx context.Context, c *cloud, name string, j *stagejob.Job, quiet bool) (*stagejob.Outcome, error) {
	say := func(format string, args ...any) {
		if !quiet {
			fmt.Fprintf(w.Err, format, args...)
		}
	}

	if j.Attached {
		say("this input is being staged already; attached to it\n")
	}

	bar := w.stageBar(quiet)
	follower := &stagejob.Follower{Jobs: c.Stages, Store: c.datasets, Every: stageEvery, Progress: bar.report,
		State: func(state string) { bar.finish(); say("job %s: %s\n", j.ID, state) }}

	o, err := follower.Wait(ctx, name, j)
	bar.finish()
	if ctx.Err() == nil {
		return o, err
	}

	if j.Attached { // whoever started it may be waiting for it, too
		return nil, fmt.Errorf("%w; staging job %s had been started before and goes on: the same command follows it again, `gcloud batch jobs cancel %s` ends it",
			program.ErrInterrupted, j.ID, j.Name)
	}

	// ctx is over: cancel with a context of its own.
	say("cancelling job %s\n", j.ID)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), stageGoodbye)
	defer stop()
	if _, err := c.Stages.Cancel(last, j.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; job %s may go on", program.ErrInterrupted, j.Name), err)
	}
	return nil, fmt.Errorf("%w; staging job %s is cancelled", program.ErrInterrupted, j.ID)
}

// stageTaskCommand is what runs in the job. People have no use for it.
func stageTaskCommand(w *World) *cobra.Command {
	return &cobra.Command{
		Use:    "stage-task",
		Short:  "Stage a dataset as the task of a Batch job",
		Long:   "What `launcher stage --batch` runs in the cloud. All settings come from the environment, which it writes into the job.",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return w.stageTask(cmd.Context()) },
	}
}

func (w *World) stageTask(ctx context.Context) (err error) {
	var env sweep.StageEnv
	if err := w.Environment(ctx, &env, "this command is started by the Batch job that `launcher stage --batch` submits"); err != nil {
		return err
	}

	b, err := w.Connect(ctx, Env{}) // without a project: buckets alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	log := program.Logger(w.Out, program.Origin{Program: "launcher", Version: w.Version, Project: env.Project}).With("job", env.Job, "attempt", env.Attempt)
	log.Info("staging started", "version", w.Version, "file", env.File)

	t := &stagejob.Task{Env: env, Now: w.Now, Every: stageEvery,
		Stager: &stager.Stager{Scratch: env.Scratch, Bucket: func(_ context.Context, name string) (blob.Store, error) { return b.Bucket(name), nil }},
		Dst:    stager.Destination{Store: b.Bucket(env.DatasetsBucket), URL: "gs://" + env.DatasetsBucket},
		Code:   func(err error) int { return program.ExitCode(ctx, err) }}

	if err := t.Run(ctx); err != nil {
		log.Error("staging failed", "error", err.Error())
		return retried(err, t.Code(err))
	}
	log.Info("staging done")
	return nil
}

// transientError is a failure of a staging task that another attempt may not meet.
type transientError struct{ error }

func (e *transientError) Unwrap() error { return e.error }

// ExitStatus is how a program ends with it.
func (*transientError) ExitStatus() int { return sweep.ExitTransient }

// retried marks an error that nothing but the moment may be the reason of: Batch starts the task again.
func retried(err error, code int) error {
	if code == sweep.ExitError || code == sweep.ExitInterrupt {
		return &transientError{err}
	}
	return err
}
