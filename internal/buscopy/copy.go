package buscopy

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"bridge/checkpoint/store"
)

// Copy is the progress of a stream as a store held it, as one image.
type Copy struct {
	// Epoch and Number order the copies of a stream: the one with the highest holds. Epoch is at
	// least that of the process that wrote it.
	Epoch, Number uint64
	// Written is when it was made, by the clock of a host, for people.
	Written time.Time
	// Registrations are those of a release stream that were in force. A stream with a view has
	// none: it is read from the beginning.
	Registrations []store.Registration
	Shards        []Shard
}

// Shard is the progress of a shard. Without Parts it is as after `bridge checkpoint rebuild`.
type Shard struct {
	Name     string
	Progress store.Progress
	Parts    []store.Part
}

const (
	// form is the format of entries. A reader refuses a higher one.
	form = 1
	// partBytes is how much of a copy one entry has. With base64 it stays below the 1 MB that
	// brokers and servers take by default.
	partBytes = 384 << 10
	// mostBytes bounds a copy that is read.
	mostBytes = 64 << 20
)

// entry is a value of the bucket: a part of the compressed copy.
type entry struct {
	Form    int       `json:"form"`
	Epoch   uint64    `json:"epoch"`
	Number  uint64    `json:"number"`
	Part    int       `json:"part"`
	Parts   int       `json:"parts"`
	Written time.Time `json:"written"`
	// Data is a part of the copy: JSON, compressed with gzip, which has a checksum.
	Data []byte `json:"data"`
}

// content is what a copy says, without what its entries have.
type content struct {
	Registrations []store.Registration
	Shards        []Shard
}

// encode returns the compressed content.
func encode(c *content) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// The level is a good one, and a bytes.Buffer takes every write.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes(), nil
}

// split returns the values of a copy, in the order in which they are put.
func split(c *Copy, data []byte) [][]byte {
	parts := slices.Collect(slices.Chunk(data, partBytes))
	values := make([][]byte, len(parts))
	for i, part := range parts {
		// Nothing in it can fail to be encoded.
		values[i], _ = json.Marshal(entry{Form: form, Epoch: c.Epoch, Number: c.Number, Part: i, Parts: len(parts), Written: c.Written, Data: part})
	}
	return values
}

// newest returns the copy with the highest epoch and number of which all parts are there, and false
// where there is none. A copy that was being written when its process ended is passed over.
func newest(entries map[string][]byte) (Copy, bool, error) {
	type id struct{ epoch, number uint64 }
	parts := make(map[id][]entry)
	for key, value := range entries {
		var e entry
		if err := json.Unmarshal(value, &e); err != nil {
			return Copy{}, false, fmt.Errorf("%w: entry %s: %w: delete its key; then START decides again where a table has published nothing", ErrDamaged, key, err)
		}
		if e.Form != form {
			return Copy{}, false, fmt.Errorf("%w: entry %s has form %d, this version writes %d", ErrNewer, key, e.Form, form)
		}
		parts[id{e.Epoch, e.Number}] = append(parts[id{e.Epoch, e.Number}], e)
	}
	var best id
	for i, list := range parts {
		if len(list) == list[0].Parts && (i.epoch > best.epoch || i.epoch == best.epoch && i.number > best.number) {
			best = i
		}
	}
	list := parts[best]
	if len(list) == 0 {
		return Copy{}, false, nil
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.Part, b.Part) })
	var data []byte
	for i := range list {
		data = append(data, list[i].Data...)
	}
	c, err := decode(data)
	if err != nil {
		return Copy{}, false, fmt.Errorf("%w: number %d of epoch %d: %w", ErrDamaged, best.number, best.epoch, err)
	}
	return Copy{Epoch: best.epoch, Number: best.number, Written: list[0].Written, Registrations: c.Registrations, Shards: c.Shards}, true, nil
}

func decode(data []byte) (c content, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return content{}, err
	}
	text, err := io.ReadAll(io.LimitReader(r, mostBytes))
	if err != nil {
		return content{}, err
	}
	return c, json.Unmarshal(text, &c)
}

// streamKey returns what the keys of a stream begin with. Of the domain all but letters, digits and
// '-' is escaped, so that the parts of a key can be told apart.
func streamKey(domain, stream string) string {
	var b strings.Builder
	for i := range len(domain) {
		if c := domain[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return cmp.Or(b.String(), "=") + "." + stream + "."
}

// entryKey returns the key of a part. Each epoch has keys of its own, so that a process that was
// superseded replaces nothing. Two sets take turns, so that the last copy stays whole until the
// next one is.
func entryKey(begin string, epoch uint64, set, part int) string {
	return fmt.Sprintf("%s%d.%d.%d", begin, epoch, set, part)
}
