package event

import (
	"embed"
	"fmt"
	"slices"
)

// schemas holds one JSON Schema (draft 2020-12) for each event type family and version, in the
// Eiffel protocol's layout.
//
//go:embed schemas
var schemas embed.FS

// families name the folders of schemas.
var families = map[Op]string{
	Added:     "CapabilityAdded",
	Modified:  "CapabilityModified",
	Deleted:   "CapabilityDeleted",
	Published: "ReleasePublished",
}

// Schema returns the JSON Schema of the events of an operation with the default Version. The names
// of types and of column members are the user's, so the schema leaves them open.
func Schema(kind Kind, op Op) ([]byte, error) {
	if !slices.Contains(opsOf(kind), op) {
		return nil, fmt.Errorf("a %s stream has no operation %q: use %v", kind, op, opsOf(kind))
	}
	path := "schemas/" + families[op] + "/" + Version + ".json"
	schema, err := schemas.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s events: %w", op, err)
	}
	return schema, nil
}
