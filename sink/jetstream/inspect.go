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

	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

var _ sink.Inspector = (*Sink)(nil)

const inspectWithin = 8 * time.Second

// Inspect looks at the servers and at the streams that take [Options.Published] as [sink.Inspector]
// says, over a connection of its own. Whether the login may publish to a subject shows only when it
// does.
func (s *Sink) Inspect(ctx context.Context) inspect.Report {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectWithin, fmt.Errorf("no server answers within %v", inspectWithin))
	defer cancel()
	servers := server.Bare(s.options.URLs)
	i := &inspection{options: &s.options, at: strings.Join(servers, ",")}
	i.Summary = "NATS at " + i.at
	var err error
	i.nc, err = s.options.Dial(ctx, servers, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { i.refused(err) }))
	text := strings.ToLower(fmt.Sprint(err))
	switch {
	case err == nil:
		defer i.nc.Close()
		i.run(ctx)
	case strings.Contains(text, "authorization"), strings.Contains(text, "authentication"):
		i.Add(inspect.Unsafe, inspect.SinkLogin, "login", "is refused: "+err.Error()).
			Says("correct the login in %s, %s or %s; to try it by hand", option.SinkURL, option.NATSCreds, option.NATSNKey).
			Types("nats --server %s --user <user> --password <password> account info", i.at)
	default:
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		i.Add(inspect.Unsafe, inspect.SinkUnreachable, "servers", "cannot be asked: "+err.Error()).
			Says("see to the hosts in %s, to %s where the server speaks TLS, and to firewalls; to try it by hand", option.SinkURL, option.NATSTLSCA).
			Types("nats --server %s server check connection", i.at)
	}
	return i.Report
}

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

func (i *inspection) run(ctx context.Context) {
	i.Summary = fmt.Sprintf("NATS %s at %s", i.nc.ConnectedServerVersion(), i.at)
	var account *jetstream.AccountInfo
	var err error
	if i.js, err = i.options.New(i.nc); err == nil {
		account, err = request(ctx, i, func(ctx context.Context) (*jetstream.AccountInfo, error) { return i.js.AccountInfo(ctx) })
	}
	switch err = i.better(err); {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
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
			Says("a larger row goes to %s or stops its stream; for a higher limit, in the servers' configuration", option.DeadLetter).
			Types("max_payload: 1MB")
	}
	if i.options.Stream != "" {
		i.stream(ctx, i.options.Stream, i.options.Published)
		return
	}
	i.streams(ctx)
}

// request runs one request with a time limit of its own. It ends when the login is refused.
func request[T any](ctx context.Context, i *inspection, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, server.RequestTimeout, server.ErrNoReply)
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
	return fmt.Sprintf("nats --server %s stream add %s --subjects '%s' --storage %s%s%s --defaults", i.at, stream,
		strings.Join(subjects, ","), storageName(i.options.Keeps.storage()), i.options.Keeps.flags(), batches)
}

func (i *inspection) unanswered(subject string, err error) {
	err = i.better(err)
	if errors.Is(err, nats.ErrPermissionViolation) {
		i.Add(inspect.Unsafe, inspect.StreamGrant, subject, "may not be asked for by this login: "+err.Error()).
			Says("let the login publish to %s, %s, %s and to its subjects, and subscribe to _INBOX.>",
				i.options.API("STREAM.INFO.>"), i.options.API("STREAM.NAMES"), i.options.API("STREAM.MSG.GET.>"))
		return
	}
	i.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "could not be asked for: "+err.Error()).
		Says("see to the servers; to try it by hand").Types("nats --server %s stream ls", i.at)
}

// found adds a finding where it holds. What is said of another is forgotten.
func (i *inspection) found(holds bool, severity inspect.Severity, code inspect.Code, subject, what string) *inspect.Finding {
	if !holds {
		return new(inspect.Finding)
	}
	return i.Add(severity, code, subject, what)
}

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
	i.checkSubjects(&info.Config, subjects)
	i.checkKeeping(&info.Config)
	i.checkConfig(info)
	i.checkReading(ctx, info)
	i.checkOthers(ctx, stream)
}

