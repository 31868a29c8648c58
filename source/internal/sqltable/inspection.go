package sqltable

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// Dialect is what a database calls and does differently.
type Dialect struct {
	// Who changes tables: "an administrator" or "the application".
	Who string
	// Counter is how a table numbers its rows: "AUTO_INCREMENT". IsID tells whether a column could
	// be the id.
	Counter string
	IsID    func(Column) bool
	// UnfitID says why a column cannot have ids of the format of the spec, "" where it can.
	UnfitID func(Column) (why string)
	// Times are the types that CREATED and MODIFIED may have. IsTime tells whether a column could
	// be MODIFIED.
	Times  string
	IsTime func(Column) bool
	// AddUnique and AddModified return the statements that make a unique index, and the one by
	// which changes of a column are found.
	AddUnique   func(columns ...string) string
	AddModified func(modified string) string
	// MakeNotNull says how the id becomes NOT NULL, SetNotNull returns the statement, "" for none.
	MakeNotNull string
	SetNotNull  func(column string) string
}

// Inspection judges a table for one stream.
type Inspection struct {
	inspect.Report
	Expected source.Expected
	Spec     source.Spec
	Table    Table
	Dialect  Dialect
	// Sample is an id of the table that is no integer, "" for none.
	Sample string
}

// Found adds a finding about the table.
func (t *Inspection) Found(severity inspect.Severity, code inspect.Code, format string, args ...any) *inspect.Finding {
	return t.Add(severity, code, t.Spec.Table, fmt.Sprintf(format, args...))
}

type refusal struct {
	class   error
	finding inspect.Finding
}

func (r *refusal) Error() string { return r.Named(option.Short) }

func (r *refusal) Unwrap() error { return r.class }

// Named returns the text with settings as naming has them.
func (r *refusal) Named(naming option.Naming) string {
	return r.class.Error() + ": " + r.finding.Named(naming).String()
}

// Refusal returns the first of the findings that keeps the table from being read, nil where none
// does.
func (t *Inspection) Refusal() error {
	at := slices.IndexFunc(t.Findings, inspect.Finding.Blocks)
	if at < 0 {
		return nil
	}
	class := source.ErrUnfit
	switch t.Findings[at].Code {
	case inspect.NoTable, inspect.NoColumn:
		class = source.ErrMissing
	case inspect.NoGrant:
		class = source.ErrDenied
	}
	return &refusal{class, t.Findings[at]}
}

// NoColumn adds that the table lacks a column of a setting.
func (t *Inspection) NoColumn(r source.Role) {
	t.Found(inspect.Unsafe, inspect.NoColumn, "has no column %q, which %s names", r.Column, r.Setting).
		Says("correct %s: the columns are %s", r.Setting, t.Table.Names())
}

// NoModified is the error of a read of changes without an index for it: who runs the statement that
// makes one.
func NoModified(spec source.Spec, who, statement string) error {
	if spec.Modified == "" {
		return option.Errorf("%w: the stream has no %s column", source.ErrUnfit, option.Modified)
	}
	return fmt.Errorf("%w: no index of %s begins with the MODIFIED column %q: let %s run: %s", source.ErrUnfit, spec.Table, spec.Modified, who, statement)
}

