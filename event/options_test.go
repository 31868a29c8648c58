package event_test

import (
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

func TestNewEncoderNamesTheSettingAndTheRemedy(t *testing.T) {
	tests := []struct {
		name   string
		change func(*event.Options)
		want   string
	}{
		{"stem with the protocol's prefix", func(o *event.Options) { o.Stem = "EiffelOrder" }, `EVENT: "EiffelOrder" begins with "Eiffel"`},
		{"stream named after the protocol", func(o *event.Options) { o.Stream = "eiffel_orders" }, `EVENT: "EiffelOrders" begins with "Eiffel"`},
		{"stem with a digit first", func(o *event.Options) { o.Stem = "2Order" }, `EVENT: invalid event type "2Order"`},
		{"empty name", func(o *event.Options) { o.Names = map[event.Op]string{event.Added: ""} }, `EVENT_NAMES added: invalid event type ""`},
		{"operation of another kind", func(o *event.Options) { o.Names = map[event.Op]string{event.Published: "X"} }, `EVENT_NAMES: a capability stream has no operation "published": use [added modified deleted]`},
		{"version without a patch", func(o *event.Options) { o.Version = "1.0" }, `EVENT_VERSION: invalid version "1.0": use three numbers`},
		{"unknown kind", func(o *event.Options) { o.Kind = "fact" }, `KIND: unknown kind "fact": use "capability" or "release"`},
		{"unknown bad value", func(o *event.Options) { o.BadValue = "skip" }, `ON_BAD_VALUE: "skip" is not known: use "null" or "stop"`},
		{"no stream", func(o *event.Options) { o.Stream, o.Stem = "", "X" }, "the stream's name is empty"},
		{"no table", func(o *event.Options) { o.Table = "" }, "TABLE is empty"},
		{"domain that is not UTF-8", func(o *event.Options) { o.Domain = "a\xff" }, "DOMAIN_ID"},
		{"field without a column", func(o *event.Options) { o.Fields = []event.Field{{Member: "x"}} }, `FIELDS: member "x" has no column`},
		{"member that is not UTF-8", func(o *event.Options) { o.Fields = []event.Field{{"a", "\xff"}} }, `FIELDS: member "\xff" of column "a"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options()
			test.change(&o)
			_, err := event.NewEncoder(o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
		})
	}
}

func TestNewEncoderReportsAllFaultsAtOnce(t *testing.T) {
	_, err := event.NewEncoder(event.Options{
		Stem: "EiffelX", BadValue: "x", Kind: event.Release, Names: map[event.Op]string{event.Added: "A", event.Published: "-"},
		Fields: []event.Field{{}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"stream's name", "shard's name", "source", "TABLE", "EVENT:", "EVENT_NAMES published", `operation "added"`, "ON_BAD_VALUE", "FIELDS"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestBindNamesTheColumnsAndTheRemedy(t *testing.T) {
	rows := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"app_id", source.Text, 0, "a"}, cell{"AppId", source.Text, 0, "b"},
		cell{"Row", source.Text, 0, "c"}, cell{"reason", source.Text, 0, "d"},
	).key("app_id")
	tests := []struct {
		name   string
		fields []event.Field
		want   []string
	}{
		{"two columns for one member", nil, []string{`columns "app_id" and "AppId" both become the member "appId"`, "EXCLUDE", "FIELDS"}},
		{"a reserved member", nil, []string{"EXCLUDE", `column "Row" becomes the member "row"`, `column "reason" becomes the member "reason"`}},
		{"a column that is not there", []event.Field{{"app_id", ""}, {"app_nme", "name"}}, []string{`FIELDS names the column "app_nme", which table orders_07 does not have`, "id, app_id, AppId, Row, reason"}},
		{"a column that is there twice", []event.Field{{"app_id", "x"}, {"APP_ID", "y"}}, []string{`FIELDS names the column "app_id" twice, as member "x" and "y"`}},
		{"a whitelist without the key", []event.Field{{"Row", "line"}}, []string{`FIELDS leaves out the key column "app_id"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options()
			o.Fields = test.fields
			encoder, err := event.NewEncoder(o)
			if err != nil {
				t.Fatal(err)
			}
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

func TestBindTakesWhatAWhitelistPutsRight(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"row", source.Text, 0, "a"}, cell{"Reason", source.Text, 0, "b"})
	o := options()
	o.Fields = []event.Field{{"reason", "why"}, {"row", "line"}}
	body := string(encode(t, o, rows, rows.row(1)).Body)
	if want := `"data":{"why":"b","line":"a","row":{`; !strings.Contains(body, want) {
		t.Errorf("%s not in %s", want, body)
	}
}

func TestColumnsInTwoCases(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"Ä", source.Text, 0, "a"}, cell{"ä", source.Text, 0, "b"})
	rows.columns.NameCase = source.ASCIICase
	for want, change := range map[string]func(*event.Options){
		`"data":{"x":"b","row":{`:        func(o *event.Options) { o.Fields = []event.Field{{"ä", "x"}} },
		`"data":{"id":1,"ä":"a","row":{`: func(o *event.Options) { o.Exclude = []string{"ä"} },
	} {
		o := options()
		change(&o)
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

func TestTypesBeginWithTheStemOrTheStreamsName(t *testing.T) {
	stems := map[string]string{"stp_capability": "StpCapability", "orders": "Orders", "config-release": "ConfigRelease", "appV2": "AppV2"}
	for stream, stem := range stems {
		o := options()
		o.Stream = stream
		encoder, err := event.NewEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		types := map[event.Op]string{
			event.Added: stem + "AddedEvent", event.Modified: stem + "ModifiedEvent", event.Deleted: stem + "DeletedEvent", event.Published: "",
		}
		for op, want := range types {
			if got := encoder.Type(op); got != want {
				t.Errorf("stream %s: type of %s is %q, want %q", stream, op, got, want)
			}
		}
	}
	o := options()
	o.Kind, o.Stem = event.Release, "ConfigRelease"
	encoder, err := event.NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := encoder.Type(event.Published); got != "ConfigReleasePublishedEvent" {
		t.Errorf("type of a release is %q", got)
	}
}
