package mysql

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// parseType reads what SHOW COLUMNS writes, such as "bigint(20) unsigned". A type that is not
// known, such as inet6 or uuid, is text: that is how the server writes it.
func parseType(columnType string) (kind source.Kind, precision int) {
	name := strings.ToLower(columnType)
	arguments := ""
	if i := strings.IndexAny(name, " ("); i >= 0 {
		if name[i] == '(' {
			arguments, _, _ = strings.Cut(name[i+1:], ")")
		}
		name = name[:i]
	}
	kind = source.Text
	for k, names := range typeNames {
		if slices.Contains(strings.Fields(names), name) {
			kind = k
		}
	}
	switch kind {
	case source.Decimal:
		_, scale, _ := strings.Cut(arguments, ",")
		precision, _ = strconv.Atoi(strings.TrimSpace(scale))
	case source.Clock, source.DateTime, source.Timestamp:
		precision, _ = strconv.Atoi(arguments)
	}
	return kind, precision
}

var typeNames = map[source.Kind]string{
	source.Int: "tinyint smallint mediumint int integer bigint year", source.Decimal: "decimal numeric", source.Float: "float double real", source.Bit: "bit",
	source.Binary: "binary varbinary tinyblob blob mediumblob longblob vector " +
		"geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection geomcollection",
	source.JSON: "json", source.Date: "date", source.Clock: "time", source.DateTime: "datetime", source.Timestamp: "timestamp",
}

// lastID returns the highest number that an integer type has, 0 for another type.
func lastID(columnType string) uint64 {
	name, _, _ := strings.Cut(strings.ToLower(columnType), " ")
	name, _, _ = strings.Cut(name, "(")
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[name]
	switch {
	case bits == 0:
		return 0
	case strings.Contains(columnType, "unsigned"):
		return math.MaxUint64 >> (64 - bits)
	}
	return math.MaxUint64 >> (65 - bits)
}

func isSingle(columnType string) bool { return strings.HasPrefix(strings.ToLower(columnType), "float") }

// fits compares c with the type that the driver names. asked says that c is among the documents.
func fits(c source.Column, asked bool, name string, scale int64) bool {
	is := func(endings ...string) bool {
		return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) })
	}
	switch c.Kind {
	case source.Int:
		return is("INT", "YEAR")
	case source.Decimal:
		return is("DECIMAL") && scale == int64(c.Precision)
	case source.Float:
		return is("DOUBLE", "FLOAT")
	case source.Text:
		// JSON of MariaDB is a LONGTEXT that is asked for.
		return is("CHAR", "TEXT", "ENUM", "SET") && (asked || name != "LONGTEXT")
	case source.JSON:
		return asked && name == "LONGTEXT" || name == "JSON"
	case source.Binary:
		return is("BLOB", "BINARY", "GEOMETRY", "VECTOR")
	case source.Bit:
		return is("BIT")
	case source.Date:
		return name == "DATE"
	}
	times := map[source.Kind]string{source.Clock: "TIME", source.DateTime: "DATETIME", source.Timestamp: "TIMESTAMP"}
	return name == times[c.Kind] && scale == int64(c.Precision)
}

// appendValue appends v, of the driver, in the normal form. Byte strings are in it already.
func appendValue(b []byte, v driver.Value, single bool) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case float32:
		return sqltable.AppendFloat(b, float64(v), 32), nil
	case float64:
		if single {
			return sqltable.AppendFloat(b, v, 32), nil
		}
		return sqltable.AppendFloat(b, v, 64), nil
	}
	return b, fmt.Errorf("unexpected value of type %T from the driver", v)
}

// A text comes from the server in utf8mb4, whatever the character set of its column, and goes back
// there in that set to find its row. It is the same bytes again in the sets of lossless. Those of
// marked have bytes without a character besides, all of which are read as '?'. Those of doubled
// have characters with two encodings besides, none of them in ASCII but for the backslash. All of
// these and no others hold ASCII as it is. In any other set nothing is sure. (Found by converting
// all strings of one and two bytes there and back on MariaDB 10.11.)
var (
	utf8s    = words("utf8mb4 utf8mb3 utf8")
	wide     = words("ucs2 utf16 utf16le utf32")
	lossless = words("latin1 latin2 latin5 latin7 cp850 cp852 cp866 koi8r koi8u keybcs2 macce macroman")
	marked   = words("ascii dec8 hp8 hebrew euckr gb2312 gbk greek cp1250 cp1251 cp1256 cp1257 geostd8")
	doubled  = words("big5 sjis cp932 ujis eucjpms tis620 gb18030")
)

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.Fields(list) {
		set[word] = true
	}
	return set
}

// charset returns the character set of the column, "" when it holds no character strings.
func (k keyPart) charset() string {
	charset, _, _ := strings.Cut(k.collation, "_")
	return charset
}

// plainText is what servers write of types that are no character strings, such as UUID and INET6.
var plainText = regexp.MustCompile(`^[0-9A-Za-z:./_-]{0,100}$`)

func (k keyPart) fitText(v []byte) fit {
	charset := k.charset()
	switch {
	case charset == "":
		return when(plainText.Match(v))
	case !utf8.Valid(v):
		// A column may hold what its set does not allow, from when the server did not check.
		return odd
	case charset == "utf8mb3" || charset == "utf8" || charset == "ucs2":
		return when(!bytes.ContainsFunc(v, func(r rune) bool { return r > 0xFFFF }))
	case utf8s[charset], wide[charset], lossless[charset]:
		return sound
	}
	unsure := bytes.ContainsAny(v, "?\uFFFD")
	if marked[charset] && !unsure || doubled[charset] && !unsure && isASCII(v) && !bytes.ContainsRune(v, '\\') {
		return sound
	}
	return odd
}