// CheckID looks at the type of the id and at its index; refused says why no index over the id alone
// can be made, "" where it can. It returns that index, nil where ids cannot be read in their order.
func (t *Inspection) CheckID(refused string) *Index {
	id, _ := t.Table.Column(t.Spec.ID)
	if format := t.Spec.IDFormat; format != "" {
		if why := t.Dialect.UnfitID(id); why != "" {
			t.Found(inspect.Unsafe, inspect.IDType, "has the id column %s of type %s, %s, for %s=%s", id.Name, id.Type, why, option.IDFormat, format).
				Says("alter the column, or name an integer column with %s: one that numbers all rows may be added", option.ID)
			return nil
		}
	} else if !t.Dialect.IsID(id) {
		typed := "type " + id.Type
		if id.Type == "" {
			typed = "no type"
		}
		f := t.Found(inspect.Unsafe, inspect.IDType, "has the id column %s of %s, which is not an integer", id.Name, typed).
			Says("name the integer column that counts up with %s", option.ID)
		if like := source.FormatLike([]byte(t.Sample), id.Kind == source.Binary); like != "" {
			f.Says("name the integer column that counts up with %s, or, as %.40q looks like one, set %s=%s for a capability stream", option.ID, t.Sample, option.IDFormat, like)
		}
		return nil
	}
	index := t.Table.Unique(id.Name)
	switch {
	case index != nil:
	case refused != "":
		t.Found(inspect.Unsafe, inspect.IDNotUnique, "has no unique index over its id column %s alone, and %s", id.Name, refused).
			Says("name another column with %s, or let %s make %s %s and the first column of the primary key", option.ID, t.Dialect.Who, id.Name, t.Dialect.Counter)
	default:
		t.Found(inspect.Unsafe, inspect.IDNotUnique, "has no unique index over its id column %s alone", id.Name).
			Says("name another column with %s, or let %s run", option.ID, t.Dialect.Who).Types("%s;", t.Dialect.AddUnique(id.Name))
	}
	if id.Nullable {
		remedy := t.Dialect.MakeNotNull
		if t.Spec.IDFormat != "" {
			remedy = "make it NOT NULL"
		}
		f := t.Found(inspect.Unsafe, inspect.IDNull, "has the id column %s that may be NULL", id.Name).Says("let %s %s", t.Dialect.Who, remedy)
		if statement := t.Dialect.SetNotNull(id.Name); statement != "" {
			f.Types("%s;", statement)
		}
	}
	return index
}

// CheckIssuer warns of ids that the database does not hand out: who does, and in which order, does
// not show.
func (t *Inspection) CheckIssuer() {
	if id, ok := t.Table.Column(t.Spec.ID); ok && !id.Numbered && t.Expected.Order == "" {
		t.Found(inspect.Warning, inspect.IDIssuer, "does not number its rows itself (%s is not %s), so it does not show in which order ids come", id.Name, t.Dialect.Counter).
			Says("say so with %s: segmented where writers hold blocks of ids, none where ids have no order, strict where one counter hands them out", option.IDOrder)
	}
}

// CheckLowest warns of rows that are never read, by the lowest id, empty where there is no row.
func (t *Inspection) CheckLowest(lowest string) {
	if strings.HasPrefix(lowest, "-") || lowest == "0" {
		t.Found(inspect.Warning, inspect.IDNegative, "has rows with ids from %s: rows below id 1 are not read", lowest).
			Says("give these rows ids above 0 if they are to be published")
	}
}

// CheckPosition finds what contradicts the position: highest is the highest id of the table, 0 if
// it has none, and next the id of its next row, 0 if the database does not tell. Emptied is the
// database's word for a table that begins again at 1. Without a position, and at 0, nothing does.
// Without one it finds a START that the table has not reached.
func (t *Inspection) CheckPosition(highest, next uint64, emptied string) {
	e := t.Expected
	if e.Start > highest {
		severity := inspect.Warning
		if next > 0 && next <= e.Start {
			// It has not been emptied since.
			severity = inspect.Unsafe
		}
		t.Found(severity, inspect.StartAhead, "has no id above %d, and the stream begins after id %d: it stops where the bus has nothing of the table", highest, e.Start).
			Says("correct %s, or wait until the table has come that far", option.Start)
	}
	if e.Position == nil || *e.Position == 0 {
		return
	}
	position, set := *e.Position, "bridge checkpoint set "+e.Stream+" "+e.Shard
	switch {
	case next > 0 && next <= position:
		t.Found(inspect.Unsafe, inspect.IDsReused, "gives the id %d to its next row, but ids up to %d count as published: new rows would never be seen", next, position).
			Says("the table was %s or restored, or the checkpoint is of another table; stop bridge, then publish all of it, or go on after the last id that is as it was published, which bridge run names where it is known", emptied).
			Types("%s 0", set)
	case position > highest && position-highest > inspect.StrayAbove:
		t.Found(inspect.Warning, inspect.StrayID, "has no id above %d, but ids up to %d count as published: a row with the id %d was inserted, and deleted", highest, position, position).
			Says("rows that go on at the low end of the gap are published as late rows; if the id was a mistake, stop bridge and go on after the highest id").
			Types("%s %d", set, highest)
	case next == 0 && position > highest:
		t.Found(inspect.Warning, inspect.PositionAhead, "has no id above %d, but ids up to %d count as published", highest, position).
			Says("nothing where the newest rows were deleted; otherwise the checkpoint is of another table: stop bridge, then publish all of this one").
			Types("%s 0", set)
	}
}

