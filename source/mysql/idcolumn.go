package mysql

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

type idColumn struct {
	// name is the column as SQL.
	name string
	// source.IDColumn is zero where ids are integers.
	source.IDColumn
}

func (sh *shape) id() idColumn {
	return idColumn{quoteName(sh.columns.List[sh.columns.ID].Name), sh.ids}
}

func (c idColumn) literal(v []byte) string { return sqltable.IDLiteral(c.IDColumn, v) }

// positive leaves no row out where ids have a format: one that is no id must be met.
func (c idColumn) positive() string {
	if c.Format != "" {
		return "TRUE"
	}
	return c.name + " > 0"
}

// above returns the condition of ids above n.
func (c idColumn) above(n uint64) string {
	if c.Format != "" && n == 0 {
		return "TRUE"
	}
	return c.name + " > " + sqltable.Highest(c.IDColumn, n)
}

// through returns the condition of ids up to n, with AND before it; 0 is no bound.
func (c idColumn) through(n uint64) string {
	if n == 0 || c.Format != "" && n == math.MaxUint64 {
		return ""
	}
	return " AND " + c.name + " <= " + sqltable.Highest(c.IDColumn, n)
}

func (c idColumn) between(b []byte, r source.Range) []byte {
	return append(b, c.name+" BETWEEN "+sqltable.Lowest(c.IDColumn, r.First)+" AND "+sqltable.Highest(c.IDColumn, r.Last)...)
}

// rangeBytes is about how many bytes between appends, with OR, at most.
func (c idColumn) rangeBytes() int {
	return len(c.name) + len(" OR  BETWEEN  AND ") + 2*len(sqltable.Highest(c.IDColumn, math.MaxUint64))
}

func (c idColumn) number(v driver.Value) (uint64, error) {
	if c.Format == "" {
		return rowID(v)
	}
	b, ok := v.([]byte)
	if !ok {
		return 0, fmt.Errorf("%w: the id %v is a %T, no text", source.ErrUnfit, v, v)
	}
	return c.Number(b)
}

// highest is the expression of the highest id of a table, as parseHead reads it.
func (c idColumn) highest(table string) string {
	most := "MAX(" + c.name + ")"
	if c.Format != "" {
		// It may have any characters.
		most = "HEX(" + most + ")"
	}
	return "COALESCE((SELECT " + most + " FROM " + table + "), 0)"
}

// parseHighest reads it, 0 where there is none.
func (c idColumn) parseHighest(word string) (uint64, error) {
	if c.Format == "" {
		if strings.HasPrefix(word, "-") {
			return 0, nil
		}
		return strconv.ParseUint(word, 10, 64)
	}
	if word == "0" {
		return 0, nil
	}
	v, err := hex.DecodeString(word)
	if err != nil {
		return 0, err
	}
	return c.Number(v)
}

// ordered are the collations in which ASCII digits come before letters in their order.
var ordered = regexp.MustCompile(`^(ascii|latin1|utf8|utf8mb3|utf8mb4)_((nopad_|0900_)?bin|(general|swedish|unicode|unicode_520)(_nopad)?_ci|0900_a[is]_c[is]|uca1400(_nopad)?_a[is]_c[is])$`)

// idColumnOf returns why a column cannot have ids with a format, empty where it can.
func idColumnOf(format source.IDFormat, column sqltable.Column) (ids source.IDColumn, why string) {
	name, _, _ := strings.Cut(strings.ToLower(column.Type), "(")
	ids.Format = format
	switch {
	case name == "binary" || name == "varbinary":
		ids.Binary = true
		return ids, ""
	case name != "char" && name != "varchar":
		return ids, "which must be CHAR, VARCHAR, BINARY or VARBINARY"
	}
	folds := strings.HasSuffix(column.Collation, "_ci")
	ids.Fold = folds && format != source.KSUID
	switch {
	case !ordered.MatchString(column.Collation):
		return ids, "whose collation " + column.Collation + " may have another order than ids have: make it ascii_bin"
	case format == source.KSUID && !strings.HasSuffix(column.Collation, "_bin"):
		return ids, "whose collation " + column.Collation + " has another order than KSUIDs, in which letter case counts: make it ascii_bin"
	}
	return ids, ""
}
