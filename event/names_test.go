package event_test

import (
	"testing"

	"bridge/event"
	"bridge/source"
)

func TestColumnsBecomeMembersInCamelCase(t *testing.T) {
	members := map[string]string{
		"DataChange_CreatedTime": "dataChangeCreatedTime",
		"ID":                     "id",
		"URLPath":                "urlPath",
		"userID":                 "userId",
		"GMT_CREATE":             "gmtCreate",
		"address_2":              "address2",
		"MD5Hash":                "md5Hash",
		"v2Name":                 "v2Name",
		"2fa_code":               "2faCode",
		"_id":                    "id",
		"__deleted__at__":        "deletedAt",
		"order-id":               "orderId",
		"a.b$c":                  "aBC",
		"产品_名称":                  "产品名称",
		"Größe_mm":               "größeMm",
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