// CheckKey looks whether every entity is a single row. It returns the finding where no unique index
// proves it.
func (t *Inspection) CheckKey() (unproved *inspect.Finding) {
	if !t.Spec.UniqueKey || len(t.Spec.Key) == 0 {
		return nil
	}
	for _, key := range t.Spec.Key {
		if column, _ := t.Table.Column(key); column.Kind == source.Float {
			t.Found(inspect.Unsafe, inspect.KeyType, "has the KEY column %s of type %s, an approximate number, which identifies nothing", column.Name, column.Type).
				Says("name other columns with %s, or let %s make it DECIMAL", option.Key, t.Dialect.Who)
			return nil
		}
	}
	key := strings.Join(t.Spec.Key, ", ")
	proof, nulls := t.Table.Proof(t.Spec.Key)
	if proof == nil {
		return t.Found(inspect.Unsafe, inspect.KeyNotUnique, "has %s over its KEY (%s): an entity must be a single row", t.lacksProof(), key).
			Says("name the columns of a unique index with %s, or let %s run", option.Key, t.Dialect.Who).Types("%s;", t.Dialect.AddUnique(t.Spec.Key...))
	}
	if !proof.usable() {
		why := "is a hash, by which nothing can be read"
		if proof.Ignored {
			why = "is ignored by the server"
		}
		t.Found(inspect.Warning, inspect.KeyIndex, "has a KEY (%s) whose unique index %s %s: a lookup by key, as reconcile does, reads the whole table", key, proof.Name, why).
			Says("let %s make the index visible, or add a unique one over columns with a length", t.Dialect.Who)
	}
	if len(nulls) > 0 {
		t.Found(inspect.Note, inspect.KeyNull, "has a KEY whose column %s may be NULL: rows with NULL there are not published, as they are no single rows", strings.Join(nulls, ", ")).
			Says("nothing where there are none; %s=stop stops at the first", option.OnBadValue)
	}
	return nil
}

// KeyForm names the columns of the KEY whose values have a form of their type in a key.
func (t *Inspection) KeyForm() string {
	var forms []string
	for _, key := range t.Spec.Key {
		switch column, _ := t.Table.Column(key); {
		case column.Kind == source.Binary:
			forms = append(forms, key+" in base64")
		case column.Precision > 0, column.Kind == source.DateTime, column.Kind == source.Timestamp:
			forms = append(forms, fmt.Sprintf("%s with %d decimals", key, column.Precision))
		}
	}
	return strings.Join(forms, ", ")
}

func (t *Inspection) lacksProof() string {
	if slices.ContainsFunc(t.Table.Indexes, func(i Index) bool { _, covered := t.Table.within(&i, t.Spec.Key); return i.Unique && covered }) {
		return "a unique index with a collation of the application's own, by which nobody else can read"
	}
	return "no unique index"
}

