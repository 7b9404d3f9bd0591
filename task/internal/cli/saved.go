package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/task/internal/keep"
)

// saved is the folder of `task train --checkpoint`; the zero value stands for no folder.
type saved struct {
	dir    string
	folder *keep.Folder
	keeper *keep.Keeper
}

// openSaved makes q resume from the folder's checkpoint and save there.
func (w *Setup) openSaved(ctx context.Context, f trainFlags, q *fit.Request) (*saved, error) {
	if f.checkpoint == "" {
		return &saved{}, nil
	}

	folder, err := keep.OpenFolder(f.checkpoint)
	if problem.Is(err, problem.Conflict) {
		return nil, err
	} else if err != nil {
		return nil, program.Usagef("--checkpoint %s is not a usable folder: %w", f.checkpoint, err)
	}

	s := &saved{dir: f.checkpoint, folder: folder,
		keeper: &keep.Keeper{Place: folder, Prefix: keep.FolderPrefix, Every: f.every, Log: warnings(w.Err)}}
	if q.Resume, err = s.keeper.Newest(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("--checkpoint %s: %w", s.dir, err)
	}

	if q.Resume != nil && !f.json {
		fmt.Fprintf(w.Out, "resuming from the checkpoint after tree %d in %s\n", q.Resume.Trees(), s.dir)
	}

	q.Checkpoint = func(c *gbt.Checkpoint) error {
		s.keeper.Offer(ctx, c)
		return nil
	}
	return s, nil
}

// explain adds to a training error what it has to do with the checkpoint folder.
func (s *saved) explain(ctx context.Context, err error) error {
	var other *gbt.MismatchError
	switch {
	case s.folder == nil:
		return err
	case errors.As(err, &other):
		return fmt.Errorf("--checkpoint %s: %w; repeat the command unchanged, use another folder, or delete the "+
			"files in this one", s.dir, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the same command resumes from the checkpoint in %s", program.ErrInterrupted, s.dir)
	}
	return err
}

func (s *saved) clear(ctx context.Context) error {
	if s.folder == nil {
		return nil
	}
	if err := s.keeper.Clear(ctx); err != nil {
		return fmt.Errorf("the model is finished, but its checkpoints could not be deleted: %w", err)
	}
	return nil
}

func (s *saved) close() {
	if s.folder != nil {
		_ = s.folder.Close() // the process ends next and releases the lock in any case
	}
}

// warnings logs a keeper's warnings as plain lines, without times.
func warnings(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}
