package memory

import (
	"fmt"
	"strings"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// compileFilter makes a function of the spec's condition. It knows conditions of one form:
// column = 'text', or <> in place of =.
func (v *view) compileFilter() error {
	v.filter = nil
	if v.spec.Filter == "" {
		return nil
	}
	refuse := func(why any) error {
		return option.Errorf("%w: the condition %s does not fit the table: %v", source.ErrUnfit, option.Filter, why)
	}
	if err := source.CheckFilter(v.spec.Filter); err != nil {
		return refuse("it " + err.Error())
	}
	words := strings.Fields(v.spec.Filter)
	if len(words) != 3 || words[1] != "=" && words[1] != "<>" {
		return refuse("a table in memory reads column = 'text' and column <> 'text' alone")
	}
	at := v.table.column(words[0])
	if at < 0 {
		return refuse(fmt.Sprintf("unknown column %q", words[0]))
	}
	text, equal := strings.Trim(words[2], "'"), words[1] == "="
	v.filter = func(values [][]byte) bool { return values[at] != nil && (string(values[at]) == text) == equal }
	return nil
}
