package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

const (
	// mostWaiting bounds those who wait for such a read.
	mostWaiting = 64
	// entitiesBytes ends a page of entities once its data have this size.
	entitiesBytes = 4 << 20
)

// entities shows the entities of capability streams: of those that were published, what their rows
// say now. It is safe for concurrent use.
type entities struct {
	streams map[string]*shown
	// waiting bounds how many ask at a time.
	waiting chan struct{}
}

type shown struct {
	*appStream
	keys *keys
}

func newEntities(cfg *config.Config, p *parts, streams []*appStream) (*entities, error) {
	if !cfg.Serve {
		return nil, nil
	}
	e := &entities{streams: make(map[string]*shown), waiting: make(chan struct{}, mostWaiting)}
	for _, s := range streams {
		if s.view == nil {
			continue
		}
		keys, err := newKeys(cfg, s, p.sources, func(d *database) chan struct{} { return d.shown })
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Name, err)
		}
		for _, t := range keys.tables {
			// Whichever format the events have.
			t.encoder.As(event.Form{Format: event.FormatEiffel, Version: event.Version})
		}
		e.streams[s.Name] = &shown{s, keys}
	}
	return e, nil
}

func (h health) Entity(ctx context.Context, q httpapi.EntityQuery) (httpapi.Entity, error) {
	var found []httpapi.Entity
	err := h.show(ctx, q.Stream, func(s *shown) error {
		table, err := s.table(q.Shard)
		if err != nil {
			return err
		}
		entries, err := s.view.Lookup(ctx, table, [][]byte{[]byte(q.Key)}, nil)
		if err != nil || entries[0].State != store.Live {
			return err
		}
		found, err = s.read(ctx, entries[0].Shard, []store.Change{{Entity: []byte(q.Key), Entry: entries[0]}})
		return err
	})
	switch {
	case err != nil:
		return httpapi.Entity{}, err
	case len(found) == 0:
		return httpapi.Entity{}, fmt.Errorf("%w as %.200q in stream %s: it was not published, or is deleted", httpapi.ErrNoEntity, q.Key, q.Stream)
	}
	return found[0], nil
}

func (h health) EntityPage(ctx context.Context, q httpapi.PageQuery) (httpapi.EntityPage, error) {
	page := httpapi.EntityPage{Entities: []httpapi.Entity{}}
	err := h.show(ctx, q.Stream, func(s *shown) error {
		at, err := s.parseCursor(q.After)
		if err != nil {
			return err
		}
		return s.page(ctx, &page, at, q.Limit)
	})
	return page, err
}

func (h health) show(ctx context.Context, name string, do func(*shown) error) error {
	if _, err := h.stream(name); err != nil {
		return err
	}
	if h.entities == nil {
		return fmt.Errorf("%w: set %s to true", httpapi.ErrNotServed, config.Naming("")(option.Serve))
	}
	s := h.entities.streams[name]
	if s == nil {
		return fmt.Errorf("%w by stream %s: its rows are facts and have no entities", httpapi.ErrNotServed, name)
	}
	for _, p := range h.recovery.Progress().Streams {
		if p.Stream == name && !p.Ready {
			return fmt.Errorf("stream %s has not caught up from the bus: ask again later", name)
		}
	}
	select {
	case h.entities.waiting <- struct{}{}:
		defer func() { <-h.entities.waiting }()
	default:
		return fmt.Errorf("%d requests wait for the source already: ask again later", mostWaiting)
	}
	err := do(s)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, httpapi.ErrBadQuery) {
		return errors.New(config.StreamText(name)(err))
	}
	return err
}

// table returns the table in which an entity is looked up: any one where the tables share their
// entities.
func (s *shown) table(asked string) (string, error) {
	switch {
	case asked == "" && (len(s.Tables) == 1 || s.shared()):
		return s.Tables[0], nil
	case len(s.Tables) == 0:
		return "", fmt.Errorf("%w: stream %s has no table yet", httpapi.ErrBadQuery, s.Name)
	case slices.Contains(s.Tables, asked):
		return asked, nil
	case asked == "":
		return "", fmt.Errorf("%w: each table of stream %s has entities of its own: name one with shard=%s, say", httpapi.ErrBadQuery, s.Name, s.Tables[0])
	}
	return "", fmt.Errorf("%w: stream %s has no shard %.100q: there are %s", httpapi.ErrBadQuery, s.Name, asked, strings.Join(s.Tables, ", "))
}

