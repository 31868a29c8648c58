package source

// Role is a column that a spec names, with the setting that names it.
type Role struct{ Setting, Column string }

// Roles returns the columns that the spec names, in the order of its settings. A column may have
// several roles.
func (s Spec) Roles() []Role {
	roles := []Role{{"ID", s.ID}}
	for _, key := range s.Key {
		roles = append(roles, Role{"KEY", key})
	}
	for _, r := range []Role{{"CREATED", s.Created}, {"MODIFIED", s.Modified}, {"DELETED", s.Deleted}} {
		if r.Column != "" {
			roles = append(roles, r)
		}
	}
	for _, field := range s.Fields {
		roles = append(roles, Role{"FIELDS", field})
	}
	return roles
}
