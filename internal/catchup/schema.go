package catchup

import "encoding/hex"

// Schema is what a message says of its members by its headers: the numbers of its version and the
// hash of members and types.
type Schema struct {
	Version [3]uint32
	Hash    [6]byte
}

// parseSchema returns what the headers say, zero where they say nothing that this version reads.
// The schema is not needed to tell what is published.
func parseSchema(version, hash []byte) (s Schema) {
	if len(hash) != hex.EncodedLen(len(s.Hash)) {
		return Schema{}
	}
	if _, err := hex.Decode(s.Hash[:], hash); err != nil || !parseVersion(&s.Version, version) {
		return Schema{}
	}
	return s
}

// parseVersion reads three numbers of up to nine digits with dots between.
func parseVersion(dst *[3]uint32, text []byte) bool {
	at, digits := 0, 0
	for _, c := range text {
		switch {
		case c == '.' && digits > 0 && at < len(dst)-1:
			at, digits = at+1, 0
		case c >= '0' && c <= '9' && digits < 9:
			dst[at], digits = dst[at]*10+uint32(c-'0'), digits+1
		default:
			return false
		}
	}
	return at == len(dst)-1 && digits > 0
}
