package lineage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/internal/published"
	"example.org/bridge/source"
)

// Table is a table that is compared with the bus.
type Table struct {
	Name    string
	Source  source.Shard
	Encoder *event.Encoder
}

// Verdict says what a comparison of a table has found.
type Verdict struct {
	Stream, Table string
	// Survived says that a row is still the one that was published; Another that rows, or ids, are
	// others, and that they were read from another server, or one that was started since.
	Survived, Another bool
	// Rows is how many rows differ from the bus, First the lowest of them. If Rows is 0, Next is
	// the next id of the table, which lies below a row that the bus has.
	Rows        int
	First, Next uint64
	// There says where the rows of the bus were read, empty where that is unknown, Here where the
	// table is read.
	There, Here string
}

const (
	listRows     = 1000
	compareBytes = 1 << 20
)

// errNothing says that no row compares.
var errNothing = errors.New("the columns of the table are others than those of the messages")

type comparison struct {
	*Table
	check  published.Check
	origin published.Origin
	// values reads the values of messages.
	values func(ctx context.Context, rows []uint64) (map[uint64][]byte, error)
	server string
}

// compare compares the table with the newest messages of it. An error of the source may pass.
func (t *Table) compare(ctx context.Context, newest Newest, values func(context.Context, []uint64) (map[uint64][]byte, error)) (Verdict, error) {
	rows, origin := newest.List(listRows)
	v := Verdict{Table: t.Name, There: origin.Server}
	if len(rows) == 0 {
		return v, nil
	}
	// Whatever the kind: a CREATED or a key that differs is another row's.
	c := comparison{Table: t, check: published.Check{Release: true}, origin: origin, values: values}
	if err := c.run(ctx, rows); err != nil {
		if errors.Is(err, errNothing) {
			err = nil
		}
		return v, err
	}
	v.Here, v.Survived = c.server, c.check.Survivor() > 0
	if v.Survived || !c.check.Moved {
		return v, nil
	}
	if published.SameName(origin.Server, v.Here) && t.Encoder.Kind() == event.Capability {
		// Its server was started again, and a table of states may be filled again.
		return v, nil
	}
	if v.Rows, v.First = len(c.check.Others), c.check.First(); v.Rows > 0 {
		v.Another = true
		return v, nil
	}
	next, err := t.Source.NextID(ctx)
	if v.Another = err == nil && next > 0 && next <= rows[len(rows)-1].ID; v.Another {
		v.Next = next
	}
	return v, err
}

func (c *comparison) run(ctx context.Context, rows []published.Row) error {
	if err := c.check.Compare(rows, func(some []published.Row) ([]published.Row, error) { return c.read(ctx, some) }); err != nil {
		return err
	}
	ids := c.check.Unsure()
	if len(ids) == 0 {
		return nil
	}
	values, err := c.values(ctx, ids)
	if err != nil {
		return err
	}
	return c.pages(ctx, ids, func(page *source.Page) error {
		c.check.Resolve(Compare(c.Encoder, page, values))
		return nil
	})
}

