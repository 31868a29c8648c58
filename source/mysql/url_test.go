package mysql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bridge/source/mysql"
)

func TestParseURL(t *testing.T) {
	t.Run("all pieces", func(t *testing.T) {
		o, err := mysql.ParseURL("mysql://us%40er:p%2F%23%3Fw@[::1]:3307/my%20db?tls=true")
		if err != nil {
			t.Fatal(err)
		}
		password, err := o.Password()
		if err != nil || o.Host != "::1" || o.Port != 3307 || o.User != "us@er" || password != "p/#?w" || o.Database != "my db" ||
			!encrypts(o) || blind(o) || o.TLSOptional {
			t.Fatalf("%+v, password %q, %v", o, password, err)
		}
	})
	t.Run("the least", func(t *testing.T) {
		o, err := mysql.ParseURL("mysql://u@h")
		if err != nil || o.Host != "h" || o.Port != 0 || o.Password != nil || o.Database != "" || o.TLS != nil {
			t.Fatalf("%+v, %v", o, err)
		}
	})
	t.Run("ways of TLS", func(t *testing.T) {
		for mode, want := range map[string][3]bool{
			"false": {false, false, false}, "true": {true, false, false}, "skip-verify": {true, true, false}, "preferred": {true, true, true},
		} {
			o, err := mysql.ParseURL("mysql://u:p@h/d?tls=" + mode)
			if err != nil {
				t.Fatal(err)
			}
			got := [3]bool{encrypts(o), blind(o), o.TLSOptional}
			if got != want {
				t.Errorf("tls=%s: %v, want %v", mode, got, want)
			}
		}
	})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                                     "must look like mysql://",
		"h:3306":                               "must look like mysql://",
		"mysql://h/d":                          "must look like mysql://",
		"mysql://u:S3@/d":                      "must look like mysql://",
		"mysql://u:S3%zz@h/d":                  "percent-encoded",
		"mysql://u:S3#x@h/d":                   "percent-encoded",
		"mysql://u:S3@h:x/d":                   "must look like mysql://",
		"mysql://u:S3@h:70000/d":               "1 to 65535",
		"mysql://u:S3@h:0/d":                   "1 to 65535",
		"mysql://u:S3@h/d/e":                   "one database",
		"mysql://u:S3@h/d?tls=maybe":           "true, verify-ca, false, skip-verify or preferred",
		"mysql://u:S3@h/d?tls=verify-ca":       "needs tls-ca",
		"mysql://u:S3@h/d?S3=1":                "unknown parameter",
		"mysql://u:S3@h/d?tls=%zz":             "malformed parameters",
		"mysql://u:S3@h/d?tls=false&tls-ca=x":  "contradicts",
		"mysql://u:S3@h/d?tls-ca=/none/ca.pem": "tls-ca: open /none/ca.pem",
		"mysql://u:S3@h/d?tls-ca=" + empty:     "no certificate in",
		"mysql://u:S3@h/d?tls-cert=x":          "together",
		"mysql://u:S3@h/d?tls-cert=/none/c&tls-key=/none/k": "tls-cert and tls-key: open /none/c",
	} {
		t.Run("refuses "+url, func(t *testing.T) {
			_, err := mysql.ParseURL(url)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3") {
				t.Fatalf("error %v, want one with %q", err, want)
			}
		})
	}
}

func TestOptionsShowNoPassword(t *testing.T) {
	o, err := mysql.ParseURL("mysql://u:S3cret@h/d")
	if err != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", o, o, o), "S3cret") {
		t.Fatalf("%#v, %v", o, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, o := range map[string]mysql.Options{
		"no host":        {User: "u"},
		"no user":        {Host: "h"},
		"port":           {Host: "h", User: "u", Port: -1},
		"MaxConns":       {Host: "h", User: "u", MaxConns: -1},
		"at least 1ms":   {Host: "h", User: "u", StatementTimeout: 1},
		"open mysql sou": {},
	} {
		if s, err := mysql.Open(o); err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%+v: error %v, want one with %q", o, err, want)
		}
	}
}

func encrypts(o mysql.Options) bool { return o.TLS != nil }

// blind reports whether nobody looks at the server's certificate.
func blind(o mysql.Options) bool {
	if o.TLS == nil {
		return false
	}
	c, err := o.TLS()
	return err == nil && c.InsecureSkipVerify
}
