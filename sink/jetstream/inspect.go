package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

var _ sink.Inspector = (*Sink)(nil)

// inspectWithin bounds the whole look at the servers.
const inspectWithin = 8 * time.Second

// Inspect looks at the servers and at the streams that take [Options.Published] as [sink.Inspector]
// says, over a connection of its own. Whether the login may publish to a subject shows only when it
// does.
func (s *Sink) Inspect(ctx context.Context) inspect.Report {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectWithin, fmt.Errorf("no server answers within %v", inspectWithin))
	defer cancel()
	servers := bare(s.options.URLs)
	i := &inspection{options: &s.options, at: strings.Join(servers, ",")}
	i.Summary = "NATS at " + i.at
	var err error
	i.nc, err = s.options.dial(ctx, servers, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { i.refused(err) }))
	if err != nil {
		i.unreached(ctx, err)
		return i.Report
	}
	defer i.nc.Close()
	i.run(ctx)
	return i.Report
}

// inspection is one look.
type inspection struct {
	inspect.Report
	options *Options
	at      string
	nc      *nats.Conn
	js      jetstream.JetStream
	// account is zero where the login may not ask for it.
	account jetstream.Tier

	mu sync.Mutex
	// denied is the refusal during the last request that belongs to no answer.
	denied error
	// cancel ends the request that is under way, which is not answered where it is refused.
	cancel context.CancelFunc
}

func (i *inspection) refused(err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.denied = err; i.cancel != nil {
			i.cancel()
		}
	}
}

// better returns the refusal that explains why a request was not answered, else err.
func (i *inspection) better(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.denied != nil {
		return i.denied
	}
	return err
}

// unreached turns the error of the connection into a finding.
func (i *inspection) unreached(ctx context.Context, err error) {
	text := strings.ToLower(err.Error())
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		strings.Contains(text, "authorization") || strings.Contains(text, "authentication") {
		i.Add(inspect.Unsafe, inspect.SinkLogin, "login", "is refused: "+err.Error()).
			Says("correct the login in %s, %s or %s; to try it by hand", option.SinkURL, option.NATSCreds, option.NATSNKey).
			Types("nats --server %s --user <user> --password <password> account info", i.at)
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	i.Add(inspect.Unsafe, inspect.SinkUnreachable, "servers", "cannot be asked: "+err.Error()).
		Says("see to the hosts in %s, to %s where the server speaks TLS, and to firewalls; to try it by hand", option.SinkURL, option.NATSTLSCA).
		Types("nats --server %s server check connection", i.at)
}

// run asks for the streams and judges them.
func (i *inspection) run(ctx context.Context) {
	i.Summary = fmt.Sprintf("NATS %s at %s", i.nc.ConnectedServerVersion(), i.at)
	var account *jetstream.AccountInfo
	var err error
	if i.js, err = i.options.New(i.nc); err == nil {
		account, err = request(ctx, i, func(ctx context.Context) (*jetstream.AccountInfo, error) { return i.js.AccountInfo(ctx) })
	}
	switch err = i.better(err); {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		i.Add(inspect.Unsafe, inspect.NoJetStream, "servers", "have no JetStream for this account").
			Says("start the server with -js, or enable JetStream for the account").Types("nats-server -js -sd <folder>")
		return
	case errors.Is(err, nats.ErrPermissionViolation):
		// The account's limits are not needed; whether streams show is seen next.
	case err != nil:
		i.Add(inspect.Unsafe, inspect.SinkUnreachable, "servers", "do not answer for JetStream: "+err.Error()).
			Says("see to the servers; to try it by hand").Types("nats --server %s account info", i.at)
		return
	}
	if account != nil {
		i.checkAccount(account)
	}
	if payload := i.nc.MaxPayload(); payload < smallLimit {
		i.Add(inspect.Note, inspect.StreamMessageSize, "servers", fmt.Sprintf("take messages of at most %d bytes (max_payload)", payload)).
			Says("a larger row goes to %s or stops its stream; for a higher limit, in the servers' configuration", option.DeadLetter).Types("max_payload: 1MB")
	}
	if i.options.Stream != "" {
		i.stream(ctx, i.options.Stream, i.options.Published)
		return
	}
	i.streams(ctx)
}

// smallLimit is a limit of messages below which ordinary rows may not fit; it is the servers'
// default.
const smallLimit = 1 << 20

// request runs one request with a time limit of its own. It ends when the login is refused.
func request[T any](ctx context.Context, i *inspection, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	i.mu.Lock()
	i.denied, i.cancel = nil, cancel
	i.mu.Unlock()
	answer, err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// streams finds the stream of each subject and judges the streams.
func (i *inspection) streams(ctx context.Context) {
	byStream := make(map[string][]string)
	var streams []string
	for _, subject := range i.options.Published {
		name, err := request(ctx, i, func(ctx context.Context) (string, error) { return i.js.StreamNameBySubject(ctx, subject) })
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			i.Add(inspect.Unsafe, inspect.NoStream, "subject "+subject, "is taken by no stream").
				Says("create a stream for it, or name one with %s and set %s=true", option.NATSStream, option.NATSCreateStream).
				Types("%s", i.create("EVENTS", i.options.Subjects))
		case err != nil:
			i.unanswered("subject "+subject, err)
		default:
			if byStream[name] == nil {
				streams = append(streams, name)
			}
			byStream[name] = append(byStream[name], subject)
		}
	}
	for _, name := range streams {
		i.stream(ctx, name, byStream[name])
	}
}

func (i *inspection) create(stream string, subjects []string) string {
	batches := ""
	if i.options.Claim != "" {
		batches = " --allow-batch"
	}
	return fmt.Sprintf("nats --server %s stream add %s --subjects '%s' --storage %s%s%s --defaults", i.at, stream, strings.Join(subjects, ","), storageName(i.options.Keeps.storage()), i.options.Keeps.flags(), batches)
}

func (i *inspection) unanswered(subject string, err error) {
	err = i.better(err)
	if errors.Is(err, nats.ErrPermissionViolation) {
		i.Add(inspect.Unsafe, inspect.StreamGrant, subject, "may not be asked for by this login: "+err.Error()).
			Says("let the login publish to %s, %s, %s and to its subjects, and subscribe to _INBOX.>",
				i.options.api("STREAM.INFO.>"), i.options.api("STREAM.NAMES"), i.options.api("STREAM.MSG.GET.>"))
		return
	}
	i.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "could not be asked for: "+err.Error()).
		Says("see to the servers; to try it by hand").Types("nats --server %s stream ls", i.at)
}

