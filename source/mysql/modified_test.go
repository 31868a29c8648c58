package mysql_test

import (
	"strings"
	"testing"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
	"bridge/tests/testenv"
)

// A stream whose updates wait for a reconcile is told which column would end that, and the
// statement that is printed makes the index.
func TestStreamWithoutModified(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		for _, test := range []struct {
			name, columns string
			severity      inspect.Severity
			want          string
			statement     bool
		}{
			{"a column that the database sets", "created_at DATETIME, update_time DATETIME, touched TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", inspect.Warning, "X_MODIFIED=touched", true},
			{"one by its name, with an index", "DataChange_CreatedTime TIMESTAMP NULL, DataChange_LastTime TIMESTAMP NULL, KEY (DataChange_LastTime)", inspect.Warning, "X_MODIFIED=DataChange_LastTime", false},
			{"one by its name, without an index", "gmt_create DATETIME, gmt_modified DATETIME", inspect.Warning, "X_MODIFIED=gmt_modified", true},
			{"none", "created_at DATETIME, updated_by VARCHAR(9), last_login DATETIME", inspect.Note, "name it with X_MODIFIED", false},
		} {
			t.Run(test.name, func(t *testing.T) {
				b.replaceTable(t, "states", "(id INT AUTO_INCREMENT PRIMARY KEY, "+test.columns+")")
				check := func(modified string, updates bool) []inspect.Finding {
					spec := source.Spec{Table: "states", ID: "id", Modified: modified}
					return b.source.Inspect(t.Context(), []source.Expected{{Spec: spec, Updates: updates}}, 1).Tables[0].Findings
				}
				found := check("", true)
				if len(found) != 1 || found[0].Code != inspect.NoModified || found[0].Severity != test.severity ||
					!strings.Contains(found[0].Named(full).Do, test.want) || (found[0].Statement != "") != test.statement {
					t.Fatalf("found %+v", found)
				}
				if test.statement {
					b.exec(t, found[0].Statement)
				}
				if _, column, ok := strings.Cut(found[0].Named(full).Do, full(option.Modified)+"="); ok {
					column, _, _ = strings.Cut(column, ",")
					for _, f := range check(column, true) {
						if f.Code == inspect.NoModified || f.Code == inspect.ModifiedIndex {
							t.Errorf("as advised: %v", f)
						}
					}
				}
				if found := check("", false); len(found) != 0 {
					t.Errorf("facts: %v", found)
				}
			})
		}
	})
}
