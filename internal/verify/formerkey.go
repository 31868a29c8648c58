package verify

import (
	"bytes"

	"bridge/event"
)

// formerKey returns a key as versions before the escapes wrote it: the texts of its values joined
// by '+', NULL as nothing.
func formerKey(key []byte) []byte {
	if bytes.IndexByte(key, '%') < 0 {
		return key
	}
	values, err := event.ParseKey(key)
	if err != nil {
		return key
	}
	return bytes.Join(values, []byte{'+'})
}