func (c *comparison) read(ctx context.Context, list []published.Row) (found []published.Row, err error) {
	ids := make([]uint64, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	err = c.pages(ctx, ids, func(page *source.Page) error {
		for _, row := range page.Rows {
			digest, err := c.Encoder.Digest(row)
			if err != nil {
				return err
			}
			one := published.RowOf(c.Encoder, page.Columns, row, digest.Sum, digest.Key)
			if n := len(found); n == 0 || found[n-1].ID != one.ID {
				found = append(found, one)
			} else if slices.ContainsFunc(list, func(was published.Row) bool { return was.ID == one.ID && was.Content == one.Content }) {
				// Of rows that share an id, the one of the message is compared.
				found[n-1] = one
			}
		}
		return nil
	})
	return found, err
}

func (c *comparison) pages(ctx context.Context, ids []uint64, each func(*source.Page) error) error {
	var page source.Page
	for ranges := source.RangesOf(slices.Sorted(slices.Values(ids))); len(ranges) > 0; {
		if err := c.Source.Read(ctx, source.Query{Ranges: ranges, Limit: len(ids), MaxBytes: compareBytes}, &page); err != nil {
			return err
		}
		if err := c.Encoder.Bind(page.Columns); err != nil {
			return errors.Join(source.ErrUnfit, err)
		}
		now := published.Origin{Shape: uint64(c.Encoder.Form()), Server: published.ServerAndDatabase(page.Server, c.Encoder.Source()), Started: source.StartedOf(c.Source)}
		if !c.origin.Fits(now) {
			return errNothing
		}
		c.server, c.check.Moved = now.Server, c.origin.Server != "" && !now.SameServer(c.origin)
		if err := each(&page); err != nil {
			return err
		}
		if !page.More || len(page.Rows) == 0 {
			return nil
		}
		ranges = source.RangesAbove(ranges, page.Rows[len(page.Rows)-1].ID)
	}
	return nil
}

// Compare compares rows of a page with the values that their newest messages have, by id, and
// returns which rows are the published ones (true) and which differ (false). It leaves
// out rows for which neither is certain. The encoder is bound to the columns of the page.
//
// A member tells where its value hardly repeats: it is that of one row alone on either side, and
// long. A row with half of these unchanged was updated at most; one with none of them is another.
// Where no member is long, several count, and all must be unchanged: a short one may be so by
// chance.
func Compare(encoder *event.Encoder, page *source.Page, newest map[uint64][]byte) map[uint64]bool {
	type pair struct{ was, is members }
	pairs := make(map[uint64]pair)
	repeats := [2]map[string]int{make(map[string]int), make(map[string]int)}
	names := encoder.Telling()
	for i, row := range page.Rows {
		was := membersOf(newest[row.ID])
		if was == nil || i > 0 && page.Rows[i-1].ID == row.ID || i+1 < len(page.Rows) && page.Rows[i+1].ID == row.ID {
			// Of rows that share an id it is not known which one the message is about.
			continue
		}
		_, e, err := encoder.Append(nil, event.Row{Row: row, Read: page.Now})
		if err != nil {
			// A row that is not an event has nothing to compare.
			continue
		}
		one := pair{was, membersOf(e.Body)}
		for _, name := range names {
			repeats[0][name+"="+string(one.was[name])]++
			repeats[1][name+"="+string(one.is[name])]++
		}
		pairs[row.ID] = one
	}
	same := make(map[uint64]bool)
	for id, one := range pairs {
		// How many members identify the row, and how many of them are unchanged.
		type tally struct{ members, unchanged int }
		var all, long tally
		count := func(of *tally, unchanged bool) {
			if of.members++; unchanged {
				of.unchanged++
			}
		}
		for _, name := range names {
			was, is := string(one.was[name]), string(one.is[name])
			if isEmpty(was) || isEmpty(is) || repeats[0][name+"="+was] > 1 || repeats[1][name+"="+is] > 1 {
				continue
			}
			count(&all, was == is)
			if isLong(was) && isLong(is) {
				count(&long, was == is)
			}
		}
		enough := 2*long.unchanged >= long.members
		if long.members == 0 {
			long, enough = all, all.members > 1 && all.unchanged == all.members
		}
		switch {
		case long.members == 0:
		case long.unchanged == 0:
			same[id] = false
		case enough:
			same[id] = true
		}
	}
	return same
}

// isLong reports whether rows hardly share a value by chance, as they do small numbers and flags.
func isLong(value string) bool { return len(strings.Trim(value, `"`)) > 3 }

func isEmpty(value string) bool { return value == "" || value == "null" || value == `""` }

type members map[string]json.RawMessage

// membersOf returns the members of data of a value in any format, nil where it has none: a former
// message may have another format than those of now. In format row, columns may be named as the
// parts of a document are.
func membersOf(value []byte) members {
	document := objectOf(value)
	if version := string(document["specversion"]); version == `"1.0"` && document["datacontenttype"] != nil {
		document = objectOf(document["data"])
	}
	if data := objectOf(document["data"]); data != nil && document["meta"] != nil && document["links"] != nil && len(document) == 3 {
		return data
	}
	return document
}

// objectOf returns the members of a JSON object, nil of everything else.
func objectOf(value []byte) (object members) {
	if json.Unmarshal(value, &object) != nil {
		return nil
	}
	return object
}
