package event_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

type tape []byte

func (t *tape) byte() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

func (t *tape) bytes(n int) []byte {
	n = min(n, len(*t))
	v := append([]byte{}, (*t)[:n]...)
	*t = (*t)[n:]
	return v
}

// value makes a value of a column: NULL, a well-formed one, or whatever bytes the tape holds.
func (t *tape) value(c source.Column) []byte {
	how := t.byte()
	switch {
	case how < 16:
		return nil
	case how < 128:
		return t.bytes(int(t.byte()))
	}
	switch c.Kind {
	case source.Int:
		return fmt.Appendf(nil, "%d", int8(t.byte()))
	case source.Float:
		return strconv.AppendFloat(nil, float64(int8(t.byte()))/3, 'g', -1, 64)
	case source.JSON:
		return fmt.Appendf(nil, ` { "k" : [ %d , %q ] } `, t.byte(), marshal(string(t.bytes(3))))
	case source.Date:
		return fmt.Appendf(nil, "%04d-%02d-%02d", int(t.byte())*40, t.byte()%14, t.byte()%33)
	case source.DateTime, source.Timestamp:
		v := fmt.Appendf(nil, "%04d-%02d-%02d %02d:%02d:%02d", int(t.byte())*40, t.byte()%14, t.byte()%33, t.byte()%26, t.byte()%62, t.byte()%62)
		if c.Precision > 0 {
			v = fmt.Appendf(v, ".%0*d", c.Precision, t.byte()%10)
		}
		return v
	default:
		return []byte(string([]rune{rune(t.byte()), 0x2000 + rune(t.byte()), rune(t.byte())}))
	}
}

var fuzzZones = []*time.Location{time.UTC, time.FixedZone("", 8*3600), time.FixedZone("", -(9*3600 + 1800))}

// FuzzAppend proves the encoder equal to encoding/json: any row of any columns has the members of
// the reference.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("0010000100000000000000000"))
	f.Add([]byte("\x00\x03orders\x04\x50\x04text"))
	f.Add([]byte{3, 1, 2, 7, 0, 200, 1, 2, 3, 4, 5, 6, 10, 6, 200, 50, 1, 2, 3, 4, 5, 6, 1, 2, 3, 8, 0, 200, 9, 9, 9})
	f.Add([]byte("\x05\x01\x01\x06\x00\x40\x12{\"a\": \"\xe2\x80\xa8<&>\"}\x04\x00\x40\x06\xe2\x80\xa9\xff\x00\x1f"))
	for kind := byte(0); kind < 11; kind++ {
		f.Add([]byte{1, kind, 0, kind, 6, 255, 46, 2, 28, 10, 11, 12, 13, 14, kind, 3, 40, 9, '-', '0', '0', '1', '.', '5', 'e', '+', '0'})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		in := tape(input)
		o := event.Options{
			Stream: "s" + string([]rune(string(in.bytes(int(in.byte()%4))))), Shard: "shard", Kind: event.Capability, Stem: "Fuzz",
			Domain: "d", Source: "db", Table: "t", Zone: fuzzZones[in.byte()%3],
		}
		if in.byte()%4 == 0 {
			o.Kind = event.Release
		}
		columns := &source.Columns{Key: []int{0}, Created: none, Modified: none, Deleted: none}
		row := event.Row{Read: readAt}
		row.ID = uint64(in.byte()) << (in.byte() % 57)
		if in.byte()%4 == 0 {
			row.Predecessor = "6ba7b810-9dad-51d1-80b4-00c04fd430c8"
		}
		var names []string
		for i := 0; len(in) > 0 && i < 12; i++ {
			names = append(names, fmt.Sprintf("m%d\"", i)+string([]rune(string(in.bytes(int(in.byte()%3))))))
			c := source.Column{Name: fmt.Sprintf("c%d", (i*7)%12), Kind: source.Kind(in.byte()%11 + 1), Precision: int(in.byte() % 7)}
			columns.List = append(columns.List, c)
			row.Values = append(row.Values, in.value(c))
			o.Fields = append(o.Fields, event.Field{Column: c.Name, Member: names[i]})
			role := in.byte()
			isMoment := c.Kind == source.DateTime || c.Kind == source.Timestamp
			switch {
			case role%8 == 1:
				columns.Key = append(columns.Key, i)
			case role%8 == 2 && isMoment:
				columns.Created = i
			case role%8 == 3 && isMoment:
				columns.Modified = i
			case role%8 == 4:
				columns.Deleted = i
			}
		}
		if o.Kind == event.Capability && len(input)%3 == 0 {
			row.Op = event.Modified
		}
		if len(names) > 0 {
			compare(t, o, columns, names, row)
		}
	})
}
