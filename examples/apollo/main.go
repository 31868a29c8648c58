package main

import (
	"context"
	"embed"
	"fmt"
	"time"

	"bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main(stage.Example{Name: "apollo", Files: files, Story: story}) }

// story releases namespaces for some eight seconds. Meanwhile a transaction commits late, a config
// service and Apollo's scanner restart, and bridge is killed.
func story(ctx context.Context, s *stage.Stage) error {
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	sender, a, b := newSender(s), newListener(s, "config-a"), newListener(s, "config-b")
	upstream := &scanner{Stage: s, heard: make(map[uint64]bool)}
	s.Say("config services a and b listen to the bus; Apollo's own scanner reads the table beside them")
	s.Begin(ctx, a.run)
	listening, scanning := s.Begin(ctx, b.run), s.Begin(ctx, upstream.run)
	cleaning, sending := s.Begin(ctx, sender.clean), s.Begin(ctx, sender.run)

	if err := stage.Pause(ctx, time.Second); err != nil {
		return err
	}
	commit := make(chan struct{})
	late := s.Begin(ctx, func(ctx context.Context) error { return sender.sendLate(ctx, "billing+default+application", commit) })

	if err := stage.Pause(ctx, 2*time.Second); err != nil {
		return err
	}
	listening.End()
	scanning.End()
	s.Say("config service b and the scanner are stopped for a deployment; releases go on")
	s.Bridge.Kill()
	s.Say("bridge is killed")
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	s.Say("bridge goes on where it was; config service b and the scanner are back")
	listening, scanning = s.Begin(ctx, b.run), s.Begin(ctx, upstream.run)

	if err := stage.Pause(ctx, time.Second); err != nil {
		return err
	}
	close(commit)
	late.Wait()
	if err := stage.Pause(ctx, 2*time.Second); err != nil {
		return err
	}
	sending.End()
	cleaning.End()
	for _, l := range []*listener{a, b} {
		if err := s.Wait(ctx, "every release that is still in the table, at "+l.name, func(context.Context) (bool, error) {
			_, there := sender.unheard(l.has)
			return there == 0, nil
		}); err != nil {
			return err
		}
	}
	listening.End()
	scanning.End()
	return conclude(s, sender, upstream, a, b)
}

// conclude adds up: each release was heard once and in order, or was cleaned before it could be
// read, which is only done behind a newer one of its namespace.
func conclude(s *stage.Stage, sender *sender, upstream *scanner, listeners ...*listener) error {
	sent, deleted := sender.count()
	s.Say("%d releases were sent, %d of them cleaned by now", sent, deleted)
	for _, l := range listeners {
		heard, repeats, wrong := l.result()
		cleaned, there := sender.unheard(l.has)
		if wrong != nil {
			return wrong
		}
		if there > 0 || heard+cleaned != sent {
			return fmt.Errorf("%s: %d releases are not %d heard and %d cleaned before that", l.name, sent, heard, cleaned)
		}
		s.Say("%s: %d = %d heard, each once and in order + %d cleaned before they could be read; %d repeats dropped", l.name, sent, heard, cleaned, repeats)
	}
	missed, there := sender.unheard(func(id uint64) bool { return upstream.heard[id] })
	s.Say("Apollo's scanner: %d = %d heard + %d never", sent, sent-missed-there, missed+there)
	s.Conclude("%d config services heard every release in order, over a restart, a late commit and a kill", len(listeners))
	return nil
}