// checkSubjects finds what keeps the stream from being published to once, and subjects that it does
// not take. Of a subject with a wildcard it may take the part that is used.
func (i *inspection) checkSubjects(c *jetstream.StreamConfig, subjects []string) {
	lacks, all := bus.Widen(c.Subjects, subjects)
	if i.options.Claim != "" && !bus.CoversAny(all, i.options.Claim) {
		all = append(all[:len(all):len(all)], i.options.Claim)
	}
	// The same for each that it lacks: another one would undo it.
	takesAll := "--subjects '" + strings.Join(all, ",") + "'"
	if i.options.Claim != "" {
		for _, u := range unfitFor(i.options, c, i.nc.ConnectedServerVersion()) {
			// A stream that is unreadable is found in each mode.
			if u.code == inspect.StreamSubject {
				u.flags = takesAll
			}
			f := i.found(u.code != inspect.StreamUnreadable, inspect.Unsafe, u.code, "stream "+c.Name, u.what+": exactly-once is refused")
			if u.flags == "" {
				f.Says("%s, or set %s=at-least-once", u.remedy, option.Delivery)
			} else {
				f.Says("%s", u.remedy).Types("nats --server %s stream edit %s %s -f", i.at, c.Name, u.flags)
			}
		}
	}
	for _, subject := range lacks {
		severity, what := inspect.Unsafe, "does not take the subject "+subject
		if bus.MeetsAny(c.Subjects, subject) {
			severity, what = inspect.Warning, "takes only a part of the subjects "+subject
		}
		i.Add(severity, inspect.StreamSubject, "stream "+c.Name, what).
			Says("add it to the stream's subjects").
			Types("nats --server %s stream edit %s %s -f", i.at, c.Name, takesAll)
	}
}

const (
	// smallLimit is a limit of messages below which ordinary rows may not fit; it is the servers'
	// default.
	smallLimit = 1 << 20
	// roomFor is how many bytes a message needs, about.
	roomFor = 1024
)

