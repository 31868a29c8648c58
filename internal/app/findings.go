package app

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/panics"
	"example.org/bridge/source"
)

// startsWithin is how long the inspection of the source waits for shards that start: it asks of
// each table as much as a shard does at its start.
const startsWithin = 20 * time.Second

// logFindings waits until a database can be reached, inspects it and its tables one after another,
// but for those that were before, and logs each finding once per stream. It returns when it is done
// or ctx ends. Nothing waits for it.
func logFindings(ctx context.Context, cfg *config.Config, d *database, shards func(source.Spec) source.Shard, inspected *sync.Map, logger *slog.Logger) {
	expected := slices.DeleteFunc(check.Expectations(cfg, d.Source, nil), func(e source.Expected) bool {
		_, was := inspected.Load(store.Key{Stream: e.Stream, Shard: e.Shard})
		return was
	})
	_, known := inspected.Load(d.Label())
	if _, able := d.from.(source.Inspector); !able || known && len(expected) == 0 {
		return
	}
	pause := backoff.Backoff{First: time.Second, Max: 30 * time.Second}
	for d.from.Ready(ctx) != nil {
		if pause.Wait(ctx) != nil {
			return
		}
	}
	found := d.inspect(ctx, cfg, expected, 1, logger)
	inspectRows(ctx, cfg, shards, expected, 1, &found)
	if ctx.Err() != nil || found.Tables == nil {
		// The shards log that the source is away again.
		return
	}
	if d.Name != "" {
		logger = logger.With("source", d.Name)
	}
	if inspected.Store(d.Label(), true); !known {
		logMerged(ctx, logger, inspect.Named(found.Server.Findings, config.Naming("")))
	}
	for i := range cfg.Streams {
		name := cfg.Streams[i].Name
		var findings []inspect.Finding
		for j := range expected {
			if expected[j].Stream == name {
				inspected.Store(store.Key{Stream: name, Shard: expected[j].Shard}, true)
				findings = append(findings, found.Tables[j].Findings...)
			}
		}
		logMerged(ctx, logger.With("stream", name), inspect.Named(findings, config.Naming(name)))
	}
}

// It leaves out those that block a stream, because the log has them as the error that stopped the
// stream or as an outage.
func logMerged(ctx context.Context, logger *slog.Logger, findings []inspect.Finding) {
	for _, m := range check.Merge(findings) {
		if m.Blocks() {
			continue
		}
		level := slog.LevelWarn
		if m.Severity < inspect.Warning {
			level = slog.LevelInfo
		}
		logger.Log(ctx, level, "finding about the source", logArgs(m)...)
	}
}

func logArgs(m check.Merged) []any {
	args := []any{"code", m.Code, "severity", m.Severity.String(), "subject", m.SubjectText(), "finding", m.What}
	if m.Do != "" {
		args = append(args, "remedy", m.Do)
	}
	if len(m.Statements) > 0 {
		args = append(args, "statement", strings.Join(m.Statements[:min(len(m.Statements), check.MostStatements)], " "))
	}
	return args
}

// logOthers looks, once since the configuration was read, for what the checkpoint has and cfg, that
// of all shares, has not. It logs each finding once.
func (a *App) logOthers(cfg *config.Config) {
	if _, was := a.inspected.LoadOrStore(store.Key{}, true); was {
		return
	}
	var kept []store.ShardState
	for key, progress := range a.image.Shards {
		if progress.Started {
			kept = append(kept, store.ShardState{Key: key})
		}
	}
	slices.SortFunc(kept, func(a, b store.ShardState) int { return a.Key.Compare(b.Key) })
	for _, m := range check.Merge(inspect.Named(check.Others(cfg, kept), config.Naming(""))) {
		args := logArgs(m)
		if _, was := a.others.LoadOrStore(fmt.Sprint(args...), true); !was {
			a.logger.Warn("finding about the checkpoint", args...)
		}
	}
}

// inspectRows reads rows of each of tables as bridge run does, atOnce tables at a time, and adds to
// found what keeps them from being published, and a DELETED that seems to take live rows for
// deleted. Tables that have a finding which stops them are left out.
func inspectRows(ctx context.Context, cfg *config.Config, shards func(source.Spec) source.Shard, tables []source.Expected, atOnce int, found *source.Inspection) {
	var group errgroup.Group
	group.SetLimit(max(1, atOnce))
	for i := range found.Tables {
		t, table := &found.Tables[i], tables[i].Shard
		if slices.ContainsFunc(t.Findings, func(f inspect.Finding) bool { return f.Severity == inspect.Unsafe }) {
			continue
		}
		group.Go(func() error {
			rows := rowInspection{cfg: cfg, stream: cfg.Stream(tables[i].Stream), table: table, shards: shards, position: tables[i].Position, deletedType: t.DeletedType}
			if err := panics.Guard(func() error { return rows.inspect(ctx) }); panics.Is(err) {
				rows.Findings = append(rows.Findings, inspect.Panicked(table, err))
			}
			t.Findings = append(t.Findings, rows.Findings...)
			return nil
		})
	}
	// Every error has become a finding.
	_ = group.Wait()
}

