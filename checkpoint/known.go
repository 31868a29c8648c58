package checkpoint

import (
	"encoding/binary"
	"fmt"
	"time"
)

// minKnown is the least bytes of a known, minChange those of a change.
const (
	minKnown  = 1
	minChange = 2 + minKnown
)

// Check returns an error when c is invalid: its entity is empty or too long, or its entry holds
// what its fate forbids.
func (c *Change) Check() error {
	switch k := &c.Known; {
	case len(c.Entity) == 0 || len(c.Entity) > MaxEntity:
		return fmt.Errorf("the entity %.40q has %d bytes, a view takes 1 to %d: choose shorter key columns", c.Entity, len(c.Entity), MaxEntity)
	case k.Fate > Gone:
		return fmt.Errorf("entity %.40q has the unknown fate %d", c.Entity, k.Fate)
	case k.Fate == Unknown && *k != Known{}:
		return fmt.Errorf("entity %.40q has the fate unknown and an entry all the same", c.Entity)
	case k.Fate != Gone && !k.Since.IsZero():
		return fmt.Errorf("entity %.40q is not gone and yet it is since %v", c.Entity, k.Since)
	case k.Fate == Gone && k.State != [16]byte{}:
		return fmt.Errorf("entity %.40q is gone and yet it has a state", c.Entity)
	case k.Fate == Gone && !plausible(k.Since):
		return fmt.Errorf("the time %v of entity %.40q is outside the years 1 to 9999", k.Since, c.Entity)
	}
	return nil
}

// AppendKnown appends the form in which stores keep k to dst and returns the extended dst. Since is
// kept to the second, in UTC.
//
// The form is, in the terms of AppendState:
//
//	fate       1 byte
//	row        u              \\
//	state      16 bytes        | unless the fate is Unknown; state only of what has a row,
//	event      16 bytes        | since only of what has none
//	since      i, in seconds  /
//
// It has no checksum: that is up to the store.
func AppendKnown(dst []byte, k Known) []byte {
	dst = append(dst, byte(k.Fate))
	if k.Fate == Unknown {
		return dst
	}
	dst = binary.AppendUvarint(dst, k.Row)
	if k.Fate != Gone {
		dst = append(dst, k.State[:]...)
		return append(dst, k.Event[:]...)
	}
	dst = append(dst, k.Event[:]...)
	return binary.AppendVarint(dst, k.Since.Unix())
}

// DecodeKnown reads what AppendKnown wrote from the front of b and returns what follows it. It
// keeps no reference to b. The error wraps ErrCorrupt.
func DecodeKnown(b []byte) (k Known, rest []byte, err error) {
	if rest, ok := k.common(b); ok {
		return k, rest, nil
	}
	r := reader{rest: b}
	k = r.known()
	if r.err != nil {
		return Known{}, nil, fmt.Errorf("entry of a view: %w: %w", r.err, ErrCorrupt)
	}
	return k, r.rest, nil
}

// common reads an entry that has a row, as most have, from the front of b. A reader reads the
// others and explains errors.
func (k *Known) common(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 || Fate(b[0]) != Live && Fate(b[0]) != Tombstone {
		return nil, false
	}
	k.Fate, rest = Fate(b[0]), b[1:]
	row, n := binary.Uvarint(rest)
	if n <= 0 || len(rest)-n < len(k.State)+len(k.Event) {
		return nil, false
	}
	k.Row, rest = row, rest[n:]
	rest = rest[copy(k.State[:], rest):]
	return rest[copy(k.Event[:], rest):], true
}

func (r *reader) known() Known {
	var k Known
	if b := r.bytes(1); len(b) == 1 {
		k.Fate = Fate(b[0])
	}
	switch {
	case k.Fate == Unknown:
		return Known{}
	case k.Fate > Gone:
		r.fail("a fate is unknown")
		return Known{}
	}
	k.Row = r.uint()
	if k.Fate != Gone {
		copy(k.State[:], r.bytes(len(k.State)))
		copy(k.Event[:], r.bytes(len(k.Event)))
		return k
	}
	copy(k.Event[:], r.bytes(len(k.Event)))
	k.Since = r.second()
	return k
}

// second returns a time to the second, in UTC.
func (r *reader) second() time.Time {
	v, n := binary.Varint(r.rest)
	if n <= 0 || v < minMicros/1e6 || v > maxMicros/1e6 {
		r.fail("a time is cut off or outside the years 1 to 9999")
		return time.Time{}
	}
	r.rest = r.rest[n:]
	return time.Unix(v, 0).UTC()
}

// AppendChange appends the form in which stores keep c to dst and returns the extended dst: the
// entity (text) and the known.
func AppendChange(dst []byte, c Change) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(c.Entity))), c.Entity...)
	return AppendKnown(dst, c.Known)
}

// DecodeChange reads what AppendChange wrote from the front of b and returns what follows it. The
// entity shares memory with b. The error wraps ErrCorrupt.
func DecodeChange(b []byte) (c Change, rest []byte, err error) {
	if n, size := binary.Uvarint(b); size > 0 && 0 < n && n <= MaxEntity && n <= uint64(len(b)-size) {
		end := size + int(n)
		if rest, ok := c.Known.common(b[end:]); ok {
			c.Entity = b[size:end]
			return c, rest, nil
		}
	}
	r := reader{rest: b}
	c = r.change()
	if r.err != nil {
		return Change{}, nil, fmt.Errorf("change of a view: %w: %w", r.err, ErrCorrupt)
	}
	return c, r.rest, nil
}

// change returns a change whose entity shares memory with the form.
func (r *reader) change() Change {
	entity := r.bytes(r.count(1))
	c := Change{Entity: entity, Known: r.known()}
	if r.err == nil {
		if err := c.Check(); err != nil {
			r.fail(err.Error())
		}
	}
	return c
}