func (i *inspection) checkConfig(info *jetstream.StreamInfo) {
	c, state, subject := &info.Config, &info.State, "stream "+info.Config.Name
	edit := fmt.Sprintf("nats --server %s stream edit %s ", i.at, c.Name)
	another := i.create(c.Name+"_2", c.Subjects)
	// Only at max_msgs and max_bytes does a stream refuse what is new.
	var drops, fills []string
	limit := func(limits *[]string, name string, is bool, value any) {
		if is {
			*limits = append(*limits, fmt.Sprintf("%s %v", name, value))
		}
	}
	ends := &drops
	if c.Discard == jetstream.DiscardNew {
		ends = &fills
	}
	limit(ends, "max_msgs", c.MaxMsgs > 0, c.MaxMsgs)
	limit(ends, "max_bytes", c.MaxBytes > 0, c.MaxBytes)
	why := i.sharedSubject(c)
	limit(&drops, "max_msgs_per_subject", c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject && i.options.Bucket == "" && why == "", c.MaxMsgsPerSubject)
	limit(&drops, "max_age", c.MaxAge > 0, c.MaxAge)

	i.found(c.Storage != jetstream.FileStorage, inspect.Note, inspect.StreamStorage, subject,
		"is kept in memory: a restart of its servers loses what was acknowledged").
		Says("the storage of a stream cannot be changed: make a new one").Types("%s", another)
	i.found(c.PersistMode == jetstream.AsyncPersistMode, inspect.Note, inspect.StreamPersistence, subject,
		"acknowledges messages before they are written (persist_mode async): a crash may lose them").
		Says("make a stream without it").Types("%s", another)
	i.found(c.Duplicates < 2*time.Minute, inspect.Note, inspect.StreamDuplicates, subject,
		fmt.Sprintf("remembers message ids for %s only: an event that is sent again after that is stored twice", c.Duplicates)).
		Says("let it remember for 2 minutes or longer").Types("%s--dupe-window 2m -f", edit)
	i.found(why != "" && !c.DiscardNewPerSubject, inspect.Warning, inspect.StreamDiscards, subject,
		fmt.Sprintf("keeps %d messages of a subject (max_msgs_per_subject), which loses events, because %s", c.MaxMsgsPerSubject, why)).
		Says("put {key} into the subject, or lift the limit").Types("%s--max-msgs-per-subject=-1 -f", edit)
	dropping := "drops its oldest messages at " + strings.Join(drops, " and ")
	if i.options.Bucket != "" {
		i.found(len(drops) > 0, inspect.Unsafe, inspect.TopicUncompacted, subject, dropping+": what it holds expires").
			Says("lift the limits").Types("%s--max-msgs=-1 --max-bytes=-1 --max-age=0 -f", edit)
	} else {
		i.found(len(drops) > 0, inspect.Note, inspect.StreamDiscards, subject, dropping+": a consumer that lags loses them").
			Says("nothing where that is meant; otherwise lift the limits").
			Types("%s--max-msgs=-1 --max-bytes=-1 --max-age=0 --max-msgs-per-subject=-1 -f", edit)
	}
	i.found(c.MaxMsgSize > 0 && c.MaxMsgSize < smallLimit, inspect.Note, inspect.StreamMessageSize, subject,
		fmt.Sprintf("takes messages of at most %d bytes (max_msg_size)", c.MaxMsgSize)).
		Says("a larger row goes to %s or stops its stream; to lift the limit", option.DeadLetter).Types("%s--max-msg-size=-1 -f", edit)

	i.found(c.DiscardNewPerSubject && i.options.Claim == "", inspect.Unsafe, inspect.StreamUnusable, subject,
		fmt.Sprintf("refuses further messages of a subject that has %d (discard_new_per_subject)", c.MaxMsgsPerSubject)).
		Says("make a stream without that").Types("%s", another)
	const refuses = " and refuses what is new (discard new)"
	severity, what := inspect.Note, "is full one day, at "+strings.Join(fills, " and ")+","+refuses+": bridge then waits"
	if c.MaxMsgs > 0 && int64(state.Msgs) >= c.MaxMsgs || c.MaxBytes > 0 && int64(state.Bytes)+roomFor >= c.MaxBytes {
		severity, what = inspect.Unsafe, "is full"+refuses
	}
	remedy := "increase the limits, purge the stream, or let it discard old"
	if i.options.Bucket != "" {
		remedy = "increase the limits"
	}
	i.found(len(fills) > 0 && !c.DiscardNewPerSubject, severity, inspect.StreamFull, subject, what).
		Says(remedy).Types("%s--max-msgs=-1 --max-bytes=-1 -f", edit)
}

// sharedSubject returns why a stream that keeps some messages of a subject loses events, empty
// where it does not.
func (i *inspection) sharedSubject(c *jetstream.StreamConfig) string {
	for subject, why := range i.options.Uncompactable {
		if c.MaxMsgsPerSubject > 0 && bus.MeetsAny(c.Subjects, subject) {
			return why
		}
	}
	return ""
}

