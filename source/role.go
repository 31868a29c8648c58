package source

import (
	"maps"
	"slices"
	"strings"

	"bridge/internal/option"
)

// ReadOnly ends the Server of a page from a server that is read-only, behind a blank: one that
// becomes so counts as another.
const ReadOnly = "read-only"

// WithoutRole returns the Server of a page whether it is read-only or not.
func WithoutRole(server string) string { return strings.TrimSuffix(server, " "+ReadOnly) }

// Role is a column that a spec names, with the setting that names it.
type Role struct {
	Setting option.Name
	Column  string
}

// Roles returns the columns that the spec names, in the order of its settings. A column may have
// several roles.
func (s Spec) Roles() []Role {
	roles := []Role{{option.ID, s.ID}}
	for _, key := range s.Key {
		roles = append(roles, Role{option.Key, key})
	}
	for _, r := range []Role{{option.Created, s.Created}, {option.Modified, s.Modified}, {option.Deleted, s.Deleted}} {
		if r.Column != "" {
			roles = append(roles, r)
		}
	}
	for _, field := range s.Fields {
		roles = append(roles, Role{option.Fields, field})
	}
	return roles
}

// Named returns the columns that the spec names, with those of Exclude and Masks: all that the
// table must have.
func (s Spec) Named() []Role {
	roles := s.Roles()
	for _, column := range s.Exclude {
		roles = append(roles, Role{option.Exclude, column})
	}
	for _, column := range slices.Sorted(maps.Keys(s.Masks)) {
		roles = append(roles, Role{option.Mask, column})
	}
	return roles
}