// stream judges one stream that is to take subjects.
func (i *inspection) stream(ctx context.Context, name string, subjects []string) {
	subject := "stream " + name
	stream, err := request(ctx, i, func(ctx context.Context) (jetstream.Stream, error) { return i.js.Stream(ctx, name) })
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && i.options.CreateStream:
		i.Summary += ", " + subject + " will be created"
		i.checkCreation(subject)
		if version := i.nc.ConnectedServerVersion(); i.options.Claim != "" && tooOld(version) {
			u := oldServer(version)
			i.Add(inspect.Unsafe, u.code, subject, u.what+": exactly-once is refused").Says("%s, or set %s=at-least-once", u.remedy, option.Delivery)
		}
		return
	case errors.Is(err, jetstream.ErrStreamNotFound):
		i.Add(inspect.Unsafe, inspect.NoStream, subject, "does not exist").
			Says("set %s=true, or create it", option.NATSCreateStream).Types("%s", i.create(name, i.options.Subjects))
		return
	case err != nil:
		i.unanswered(subject, err)
		return
	}
	info := stream.CachedInfo()
	i.Summary += fmt.Sprintf(", %s keeps %d messages", subject, info.State.Msgs)
	if err := usable(i.options, info); err != nil {
		i.Add(inspect.Unsafe, inspect.StreamUnusable, subject, "cannot be published to: "+err.Error()).
			Says("use another stream").Types("nats --server %s stream info %s", i.at, name)
	}
	i.checkBatches(&info.Config)
	i.checkSubjects(&info.Config, subjects)
	i.checkKeeping(&info.Config)
	i.checkRetention(&info.Config)
	i.checkReading(ctx, &info.Config)
	i.checkRoom(info)
	i.checkOthers(ctx, stream)
}

