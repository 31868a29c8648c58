package mysql

import (
	"context"
	"slices"
	"strings"

	"bridge/source"
)

// documents are the LONGTEXT columns of a table of MariaDB, whose JSON is a LONGTEXT with the CHECK
// json_valid, and what the server says of them. It is zero where nothing has to be asked.
type documents struct {
	columns []string
	answer  string
}

func (d documents) equal(other documents) bool {
	return d.answer == other.answer && slices.Equal(d.columns, other.columns)
}

// expression is the SQL of the question, for a SELECT FROM the table WHERE FALSE. JSON_ARRAY takes
// a document as it is and quotes a text. COALESCE of a column and a document is a document only
// where the column is JSON. No row is read, and SELECT on the columns will do; their CHECK shows
// only to a login with SELECT on the table. The first member says whether the server knows the
// difference, as MariaDB does from 10.5 on.
func (d documents) expression() string {
	const document = "JSON_COMPACT('{}')"
	var b strings.Builder
	b.WriteString("JSON_ARRAY(COALESCE(" + document + ", " + document + ")")
	for _, column := range d.columns {
		b.WriteString(", COALESCE(MAX(" + quoteName(column) + "), " + document + ")")
	}
	return b.String() + ")"
}

// findDocuments makes the columns of list that hold JSON in MariaDB of that kind.
func (s tableSpec) findDocuments(ctx context.Context, c conn, list []source.Column, table []tableColumn) (d documents, err error) {
	for _, column := range list {
		if table[find(table, column.Name)].columnType == "longtext" {
			d.columns = append(d.columns, column.Name)
		}
	}
	if len(d.columns) == 0 {
		return documents{}, nil
	}
	query := "SELECT " + d.expression() + " AS documents FROM " + s.table.quoted() + " WHERE FALSE"
	err = c.query(ctx, query, func(get func(string) string) { d.answer = get("documents") })
	if err != nil && number(err) == 0 {
		return documents{}, err
	}
	said, ok := strings.CutPrefix(d.answer, "[{}")
	if err != nil || !ok {
		return documents{}, s.flagJSON(ctx, c, list, d.columns)
	}
	answers := strings.Split(strings.TrimSuffix(said, "]"), ", ")[1:]
	for i, name := range d.columns {
		if i < len(answers) && answers[i] == "{}" {
			flagColumn(list, name)
		}
	}
	return d, nil
}

func flagColumn(list []source.Column, name string) {
	list[slices.IndexFunc(list, func(c source.Column) bool { return c.Name == name })].Kind = source.JSON
}

// flagJSON finds the JSON columns of a MariaDB before 10.5 in what SHOW CREATE TABLE says. A login
// with SELECT on single columns may not ask: there they stay text.
func (s tableSpec) flagJSON(ctx context.Context, c conn, list []source.Column, names []string) error {
	create, err := s.readCreate(ctx, c)
	if err != nil {
		return err
	}
	checked := checkedJSON(create)
	for _, name := range names {
		if checked[name] {
			flagColumn(list, name)
		}
	}
	return nil
}

// checkedJSON returns the columns that a CREATE TABLE of MariaDB checks with json_valid. The check
// ends the line of its column or constraint; what a comment or default says is followed by a quote.
func checkedJSON(create string) map[string]bool {
	checked := make(map[string]bool)
	for line := range strings.Lines(create) {
		line = strings.TrimSuffix(strings.TrimRight(line, "\n"), ",")
		clause, ok := strings.CutSuffix(line, "`))")
		if !ok {
			continue
		}
		if i := strings.LastIndex(clause, "CHECK (json_valid(`"); i >= 0 {
			name := clause[i+len("CHECK (json_valid(`"):]
			checked[strings.ReplaceAll(name, "``", "`")] = true
		}
	}
	return checked
}
