package jetstream_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/tests/testenv"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// TestPublish counts goroutines: no other test runs beside it.
func TestPublish(t *testing.T) {
	broker := testenv.OwnNATS(t)

	t.Run("a batch published again counts as duplicates and is stored once", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		old, fresh := messages(name+".a", "old", 2000, 100), messages(name+".a", "new", 2000, 100)
		mustPublish(t, s, old)
		if out := mustPublish(t, s, append(old[:len(old):len(old)], fresh...)); out.Duplicates != len(old) {
			t.Errorf("%d duplicates, want %d", out.Duplicates, len(old))
		}
		wantWhole(t, read(t, stream, ""), old, fresh)
	})

	t.Run("repeats take no round trip each", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		p := testenv.StartProxy(t, broker.Addr())
		batch := messages(name+".a", "row", 1000, 1000)
		mustPublish(t, open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name}), batch)
		s := open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name})
		p.Latency(10 * time.Millisecond)
		began := time.Now()
		if out := mustPublish(t, s, batch); out.Duplicates != len(batch) {
			t.Errorf("%d of %d are duplicates", out.Duplicates, len(batch))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d repeats took %s at 20 ms a round trip", len(batch), took)
		}
	})
	t.Run("each message goes to the stream that takes its subject", func(t *testing.T) {
		one, two := broker.CreateStream(t, natsjs.StreamConfig{}), broker.CreateStream(t, natsjs.StreamConfig{})
		nameOne, nameTwo := one.CachedInfo().Config.Name, two.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}})
		a, b := messages(nameOne+".a", "a", 300, 10), messages(nameTwo+".b", "b", 300, 10)
		var mixed []sink.Message
		for i := range a {
			mixed = append(mixed, a[i], b[i])
		}
		if out := mustPublish(t, s, mixed); len(out.TPs) != 2 {
			t.Errorf("TPs %v, want two streams", out.TPs)
		}
		wantWhole(t, read(t, one, ""), a)
		wantWhole(t, read(t, two, ""), b)
	})

	t.Run("a subject that moves to another stream is followed", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}})
		mustPublish(t, s, messages(config.Name+".a", "before", 10, 10))
		subjects := config.Subjects
		config.Subjects = []string{config.Name + ".elsewhere"}
		if _, err := broker.JetStream(t).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		other := broker.CreateStream(t, natsjs.StreamConfig{Subjects: []string{strings.Replace(subjects[0], ">", "a", 1)}})
		after := messages(config.Name+".a", "after", 100, 10)
		mustPublish(t, s, after)
		wantWhole(t, read(t, other, ""), after)
	})

	t.Run("max_msg_size of the stream rejects with both sizes", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{MaxMsgSize: 4096})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		batch := messages(name+".a", "sizes", 20, 20)
		batch[10].Value = make([]byte, 4000)
		out, err := s.Publish(deadline(t, 10*time.Second), batch)
		if err != nil {
			t.Fatal(err)
		}
		if out.Acked() != 10 || len(out.Rejected) != 1 || out.Rejected[0].Index != 10 || out.Status[11] != sink.Pending {
			t.Fatalf("the outcome is %+v", out)
		}
		if why := out.Rejected[0].Reason; !strings.Contains(why, "4096") || !strings.Contains(why, "max_msg_size") {
			t.Errorf("the reason is %q", why)
		}
	})

	t.Run("a limit that is lowered under way rejects", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: config.Name})
		mustPublish(t, s, messages(config.Name+".a", "before", 10, 10))
		config.MaxMsgSize = 2048
		if _, err := broker.JetStream(t).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		batch := messages(config.Name+".a", "after", 20, 20)
		batch[10].Value = make([]byte, 3000)
		out, err := s.Publish(deadline(t, 10*time.Second), batch)
		if err != nil || out.Acked() != 10 || len(out.Rejected) != 1 || out.Rejected[0].Index != 10 {
			t.Fatalf("the outcome is %+v, %v", out, err)
		}
	})

	t.Run("a limit that grows under way rejects no more", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{MaxMsgSize: 2048})
		config := stream.CachedInfo().Config
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: config.Name})
		batch := messages(config.Name+".a", "large", 1, 1)
		batch[0].Value = make([]byte, 3000)
		refused := func() bool {
			out, err := s.Publish(deadline(t, 10*time.Second), batch)
			if err != nil {
				t.Fatal(err)
			}
			return len(out.Rejected) == 1
		}
		if !refused() {
			t.Fatal("it is taken")
		}
		config.MaxMsgSize = 4096
		if _, err := broker.JetStream(t).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "it is taken", func() bool { return !refused() })
		mustPublish(t, s, messages(config.Name+".a", "after", 10, 10))
	})

	t.Run("a destination that is not a subject is rejected", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		for _, subject := range []string{name + ".a b", name + "..a", name + ".*", "", "." + name} {
			out, err := s.Publish(deadline(t, 10*time.Second), messages(subject, "bad", 1, 1))
			if err != nil || len(out.Rejected) != 1 {
				t.Errorf("%q: the outcome is %+v, %v", subject, out, err)
			}
		}
	})

	t.Run("one subject that is not taken holds up its own batches only", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		ctx, cancel := context.WithCancel(deadline(t, 4*time.Minute))
		stuck := make(chan error, 1)
		go func() {
			_, err := s.Publish(ctx, messages("nowhere."+name, "stuck", 10, 1))
			stuck <- err
		}()
		eventually(t, 10*time.Second, "Ready tells of the subject", func() bool {
			err := s.Ready(ctx)
			return err != nil && strings.Contains(err.Error(), "nowhere."+name)
		})
		for range 5 {
			mustPublish(t, s, messages(name+".a", "free", 100, 10))
		}
		cancel()
		if err := <-stuck; !errors.Is(err, context.Canceled) {
			t.Errorf("the stuck Publish returns %v", err)
		}
		eventually(t, 10*time.Second, "Ready forgets the fault", func() bool { return s.Ready(t.Context()) == nil })
	})

	t.Run("Close leaves no goroutine behind", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		before := runtime.NumGoroutine()
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		mustPublish(t, s, messages(name+".a", "some", 100, 10))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// The library's own goroutines and the server's end a moment after the connection.
		eventually(t, 10*time.Second, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// TestHalfOpenConnectionIsNoticed measures time: no other test of this package runs beside it. By
// design it takes 7 s, and else minutes.
func TestHalfOpenConnectionIsNoticed(t *testing.T) {
	broker := testenv.OwnNATS(t)
	stream := broker.CreateStream(t, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	p := testenv.StartProxy(t, broker.Addr())
	type session struct {
		stream string
		begun  time.Time
	}
	sessions := make(chan session, 10)
	s := open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name, Session: func(stream string) { sessions <- session{stream, time.Now()} }})
	before := messages(name+".a", "before", 100, 10)
	mustPublish(t, s, before)
	mustPublish(t, s, messages(name+".a", "before", 100, 10))
	if first := <-sessions; first.stream != name || len(sessions) != 0 {
		t.Errorf("two batches over one connection told of sessions with %s and %d others", first.stream, len(sessions))
	}
	begun := time.Now()
	p.Freeze()
	during := messages(name+".a", "during", 3000, 10)
	mustPublish(t, s, during)
	if len(sessions) == 0 {
		t.Error("nobody was told of the new connection")
	} else if took := (<-sessions).begun.Sub(begun); took > 20*time.Second {
		t.Errorf("the new connection was there after %s", took)
	}
	wantWhole(t, read(t, stream, ""), before, during)
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	broker := testenv.InProcessNATS(t, func(o *server.Options) {
		admin := &server.User{Username: "admin", Password: "admin"}
		limited := &server.User{Username: "limited", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"T.allowed", "$JS.API.STREAM.INFO.T", "$JS.API.STREAM.MSG.GET.T"}},
		}}
		o.Users = []*server.User{admin, limited}
	})
	admin := broker.As("admin", "admin")
	stream := admin.CreateStream(t, natsjs.StreamConfig{Name: "T"})
	var mu sync.Mutex
	faults := 0
	s := open(t, jetstream.Options{
		URLs: []string{broker.URL()}, Stream: "T",
		Password: func() (string, string, error) { return "limited", "secret", nil },
		Fault: func(string, error) {
			mu.Lock()
			defer mu.Unlock()
			faults++
		},
	})
	ctx, cancel := context.WithCancel(deadline(t, 4*time.Minute))
	stuck := make(chan error, 1)
	go func() {
		_, err := s.Publish(ctx, messages("T.forbidden", "stuck", 10, 1))
		stuck <- err
	}()
	eventually(t, 4*time.Second, "Ready tells of the missing right", func() bool {
		err := s.Ready(ctx)
		return err != nil && strings.Contains(err.Error(), "T.forbidden") && strings.Contains(err.Error(), "grant")
	})
	allowed := messages("T.allowed", "free", 500, 10)
	mustPublish(t, s, allowed)
	cancel()
	<-stuck
	wantWhole(t, read(t, stream, ""), allowed)
	mu.Lock()
	defer mu.Unlock()
	if faults == 0 {
		t.Error("the hook has not heard of the fault")
	}
}