// checkBatches finds what keeps the stream from being published to once.
func (i *inspection) checkBatches(c *jetstream.StreamConfig) {
	if i.options.Claim == "" {
		return
	}
	for _, u := range unfitFor(i.options, c, i.nc.ConnectedServerVersion()) {
		if u.code == inspect.StreamUnreadable {
			// That is found in each mode.
			continue
		}
		what := u.what + ": exactly-once is refused"
		if u.flags == "" {
			i.Add(inspect.Unsafe, u.code, "stream "+c.Name, what).Says("%s, or set %s=at-least-once", u.remedy, option.Delivery)
			continue
		}
		i.Add(inspect.Unsafe, u.code, "stream "+c.Name, what).Says("%s", u.remedy).
			Types("nats --server %s stream edit %s %s -f", i.at, c.Name, u.flags)
	}
}

// checkReading finds what keeps bridge from reading back what it has published.
func (i *inspection) checkReading(ctx context.Context, c *jetstream.StreamConfig) {
	subject := "stream " + c.Name
	const why = ": bridge reads there what its checkpoint lacks"
	if c.Retention != jetstream.LimitsPolicy {
		i.Add(inspect.Unsafe, inspect.StreamUnreadable, subject, fmt.Sprintf("removes what is consumed (retention %s)", strings.ToLower(c.Retention.String()))+why).
			Says("the retention cannot be changed to limits: make a new stream").Types("%s", i.create(c.Name+"_2", c.Subjects))
	}
	for _, right := range []struct{ subject, body, grant string }{
		{i.options.api("STREAM.MSG.GET." + c.Name), `{"seq":1}`, i.options.api("STREAM.MSG.GET." + c.Name)},
		// There is no such consumer. The right to ask for one comes with that to make one.
		{i.options.api("CONSUMER.INFO." + c.Name + ".bridge-check"), "", i.options.api("CONSUMER.>")},
	} {
		if denied := i.denial(ctx, right.subject, right.body); denied != nil {
			i.Add(inspect.Unsafe, inspect.StreamUnreadable, subject, "may not be read by this login"+why+": "+denied.Error()).
				Says("let the login publish to %s", right.grant)
		}
	}
}

