package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/standby"
)

const (
	// protocolType tells our groups from those of consumers, protocolName the form of our claims.
	protocolType = "bridge-standby"
	protocolName = "claims"
	// memberIDRequired asks for the request once more, with the id of the answer.
	memberIDRequired kafkago.Error = 79
	// longestRebalance keeps JoinGroup below the time that a request may take.
	longestRebalance = 10 * time.Second
)

// Versions of requests that brokers from 2.3 to 4.x take.
const (
	joinVersion  = 5
	syncVersion  = 3
	beatVersion  = 3
	leaveVersion = 2
)

// Requester sends requests to the coordinator of a group, in their version at most. A
// sink/kafka.Requester is one.
type Requester interface {
	Send(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

// Group is a standby.Elector. It serves one goroutine.
type Group struct {
	requester Requester
	name      string
	timeout   time.Duration

	// member and generation are what the coordinator gave us, "" before that.
	member     string
	generation int32
	// joined says that the generation has not ended as far as we know.
	joined     bool
	joinedWith standby.Claim
	// working is the claim of the member that works in this generation, members are those of all.
	working standby.Claim
	members []standby.Claim
}

var _ standby.Elector = (*Group)(nil)

// New returns an Elector by the group of a name. timeout is the session timeout: brokers take 6 s
// to 30 min by default. It closes the requester.
func New(r Requester, name string, timeout time.Duration) *Group {
	return &Group{requester: r, name: name, timeout: timeout}
}

// Step implements standby.Elector.
func (g *Group) Step(ctx context.Context, self standby.Claim) (standby.Claim, time.Time, error) {
	heard := time.Now()
	if g.joined && !g.changed(&self) {
		err := g.beat(ctx)
		switch {
		case err == nil:
			return g.working, heard, nil
		case errors.Is(err, kafkago.RebalanceInProgress):
		case removed(err):
			return g.forget(self), heard, nil
		default:
			return standby.Claim{}, heard, g.explain(err)
		}
	}
	// Until the assignment of the next generation is known, heartbeats say nothing about who works.
	g.joined = false
	heard, err := g.join(ctx, self)
	switch {
	case removed(err):
		return g.forget(self), heard, nil
	case err != nil:
		return standby.Claim{}, heard, g.explain(err)
	}
	return g.working, heard, nil
}

// changed reports whether our claim has changed since we joined: all members then join once more.
func (g *Group) changed(self *standby.Claim) bool {
	was := &g.joinedWith
	return was.Ready != self.Ready || was.Refused != self.Refused || !maps.Equal(was.Settings, self.Settings) || !maps.Equal(was.Later, self.Later)
}

func removed(err error) bool {
	return errors.Is(err, kafkago.UnknownMemberId) || errors.Is(err, kafkago.IllegalGeneration)
}

// forget begins from the start. The claim is that of nobody where this member worked.
func (g *Group) forget(self standby.Claim) standby.Claim {
	g.member, g.joined = "", false
	if g.working.Member == self.Member {
		g.working = standby.Claim{}
	}
	return g.working
}

func (g *Group) beat(ctx context.Context) error {
	res, err := g.send(ctx, &kmsg.HeartbeatRequest{Version: beatVersion, Group: g.name, Generation: g.generation, MemberID: g.member}, g.timeout/4)
	if err != nil {
		return err
	}
	return code(res.(*kmsg.HeartbeatResponse).ErrorCode)
}

// join takes part in the next generation, and learns who works in it. The coordinator has heard of
// this member when it takes the last request: with its answer to the first one it waits until all
// members have joined.
func (g *Group) join(ctx context.Context, self standby.Claim) (heard time.Time, err error) {
	res, err := g.enter(ctx, &kmsg.JoinGroupRequest{
		Version: joinVersion, Group: g.name, SessionTimeoutMillis: int32(g.timeout.Milliseconds()), RebalanceTimeoutMillis: int32(g.rebalance().Milliseconds()),
		MemberID: g.member, ProtocolType: protocolType, Protocols: []kmsg.JoinGroupRequestProtocol{{Name: protocolName, Metadata: self.Encode()}},
	})
	if err != nil {
		return heard, err
	}
	g.member, g.generation, g.joinedWith = res.MemberID, res.Generation, self
	sync := &kmsg.SyncGroupRequest{Version: syncVersion, Group: g.name, Generation: g.generation, MemberID: g.member}
	if res.LeaderID == res.MemberID {
		all := claims(res.Members)
		// Nothing in it can fail to be encoded.
		text, _ := json.Marshal(assignment{choose(all, g.working.Member), all})
		for _, m := range res.Members {
			sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: text})
		}
	}
	heard = time.Now()
	answer, err := g.send(ctx, sync, g.timeout/8)
	if err != nil {
		return heard, err
	}
	synced := answer.(*kmsg.SyncGroupResponse)
	if err := code(synced.ErrorCode); err != nil {
		return heard, err
	}
	var said assignment
	if err := json.Unmarshal(synced.MemberAssignment, &said); err != nil {
		return heard, fmt.Errorf("the leader of the group says %.200q: %w", synced.MemberAssignment, err)
	}
	g.joined, g.working, g.members = true, said.Claim, said.Members
	return heard, nil
}

