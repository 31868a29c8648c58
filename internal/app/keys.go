package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// keys reads the tables of a stream by key. It is safe for concurrent use.
type keys struct {
	stream string
	tables []*keyTable
}

// keyTable is a table that is read by key. It serves one goroutine at a time.
type keyTable struct {
	stream, name string
	of           *database
	sources      *Sources
	// slots bounds the reads by key of the database, of all streams; reading those of this one.
	slots, reading chan struct{}
	source         source.Shard
	encoder        *event.Encoder
	zone           *time.Location

	// columns are those that the encoder is bound to, nil before the first page.
	columns *source.Columns
	// traits are those of the server that they name; asked is when they were asked for.
	traits source.Traits
	asked  time.Time
	page   source.Page
}

const (
	// pageBytes bounds a page that is read by key.
	pageBytes = 1 << 20
	// mostAltered is how often a read is repeated because the columns were altered meanwhile.
	mostAltered = 3
	// traitsEvery is the shortest time between two questions for the traits of a server.
	traitsEvery = time.Second
)

func newKeys(cfg *config.Config, s *appStream, from *Sources, slots func(*database) chan struct{}) (*keys, error) {
	k, reading := &keys{stream: s.Name}, make(map[*database]chan struct{})
	for _, d := range from.all {
		reading[d] = make(chan struct{}, 1)
	}
	for _, table := range s.Tables {
		encoder, err := s.encoder(cfg, table)
		if err != nil {
			return nil, err
		}
		of, _ := from.of(table)
		k.tables = append(k.tables, &keyTable{
			stream: s.Name, name: table, of: of, sources: from, slots: slots(of), reading: reading[of],
			source: from.Shard(s.Spec(table)), encoder: encoder, zone: s.TimeZone.Location,
		})
	}
	return k, nil
}

// Read reads entities in all tables of the stream or, where a shard is named, in that one. It is
// the Read of stream.MoversOptions. Where the columns were altered it reads again at once.
func (k *keys) Read(ctx context.Context, shard string, entities [][]byte) (stream.FoundRows, error) {
	tables := k.of(shard)
	// Of a table that the stream does not have any more nothing is concluded.
	reading := stream.FoundRows{Rows: make([][]stream.Found, len(entities)), Snapshot: len(tables) == 1, Unproved: len(tables) == 0}
	at := make(map[string]int, len(entities))
	for i, entity := range entities {
		at[string(entity)] = i
	}
	for _, t := range tables {
		proved, err := t.read(ctx, entities, func(row source.Row) error {
			digest, err := t.encoder.Digest(row)
			// The server may compare keys more loosely.
			i, asked := at[string(digest.Key)]
			if !asked || err != nil {
				return err
			}
			found := stream.Found{Shard: t.name, Row: row.ID, Digest: digest.Sum, Deleted: digest.Deleted, Silent: digest.Silent}
			if at := t.columns.Modified; at >= 0 {
				// Without a moment in it, which of two rows is younger is not known.
				found.Modified, _ = t.columns.List[at].Time(row.Values[at], t.zone)
			}
			reading.Rows[i] = append(reading.Rows[i], found)
			return nil
		})
		if err != nil {
			return stream.FoundRows{}, fmt.Errorf("read %s by key: %w", t.name, err)
		}
		reading.Unproved = reading.Unproved || !proved
	}
	return reading, nil
}

// begin waits for the turn of a read, which ends with end. It fails for a database that was not
// compared with the bus: that a row is absent there says nothing.
func (t *keyTable) begin(ctx context.Context) (end func(), err error) {
	if !t.sources.isAdmitted(t.stream, t.of) {
		return nil, fmt.Errorf("%s was not compared with the bus yet", t.of.Label())
	}
	read, err := backoff.Acquire(ctx, t.reading)
	if err == nil {
		var free func()
		if free, err = backoff.Acquire(ctx, t.slots); err == nil {
			return func() { free(); read() }, nil
		}
		read()
	}
	return nil, fmt.Errorf("wait for other reads by key: %w", err)
}

func (k *keys) of(shard string) []*keyTable {
	if shard == "" {
		return k.tables
	}
	for i, t := range k.tables {
		if t.name == shard {
			return k.tables[i : i+1]
		}
	}
	return nil
}

// read calls each with the rows of entities, and with rows of similar keys. They are valid until
// each returns. proved says that an entity without a row has none.
func (t *keyTable) read(ctx context.Context, entities [][]byte, each func(source.Row) error) (proved bool, err error) {
	ctx, cancel := t.sources.while(ctx, t.of, true)
	defer cancel()
	defer func() {
		switch away := context.Cause(ctx); {
		case err != nil && errors.Is(away, stream.ErrAway):
			err = away
		case source.Stops(err):
			err = fmt.Errorf("%s %w: %w", t.name, stream.ErrAway, err)
		}
	}()
	end, err := t.begin(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	proved = true
	err = source.InParts(entities, func(part [][]byte) (whole bool, err error) {
		if err := t.readPart(ctx, part); err != nil || t.page.More && len(part) > 1 {
			return false, err
		}
		writer, err := t.isWriter(ctx)
		if err != nil {
			return false, err
		}
		proved = proved && writer && !t.page.More
		for _, row := range t.page.Rows {
			if err := each(row); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return proved && err == nil, err
}

func (t *keyTable) readPart(ctx context.Context, entities [][]byte) (err error) {
	for range mostAltered {
		if err = t.readOnce(ctx, entities); !errors.Is(err, source.ErrAltered) {
			return err
		}
		t.columns = nil
	}
	return err
}

func (t *keyTable) readOnce(ctx context.Context, entities [][]byte) error {
	if t.columns == nil {
		if err := t.source.Read(ctx, source.Query{Limit: 1}, &t.page); err != nil {
			return err
		}
		if err := t.encoder.Bind(t.page.Columns); err != nil {
			return fmt.Errorf("%w: %w", source.ErrUnfit, err)
		}
		t.columns = t.page.Columns
	}
	values, err := event.KeysOf(t.encoder, entities)
	if err != nil {
		return err
	}
	q := source.Query{Keys: values, Limit: 2 * source.MaxKeys, MaxBytes: pageBytes}
	if len(entities) == 1 {
		// Its row fits, however big.
		q.MaxBytes = 0
	}
	if err := t.source.Read(ctx, q, &t.page); err != nil {
		return err
	}
	if t.page.Columns != t.columns {
		// The values were made for the former ones.
		return source.ErrAltered
	}
	return nil
}

// isWriter reports whether a row that the page lacks is absent: the server that answered takes the
// writes.
func (t *keyTable) isWriter(ctx context.Context) (bool, error) {
	if t.traits.Server != t.page.Server && time.Since(t.asked) >= traitsEvery {
		traits, err := t.source.Traits(ctx)
		if err != nil {
			return false, err
		}
		t.traits, t.asked = traits, time.Now()
	}
	return t.traits.Writer && t.traits.Server == t.page.Server, nil
}