// denial asks for something and returns the refusal of the login, nil where there is none.
func (i *inspection) denial(ctx context.Context, subject, body string) error {
	_, err := request(ctx, i, func(ctx context.Context) (*nats.Msg, error) {
		return i.nc.RequestWithContext(ctx, subject, []byte(body))
	})
	if err == nil {
		return nil
	}
	if err = i.better(err); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// checkSubjects finds subjects that the stream does not take. Of a subject with a wildcard it may
// take the part that is used.
func (i *inspection) checkSubjects(config *jetstream.StreamConfig, subjects []string) {
	for _, subject := range subjects {
		if covered(config.Subjects, subject) {
			continue
		}
		severity, what := inspect.Unsafe, "does not take the subject "+subject
		if slices.ContainsFunc(config.Subjects, func(pattern string) bool { return meets(pattern, subject) }) {
			severity, what = inspect.Warning, "takes only a part of the subjects "+subject
		}
		i.Add(severity, inspect.StreamSubject, "stream "+config.Name, what).
			Says("add it to the stream's subjects").
			Types("nats --server %s stream edit %s --subjects '%s' -f", i.at, config.Name, strings.Join(append(slices.Clone(config.Subjects), subject), ","))
	}
}

// meets reports whether some subject is covered by both patterns.
func meets(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for n := range min(len(as), len(bs)) {
		if as[n] == ">" || bs[n] == ">" {
			return true
		}
		if as[n] != bs[n] && as[n] != "*" && bs[n] != "*" {
			return false
		}
	}
	return len(as) == len(bs)
}

// checkRetention looks at how long and how safely the stream keeps messages.
func (i *inspection) checkRetention(c *jetstream.StreamConfig) {
	subject := "stream " + c.Name
	edit := fmt.Sprintf("nats --server %s stream edit %s ", i.at, c.Name)
	if c.Storage != jetstream.FileStorage {
		i.Add(inspect.Note, inspect.StreamStorage, subject, "is kept in memory: a restart of its servers loses what was acknowledged").
			Says("the storage of a stream cannot be changed: make a new one").Types("%s", i.create(c.Name+"_2", c.Subjects))
	}
	if c.PersistMode == jetstream.AsyncPersistMode {
		i.Add(inspect.Note, inspect.StreamPersistence, subject, "acknowledges messages before they are written (persist_mode async): a crash may lose them").
			Says("make a stream without it").Types("%s", i.create(c.Name+"_2", c.Subjects))
	}
	if c.Duplicates < 2*time.Minute {
		i.Add(inspect.Note, inspect.StreamDuplicates, subject, fmt.Sprintf("remembers message ids for %s only: an event that is sent again after that is stored twice", c.Duplicates)).
			Says("let it remember for 2 minutes or longer").Types("%s--dupe-window 2m -f", edit)
	}
	if limits := limitsOf(c); len(limits) > 0 && c.Discard == jetstream.DiscardOld {
		i.Add(inspect.Note, inspect.StreamDiscards, subject, "drops its oldest messages at "+strings.Join(limits, " and ")+": a consumer that lags loses them").
			Says("nothing where that is meant; otherwise lift the limits").
			Types("%s--max-msgs=-1 --max-bytes=-1 --max-age=0 --max-msgs-per-subject=-1 -f", edit)
	}
	if c.MaxMsgSize > 0 && c.MaxMsgSize < smallLimit {
		i.Add(inspect.Note, inspect.StreamMessageSize, subject, fmt.Sprintf("takes messages of at most %d bytes (max_msg_size)", c.MaxMsgSize)).
			Says("a larger row goes to %s or stops its stream; to lift the limit", option.DeadLetter).Types("%s--max-msg-size=-1 -f", edit)
	}
}

func limitsOf(c *jetstream.StreamConfig) []string {
	var limits []string
	for _, limit := range []struct {
		name  string
		value int64
	}{{"max_msgs", c.MaxMsgs}, {"max_bytes", c.MaxBytes}, {"max_msgs_per_subject", c.MaxMsgsPerSubject}} {
		if limit.value > 0 {
			limits = append(limits, fmt.Sprintf("%s %d", limit.name, limit.value))
		}
	}
	if c.MaxAge > 0 {
		limits = append(limits, fmt.Sprintf("max_age %s", c.MaxAge))
	}
	return limits
}

// checkRoom finds what keeps a stream from taking messages, or from being read.
func (i *inspection) checkRoom(info *jetstream.StreamInfo) {
	c, state := &info.Config, &info.State
	subject := "stream " + c.Name
	edit := fmt.Sprintf("nats --server %s stream edit %s ", i.at, c.Name)
	if c.DiscardNewPerSubject && i.options.Claim == "" {
		i.Add(inspect.Unsafe, inspect.StreamUnusable, subject, fmt.Sprintf("refuses further messages of a subject that has %d (discard_new_per_subject)", c.MaxMsgsPerSubject)).
			Says("make a stream without that").Types("%s", i.create(c.Name+"_2", c.Subjects))
	}
	if limits := limitsOf(c); len(limits) > 0 && c.Discard == jetstream.DiscardNew && !c.DiscardNewPerSubject {
		const why = " and refuses what is new (discard new)"
		full := c.MaxMsgs > 0 && int64(state.Msgs) >= c.MaxMsgs || c.MaxBytes > 0 && int64(state.Bytes)+roomFor >= c.MaxBytes
		severity, what := inspect.Note, "is full one day, at "+strings.Join(limits, " and ")+","+why+": bridge then waits"
		if full {
			severity, what = inspect.Unsafe, "is full"+why
		}
		i.Add(severity, inspect.StreamFull, subject, what).
			Says("increase the limits, purge the stream, or let it discard old").Types("%s--max-msgs=-1 --max-bytes=-1 -f", edit)
	}
	if c.MaxConsumers > 0 && state.Consumers >= c.MaxConsumers {
		i.Add(inspect.Unsafe, inspect.StreamConsumers, subject, fmt.Sprintf("has %d consumers and takes no more (max_consumers): bridge cannot read what its checkpoint lacks", state.Consumers)).
			Says("remove consumers; the limit of a stream cannot be changed").Types("nats --server %s consumer ls %s", i.at, c.Name)
	}
}

// roomFor is how many bytes a message needs, about.
const roomFor = 1024

// checkAccount finds limits of the account that bridge meets.
func (i *inspection) checkAccount(account *jetstream.AccountInfo) {
	if i.account = account.Tier; len(account.Tiers) > 0 {
		i.account = account.Tiers[fmt.Sprintf("R%d", max(i.options.Keeps.Replicas, 1))]
	}
	used := i.account
	limits := used.Limits
	report := func(code inspect.Code, what, remedy string, args ...any) {
		i.Add(inspect.Unsafe, code, "account", what).Says(remedy, args...).Types("nats --server %s account info", i.at)
	}
	const storage = ": its limit for storage is used up"
	switch {
	case limits.MaxStore > 0 && used.Store+roomFor >= uint64(limits.MaxStore) && !i.options.Keeps.Memory:
		report(inspect.StreamFull, "takes no more messages"+storage, "increase the limit of the account, or remove messages")
	case limits.MaxMemory > 0 && used.Memory+roomFor >= uint64(limits.MaxMemory) && i.options.Keeps.Memory:
		report(inspect.StreamFull, "takes no more messages in memory"+storage, "increase the limit of the account, or remove messages")
	}
	if limits.MaxConsumers > 0 && used.Consumers >= limits.MaxConsumers {
		report(inspect.StreamConsumers, fmt.Sprintf("has %d consumers and takes no more: bridge cannot read what its checkpoint lacks", used.Consumers), "increase the limit of the account, or remove consumers")
	}
}

// checkCreation finds limits of the account that keep a stream from being created.
func (i *inspection) checkCreation(subject string) {
	keeps, used := i.options.Keeps, i.account
	limits := used.Limits
	most := limits.StoreMaxStreamBytes
	if keeps.Memory {
		most = limits.MemoryMaxStreamBytes
	}
	report := func(what, remedy string, args ...any) {
		i.Add(inspect.Unsafe, inspect.StreamCreation, subject, "cannot be created: "+what).Says(remedy, args...).Types("nats --server %s account info", i.at)
	}
	switch {
	case limits.MaxStreams > 0 && used.Streams >= limits.MaxStreams:
		report(fmt.Sprintf("the account has %d streams and takes no more", used.Streams), "increase the limit of the account, or remove streams")
	case i.options.Bucket != "":
	case limits.MaxBytesRequired && keeps.MaxBytes == 0:
		report("the account wants a limit of bytes for each stream", "set %s", option.NATSStreamMaxBytes)
	case most > 0 && (keeps.MaxBytes == 0 || keeps.MaxBytes > most):
		report(fmt.Sprintf("the account takes streams of at most %d bytes", most), "set %s to that or less", option.NATSStreamMaxBytes)
	}
}

// othersWithin is how many of the last messages of a stream are looked at for those of others.
const othersWithin = 1000

// checkOthers finds events of other domains whose streams are named as ours: where their tables
// have the same rows, the events have the same ids.
func (i *inspection) checkOthers(ctx context.Context, stream jetstream.Stream) {
	state := stream.CachedInfo().State
	if i.options.Origin.Domain == "" || state.Msgs == 0 {
		return
	}
	// alone are the domains on subjects of their own, mixed those on subjects of ours.
	alone, mixed := make(map[string]bool), make(map[string]bool)
	_, err := request(ctx, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, lastMessages(ctx, stream, state, func(m jetstream.Msg) {
			domain, name := m.Headers().Get(sink.HeaderDomain), m.Headers().Get(sink.HeaderStream)
			switch {
			case domain == "" || domain == i.options.Origin.Domain || !slices.Contains(i.options.Origin.Streams, name):
			case covered(i.options.Published, m.Subject()):
				mixed[domain] = true
			default:
				alone[domain] = true
			}
		})
	})
	if err != nil {
		// Who may not read gets a finding about that.
		return
	}
	subject := "stream " + stream.CachedInfo().Config.Name
	const why = ", of a bridge stream of the same name: two events of different domains may have one id, and only domain and id together are unique"
	if len(mixed) > 0 {
		i.Add(inspect.Warning, inspect.StreamDomains, subject, "has events of the domain "+names(mixed)+" on subjects of this bridge"+why).
			Says("tell them apart by the header %s, or put {domain} into DESTINATION", sink.HeaderDomain)
	} else if len(alone) > 0 {
		i.Add(inspect.Note, inspect.StreamDomains, subject, "has events of the domain "+names(alone)+why).
			Says("let consumers of several domains remember %s and %s together", sink.HeaderDomain, sink.HeaderID)
	}
}

func names(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// lastMessages calls each with the headers of the last messages of a stream.
func lastMessages(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, each func(jetstream.Msg)) error {
	first := state.FirstSeq
	if state.LastSeq-first >= othersWithin {
		first = state.LastSeq - othersWithin + 1
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, InactiveThreshold: requestTimeout, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	messages, err := consumer.FetchNoWait(othersWithin)
	if err != nil {
		return err
	}
	for m := range messages.Messages() {
		each(m)
	}
	return messages.Error()
}