// TimeRoles returns CREATED and MODIFIED where the stream names them.
func (t *Inspection) TimeRoles() []source.Role {
	return slices.DeleteFunc([]source.Role{{Setting: option.Created, Column: t.Spec.Created}, {Setting: option.Modified, Column: t.Spec.Modified}},
		func(r source.Role) bool { return r.Column == "" })
}

// CheckTimes looks whether CREATED and MODIFIED are times.
func (t *Inspection) CheckTimes() {
	for _, r := range t.TimeRoles() {
		if column, ok := t.Table.Column(r.Column); ok && column.Resolution() == 0 {
			t.Found(inspect.Unsafe, inspect.TimeType, "has the column %s of type %s, but %s must be a %s", column.Name, column.Type, r.Setting, t.Dialect.Times).
				Says("correct %s", r.Setting)
		}
	}
}

// CheckModified looks for the column and the index by which updates are found.
func (t *Inspection) CheckModified() {
	switch {
	case !t.Expected.Updates:
	case t.Spec.Modified == "":
		t.checkNoModified()
	case t.Table.At(t.Spec.Modified) >= 0 && t.Table.Modified(t.Spec) == nil:
		t.Found(inspect.Warning, inspect.ModifiedIndex, "has no index that begins with MODIFIED (%s): updates and soft deletes wait for the next reconcile", t.Spec.Modified).
			Says("to have them within a second let %s run", t.Dialect.Who).Types("%s;", t.Dialect.AddModified(t.Spec.Modified))
	}
}

// checkNoModified says that updates wait for a reconcile, and what to set MODIFIED to: a column
// that the database sets at every update, or else one with such a name.
func (t *Inspection) checkNoModified() {
	const waits = "has no MODIFIED: updates and soft deletes wait for the next reconcile"
	var best Column
	for _, column := range t.Table.Columns {
		fits := t.Dialect.IsTime(column) && !t.Table.Same(column.Name, t.Spec.Created) && !t.Table.Same(column.Name, t.Spec.Deleted)
		if fits && (best.Name == "" && saysChange(column.Name) || column.Moves && !best.Moves) {
			best = column
		}
	}
	if best.Name == "" {
		t.Found(inspect.Note, inspect.NoModified, waits).
			Says("nothing where that is soon enough; otherwise let the application keep the time of a row's last change in an indexed column, and name it with %s", option.Modified)
		return
	}
	looks := ", and its column " + best.Name + " looks like the time of a row's last change"
	if best.Moves {
		looks = ", although the database sets its column " + best.Name + " at every update"
	}
	f := t.Found(inspect.Warning, inspect.NoModified, "%s", waits+looks).
		Says("to have updates within a second set %s=%s, if every update sets it", option.Modified, best.Name)
	as := t.Spec
	as.Modified = best.Name
	if t.Table.Modified(as) == nil {
		f.Says("to have updates within a second set %s=%s, if every update sets it, and make the index that it lacks", option.Modified, best.Name).
			Types("%s;", t.Dialect.AddModified(best.Name))
	}
}

// saysChange reports whether a column is named after the time of the last change of its row, as
// gmt_modified, updateTime and DataChange_LastTime are. The whole name has to say so:
// price_updated_at and next_update_at are times of something else.
func saysChange(name string) bool { return changeName.MatchString(strings.ToLower(name)) }

// changeName matches names in lower case, with or without _ between their words.
var changeName = regexp.MustCompile(`^(?:(?:last|gmt|utc|data|row|record|date|time|ts)_?)*(?:mtime` +
	`|(?:modified|updated|changed|edited)(?:_?(?:last|at|on|time|date|ts|stamp|utc))*` +
	`|(?:modify|modification|update|change|edit)(?:_?(?:last|at|on|time|date|ts|stamp|utc))+` +
	`|(?:last|gmt)_?(?:modify|modification|update|change|edit))$`)