type rowInspection struct {
	inspect.Report
	cfg    *config.Config
	stream *config.Stream
	table  string
	shards func(source.Spec) source.Shard
	// position is the saved one, nil where there is none.
	position *uint64
	// deletedType is the type of the DELETED column.
	deletedType string
}

// inspect adds the findings. What is away the inspection of the source has found.
func (r *rowInspection) inspect(ctx context.Context) error {
	encoder, err := r.cfg.Encoder(r.stream, r.table)
	if err != nil {
		return err
	}
	var page source.Page
	err = r.shards(r.stream.Spec(r.table)).Read(ctx, source.Query{Limit: 1, MaxBytes: pageBytes}, &page)
	if err == nil {
		if err = encoder.Bind(page.Columns); err != nil {
			err = fmt.Errorf("%w: %w", source.ErrUnfit, err)
		}
	}
	switch {
	case source.Stops(err):
		r.Add(inspect.Unsafe, inspect.TableUnfit, r.table, "cannot be published: "+config.StreamText(r.stream.Name)(err)).Says("do as the message says")
		return nil
	case err != nil:
		return err
	}
	if r.stream.Rate > 0 && r.stream.Order() != source.OrderNone && r.position != nil && page.MaxID > *r.position {
		ids := page.MaxID - *r.position
		// Ids may jump so far that no Duration holds it.
		if takes := time.Duration(min(float64(ids)/float64(r.stream.Rate), 3600e6) * float64(time.Second)); takes > longBacklog {
			r.Add(inspect.Note, inspect.RateBacklog, r.table, fmt.Sprintf("has %d ids above its position, which take %s at the rate of %d rows a second", ids, takes.Round(time.Minute), r.stream.Rate)).
				Says("increase %s, or set it to 0, where that is too long", option.Rate)
		}
	}
	if r.stream.Payload != "" {
		return r.inspectPayload(ctx, encoder, page.MaxID)
	}
	if page.Columns.Deleted < 0 || r.stream.Kind != event.Capability {
		return nil
	}
	return r.inspectDeleted(ctx)
}

// longBacklog is how long a backlog may take that a rate holds back.
const longBacklog = time.Hour

// sampleRows is how many of the oldest and of the newest rows are read.
const sampleRows = 500

// inspectPayload looks for rows that make no message among the newest, up to the id last.
func (r *rowInspection) inspectPayload(ctx context.Context, encoder *event.Encoder, last uint64) (err error) {
	route := r.cfg.Route(r.stream, r.table)
	var page source.Page
	q := source.Query{After: last - min(last, sampleRows), Limit: sampleRows, MaxBytes: pageBytes}
	if err := r.shards(r.stream.Spec(r.table)).Read(ctx, q, &page); err != nil {
		return err
	}
	unfit, example := 0, ""
	var buf []byte
	for _, row := range page.Rows {
		var ev event.Event
		if buf, ev, err = encoder.Append(buf[:0], event.Row{Row: row, Read: page.Now}); err != nil {
			return err
		}
		if route(&ev); ev.Unfit == "" || row.Filtered {
			continue
		}
		if unfit++; example == "" {
			example = fmt.Sprintf("row %d: %s", row.ID, ev.Unfit)
		}
	}
	if unfit > 0 {
		r.Add(inspect.Warning, inspect.UnfitRows, r.table, fmt.Sprintf("has %d of %d newest rows that become dead letters, such as %s", unfit, len(page.Rows), example)).
			Says("list the topics or subjects of all rows in %s, or correct what writes them; then bridge deadletter resend", option.Destinations)
	}
	return nil
}

func (r *rowInspection) inspectDeleted(ctx context.Context) error {
	shard := r.shards(source.Spec{Table: r.table, ID: r.stream.ID, IDFormat: r.stream.IDFormat(), Deleted: r.stream.Deleted, Fields: []string{}})
	sample := deletedSample{deletion: &r.stream.Deletion, words: make(map[string]bool), seen: make([]bool, len(r.stream.Deletion.Values))}
	if strings.HasPrefix(strings.ToLower(r.deletedType), "enum(") {
		// It may have no rows yet.
		for _, word := range listedWords(r.deletedType) {
			if sample.deletion.Says(source.Column{Kind: source.Text}, []byte(word)) {
				sample.addWord(word)
			}
		}
	}
	q := source.Query{Limit: sampleRows, MaxBytes: pageBytes}
	for range 2 {
		var page source.Page
		if err := shard.Read(ctx, q, &page); err != nil {
			return err
		}
		sample.add(&page)
		if len(page.Rows) == 0 || !page.More {
			break
		}
		q.After = max(page.Rows[len(page.Rows)-1].ID, page.MaxID-min(page.MaxID, sampleRows))
	}
	if what := sample.suspect(); what != "" {
		r.Add(inspect.Warning, inspect.DeletedValues, r.table, fmt.Sprintf("has in its DELETED column (%s) %s", r.stream.Deleted, what)).
			Says("if such rows live, say which values mean deleted with %s=%s=VALUE, or which do not with %s=%s!=VALUE, several with | between them",
				option.Deleted, r.stream.Deleted, option.Deleted, r.stream.Deleted)
	}
	r.checkNamed(&sample)
	return nil
}