func isASCII(v []byte) bool {
	return !bytes.ContainsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf })
}

// foreign is a text that only the server can write in a set, encodings what it wrote, in hex.
type (
	foreign   struct{ charset, text string }
	encodings map[foreign]string
)

// appendText appends a text that is sound, as a plain literal in the character set of the column.
// Nothing else will do: a literal in another set keeps the server from using the index, and of
// several constants within CONVERT or COLLATE that are equal but for case or accents MariaDB 10.11
// takes the first for all, even in a binary collation.
func (k keyPart) appendText(b, v []byte, written encodings) []byte {
	charset := k.charset()
	if charset == "" {
		return append(append(append(b, '\''), v...), '\'')
	}
	b = append(b, "_"+charset+" "...)
	if k.needsCode(v) {
		return append(append(append(b, "x'"...), written[foreign{charset, string(v)}]...), '\'')
	}
	return appendHex(b, v)
}

// needsCode reports whether only the server can write v in the character set of the column.
func (k keyPart) needsCode(v []byte) bool {
	textual := k.kind == source.Text || k.kind == source.JSON
	charset := k.charset()
	return textual && charset != "" && !utf8s[charset] && (wide[charset] || !isASCII(v))
}

// lossy reports whether a character set may lack a character, for which the server writes '?'.
func (e encodings) lossy() bool {
	for text, digits := range e {
		if strings.Count(digits, "3F") > strings.Count(text.text, "?") {
			return true
		}
	}
	return false
}

// encode has the server write what nobody else can, in statements and answers that it takes.
func (l lookup) encode(ctx context.Context, c conn, keys [][][]byte, server *server) (encodings, error) {
	written, room := make(encodings), min(server.room(0), maxCondition)
	var asked []foreign
	var query []byte
	var last [][]byte
	ask := func() error {
		if len(asked) == 0 {
			return nil
		}
		var answer string
		err := c.query(ctx, string(append(query, ") AS codes"...)), func(get func(string) string) { answer = get("codes") })
		if err != nil {
			return err
		}
		list := strings.Split(answer, " ")
		switch {
		case answer == "" && len(asked) == 1 && asked[0].text != "":
			// An answer that is too long is NULL. A character has 8 digits at most.
			written[asked[0]] = strings.Repeat("0", 8*len(asked[0].text))
			return l.errLong(last, written, server.packet, server.packet-room)
		case len(list) != len(asked):
			return fmt.Errorf("the server wrote %d of %d texts of keys", len(list), len(asked))
		}
		for i, digits := range list {
			written[asked[i]] = digits
		}
		asked = asked[:0]
		return nil
	}
	for _, tuple := range keys {
		for _, part := range l.parts {
			if v := tuple[part.at]; part.needsCode(v) && part.fit(v) == sound {
				text := append(appendHex([]byte(", HEX(CONVERT(_utf8mb4 "), v), " USING "+part.charset()+"))"...)
				// The answer may have 8 digits where the question has 2.
				if 4*(len(query)+len(text)) > room {
					if err := ask(); err != nil {
						return nil, err
					}
				}
				if len(asked) == 0 {
					query = append(query[:0], "SELECT CONCAT_WS(' '"...)
				}
				asked, query, last = append(asked, foreign{part.charset(), string(v)}), append(query, text...), tuple
			}
		}
	}
	return written, ask()
}

// documents are the LONGTEXT columns of a table of MariaDB, whose JSON is a LONGTEXT with the CHECK
// json_valid, and what the server says of them. It is zero where nothing has to be asked.
type documents struct {
	columns []string
	answer  string
}

// expression is the SQL of the question, for a SELECT FROM the table WHERE FALSE. JSON_ARRAY takes
// a document as it is and quotes a text. COALESCE of a column and a document is a document only
// where the column is JSON. No row is read, and SELECT on the columns will do; their CHECK shows
// only to a login with SELECT on the table. The first member says whether the server knows the
// difference, as MariaDB does from 10.5 on.
func (d documents) expression() string {
	const document = "JSON_COMPACT('{}')"
	var b strings.Builder
	b.WriteString("JSON_ARRAY(COALESCE(" + document + ", " + document + ")")
	for _, column := range d.columns {
		b.WriteString(", COALESCE(MAX(" + quoteName(column) + "), " + document + ")")
	}
	return b.String() + ")"
}

// Before MariaDB 10.5 the columns that hold JSON stay text.
func (s tableSpec) findDocuments(ctx context.Context, c conn, list []source.Column, table *sqltable.Table) (d documents, err error) {
	for _, column := range list {
		if c, _ := table.Column(column.Name); c.Type == "longtext" {
			d.columns = append(d.columns, column.Name)
		}
	}
	if len(d.columns) == 0 {
		return documents{}, nil
	}
	query := "SELECT " + d.expression() + " AS documents FROM " + s.quoted() + " WHERE FALSE"
	err = c.query(ctx, query, func(get func(string) string) { d.answer = get("documents") })
	const erNoFunction = 1305
	if err != nil && number(err) != erNoFunction {
		// A statement that failed does not make a document a text.
		return documents{}, err
	}
	said, ok := strings.CutPrefix(d.answer, "[{}")
	if !ok {
		return documents{}, nil
	}
	answers := strings.Split(strings.TrimSuffix(said, "]"), ", ")[1:]
	for i, name := range d.columns {
		if i < len(answers) && answers[i] == "{}" {
			list[slices.IndexFunc(list, func(c source.Column) bool { return c.Name == name })].Kind = source.JSON
		}
	}
	return d, nil
}
