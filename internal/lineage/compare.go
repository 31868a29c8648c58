package lineage

import (
	"encoding/json"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// Compare compares rows of a page with the values that their newest messages have, by id, and
// returns which rows are the published ones (true) and which differ (false). It leaves
// out rows for which neither is certain. The encoder is bound to the columns of the page.
//
// A member tells where its value hardly repeats: it is that of one row alone on either side, and
// long, unless no member of the row is. A row with half of these unchanged was updated at most; one
// with none of them is another.
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
		if long.members == 0 {
			long = all
		}
		switch {
		case long.members == 0:
		case long.unchanged == 0:
			same[id] = false
		case 2*long.unchanged >= long.members:
			same[id] = true
		}
	}
	return same
}

// isLong reports whether rows hardly share a value by chance, as they do small numbers and flags.
func isLong(value string) bool { return len(strings.Trim(value, `"`)) > 3 }

func isEmpty(value string) bool { return value == "" || value == "null" || value == `""` }

// members are the members of data of an event.
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
