package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "time/tzdata" // zones for TIME_ZONE where the image has none
)

func main() {
	ctx, stop := untilSignal(context.Background(), func() {
		_, _ = fmt.Fprintln(os.Stderr, "bridge: stopped at once by a second signal; nothing is lost: the next start reads from the bus what was not saved")
		// It may not be possible; what ends at once says nothing more.
		_ = removeLeftover()
		os.Exit(exitFailed)
	})
	stopProfile := profile()
	code := newProcess(os.Environ(), os.Stdout, os.Stderr).run(ctx, os.Args[1:])
	stopProfile()
	stop()
	os.Exit(code)
}

// untilSignal returns a context that the first SIGTERM or SIGINT cancels; the second one calls
// abort, which is safe at any moment (invariant 6). stop ends the watch and waits for it.
func untilSignal(parent context.Context, abort func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, act := range []func(){cancel, abort} {
			select {
			case <-signals:
				act()
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		cancel()
	}
}
