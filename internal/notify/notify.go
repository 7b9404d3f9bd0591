// Package notify tells people the outcome of a night, on every channel of the deployment, and usually once on each:
// sent notifications are marked, and if a mark cannot be written, the worst case is a duplicate. A failing channel
// delays nothing. Aggregator and launcher both use it. The channels are a topic, which the caller opens, and a webhook.
package notify

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"coppice/internal/sweep"
)

// Channel is a way to notify people of verdicts.
type Channel struct {
	Name string          // topic or webhook: part of a mark's name
	Only []sweep.Verdict // the verdicts to send; nil for all
	// Send returns once the message has arrived, or with an error, which must not contain a secret.
	Send func(ctx context.Context, m *VerdictMessage) error
}

// Publisher publishes to a topic.
type Publisher interface {
	Publish(ctx context.Context, data []byte, attributes map[string]string) error
}

// Topic is the channel of a topic, to which every verdict is sent.
func Topic(p Publisher) Channel {
	return Channel{Name: "topic", Send: func(ctx context.Context, m *VerdictMessage) error {
		data, err := m.Encode()
		if err != nil {
			return err
		}
		return p.Publish(ctx, data, m.Attributes())
	}}
}

// Broken is a channel that is known not to work: every verdict for it fails with the reason.
func Broken(name string, why error) Channel {
	return Channel{Name: name, Send: func(context.Context, *VerdictMessage) error { return why }}
}

// Marks record on which channels a message has been sent.
type Marks interface {
	Has(ctx context.Context, channel string) (bool, error)
	// Put marks a channel. Marking it again is not an error.
	Put(ctx context.Context, id, channel string, at time.Time) error
}

// Notifier sends notifications. It is safe for concurrent use; a nil Notifier sends nothing.
type Notifier struct {
	Channels []Channel
	Now      func() time.Time
	Log      *slog.Logger

	mu      sync.Mutex
	resting map[string]time.Time // until when a channel is skipped after failing slowly
}

// A channel whose other side does not answer takes most of a minute to fail, for every message. After such a failure it
// is skipped for a while; a fast failure may concern only one message.
const (
	slowFailure = 5 * time.Second
	restFor     = time.Minute
)

// Silent reports whether there is no channel.
func (n *Notifier) Silent() bool { return n == nil || len(n.Channels) == 0 }

// Tell sends m on every channel that is for its verdict and on which, by marks, it has not been sent. done is false
// if it is not known to have been sent on all of them: call it again later. Failures are logged.
func (n *Notifier) Tell(ctx context.Context, m VerdictMessage, marks Marks) (done bool) {
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
		done = n.tellChannel(ctx, c, &m, marks, log) && done
	}

	return done
}

// tellChannel sends a message on one channel, unless its mark says that it was sent. It returns false, and logs why, if
// it should be called again: the channel has failed or is being skipped, or the mark could not be read or written.
func (n *Notifier) tellChannel(ctx context.Context, c Channel, m *VerdictMessage, marks Marks, log *slog.Logger) bool {
	told, err := marks.Has(ctx, c.Name)
	if err != nil {
		log.Warn("it is not known whether a verdict was sent", "error", err.Error())
		return false
	}
	if told {
		return true
	}

	if n.isResting(c.Name) {
		log.Debug("a verdict is not sent yet: the channel has just failed")
		return false
	}
	began := n.Now()
	if err := c.Send(ctx, m); err != nil {
		n.restChannel(c.Name, began)
		log.Error("a verdict could not be sent", "error", err.Error())
		return false
	}
	log.Info("verdict told")

	// Without its mark it would be sent again, which is better than never.
	if err := marks.Put(ctx, m.ID, c.Name, n.Now()); err != nil {
		log.Warn("could not mark a verdict as sent", "error", err.Error())
		return false
	}
	return true
}

// isResting reports whether a channel is being skipped after a slow failure.
func (n *Notifier) isResting(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Now().Before(n.resting[channel])
}

// restChannel is called when a channel has failed in an attempt that began then. If it took long, the channel is
// skipped for restFor, so that it does not delay others.
func (n *Notifier) restChannel(channel string, began time.Time) {
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
