package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/standby"
)

// coordinator is one of a group with one member, in which somebody joins and vanishes all the time:
// each generation ends at once, and the next one waits for half of the timeout.
type coordinator struct {
	timeout    time.Duration
	generation int32
	// rests: generations last. unanswered: requests to sync arrive, and are not answered.
	rests, unanswered bool
	// forgotten: it does not know the member.
	forgotten atomic.Bool
}

func (c *coordinator) Send(ctx context.Context, _ string, req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		if r.MemberID == "" {
			return &kmsg.JoinGroupResponse{ErrorCode: int16(memberIDRequired), MemberID: "id"}, nil
		}
		select {
		case <-time.After(c.timeout / 2):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.generation++
		return &kmsg.JoinGroupResponse{
			Generation: c.generation, MemberID: "id", LeaderID: "id",
			Members: []kmsg.JoinGroupResponseMember{{MemberID: "id", ProtocolMetadata: r.Protocols[0].Metadata}},
		}, nil
	case *kmsg.SyncGroupRequest:
		if c.unanswered {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return &kmsg.SyncGroupResponse{MemberAssignment: r.GroupAssignment[0].MemberAssignment}, nil
	case *kmsg.HeartbeatRequest:
		if c.forgotten.Load() {
			return &kmsg.HeartbeatResponse{ErrorCode: int16(kafkago.UnknownMemberId)}, nil
		}
		if c.rests {
			return &kmsg.HeartbeatResponse{}, nil
		}
		return &kmsg.HeartbeatResponse{ErrorCode: int16(kafkago.RebalanceInProgress)}, nil
	}
	return &kmsg.LeaveGroupResponse{}, nil
}

func (*coordinator) Close() error { return nil }

// TestAGroupThatNeverRests takes the work from nobody: the coordinator has heard of the one that
// works whenever it takes part. One that the coordinator does not know stops at once.
func TestAGroupThatNeverRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &coordinator{timeout: 10 * time.Second}
		m := standby.New(standby.Options{
			Group: "g", Elector: New(c, "g", c.timeout), Member: "m", Timeout: c.timeout, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Ready: func() bool { return true }, Fault: func(error) {},
		})
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context()) }()
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Minute):
		}
		if !m.Status().Works {
			t.Error("it does not work")
		}
		c.forgotten.Store(true)
		if err := <-ended; !errors.Is(err, standby.ErrLost) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestACheckWaitsForACoordinator that is about to be another one, as long as its context lasts.
func TestACheckWaitsForACoordinator(t *testing.T) {
	for name, c := range map[string]struct {
		answers []kafkago.Error
		good    bool
	}{
		"one moves":        {[]kafkago.Error{kafkago.NotCoordinatorForGroup, kafkago.GroupLoadInProgress, kafkago.UnknownMemberId}, true},
		"none comes":       {[]kafkago.Error{kafkago.GroupCoordinatorNotAvailable}, false},
		"a right lacks":    {[]kafkago.Error{kafkago.GroupAuthorizationFailed, kafkago.UnknownMemberId}, false},
		"nothing is amiss": {[]kafkago.Error{kafkago.UnknownMemberId}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := New(&answering{c.answers}, "g", 10*time.Second).Check(ctx); (err == nil) != c.good {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}

// answering answers heartbeats with one error after the other, the last one for ever.
type answering struct{ answers []kafkago.Error }

func (a *answering) Send(context.Context, string, kmsg.Request) (kmsg.Response, error) {
	answer := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	return &kmsg.HeartbeatResponse{ErrorCode: int16(answer)}, nil
}

func (*answering) Close() error { return nil }

// TestAnAssignmentThatIsNotHeard is asked for again: a heartbeat that is answered does not mean
// that the one that worked before works still.
func TestAnAssignmentThatIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &coordinator{timeout: 10 * time.Second, rests: true}
		g := New(c, "g", c.timeout)
		self := standby.Claim{Member: "m"}
		if _, _, err := g.Step(t.Context(), self); err != nil {
			t.Fatal(err)
		}
		g.working = standby.Claim{Member: "former"}
		self.Ready, c.unanswered = true, true
		if working, _, err := g.Step(t.Context(), self); err == nil {
			t.Errorf("%+v works", working)
		}
		c.unanswered = false
		if working, _, err := g.Step(t.Context(), self); err != nil || working.Member != "m" {
			t.Errorf("%+v works, %v", working, err)
		}
	})
}

func TestChoose(t *testing.T) {
	now := time.Now()
	ready, cold := standby.Claim{Member: "ready", Ready: true}, standby.Claim{Member: "cold"}
	works, refused := standby.Claim{Member: "works", Since: now}, standby.Claim{Member: "refused", Ready: true, Refused: true}
	for name, c := range map[string]struct {
		all    []standby.Claim
		former string
		want   string
	}{
		"the one that works":                          {[]standby.Claim{ready, works, cold}, "", "works"},
		"the one that was chosen before, though cold": {[]standby.Claim{ready, works, cold}, "cold", "cold"},
		"one that is ready":                           {[]standby.Claim{cold, ready}, "gone", "ready"},
		"one that is cold, where no other one is":     {[]standby.Claim{cold, refused}, "", "cold"},
		"nobody, where all are refused":               {[]standby.Claim{refused}, "refused", ""},
		"nobody of nobody":                            {nil, "", ""},
	} {
		if got := choose(c.all, c.former); got.Member != c.want || c.want != "" && got.Since.IsZero() {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
