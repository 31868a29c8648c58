package workload

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

const states = "strict"

// createTable returns the statement that makes such a table, with ids left free below those that it
// hands out.
func createTable(name string, free int) string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	app varchar(32) COLLATE utf8mb4_bin NOT NULL,
	name varchar(64) COLLATE utf8mb4_bin NOT NULL,
	state varchar(32) NOT NULL,
	n bigint unsigned NOT NULL,
	price decimal(20,6) DEFAULT NULL,
	ratio double DEFAULT NULL,
	flags bit(10) DEFAULT NULL,
	raw varbinary(32) DEFAULT NULL,
	doc json DEFAULT NULL,
	day date DEFAULT NULL,
	at datetime(3) DEFAULT NULL,
	clock time(2) DEFAULT NULL,
	mood enum('', 'calm', 'Upset') DEFAULT NULL,
	tags set('a', 'b', 'c') DEFAULT NULL,
	note text DEFAULT NULL,
	created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	modified datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	deleted tinyint(1) NOT NULL DEFAULT 0,
	UNIQUE KEY entity (app, name), KEY modified (modified)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 AUTO_INCREMENT=%d`, name, free+1)
}

// stateColumns are the columns that a state fills, in the order of stateValues.
var stateColumns = []string{
	"state", "n", "price", "ratio", "flags", "raw", "doc", "day", "at", "clock", "mood", "tags", "note",
}

// stateValues returns what the columns hold in a state: the same for each entity and whenever.
func stateValues(state uint64) []any {
	mixed := state * 0x9e3779b97f4a7c15
	raw := binary.BigEndian.AppendUint64(nil, mixed)
	day := time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(mixed%30_000))
	values := []any{
		fmt.Sprintf("s%d", state),
		mixed,
		fmt.Sprintf("%d.%06d", int64(mixed>>20)-1<<42, mixed%1_000_000),
		float64(int64(mixed)) / 3e9,
		mixed % 1024,
		raw,
		fmt.Sprintf(`{"n": %d, "words": ["é", "\u00e9", "😀 %d"], "deep": {"yes": true, "no": null}}`, mixed, state),
		day.Format("2006-01-02"),
		day.Add(time.Duration(mixed%86_400_000) * time.Millisecond).Format("2006-01-02 15:04:05.000"),
		fmt.Sprintf("%d:%02d:%02d.%02d", mixed%800, mixed%60, mixed%59, mixed%100),
		[]string{"", "calm", "Upset"}[mixed%3],
		[]string{"", "a", "b,c", "a,b,c"}[mixed%4],
		strings.Repeat("<é & \"\t\u2028>", int(mixed%5)),
	}
	// Some are NULL: not those that name the state.
	for i := 2; i < len(values); i++ {
		if mixed>>i&3 == 0 {
			values[i] = nil
		}
	}
	return values
}

// set returns the assignments that bring a row into a state, with its time of modification if touch
// is set.
func set(touch bool) string { return strings.Join(stateColumns, " = ?, ") + " = ?" + touched(touch) }

func touched(touch bool) string {
	if !touch {
		return ""
	}
	return ", modified = CURRENT_TIMESTAMP(6)"
}

// ofEntity selects the row of an entity. The server may compare more loosely; no two rows compare
// as equal.
const ofEntity = " WHERE app = ? AND name = ?"
