package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"unicode/utf8"
)

// Mask replaces the values of a column as they are read, before anything is made of them: no event,
// digest, dead letter or log has the value itself. A masked value is a Text; NULL stays NULL.
type Mask struct {
	form   maskForm
	key    string
	mac    hash.Hash
	sum    []byte
	hidden []byte
}

// Masks are the masks of the columns of a shard, nil for a column without one; none at all is nil.
type Masks []*Mask

// Hide returns what stands for a value of a column: v itself where it has no mask. It is valid
// until the next call for that column. v must not be nil.
func (m Masks) Hide(column int, v []byte) []byte {
	if m == nil || m[column] == nil {
		return v
	}
	m[column].hidden = m[column].Append(m[column].hidden[:0], v)
	return m[column].hidden
}

type maskForm uint8

const (
	maskRedact maskForm = iota
	maskSHA256
	maskLast4
)

const redacted = "****"

// Redact returns a mask that hides the whole value behind four asterisks.
func Redact() Mask { return Mask{form: maskRedact} }

// Last4 returns a mask that shows the last four characters behind four asterisks, and nothing of a
// value with fewer than nine.
func Last4() Mask { return Mask{form: maskLast4} }

// SHA256 returns a mask that makes of each value its HMAC-SHA-256 under a key, in 64 hexadecimal
// digits: equal values stay equal, and without the key nobody can try values out.
func SHA256(key string) Mask { return Mask{form: maskSHA256, key: key} }

// Fresh returns the mask with memory of its own. A mask serves one goroutine.
func (m Mask) Fresh() *Mask {
	fresh := &Mask{form: m.form, key: m.key}
	if m.form == maskSHA256 {
		fresh.mac = hmac.New(sha256.New, []byte(m.key))
	}
	return fresh
}

// String returns the form of the mask: a key is nowhere printed.
func (m Mask) String() string {
	return map[maskForm]string{maskRedact: "redact", maskSHA256: "sha256", maskLast4: "last4"}[m.form]
}

func (m Mask) GoString() string { return m.String() }

// Name tells the mask from every other one, by what it makes of a value: it holds no key.
func (m Mask) Name() string {
	return m.String() + ":" + string(m.Fresh().Append(nil, []byte("bridge")))
}

// Append appends what stands for a value. The mask must be fresh.
func (m *Mask) Append(dst, v []byte) []byte {
	switch m.form {
	case maskSHA256:
		m.mac.Reset()
		m.mac.Write(v)
		m.sum = m.mac.Sum(m.sum[:0])
		return hex.AppendEncode(dst, m.sum)
	case maskLast4:
		dst = append(dst, redacted...)
		at := len(v)
		for range 4 {
			_, size := utf8.DecodeLastRune(v[:at])
			at -= size
		}
		if utf8.RuneCount(v[:at]) < 5 {
			return dst
		}
		return append(dst, v[at:]...)
	default:
		return append(dst, redacted...)
	}
}