func (i *inspection) checkReading(ctx context.Context, info *jetstream.StreamInfo) {
	c, subject := &info.Config, "stream "+info.Config.Name
	const why = ": bridge reads there what its checkpoint lacks"
	i.found(c.Retention != jetstream.LimitsPolicy, inspect.Unsafe, inspect.StreamUnreadable, subject,
		fmt.Sprintf("removes what is consumed (retention %s)", strings.ToLower(c.Retention.String()))+why).
		Says("the retention cannot be changed to limits: make a new stream").Types("%s", i.create(c.Name+"_2", c.Subjects))
	for _, right := range []struct{ subject, body, grant string }{
		{i.options.API("STREAM.MSG.GET." + c.Name), `{"seq":1}`, i.options.API("STREAM.MSG.GET." + c.Name)},
		// There is no such consumer. The right to ask for one comes with that to make one.
		{i.options.API("CONSUMER.INFO." + c.Name + ".bridge-check"), "", i.options.API("CONSUMER.>")},
	} {
		_, err := request(ctx, i, func(ctx context.Context) (*nats.Msg, error) {
			return i.nc.RequestWithContext(ctx, right.subject, []byte(right.body))
		})
		if err = i.better(err); errors.Is(err, nats.ErrPermissionViolation) {
			i.Add(inspect.Unsafe, inspect.StreamUnreadable, subject, "may not be read by this login"+why+": "+err.Error()).
				Says("let the login publish to %s", right.grant)
		}
	}
	i.found(c.MaxConsumers > 0 && info.State.Consumers >= c.MaxConsumers, inspect.Unsafe, inspect.StreamConsumers, subject,
		fmt.Sprintf("has %d consumers and takes no more (max_consumers): bridge cannot read what its checkpoint lacks", info.State.Consumers)).
		Says("remove consumers; the limit of a stream cannot be changed").Types("nats --server %s consumer ls %s", i.at, c.Name)
}

func (i *inspection) checkAccount(account *jetstream.AccountInfo) {
	if i.account = account.Tier; len(account.Tiers) > 0 {
		i.account = account.Tiers[fmt.Sprintf("R%d", max(i.options.Keeps.Replicas, 1))]
	}
	used, limits, most, where := i.account.Store, i.account.Limits, i.account.Limits.MaxStore, ""
	if i.options.Keeps.Memory {
		used, most, where = i.account.Memory, limits.MaxMemory, " in memory"
	}
	info := fmt.Sprintf("nats --server %s account info", i.at)
	i.found(most > 0 && used+roomFor >= uint64(most), inspect.Unsafe, inspect.StreamFull, "account",
		"takes no more messages"+where+": its limit for storage is used up").
		Says("increase the limit of the account, or remove messages").Types("%s", info)
	i.found(limits.MaxConsumers > 0 && i.account.Consumers >= limits.MaxConsumers, inspect.Unsafe, inspect.StreamConsumers, "account",
		fmt.Sprintf("has %d consumers and takes no more: bridge cannot read what its checkpoint lacks", i.account.Consumers)).
		Says("increase the limit of the account, or remove consumers").Types("%s", info)
}

func (i *inspection) checkCreation(subject string) {
	keeps, limits := i.options.Keeps, i.account.Limits
	most := limits.StoreMaxStreamBytes
	if keeps.Memory {
		most = limits.MemoryMaxStreamBytes
	}
	report := func(what, remedy string, args ...any) {
		i.Add(inspect.Unsafe, inspect.StreamCreation, subject, "cannot be created: "+what).
			Says(remedy, args...).Types("nats --server %s account info", i.at)
	}
	switch {
	case limits.MaxStreams > 0 && i.account.Streams >= limits.MaxStreams:
		report(fmt.Sprintf("the account has %d streams and takes no more", i.account.Streams),
			"increase the limit of the account, or remove streams")
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
			case bus.CoversAny(i.options.Published, m.Subject()):
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
	names := func(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }
	const why = ", of a bridge stream of the same name: two events of different domains may have one id, and only domain and id together are unique"
	if len(mixed) > 0 {
		i.Add(inspect.Warning, inspect.StreamDomains, subject, "has events of the domain "+names(mixed)+" on subjects of this bridge"+why).
			Says("tell them apart by the header %s, or put {domain} into DESTINATION", sink.HeaderDomain)
	} else if len(alone) > 0 {
		i.Add(inspect.Note, inspect.StreamDomains, subject, "has events of the domain "+names(alone)+why).
			Says("let consumers of several domains remember %s and %s together", sink.HeaderDomain, sink.HeaderID)
	}
}

// lastMessages calls each with the headers of the last messages of a stream.
func lastMessages(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, each func(jetstream.Msg)) error {
	first := state.FirstSeq
	if state.LastSeq-first >= othersWithin {
		first = state.LastSeq - othersWithin + 1
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, InactiveThreshold: server.RequestTimeout, MemoryStorage: true, Replicas: 1,
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