// CheckFilter adds what is wrong with the condition on rows. try asks the database with the end of
// a statement, behind the table, and returns why that is refused.
func (t *Inspection) CheckFilter(try func(where string) (fault string, err error)) (err error) {
	if t.Spec.Filter == "" {
		return nil
	}
	fault := ""
	if refused := source.CheckFilter(t.Spec.Filter); refused != nil {
		fault = "it " + refused.Error()
	} else {
		// As a WHERE: in the list of a SELECT an aggregate would make one row of all.
		fault, err = try(" WHERE " + source.Unmatched(t.Spec.Filter) + " LIMIT 0")
	}
	if fault != "" {
		t.Found(inspect.Unsafe, inspect.BadFilter, "does not fit the condition on its rows: %s", fault).Says("correct %s", option.Filter)
	}
	return err
}

// Fault adds an error that keeps the table from being looked at. Database is the part of the
// source's URL that names it: "the database" or "the path".
func (t *Inspection) Fault(err error, database string) {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		t.Findings = append(t.Findings, refused.finding)
	case errors.Is(err, source.ErrMissing):
		t.Found(inspect.Unsafe, inspect.NoTable, "does not exist").
			Says("create the table, or correct %s or "+database+" in %s", option.Table, option.SourceURL)
	default:
		t.Found(inspect.Unsafe, inspect.NotInspected, "could not be looked at: %v", err).Says("see to the cause, then run bridge check again")
	}
}

// OrderWhy names the setting that says how ids are handed out.
func (t *Inspection) OrderWhy() string {
	if t.Spec.IDFormat != "" {
		return "by ID_FORMAT"
	}
	return "by ID_ORDER"
}

// CheckFormat says what ids with a format mean, and finds the lowest or the highest that does not
// have it. Blind says why rows that are not committed do not show, "" where they do or need not.
// Ends calls take with one of the two, if there is one.
func (t *Inspection) CheckFormat(ids source.IDColumn, blind string, ends func(first bool, take func([]byte)) error) error {
	for _, first := range []bool{true, false} {
		err := ends(first, func(v []byte) {
			if _, err := ids.Number(v); err != nil {
				t.Found(inspect.Unsafe, inspect.IDType, "has a row that keeps the others from being read: %v", err).Says("correct the row, or %s", option.IDFormat)
			}
		})
		if err != nil || t.Refusal() != nil {
			return err
		}
	}
	t.noteFormat(ids.Format, blind)
	return nil
}

func (t *Inspection) noteFormat(format source.IDFormat, blind string) {
	what := "a reconcile finds its rows"
	byModified := t.Spec.Modified != "" && t.Table.Modified(t.Spec) != nil
	switch {
	case byModified:
		what = "rows are found by MODIFIED within a second, others by the next reconcile"
	case format.HasTime():
		what = "new rows are found by the time in their ids within a second, those committed late as an update with MODIFIED is, and changes by the next reconcile"
	}
	t.Found(inspect.Note, inspect.IDOrder, "has ids that are not integers: %s", what).Says("nothing has to be done")
	if modified, _ := t.Table.Column(t.Spec.Modified); byModified && modified.Nullable {
		t.Found(inspect.Warning, inspect.IDOrder, "has the MODIFIED column %s that may be NULL: a row in which it is waits for the next reconcile", modified.Name).
			Says("nothing where every INSERT sets it; otherwise let %s make it NOT NULL, with the time of the INSERT as its default", t.Dialect.Who)
	}
	if blind != "" && (byModified || format.HasTime()) {
		reach := "ten minutes"
		if byModified {
			reach = "10 s"
		}
		t.Found(inspect.Warning, inspect.IDOrder, "shows new rows once they are committed alone (%s): one that shows more than %s after the time by which it is found, "+
			"because its transaction was long, this server lags or a clock differs, waits for the next reconcile", blind, reach).
			Says("nothing where that is soon enough; otherwise have reconciles come more often, or bridge read the one server that takes the writes, with the id as the primary key")
	}
}