// cursor is where a page begins: behind a row of a table.
type cursor struct {
	table int
	row   uint64
}

// parseCursor parses a Next of a page; an empty text is the beginning.
func (s *shown) parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	i := strings.LastIndexByte(text, '/')
	table := slices.Index(s.Tables, text[:max(i, 0)])
	row, err := strconv.ParseUint(text[i+1:], 10, 64)
	if table < 0 || err != nil {
		return cursor{}, fmt.Errorf("%w: after must be the next of the page before", httpapi.ErrBadQuery)
	}
	return cursor{table, row}, nil
}

// page fills a page with entities behind at. Next is left empty behind the last table.
func (s *shown) page(ctx context.Context, page *httpapi.EntityPage, at cursor, limit int) error {
	var bytes int
	var changes []store.Change
	for at.table < len(s.Tables) {
		table := s.Tables[at.table]
		var err error
		wanted := min(limit-len(page.Entities), partEntities)
		if changes, err = s.view.ByRow(ctx, table, at.row, wanted, changes[:0]); err != nil {
			return err
		}
		found, err := s.read(ctx, table, changes)
		if err != nil {
			return err
		}
		page.Entities = append(page.Entities, found...)
		for i := range found {
			bytes += len(found[i].Data)
		}
		if len(changes) < wanted {
			at = cursor{table: at.table + 1}
		} else {
			at.row = changes[len(changes)-1].Entry.Row
		}
		if at.table < len(s.Tables) && (len(page.Entities) >= limit || bytes >= entitiesBytes) {
			page.Next = s.Tables[at.table] + "/" + strconv.FormatUint(at.row, 10)
			return nil
		}
	}
	return nil
}

// partEntities is how many entities of a page are read at a time.
const partEntities = 100

// read returns those entities of a table that are published and have a row now, in their order.
func (s *shown) read(ctx context.Context, table string, changes []store.Change) ([]httpapi.Entity, error) {
	entries := make(map[string]*store.Entry, len(changes))
	var asked [][]byte
	for i := range changes {
		if changes[i].Entry.State == store.Live {
			entries[string(changes[i].Entity)] = &changes[i].Entry
			asked = append(asked, changes[i].Entity)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	found := make(map[string]httpapi.Entity, len(asked))
	for _, t := range s.keys.of(table) {
		if _, err := t.read(ctx, asked, func(row source.Row) error {
			one, live, err := t.entity(row, entries)
			if live && err == nil {
				found[one.Key] = one
			}
			return err
		}); err != nil {
			return nil, fmt.Errorf("read %s by key: %w", table, err)
		}
	}
	list := make([]httpapi.Entity, 0, len(found))
	for _, key := range asked {
		if one, ok := found[string(key)]; ok {
			list = append(list, one)
		}
	}
	return list, nil
}

// entity returns what a row of the page says. live is false for a deleted one, and for one that
// was not asked for: the server may compare keys more loosely.
func (t *keyTable) entity(row source.Row, entries map[string]*store.Entry) (e httpapi.Entity, live bool, err error) {
	digest, err := t.encoder.Digest(row)
	entry := entries[string(digest.Key)]
	if err != nil || digest.Deleted || entry == nil {
		return e, false, err
	}
	e = httpapi.Entity{Key: string(digest.Key), Shard: t.name, Event: event.FormatID(entry.Event), Changed: entry.Digest != digest.Sum}
	_, ev, err := t.encoder.Append(nil, event.Row{Row: row, State: digest.Sum, Read: t.page.Now})
	if err != nil {
		return e, false, err
	}
	var body struct{ Data json.RawMessage }
	err = json.Unmarshal(ev.Body, &body)
	e.Data = body.Data
	return e, err == nil, err
}
