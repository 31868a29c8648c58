package config

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

func TestHTTPToken(t *testing.T) {
	const variable, token = "BRIDGE_HTTP_TOKEN", "0123456789abcdef"
	t.Run("is not there where it is not set", func(t *testing.T) {
		if load(t, minimal()).HTTPToken != nil {
			t.Error("there is one")
		}
	})
	t.Run("stands in the environment", func(t *testing.T) {
		if got, err := load(t, with(variable, token)).HTTPToken(); err != nil || got != token {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("is read again from its file, and a short one is refused", func(t *testing.T) {
		path := secretFile(t, token+"\n")
		read := load(t, with(variable+"_FILE", path)).HTTPToken
		if got, err := read(); err != nil || got != token {
			t.Fatalf("%q, %v", got, err)
		}
		for text, want := range map[string]string{token + "0\n": "", "short\n": "fewer than 16 characters", "\n": "is empty"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := read()
			if want == "" && (err != nil || got != strings.TrimSpace(text)) || want != "" && (err == nil || got != "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	})
	t.Run("is refused when it is too short or fits no header", func(t *testing.T) {
		wantFault(t, with(variable, "0123456789abcde"), variable, "fewer than 16 characters")
		wantFault(t, with(variable, "0123456789 abcdef"), variable, "letters, digits")
		wantFault(t, with(variable, "0123456789äbcdef"), variable, "letters, digits")
		wantFault(t, with(variable+"_FILE", "/not/there"), variable+"_FILE", "no such file")
	})
	t.Run("does not pass into a log", func(t *testing.T) {
		var secrets Redactor
		if _, err := Load(with(variable, token).Environ(), &secrets); err != nil {
			t.Fatal(err)
		}
		if text := secrets.Attr(nil, slog.String("header", "Bearer "+token)).Value.String(); strings.Contains(text, token) {
			t.Error(text)
		}
	})
}

func TestHTTPTLS(t *testing.T) {
	wantFault(t, with("BRIDGE_HTTP_TLS_CERT", secretFile(t, "x")), "BRIDGE_HTTP_TLS_KEY", "set both or none")
	wantFault(t, with("BRIDGE_HTTP_TLS_CA", secretFile(t, "x")), "BRIDGE_HTTP_TLS_CA", "PEM")
	wantFault(t, with("BRIDGE_HTTP_TLS_CERT", secretFile(t, "x"), "BRIDGE_HTTP_TLS_KEY", secretFile(t, "x")), "BRIDGE_HTTP_TLS_CERT", "no pair")
}

// TestACommandReadsFewVariables: those of HTTP alone, and no file before a request needs it.
func TestACommandReadsFewVariables(t *testing.T) {
	h, err := LoadHTTP([]string{"BRIDGE_HTTP_ADDR=:81", "BRIDGE_HTTP_TOKEN_FILE=/not/there", "BRIDGE_HTTP_TLS_CERT=/not/there", "BRIDGE_TYPO=1"})
	if err != nil || h.Addr != "127.0.0.1:81" || h.TLS.Cert != "/not/there" {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := h.Token(); err == nil || !strings.Contains(err.Error(), "BRIDGE_HTTP_TOKEN_FILE") {
		t.Error(err)
	}
	if h, err := LoadHTTP(nil); err != nil || h.Token != nil {
		t.Errorf("%+v, %v", h, err)
	}
}
