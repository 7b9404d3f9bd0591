package pubsubemu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// Faults are the failures to inject. Which messages are struck depends only on Seed and on the order of publishing.
type Faults struct {
	Duplicate bool    // every message is published a second time, with another id
	Shuffle   bool    // messages are held back for a moment and published in another order, with new ids
	Drop      float64 // this share of messages is accepted and never delivered
	LoseAcks  float64 // this share of acknowledgements is lost: the message comes again
	Seed      uint64
}

// Shuffled messages wait until there are shuffleCount of them, or for shuffleTime.
const (
	shuffleCount = 16
	shuffleTime  = 200 * time.Millisecond
)

// publish is what Pub/Sub's call of that name does.
type publish func(context.Context, *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error)

// chaos stands between the publisher and pstest.
type chaos struct {
	faults  Faults
	struck  func(class string)
	publish publish // with the faults
	next    publish // without

	mu      sync.Mutex
	random  *rand.Rand
	serial  int
	waiting []waitingMessage
	timer   *time.Timer
	stopped bool
}

type waitingMessage struct {
	topic   string
	message *pubsubpb.PubsubMessage
}

// newChaos returns a chaos that loses, doubles and shuffles messages as f asks, and passes what is left on to next.
func newChaos(f Faults, next publish) *chaos {
	c := &chaos{faults: f, struck: func(string) {}, next: next, random: rand.New(rand.NewPCG(f.Seed, 0x5eed))}
	c.publish = c.publishInOrder
	if f.Shuffle {
		c.publish = c.publishShuffled
	}
	return c
}

// publishInOrder publishes the messages that are not to be lost, and all of them a second time if messages are to be
// doubled. The answer has an id for every message, also for lost ones: the publisher must not notice.
func (c *chaos) publishInOrder(ctx context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	kept, ids := c.dropMessages(r.GetMessages())
	if len(kept) == 0 { // all are lost, and every id is made up
		return &pubsubpb.PublishResponse{MessageIds: ids}, nil
	}
	repeats := 1
	if c.faults.Duplicate {
		repeats = 2
		for range kept {
			c.struck("message doubled")
		}
	}

	for i := range repeats {
		reply, err := c.next(ctx, &pubsubpb.PublishRequest{Topic: r.GetTopic(), Messages: clones(kept)})
		if err != nil {
			return nil, err
		}
		if i == 0 {
			fillEmptyIDs(ids, reply.GetMessageIds())
		}
	}
	return &pubsubpb.PublishResponse{MessageIds: ids}, nil
}

// fillEmptyIDs puts the given ids into the ids that are still empty.
func fillEmptyIDs(ids, given []string) {
	for i := range ids {
		if ids[i] == "" {
			ids[i] = given[0]
			given = given[1:]
		}
	}
}

// dropMessages returns the messages that are not to be lost, and an id for every message: a made-up one for those that
// are lost, "" for the others.
func (c *chaos) dropMessages(all []*pubsubpb.PubsubMessage) (kept []*pubsubpb.PubsubMessage, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids = make([]string, len(all))
	for i, m := range all {
		if c.faults.Drop > 0 && c.random.Float64() < c.faults.Drop {
			c.serial++
			c.struck("message dropped")
			ids[i] = fmt.Sprintf("dropped-%d", c.serial)
			continue
		}
		kept = append(kept, m)
	}

	return kept, ids
}

// clones returns deep copies of messages.
func clones(ms []*pubsubpb.PubsubMessage) []*pubsubpb.PubsubMessage {
	out := make([]*pubsubpb.PubsubMessage, len(ms))
	for i, m := range ms {
		out[i] = proto.CloneOf(m)
	}
	return out
}

// publishShuffled holds messages back until there are shuffleCount of them or shuffleTime has passed, when release
// publishes them in another order. It answers at once, with made-up ids.
func (c *chaos) publishShuffled(_ context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	kept, ids := c.dropMessages(r.GetMessages())
	c.mu.Lock()
	defer c.mu.Unlock()

	// Messages get their real ids when they are released; the answer needs some now.
	for i := range ids {
		if ids[i] == "" {
			c.serial++
			ids[i] = fmt.Sprintf("shuffled-%d", c.serial)
		}
	}

	for _, m := range kept {
		c.waiting = append(c.waiting, waitingMessage{r.GetTopic(), proto.CloneOf(m)})
		if c.faults.Duplicate {
			c.struck("message doubled")
			c.waiting = append(c.waiting, waitingMessage{r.GetTopic(), proto.CloneOf(m)})
		}
	}

	if len(c.waiting) >= shuffleCount {
		c.release()
	} else if c.timer == nil && !c.stopped {
		c.timer = time.AfterFunc(shuffleTime, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.timer = nil
			c.release()
		})
	}
	return &pubsubpb.PublishResponse{MessageIds: ids}, nil
}

// release publishes the held messages, in random order. If there are none, since they were published before the timer
// fired, it does nothing. The lock is held.
func (c *chaos) release() {
	if c.stopped || len(c.waiting) == 0 {
		return
	}
	c.struck("messages shuffled")
	c.random.Shuffle(len(c.waiting), func(i, j int) { c.waiting[i], c.waiting[j] = c.waiting[j], c.waiting[i] })
	for _, w := range c.waiting {
		r := &pubsubpb.PublishRequest{Topic: w.topic, Messages: []*pubsubpb.PubsubMessage{w.message}}
		_, _ = c.next(context.Background(), r) // the topic may have gone meanwhile
	}
	c.waiting = nil
}

// keptAcks returns those acknowledgements (or, for pushed messages, ids) that are not to be lost.
func (c *chaos) keptAcks(ids []string) []string {
	if c.faults.LoseAcks == 0 {
		return ids
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var kept []string
	for _, id := range ids {
		if c.random.Float64() < c.faults.LoseAcks {
			c.struck("acknowledgement lost")
			continue
		}
		kept = append(kept, id)
	}

	return kept
}

// stop ends publishing. Messages that are held back are dropped.
func (c *chaos) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
