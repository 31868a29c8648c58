package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWithFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.env")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\r\n\n  BRIDGE_A=1 # 2\r\nBRIDGE_B='a\\b \"c\" '\nBRIDGE_C=\"it's\"\nBRIDGE_D=\nBRIDGE_E= a=b'c \nBRIDGE_A=last # 2\nAWS_PROFILE=x\nBRIDGE_F=of the file\nBRIDGE_G=file\n")
	want := []string{"AWS_PROFILE=x", "BRIDGE_A=last # 2", "BRIDGE_B=a\\b \"c\" ", "BRIDGE_C=it's", "BRIDGE_D=", "BRIDGE_E=a=b'c", "BRIDGE_G=file", "BRIDGE_F=of the environment", "BRIDGE_G="}
	environ := []string{"BRIDGE_F=of the environment", "BRIDGE_G="}
	t.Run("reads lines as Docker and systemd do, and the environment wins", func(t *testing.T) {
		if got, err := WithFile(environ, path); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	})
	t.Run("finds the file by its variable, which the flag replaces", func(t *testing.T) {
		named := []string{"BRIDGE_ENV_FILE=" + path}
		if got, err := WithFile(named, ""); err != nil || len(got) != 9 {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := WithFile([]string{"BRIDGE_ENV_FILE=/missing"}, path); err != nil || len(got) != 9 {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := WithFile(environ, ""); err != nil || !slices.Equal(got, environ) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("says of all lines what is wrong, without a value", func(t *testing.T) {
		write("hidden\nexport BRIDGE_A=hidden\n=hidden\nBRIDGE_B='hidden\nBRIDGE_C='hid'den'\nBRIDGE_D=hid\\den\nBRIDGE_E=\"hid\\den\"\nBRIDGE_F='\nBRIDGE_G=fine\nBRIDGE_ENV_FILE=hidden\n; hidden\n")
		_, err := WithFile(nil, path)
		if err == nil || strings.Contains(err.Error(), "hid") {
			t.Fatal(err)
		}
		for line, want := range map[string]string{
			":1": "write NAME=value", ":2": "write NAME=value", ":3": "write NAME=value", ":4": "has a quote", ":5": "has a quote",
			":6": "single quotes", ":7": "single quotes", ":8": "has a quote", ":10": "leave it out", ":11": "write NAME=value",
		} {
			if _, rest, found := strings.Cut(err.Error(), "\n  "+path+line+": "); !found || !strings.Contains(strings.SplitN(rest, "\n", 2)[0], want) {
				t.Errorf("line %s: want %q in\n%v", line, want, err)
			}
		}
	})
	t.Run("names what has named a file that is not there", func(t *testing.T) {
		for _, err := range []error{second(WithFile(nil, "/missing/file")), second(WithFile([]string{"BRIDGE_ENV_FILE=/missing/file"}, ""))} {
			if _, is := err.(*Error); !is || !strings.Contains(err.Error(), "names the file /missing/file, which cannot be read: no such file") {
				t.Error(err)
			}
		}
	})
	t.Run("judges variables of the file as those of the environment", func(t *testing.T) {
		write("BRIDGE_POL_INTERVAL=1s\n")
		environ, err := WithFile(with("BRIDGE_POLL_INTERVAL", "1s").Environ(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Load(environ, &Redactor{}); err == nil || !strings.Contains(err.Error(), "BRIDGE_POL_INTERVAL: is unknown: did you mean BRIDGE_POLL_INTERVAL?") {
			t.Error(err)
		}
	})
}

func second(_ []string, err error) error { return err }