// checkNamed adds the values of DELETED that the column cannot have, or that no row of the sample
// has.
func (r *rowInspection) checkNamed(sample *deletedSample) {
	words := listedWords(r.deletedType)
	isEnum := strings.HasPrefix(strings.ToLower(r.deletedType), "enum(")
	for i, value := range r.stream.Deletion.Values {
		switch parts := strings.Split(value, ","); {
		case isEnum && !hasWord(words, value), !isEnum && words != nil && slices.ContainsFunc(parts, func(part string) bool { return !hasWord(words, part) }):
			r.Add(inspect.Warning, inspect.DeletedValues, r.table, fmt.Sprintf("never has %.40q, which DELETED names, in its column %s: that is %.200s", value, r.stream.Deleted, r.deletedType)).
				Says("correct the value in %s", option.Deleted)
		case !isEnum && !r.stream.Deletion.Except && sample.rows > 0 && !sample.seen[i]:
			r.Add(inspect.Note, inspect.DeletedValues, r.table, fmt.Sprintf("has %.40q, which DELETED names, in its column %s in none of %d rows that were read", value, r.stream.Deleted, sample.rows)).
				Says("if there are deleted rows, correct the value in %s", option.Deleted)
		}
	}
}

type deletedSample struct {
	deletion      *event.Deletion
	rows, deleted int
	// words are values that count as deleted and say something else, far the latest time.
	words map[string]bool
	// seen tells which of the values that are named some row has.
	seen []bool
	far  time.Time
	now  time.Time
}

const mostWords = 5

func (s *deletedSample) add(page *source.Page) {
	s.now = page.Now
	column := page.Columns.List[page.Columns.Deleted]
	for _, row := range page.Rows {
		v := row.Values[page.Columns.Deleted]
		s.rows++
		for i, value := range s.deletion.Values {
			s.seen[i] = s.seen[i] || (&event.Deletion{Values: []string{value}}).Says(column, v)
		}
		if !s.deletion.Says(column, v) {
			continue
		}
		s.deleted++
		switch column.Kind {
		case source.Text, source.Binary, source.JSON:
			s.addWord(string(v))
		case source.Date, source.DateTime, source.Timestamp:
			if at, ok := column.Time(v, time.UTC); ok && at.After(s.far) {
				s.far = at
			}
		}
	}
}

// addWord keeps a text that is a word, and none that programs write into a flag.
func (s *deletedSample) addWord(text string) {
	n := 0
	for _, c := range text {
		if unicode.IsLetter(c) {
			n++
		}
	}
	lower := strings.ToLower(text)
	isFlag := n < 2 || strings.HasPrefix(lower, "del") || slices.Contains([]string{"yes", "true", "removed"}, lower)
	if len(s.words) < mostWords && !isFlag {
		s.words[text] = true
	}
}

var listedWord = regexp.MustCompile(`'((?:[^']|'')*)'`)

// listedWords returns the words of an ENUM or a SET, nil for another type.
func listedWords(columnType string) (words []string) {
	if lower := strings.ToLower(columnType); !strings.HasPrefix(lower, "enum(") && !strings.HasPrefix(lower, "set(") {
		return nil
	}
	for _, word := range listedWord.FindAllStringSubmatch(columnType, -1) {
		words = append(words, strings.ReplaceAll(word[1], "''", "'"))
	}
	return words
}

func hasWord(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// farAhead is how far in the future the time of a deletion is none.
const farAhead = 366 * 24 * time.Hour

// suspect says what looks wrong, empty for nothing. Where values are configured they are meant.
func (s *deletedSample) suspect() string {
	switch {
	case len(s.deletion.Values) > 0 && !s.deletion.Except:
		return ""
	case len(s.words) > 0:
		var words []string
		for word := range s.words {
			words = append(words, fmt.Sprintf("%.40q", word))
		}
		slices.Sort(words)
		return strings.Join(words, ", ") + ": each of them counts as deleted"
	case s.far.Sub(s.now) > farAhead:
		return "times as late as " + s.far.Format(time.DateOnly) + ": each counts as deleted"
	case s.rows > 1 && 2*s.deleted > s.rows:
		return fmt.Sprintf("values by which %d of %d rows that were read count as deleted", s.deleted, s.rows)
	}
	return ""
}