// assignment is what the leader tells each member: the claim of the one that works, and those of
// all members.
type assignment struct {
	standby.Claim
	Members []standby.Claim `json:"members,omitempty"`
}

// Members implements standby.Elector.
func (g *Group) Members() []standby.Claim { return g.members }

// enter sends the request to join, once more where the coordinator has only given out an id.
func (g *Group) enter(ctx context.Context, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, error) {
	for {
		answer, err := g.send(ctx, req, g.rebalance()+g.timeout/8)
		if err != nil {
			return nil, err
		}
		res := answer.(*kmsg.JoinGroupResponse)
		if err = code(res.ErrorCode); err == nil {
			return res, nil
		}
		if !errors.Is(err, memberIDRequired) || req.MemberID != "" {
			return nil, err
		}
		req.MemberID = res.MemberID
	}
}

func (g *Group) rebalance() time.Duration { return min(g.timeout/2, longestRebalance) }

// claims returns those of the members, in the order of the coordinator. One that cannot be read is
// that of another program, and is left out.
func claims(members []kmsg.JoinGroupResponseMember) []standby.Claim {
	var all []standby.Claim
	for _, m := range members {
		if c, err := standby.DecodeClaim(m.ProtocolMetadata); err == nil && c.Member != "" {
			all = append(all, c)
		}
	}
	return all
}

// choose returns the claim of the member that is to work: the one that works, as long as it takes
// part, else one that is ready. It returns the zero Claim where all are refused.
func choose(all []standby.Claim, working string) standby.Claim {
	all = slices.DeleteFunc(slices.Clone(all), func(c standby.Claim) bool { return c.Refused })
	if len(all) == 0 {
		return standby.Claim{}
	}
	rank := func(c *standby.Claim) int {
		switch {
		case c.Member == working:
			return 3
		case !c.Since.IsZero():
			return 2
		case c.Ready:
			return 1
		}
		return 0
	}
	best := slices.MaxFunc(all, func(a, b standby.Claim) int {
		if d := rank(&a) - rank(&b); d != 0 {
			return d
		}
		return strings.Compare(b.Member, a.Member)
	})
	if best.Since.IsZero() {
		best.Since = time.Now().UTC().Truncate(time.Millisecond)
	}
	return best
}

func (g *Group) send(ctx context.Context, req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the coordinator of the group does not answer"))
	defer cancel()
	res, err := g.requester.Send(ctx, g.name, req)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

func code(n int16) error {
	if n == 0 {
		return nil
	}
	return kafkago.Error(n)
}

func (g *Group) explain(err error) error {
	switch {
	case errors.Is(err, kafkago.GroupAuthorizationFailed):
		return fmt.Errorf("grant READ on group %s to the user of bridge: %w", g.name, err)
	case errors.Is(err, kafkago.InvalidSessionTimeout):
		return option.Errorf("the brokers do not take a session timeout of %s, nine tenths of %s: see their group.min.session.timeout.ms and group.max.session.timeout.ms: %w", g.timeout, option.StandbyTimeout, err)
	case errors.Is(err, kafkago.InconsistentGroupProtocol):
		return option.Errorf("another program uses the group %s: choose another %s: %w", g.name, option.Standby, err)
	}
	return fmt.Errorf("standby group %s: %w", g.name, err)
}

// Leave implements standby.Elector.
func (g *Group) Leave(ctx context.Context, _ standby.Claim) error {
	if g.member == "" {
		return nil
	}
	res, err := g.send(ctx, &kmsg.LeaveGroupRequest{Version: leaveVersion, Group: g.name, MemberID: g.member}, g.timeout/4)
	g.member, g.joined, g.working, g.members = "", false, standby.Claim{}, nil
	if err != nil {
		return err
	}
	if err := code(res.(*kmsg.LeaveGroupResponse).ErrorCode); !removed(err) {
		return err
	}
	return nil
}

// Check implements standby.Elector: the coordinator is shown a member that it does not know. It
// waits for a coordinator that is about to be another one.
func (g *Group) Check(ctx context.Context) error {
	err := new(backoff.Backoff).Retry(ctx, func() error { return g.beat(ctx) }, func(err error) bool {
		return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable) || errors.Is(err, kafkago.GroupLoadInProgress)
	})
	if err == nil || removed(err) {
		return nil
	}
	return g.explain(err)
}

// Close implements standby.Elector.
func (g *Group) Close() error { return g.requester.Close() }
