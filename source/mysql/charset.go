package mysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"bridge/source"
)

// A text comes from the server in utf8mb4, whatever the character set of its column, and goes back
// there in that set to find its row. It is the same bytes again in the sets of lossless. Those of
// marked have bytes without a character besides, all of which are read as '?'. Those of doubled
// have characters with two encodings besides, none of them in ASCII but for the backslash. All of
// these and no others hold ASCII as it is. In any other set nothing is sure. (Found by converting
// all strings of one and two bytes there and back on MariaDB 10.11.)
var (
	unicodes = words("utf8mb4 utf8mb3 utf8 ucs2 utf16 utf16le utf32")
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
		// A column may hold what its character set does not allow, from a time when the server did
		// not check.
		return odd
	case charset == "utf8mb3" || charset == "utf8" || charset == "ucs2":
		return when(!bytes.ContainsFunc(v, func(r rune) bool { return r > 0xFFFF }))
	case unicodes[charset], lossless[charset]:
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

// foreign is a text that only the server can write in a character set, encodings what it wrote, in
// hexadecimal digits.
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
	switch charset {
	case "ucs2", "utf16":
		return appendHex(b, inUTF16(v, binary.BigEndian))
	case "utf16le":
		return appendHex(b, inUTF16(v, binary.LittleEndian))
	case "utf32":
		var wide []byte
		for _, r := range string(v) {
			wide = binary.BigEndian.AppendUint32(wide, uint32(r))
		}
		return appendHex(b, wide)
	}
	return appendHex(b, v)
}

func inUTF16(v []byte, order binary.AppendByteOrder) (wide []byte) {
	for _, unit := range utf16.Encode([]rune(string(v))) {
		wide = order.AppendUint16(wide, unit)
	}
	return wide
}

// needsCode reports whether only the server can write v in the character set of the column.
func (k keyPart) needsCode(v []byte) bool {
	textual := k.kind == source.Text || k.kind == source.JSON
	return textual && k.collation != "" && !unicodes[k.charset()] && !isASCII(v)
}

// encode has the server write the sound texts of keys that nobody else can write, in statements of
// at most room bytes.
func (l lookup) encode(ctx context.Context, c conn, keys [][][]byte, room int) (encodings, error) {
	written := make(encodings)
	var asked []foreign
	var query []byte
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
		if len(list) != len(asked) {
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
				if len(query)+len(text) > room {
					if err := ask(); err != nil {
						return nil, err
					}
				}
				if len(asked) == 0 {
					query = append(query[:0], "SELECT CONCAT_WS(' '"...)
				}
				asked, query = append(asked, foreign{part.charset(), string(v)}), append(query, text...)
			}
		}
	}
	return written, ask()
}
