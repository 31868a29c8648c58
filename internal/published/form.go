package published

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"bridge/event"
	"bridge/source/ledger"
)

// ErrBadLog is returned when saved parts are no log.
var ErrBadLog = errors.New("the saved list of published rows cannot be read")

const (
	// headKey is the key of the part with the origin and the lost rows: no row has the id 0.
	headKey = 0
	// partVersion begins every part of rows, headVersion the head. Both are those of the former
	// version, which reads what this one writes: it drops rows of a shape that it does not know.
	partVersion = 1
	headVersion = 2
	// stopSeparator ends the server in the head, and the stop follows. The former version wrote
	// none: then the shape is Origin.Former, and identities have 64 bits.
	stopSeparator = "\n"
)

// appendHead appends the form of the head: version 1 byte, shape 8 bytes big endian, started as
// varint, the length of server and stop with stopSeparator between them as uvarint, these; where
// rows are lost: their end in Unix milliseconds as varint, survivor as uvarint, rows.
func (l *Log) appendHead(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, headVersion), l.origin.Shape)
	dst = binary.AppendVarint(dst, l.origin.Started)
	text := l.origin.Server + stopSeparator + l.stop
	dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	if l.lost == nil {
		return dst
	}
	dst = binary.AppendVarint(dst, l.lost.Until.UnixMilli())
	return appendRows(binary.AppendUvarint(dst, l.lost.Survivor), l.lost.rows)
}

// appendPart appends the form of a part: version 1 byte, then its rows.
func appendPart(dst []byte, rows []Row) []byte { return appendRows(append(dst, partVersion), rows) }

// appendRows appends the form of rows, each: id as uvarint (from the one before), content and
// identity 8 bytes big endian each.
func appendRows(dst []byte, rows []Row) []byte {
	before := uint64(0)
	for _, r := range rows {
		dst = binary.AppendUvarint(dst, r.ID-before)
		dst = binary.BigEndian.AppendUint64(dst, r.Content)
		dst = binary.BigEndian.AppendUint64(dst, r.Identity)
		before = r.ID
	}
	return dst
}

// Restore returns a log of about so many rows with what the saved parts hold, which were saved in
// whatever size. The error wraps ErrBadLog.
func Restore(rows int, saved []ledger.Chunk) (*Log, error) {
	l := NewLog(rows)
	fits, highest := true, uint64(0)
	for _, chunk := range saved {
		if chunk.Key == headKey {
			if err := l.decodeHead(chunk.Bytes); err != nil {
				return nil, err
			}
			continue
		}
		if len(chunk.Bytes) == 0 {
			return nil, fmt.Errorf("part %d: %w", chunk.Key, ErrBadLog)
		}
		if version := chunk.Bytes[0]; version != partVersion {
			return nil, fmt.Errorf("part %d: %w: version %d, this program knows %d", chunk.Key, ErrBadLog, version, partVersion)
		}
		list, ok := decodeRows(chunk.Bytes[1:])
		if !ok || list[0].ID != chunk.Key || list[0].ID <= highest {
			return nil, fmt.Errorf("part %d: %w", chunk.Key, ErrBadLog)
		}
		highest = list[len(list)-1].ID
		if l.origin.Former != 0 {
			foldIdentities(list)
		}
		// All parts but the last one are full.
		fits = fits && len(list) <= l.size && len(l.parts) < partsOf && (len(l.parts) == 0 || len(l.parts[len(l.parts)-1].rows) == l.size)
		l.parts = append(l.parts, part{rows: list})
	}
	if !fits {
		l.resize()
	}
	return l, nil
}

// resize makes parts of the present size of those that were saved in another one.
func (l *Log) resize() {
	var all []Row
	for _, p := range l.parts {
		all = append(all, p.rows...)
	}
	l.removeParts()
	l.Add(all)
}

// decodeHead reads what appendHead wrote.
func (l *Log) decodeHead(b []byte) error {
	bad := fmt.Errorf("head: %w", ErrBadLog)
	if len(b) < 9 {
		return bad
	}
	if version := b[0]; version != headVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", bad, b[0], headVersion)
	}
	l.origin.Shape = binary.BigEndian.Uint64(b[1:])
	started, n := binary.Varint(b[9:])
	if n <= 0 {
		return bad
	}
	l.origin.Started, b = started, b[9+n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return bad
	}
	marked := false
	l.origin.Server, l.stop, marked = strings.Cut(string(b[n:n+int(size)]), stopSeparator)
	if b = b[n+int(size):]; !marked {
		l.origin.Shape, l.origin.Former = 0, l.origin.Shape
	}
	l.headSaved = true
	if len(b) == 0 {
		return nil
	}
	lost, ok := decodeLost(b)
	if !ok {
		return bad
	}
	if l.lost = lost; !marked {
		foldIdentities(lost.rows)
	}
	return nil
}

// decodeLost reads the lost rows of a head.
func decodeLost(b []byte) (*Lost, bool) {
	until, n := binary.Varint(b)
	if n <= 0 {
		return nil, false
	}
	survivor, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return nil, false
	}
	rows, ok := decodeRows(b[n+m:])
	return &Lost{Survivor: survivor, Until: time.UnixMilli(until), rows: rows}, ok
}

// decodeRows reads what appendRows wrote: at least one row, ids ascending.
func decodeRows(b []byte) (rows []Row, ok bool) {
	id := uint64(0)
	for len(b) > 0 {
		step, n := binary.Uvarint(b)
		if n <= 0 || step == 0 || id+step < id || len(b) < n+16 {
			return nil, false
		}
		id += step
		rows = append(rows, Row{ID: id, Content: binary.BigEndian.Uint64(b[n:]), Identity: binary.BigEndian.Uint64(b[n+8:])})
		b = b[n+16:]
	}
	return rows, len(rows) > 0
}

// foldIdentities makes identities of those that a former version has saved.
func foldIdentities(rows []Row) {
	for i := range rows {
		if rows[i].Identity != 0 {
			rows[i].Identity = uint64(event.FoldBorn(rows[i].Identity) | 1)
		}
	}
}
