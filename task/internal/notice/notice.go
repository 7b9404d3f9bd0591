// Package notice catches SIGTERM and SIGINT from the first moments of the process. Machines are also taken away while
// programs start, and a task spends tens of milliseconds initialising its libraries before main begins: a signal in
// that window would end it with status 143, whatever main does first.
//
// The signals are therefore caught while this package is initialised. Go initialises packages in the order of their
// paths, each as soon as its imports are ready; this one imports so little that it precedes all but a few. Keep it that
// way, and import it only from package command: a program that imports it no longer dies of these signals.
package notice

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// heard receives the signals from initialisation on.
var heard = listen()

// listen starts to catch the signals and returns a channel that gets the first of them.
func listen() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// taken is set once a context watches the signals.
var taken atomic.Bool

// Context returns a context that ends with the first signal since the process began, including one received before the
// call. Further signals are ignored: a task that was told to stop needs the rest of its time. It may be called only
// once; stop frees its resources.
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
