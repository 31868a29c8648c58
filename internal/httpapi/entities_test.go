package httpapi_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"
)

func TestRequestsForEntities(t *testing.T) {
	const path, keyed = "/api/v1/streams/orders/entities", "/api/v1/streams/orders/entity"
	for _, c := range []struct {
		name, path string
		refuses    error
		status     int
		words      string
		asked      string
	}{
		{"show one", path + "/eu%2B17", nil, 200, `{"key":"eu+17"`, "{Stream:orders Key:eu+17 Shard:}"},
		{"show one of a table", path + "/17?shard=t_0", nil, 200, `{"key":"17"`, "{Stream:orders Key:17 Shard:t_0}"},
		{"show one with a slash and an escape in its key", path + "/a%2Fb%252Bc", nil, 200, `{"key":"a/b%2Bc"`, "{Stream:orders Key:a/b%2Bc Shard:}"},
		{"show one with an empty key", keyed + "?key=", nil, 200, `{"key":""`, "{Stream:orders Key: Shard:}"},
		{"show one whose key a path cannot have", keyed + "?key=..&shard=t_0", nil, 200, `{"key":".."`, "{Stream:orders Key:.. Shard:t_0}"},
		{"need a key", keyed, nil, 400, "?key=", ""},
		{"do not know one", path + "/17", httpapi.ErrNoEntity, 404, "no such entity", "{Stream:orders Key:17 Shard:}"},
		{"are not answered by all", path + "/17", httpapi.ErrNotServed, 404, "not served", "{Stream:orders Key:17 Shard:}"},
		{"wait for the source", path + "/17", errors.New("away"), 503, "away", "{Stream:orders Key:17 Shard:}"},
		{"know their parameters", path + "/17?table=t_0", nil, 400, `unknown parameter \"table\"`, ""},
		{"show a page", path, nil, 200, `{"entities":[],"next":"further"}`, "{Stream:orders After: Limit:100}"},
		{"show a further one", path + "?after=t_0%2F17&limit=5", nil, 200, `"entities"`, "{Stream:orders After:t_0/17 Limit:5}"},
		{"have a bound", path + "?limit=1001", nil, 400, "limit must be 1 to 1000", ""},
		{"have at least one", path + "?limit=0", nil, 400, "limit must be 1 to 1000", ""},
		{"take each parameter once", path + "?limit=5&limit=6", nil, 400, "more than once", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &httpapitest.Daemon{Refuses: c.refuses}
			status, text := httpapitest.Request(t, d, "GET", c.path)
			if status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("%d %s, want %d with %s", status, text, c.status, c.words)
			}
			if c.asked == "" && len(d.Requests) > 0 || c.asked != "" && !slices.Equal(d.Requests, []string{c.asked}) {
				t.Errorf("asked for %q, want %q", d.Requests, c.asked)
			}
		})
	}
}
