package config

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// FuzzConfig reads a random environment, one variable a line: no panic, each fault on one line that
// names a variable, and no secret in any of them.
func FuzzConfig(f *testing.F) {
	f.Add(strings.Join(minimal().Environ(), "\n"), "secret")
	f.Add("BRIDGE_STREAMS=a,a_b\nBRIDGE_STREAM_A_B_TABLE=t_{00..9}\nBRIDGE_STREAM_A_FIELDS=a:b,\nBRIDGE_STREAM_A_EVENT_NAMES=added:x", "p%40s")
	f.Add("BRIDGE_SOURCE_URL=mysql://u:$@h:1/d?tls=true\nBRIDGE_SINK_URL=nats://$@h,u:$@h\nBRIDGE_STREAMS=$", "#/@")
	f.Add("BRIDGE_\nBRIDGE_=\nBRIDGE_X\x00\x01=1\nBRIDGE_STREAM__TABLE=1\nBRIDGE_STREAMS=_\nBRIDGE_MAX_INFLIGHT_BYTES=9GiB", "%")
	line := regexp.MustCompile(`^  BRIDGE_[^\n]*: \S`)
	f.Fuzz(func(t *testing.T, text, noise string) {
		// The canary stands for a secret: the fuzzer puts it anywhere behind a "$" of a value.
		secret := canary + strings.Map(func(r rune) rune {
			if r == '\n' || r == 0 {
				return -1
			}
			return r
		}, noise)
		var environ []string
		for entry := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(entry, "=")
			// The name of a stream is no secret.
			if name != "BRIDGE_STREAMS" {
				value = strings.ReplaceAll(value, "$", secret)
			}
			environ = append(environ, name+"="+value)
		}
		cfg, err := Load(environ, &Redactor{})
		if err == nil {
			if len(cfg.Streams) == 0 || cfg.Sources[0].Scheme == "" || cfg.Sink.Scheme == "" || cfg.CheckpointPath == "" {
				t.Fatalf("accepted without what is required: %+v", cfg)
			}
			return
		}
		wrong, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%T: %v", err, err)
		}
		lines := strings.Split(wrong.Error(), "\n")[1:]
		if len(lines) != len(wrong.Faults) {
			t.Errorf("%d lines for %d faults: %v", len(lines), len(wrong.Faults), err)
		}
		for _, fault := range lines {
			if !line.MatchString(fault) {
				t.Errorf("no variable is named by %q", fault)
			}
			if strings.Contains(fault, canary) {
				t.Errorf("a secret in %q", fault)
			}
		}
	})
}
