package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/sink"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const headerClaim = "bridge-claim"

// renewEvery is how often it is looked whether retention may soon remove the claim, by default.
const renewEvery = 30 * time.Second

var errOtherClaim = errors.New("another claim was stored first")

// claim is the right of this process to publish to a stream: the last message on a subject of the
// stream says who has it, and each batch is conditional on that message (decision 21). It serves
// one goroutine.
type claim struct {
	options *Options
	// id tells this process from others.
	id string
	// seq is the sequence of our claim, 0 before the first one. at is when it was made.
	seq uint64
	at  time.Time
	// doubtful: a batch may be stored or not, so that a new claim has to shut it out.
	doubtful bool
	// lost is why this process may not publish any more, nil while it may. missing is since when
	// the stream shows no claim as late as ours.
	lost    error
	missing time.Time
	// ref names the stream as it was when the claim was made.
	ref sink.TPRef
}

// held reports whether a batch that names the claim can neither pass one of another process nor be
// passed by one of ours that is in doubt.
func (c *claim) held() bool { return c.seq != 0 && !c.doubtful && c.lost == nil }

// last returns the sequence of the claim, 0 where there is none or it is lost.
func (c *claim) last() uint64 {
	if c.lost != nil {
		return 0
	}
	return c.seq
}

// acquire claims the stream. The first call takes it over from the process that has it; later ones
// lose it where the last claim is not ours. The stream is as the leader describes it.
func (c *claim) acquire(ctx context.Context, s *server.Session) (*jetstream.StreamInfo, error) {
	stream, err := lookup(ctx, s.JS, c.options, c.options.Stream)
	if err != nil {
		return nil, s.Explained(err, "STREAM.INFO."+c.options.Stream, "STREAM.CREATE."+c.options.Stream)
	}
	info := stream.CachedInfo()
	if err := usable(c.options, info); err != nil {
		return nil, err
	}
	if unfit := unfitFor(c.options, &info.Config, s.NC.ConnectedServerVersion()); len(unfit) > 0 {
		return nil, fmt.Errorf("exactly-once: the stream %s %s: %s", info.Config.Name, unfit[0].what, unfit[0].remedy)
	}
	last, err := server.GetMessage(ctx, s, c.options.Stream, server.Query{LastFor: c.options.Claim})
	if err != nil {
		return nil, s.Explained(err, "STREAM.MSG.GET."+c.options.Stream)
	}
	expected := uint64(0)
	if last != nil {
		expected = last.Seq
	}
	if c.seq != 0 {
		if err := c.check(last); err != nil {
			return nil, err
		}
	}
	seq, err := c.publish(ctx, s, expected)
	if err != nil {
		return nil, err
	}
	c.seq, c.at, c.doubtful = seq, time.Now(), false
	c.ref = refOf(info)
	return info, nil
}

// errNoClaim says that the stream does not show our claim, nor a later one. A new leader may know
// less for a moment.
var errNoClaim = errors.New("the stream does not show our claim")

// check returns why the last claim shows that another process publishes or may have published since
// ours, and loses the claim; nil where it is ours. errNoClaim is no proof yet.
func (c *claim) check(last *server.Message) error {
	if last != nil && last.Seq >= c.seq {
		c.missing = time.Time{}
		c.lost = c.loss(last)
		return c.lost
	}
	if c.missing.IsZero() {
		c.missing = time.Now()
	}
	if time.Since(c.missing) < server.GoneFor {
		return errNoClaim
	}
	c.lost = c.loss(nil)
	return c.lost
}

// loss returns why the last claim, nil without one, is not ours; nil where it is.
func (c *claim) loss(last *server.Message) error {
	switch {
	case last == nil:
		return fmt.Errorf("%w, or may have: the stream %s has no claim on %s any more (a purge, a stream made again, or a pause longer than its retention): start bridge again",
			sink.ErrFenced, c.options.Stream, c.options.Claim)
	case last.Headers.Get(headerClaim) != c.id:
		return fmt.Errorf("%w: message %d of the stream %s on %s is the claim of %#.200q", sink.ErrFenced, last.Seq, c.options.Stream,
			c.options.Claim, last.Data)
	}
	return nil
}

// claimant is the body of a claim, for people.
type claimant struct {
	Host    string    `json:"host"`
	Process int       `json:"process"`
	Time    time.Time `json:"time"`
}

// publish stores a claim behind the one with the sequence expected, 0 for none.
func (c *claim) publish(ctx context.Context, s *server.Session, expected uint64) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, server.RequestTimeout, server.ErrNoReply)
	defer cancel()
	// Without a name of the host, the number of the process has to do.
	host, _ := os.Hostname()
	body, err := json.Marshal(claimant{Host: host, Process: os.Getpid(), Time: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return 0, err
	}
	m := nats.NewMsg(c.options.Claim)
	m.Header.Set(headerClaim, c.id)
	m.Header.Set(headerStream, c.options.Stream)
	m.Header.Set(headerLastSubjectSequence, strconv.FormatUint(expected, 10))
	m.Data = body
	reply, err := s.NC.RequestMsgWithContext(ctx, m)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("publish a claim on %s: %w", c.options.Claim, err)
	}
	a := parseAck(reply)
	switch {
	case a.fenceBroken():
		return 0, errOtherClaim
	case a.err != nil:
		return 0, fmt.Errorf("publish a claim on %s: %w", c.options.Claim, a.err)
	case a.stray(c.options) != nil:
		return 0, a.stray(c.options)
	case a.stream != c.options.Stream:
		return 0, fmt.Errorf("the claim subject %s belongs to the stream %s, not to %s", c.options.Claim, a.stream, c.options.Stream)
	}
	return a.seq, nil
}

// ages reports whether retention may remove the claim before long.
func (c *claim) ages(info *jetstream.StreamInfo) bool {
	limits, state := &info.Config, &info.State
	half := func(n, limit int64) bool { return limit > 0 && n >= limit/2 }
	if limits.MaxAge > 0 && time.Since(c.at) >= limits.MaxAge/2 {
		return true
	}
	full := half(int64(state.Msgs), limits.MaxMsgs) || half(int64(state.Bytes), limits.MaxBytes)
	return full && c.seq < state.FirstSeq+(state.LastSeq-state.FirstSeq)/2
}

func refOf(info *jetstream.StreamInfo) sink.TPRef {
	return sink.TPRef{Name: info.Config.Name, Incarnation: server.CreatedAt(info)}
}
