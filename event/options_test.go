package event_test

import (
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestTextsThatNoEventCanCarry(t *testing.T) {
	_, err := event.NewEncoder(event.Options{Kind: event.Release, Stem: "X", Domain: "a\xff"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"the stream's name is empty", "the shard's name", "the name of the source", "TABLE", `DOMAIN_ID "a\xff" is not valid UTF-8`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestBindNamesTheColumnsAndTheRemedy(t *testing.T) {
	rows := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"app_id", source.Text, 0, "a"}, cell{"AppId", source.Text, 0, "b"},
		cell{"Row", source.Text, 0, "c"}, cell{"reason", source.Text, 0, "d"}, cell{"\xff", source.Text, 0, "e"},
	).key("app_id")
	tests := []struct {
		name   string
		fields []event.Field
		want   []string
	}{
		{"two columns for one member", nil, []string{`columns "app_id" and "AppId" both become the member "appId"`, "EXCLUDE", "FIELDS"}},
		{"a reserved member", nil, []string{"EXCLUDE", `column "Row" becomes the member "row"`, `column "reason" becomes the member "reason"`, `column "\xff" has a name that is not UTF-8`}},
		{"a column that is not there", []event.Field{{"app_id", ""}, {"app_nme", "name"}}, []string{`FIELDS names the column "app_nme", which table orders_07 does not have`, "id, app_id, AppId, Row, reason"}},
		{"a column that is there twice", []event.Field{{"app_id", "x"}, {"APP_ID", "y"}}, []string{`FIELDS names the column "app_id" twice, as member "x" and "y"`}},
		{"a whitelist without the key", []event.Field{{"Row", "line"}}, []string{`FIELDS leaves out the key column "app_id"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options()
			o.Fields = test.fields
			encoder, err := event.NewEncoder(o)
			must.OK(t, err)
			err = encoder.Bind(&rows.columns)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
			if _, _, err := encoder.Append(nil, rows.row(1)); err == nil {
				t.Error("Append goes on after a Bind that failed")
			}
		})
	}
}

// TestAKeyThatRowsOfANumberDifferIn: the number of the id is not enough.
func TestAKeyThatRowsOfANumberDifferIn(t *testing.T) {
	rows := newTable(cell{"id", source.Text, 0, "01JDZ0G8Q0AAAAAAAAAAAAAAAA"}, cell{"v", source.Text, 0, "b"}).key("id")
	bind := func(fields ...event.Field) error {
		o := options()
		o.Fields = fields
		encoder := must.Get(event.NewEncoder(o))(t)
		return encoder.Bind(&rows.columns)
	}
	must.OK(t, bind(event.Field{Column: "v"}))
	rows.columns.IDFormat = source.ULID
	must.Fail(t, bind(event.Field{Column: "v"}), `FIELDS leaves out the key column "id"`)
	must.OK(t, bind(event.Field{Column: "v"}, event.Field{Column: "id"}))
}

func TestWhatAWhitelistPutsRight(t *testing.T) {
	for want, c := range map[string]struct {
		names  [2]string
		change func(*event.Options)
	}{
		`"data":{"why":"b","line":"a","row":{`: {[2]string{"row", "Reason"}, func(o *event.Options) { o.Fields = []event.Field{{"reason", "why"}, {"row", "line"}} }},
		`"data":{"x":"b","row":{`:              {[2]string{"Ä", "ä"}, func(o *event.Options) { o.Fields = []event.Field{{"ä", "x"}} }},
		`"data":{"id":1,"ä":"a","row":{`:       {[2]string{"Ä", "ä"}, func(o *event.Options) { o.Exclude = []string{"ä"} }},
	} {
		rows := newTable(cell{"id", source.Int, 0, "1"}, cell{c.names[0], source.Text, 0, "a"}, cell{c.names[1], source.Text, 0, "b"})
		rows.columns.NameCase = source.ASCIICase
		o := options()
		c.change(&o)
		if body := string(encode(t, o, rows, rows.row(1)).Body); !strings.Contains(body, want) {
			t.Errorf("%s not in %s", want, body)
		}
	}
}

func TestColumnsBecomeMembersInCamelCase(t *testing.T) {
	members := map[string]string{
		"DataChange_CreatedTime": "dataChangeCreatedTime",
		"ID":                     "id",
		"URLPath":                "urlPath",
		"GMT_CREATE":             "gmtCreate",
		"MD5Hash":                "md5Hash",
		"2fa_code":               "2faCode",
		"__deleted__at__":        "deletedAt",
		"a.b$c":                  "aBC",
		"дата_создания":          "датаСоздания",
		"cafe\u0301_id":          "cafe\u0301Id",
		"___":                    "___",
	}
	for column, want := range members {
		t.Run(column, func(t *testing.T) {
			rows := newTable(cell{column, source.Int, 0, "1"})
			data := parse(t, encode(t, options(), rows, rows.row(1)).Body).Data
			if _, ok := data[want]; !ok || len(data) != 2 {
				t.Errorf("column %q is not the member %q of %s", column, want, data)
			}
		})
	}
}

func TestTypesBeginWithTheStreamsName(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"})
	for stream, stem := range map[string]string{"stp_capability": "StpCapability", "orders": "Orders", "config-release": "ConfigRelease", "appV2": "AppV2"} {
		o := options()
		o.Stream = stream
		if got := encode(t, o, rows, rows.row(1)).Type; got != stem+"AddedEvent" {
			t.Errorf("stream %s: type %q", stream, got)
		}
	}
}
