// Package notify tells people what became of a night, on every channel that the deployment has, and on each of them once as far as that
// comes cheaply: what has been told is marked, and a mark that cannot be written only means that it is told again. A channel that fails
// holds nothing up. Aggregator and launcher both tell; it knows none of the channels.
package notify

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"coppice/sweep"
)

// Channel is a way on which verdicts reach people.
type Channel struct {
	Name string          // topic or webhook: part of a mark's name
	Only []sweep.Verdict // that are told on it; nil is all
	// Send returns when the message has arrived, or with the reason why it has not. No error may hold a secret.
	Send func(ctx context.Context, m *sweep.VerdictMessage) error
}

// Publisher publishes to a topic.
type Publisher interface {
	Publish(ctx context.Context, data []byte, attributes map[string]string) error
}

// Topic is the channel of a topic, on which everything is told.
func Topic(p Publisher) Channel {
	return Channel{Name: "topic", Send: func(ctx context.Context, m *sweep.VerdictMessage) error {
		data, err := m.Encode()
		if err != nil {
			return err
		}
		return p.Publish(ctx, data, m.Attributes())
	}}
}

// Webhook is the channel of a webhook that wants these verdicts.
func Webhook(only []string, send func(context.Context, *sweep.VerdictMessage) error) Channel {
	c := Channel{Name: "webhook", Only: []sweep.Verdict{}, Send: send}
	for _, v := range only {
		c.Only = append(c.Only, sweep.Verdict(v))
	}
	return c
}

// Broken is a channel of which it is known that it cannot work: every verdict that should be told on it says why.
func Broken(name string, why error) Channel {
	return Channel{Name: name, Send: func(context.Context, *sweep.VerdictMessage) error { return why }}
}

// Marks say on which channels one message has been told.
type Marks interface {
	Has(ctx context.Context, channel string) (bool, error)
	// Put marks a channel. That it was marked before is no error.
	Put(ctx context.Context, id, channel string, at time.Time) error
}

// Notifier tells. Its methods may be called from any goroutine; a nil one tells nobody.
type Notifier struct {
	Channels []Channel
	Now      func() time.Time
	Log      *slog.Logger

	mu      sync.Mutex
	resting map[string]time.Time // until when a channel, which was slow to fail, is left alone
}

// A channel whose other side does not answer takes most of a minute to say so, for every message. After such a failure it is left alone for a while; who fails at once may
// do so for one message alone.
const (
	slowFailure = 5 * time.Second
	restFor     = time.Minute
)

// Silent says that there is nobody to tell.
func (n *Notifier) Silent() bool { return n == nil || len(n.Channels) == 0 }

// Tell sends m on every channel on which it has not been told. done is false where one has failed: it may be told again later.
func (n *Notifier) Tell(ctx context.Context, m sweep.VerdictMessage, marks Marks) (done bool) {
	done = true
	if n.Silent() {
		return done
	}

	for _, c := range n.Channels {
		if c.Only != nil && !slices.Contains(c.Only, m.Verdict) {
			continue
		}
		log := n.Log.With("id", m.ID, "channel", c.Name, "verdict", m.Verdict)
		if m.Sweep != "" {
			log = log.With("sweep", m.Sweep)
		}
		done = n.tell(ctx, c, &m, marks, log) && done
	}

	return done
}

func (n *Notifier) tell(ctx context.Context, c Channel, m *sweep.VerdictMessage, marks Marks, log *slog.Logger) bool {
	told, err := marks.Has(ctx, c.Name)
	if err != nil {
		log.Warn("whether a verdict was told is not known", "error", err.Error())
		return false
	}
	if told {
		return true
	}

	if n.rests(c.Name) {
		log.Debug("a verdict is not told yet: the channel has just failed")
		return false
	}
	began := n.Now()
	if err := c.Send(ctx, m); err != nil {
		n.failed(c.Name, began)
		log.Error("a verdict could not be told", "error", err.Error())
		return false
	}
	log.Info("verdict told")

	// Without its mark it would be told once more, which is better than never.
	if err := marks.Put(ctx, m.ID, c.Name, n.Now()); err != nil {
		log.Warn("that a verdict was told could not be marked", "error", err.Error())
		return false
	}
	return true
}

func (n *Notifier) rests(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Now().Before(n.resting[channel])
}

func (n *Notifier) failed(channel string, began time.Time) {
	now := n.Now()
	if now.Sub(began) < slowFailure {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.resting == nil {
		n.resting = map[string]time.Time{}
	}
	n.resting[channel] = now.Add(restFor)
}
