// Package notice hears SIGTERM and SIGINT from the first moments of the process on. Machines are taken away while programs
// start, too, and a task spends tens of milliseconds on making its libraries ready before main begins: a signal in that time
// would end it with 143, no matter what main does first.
//
// So the signals are caught while this package is initialised. Go initialises packages in the order of their paths, each as
// soon as what it imports is ready; this one imports so little that it comes before all but a few. It must stay that way,
// and only a main package may import it: who imports it no longer dies of the signals.
package notice

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// heard gets the signals from now on.
var heard = listen()

func listen() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// taken says that a context watches the signals already.
var taken atomic.Bool

// Context ends with the first signal since the process began, even one from before the call. Further ones change nothing: a task
// that is told to go needs the rest of its time. It may be called once; stop frees what it holds.
func Context() (ctx context.Context, stop context.CancelFunc) {
	if taken.Swap(true) {
		panic("notice: the signals of a process have one context")
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-heard:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
