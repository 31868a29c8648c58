package source

import (
	"slices"
	"strings"

	"bridge/internal/inspect"
	"bridge/internal/option"
)

// Candidate is a column that may hold the time of a row's last change.
type Candidate struct {
	Name string
	// Sure says that the database sets it at every update.
	Sure bool
	// CreateIndex is the statement that makes the index by which changes are found, empty where
	// there is one.
	CreateIndex string
}

// ModifiedCandidates returns the columns of times, in their order, that look like the time of a
// row's last change: those that the database sets first, then those with such a name. A column
// with the role of CREATED or DELETED is none.
func (s *Spec) ModifiedCandidates(times []Candidate) []Candidate {
	times = slices.DeleteFunc(times, func(c Candidate) bool {
		return strings.EqualFold(c.Name, s.Created) || strings.EqualFold(c.Name, s.Deleted) || !c.Sure && !saysChange(c.Name)
	})
	slices.SortStableFunc(times, func(a, b Candidate) int {
		switch {
		case a.Sure == b.Sure:
			return 0
		case a.Sure:
			return -1
		}
		return 1
	})
	return times
}

// saysChange reports whether a column is named after the time of changes, as gmt_modified,
// updateTime and DataChange_LastTime are, and created_at and changed_by are not.
func saysChange(name string) bool {
	name = strings.ToLower(name)
	any := func(is func(s, word string) bool, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return is(name, word) })
	}
	return any(strings.Contains, "modif", "updat", "chang", "mtime", "last_edit", "lastedit") && !any(strings.Contains, "creat") &&
		any(strings.HasSuffix, "at", "time", "ts", "on", "date", "stamp", "modified", "updated", "changed", "edit")
}

// CheckNoModified adds to r that updates wait for a reconcile because no MODIFIED is set, and which
// of the candidates to set it to.
func (e Expected) CheckNoModified(r *inspect.Report, candidates []Candidate) {
	if e.Spec.Modified != "" || !e.Updates {
		return
	}
	const waits = "has no MODIFIED: updates and soft deletes wait for the next reconcile"
	if len(candidates) == 0 {
		r.Add(inspect.Note, inspect.NoModified, e.Spec.Table, waits).
			Says("nothing where that is soon enough; otherwise let the application keep the time of a row's last change in an indexed column, and name it with %s", option.Modified)
		return
	}
	c := candidates[0]
	looks := ", and its column " + c.Name + " looks like the time of a row's last change"
	if c.Sure {
		looks = ", although the database sets its column " + c.Name + " at every update"
	}
	f := r.Add(inspect.Warning, inspect.NoModified, e.Spec.Table, waits+looks).
		Says("to have updates within a second set %s=%s, if every update sets it", option.Modified, c.Name)
	if c.CreateIndex != "" {
		f.Says("to have updates within a second set %s=%s, if every update sets it, and make the index that it lacks", option.Modified, c.Name).Types("%s", c.CreateIndex)
	}
}
