package catchup

import (
	"hash/fnv"
	"strings"
)

// Scope says which rows with one key are one entity.
type Scope string

// The scopes: all tables of a stream share their entities, or each table has its own.
const (
	ScopeStream Scope = "stream"
	ScopeTable  Scope = "table"
)

// MeaningHash returns what a message says of the meaning of its key (rule 12): FNV-1a of 32 bits
// over the kind of the stream, the key columns in their order and the scope, each but the last
// with a byte 0 behind it. Case does not matter in names of columns.
func MeaningHash(kind string, key []string, scope Scope) uint32 {
	h := fnv.New32a()
	h.Write(append([]byte(kind), 0))
	for _, column := range key {
		h.Write(append([]byte(strings.ToLower(column)), 0))
	}
	h.Write([]byte(scope))
	return h.Sum32()
}
