package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"coppice/internal/atomicfile"
	"coppice/localemu/gcsemu"
)

// AggregatorName is the key of the aggregator in Options.Names, which is no image.
const AggregatorName = "aggregator"

// script strikes with faults when objects are written, and counts the strikes.
type script struct {
	w *World

	mu     sync.Mutex
	left   []atWrite // that have not struck yet; Nth counts down
	random *rand.Rand
	counts map[string]int // by class
}

func newScript(w *World) *script {
	s := &script{w: w, left: append([]atWrite(nil), w.opts.Faults.AtWrite...), counts: map[string]int{}}
	s.random = rand.New(rand.NewPCG(w.opts.Faults.Seed, 0x77726974))
	for i := range s.left {
		s.left[i].Nth = max(s.left[i].Nth, 1)
	}
	return s
}

// struck counts a fault.
func (s *script) struck(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[class]++
}

// written is called for every write of an object, before its writer gets the answer.
func (s *script) written(_, object string) {
	s.mu.Lock()
	var due []atWrite
	rest := s.left[:0]
	for _, a := range s.left {
		if gcsemu.Matches(a.Match, object) {
			a.Nth--
		}
		if a.Nth <= 0 {
			due = append(due, a)
		} else {
			rest = append(rest, a)
		}
	}
	s.left = rest
	s.mu.Unlock()

	for _, a := range due {
		if err := s.strike(a); err != nil {
			s.w.log.Error("strike on purpose", "does", a.Does, "error", err)
		}
	}
}

func (s *script) strike(a atWrite) error {
	w := s.w
	switch a.Does {
	case loseMachine:
		w.batch.Strike(a.VM, a.blow())
	case killTask:
		w.batch.KillTask(a.Task)
	case pauseTask:
		w.batch.PauseTask(a.Task, time.Duration(a.For))
	case slowMachine:
		w.batch.SlowMachine(a.VM, time.Duration(a.For))
	case restartBatch:
		go func() { // the writer may be a task, which it ends
			if err := w.batch.Restart(); err != nil {
				w.log.Error("restart Batch on purpose", "error", err)
			}
		}()
	case killAggregators:
		w.aggregators.kill()
	case pauseAggregators:
		w.aggregators.pause(time.Duration(a.For))
	case damageObject:
		return w.storage.Damage(a.Target, a.How, s.choose)
	case damageDisk:
		return s.damageDisk(a)
	}

	return nil
}

func (s *script) choose(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// damageDisk damages the matching files of a machine's local disks in place, so that processes that have them mapped
// see the damage.
func (s *script) damageDisk(a atWrite) error {
	for _, folder := range s.w.batch.Disks(a.VM) {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if name, _ := filepath.Rel(folder, path); !gcsemu.Matches(a.Target, filepath.ToSlash(name)) {
				return nil
			}
			s.struck("disk damaged")
			return spoilFile(path, a.How)
		})

		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the machine may disappear meanwhile
			return err
		}
	}
	return nil
}

func spoilFile(path, how string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if data, err = gcsemu.Spoil(data, how); err != nil {
		return err
	}

	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if how == "cut" || how == "empty" {
		err = errors.Join(err, f.Truncate(int64(len(data))))
	}
	return errors.Join(err, f.Close())
}

// foreign are messages that none of our programs sends; sendForeign publishes them in turn.
var foreign = []string{"no JSON", "", "{}", "[1, 2", `{"format": 99}`,
	`{"format":1,"sweep":"nobody-knows-it","trial":0,"claim":0,"attempt":0,"status":"done","score":1}`,
	`{"format":1,"sweep":"../../plans","trial":-1}`, strings.Repeat("x", 60<<10)}

// sendForeign publishes n messages that none of our programs sends.
func (w *World) sendForeign(ctx context.Context, n int) error {
	for i := range n {
		m := &pubsubpb.PubsubMessage{Data: []byte(foreign[i%len(foreign)]),
			Attributes: map[string]string{"number": fmt.Sprint(i)}}
		if err := w.pubsub.PublishOwn(ctx, topic(scoresTopic), m); err != nil {
			return err
		}
		w.script.struck("foreign message")
	}
	return nil
}

// FaultsFile in the data folder says how often each class of faults struck; it is written when the local cloud ends.
const FaultsFile = "faults.json"

// report writes the counts, if any faults were ordered.
func (s *script) report() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.counts) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(s.counts, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.w.data, FaultsFile), append(text, '\n'), 0o644)
}
