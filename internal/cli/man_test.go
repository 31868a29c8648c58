package cli

import (
	"strings"
	"testing"
)

func TestMan(t *testing.T) {
	text := sample().Man(Page{
		Version: "v1.2.3", Built: "2026-11-25T09:08:57+01:00", Purpose: "show what a page has", Description: "See VARIABLES.\n",
		Files: []File{{"/etc/a-b.env", "Its settings."}},
	})
	t.Run("has every command, flag, variable and file", func(t *testing.T) {
		for _, want := range []string{
			".SS bridge demo [\\-\\-for 20s] [\\-\\-keep]\nSee events.\n.sp\n.RS 2\n.nf\n\\-\\-for   how long\n.fi\n.RE\n.sp\n\\&.SH begins this line.\n",
			".SS bridge reconcile [\\-\\-dry\\-run] [\\-\\-json] <mode> [<stream> ...]\n",
			".SS Source\n.TP\n.BR A_URL \" (required)\"\nWhere it reads.\n",
			".BR A_NAME \" (the host's \"\"name\"\")\"\nIts name\\[u2026]\n.SS Bus\n",
			".SH NAME\nbridge \\- show what a page has\n", ".SH DESCRIPTION\nbridge is a sample.\n.sp\nSee VARIABLES.\n",
			".SH FILES\n.TP\n.I /etc/a\\-b.env\nIts settings.\n", ".SH EXIT STATUS\n0 fine, 2 wrong usage.\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("lacks %s in\n%s", want, text)
			}
		}
	})
	t.Run("says of which version and day it is", func(t *testing.T) {
		if first, _, _ := strings.Cut(text, "\n"); first != `.TH BRIDGE 1 "2026-11-25" "bridge v1.2.3" "User Commands"` {
			t.Error(first)
		}
		if text := sample().Man(Page{Version: "(devel)", Built: "unknown"}); !strings.HasPrefix(text, `.TH BRIDGE 1 "" "bridge (devel)" "User Commands"`+"\n") {
			t.Error(text)
		}
	})
	t.Run("escapes what roff would obey", func(t *testing.T) {
		for in, want := range map[string]string{".SH x": `\&.SH x`, "'x": `\&'x`, `a\b-…`: `a\eb\-\[u2026]`} {
			if got := roff(in); got != want {
				t.Errorf("%s became %s, want %s", in, got, want)
			}
		}
	})
}
