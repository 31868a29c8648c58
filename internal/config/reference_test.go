package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/driver/mysql"
	"example.org/bridge/tests/must"
)

var update = flag.Bool("update", false, "write the reference files")

// exampleSource and exampleStream are those of config.example.env.
const (
	exampleSource = "a"
	exampleStream = "orders"
)

const updateCommand = "go test ./internal/config -run Reference -update"

var groupNotes = map[string]string{
	"Defaults for all streams": "A stream overrides them by a variable of its own: BRIDGE_STREAM_ORDERS_POLL_INTERVAL for the stream orders.",
	"Kafka":                    "For the sink kafka: only. With another sink they are checked, and a warning says that they have no effect.",
	"NATS JetStream":           "For the sink nats: only, the first two also for embedded:. Log in by BRIDGE_SINK_URL, NATS_CREDS or NATS_NKEY.",
	sourceGroup:                "The name is that in BRIDGE_SOURCES, in upper case and with _ for -.",
	streamGroup:                "The name is that in BRIDGE_STREAMS, in upper case. If several stream names fit a variable, the longest one wins.",
	overrideGroup:              "They override the variables for all streams.",
}

// exampleFile renders config.example.env: what is required is set, everything else stands as a
// comment with its default, or an example where it has none.
func exampleFile() string {
	var b strings.Builder
	b.WriteString("# All variables of bridge, for one stream named " + exampleStream + ". Required ones are set; the others are\n" +
		"# comments with their default, or with an example (\"e.g.\") if they have none. An empty variable counts as not\n" +
		"# set. Durations and sizes have a unit: 200ms, 10s, 30m, 24h; 64KiB, 32MiB, 1GiB. Name your copy with\n" +
		"# --env-file or BRIDGE_ENV_FILE. Written by `" + updateCommand + "`.\n")
	group := ""
	for _, v := range allVariables(exampleSource, exampleStream) {
		if v.group != group {
			group = v.group
			fmt.Fprintf(&b, "\n# ==== %s ====\n", group)
			if note := groupNotes[group]; note != "" {
				fmt.Fprintf(&b, "# %s\n", note)
			}
		}
		b.WriteString("\n")
		for _, line := range wrap(v.Meaning(), 98) {
			b.WriteString("# " + line + "\n")
		}
		switch {
		case v.required:
			fmt.Fprintf(&b, "%s=%s\n", v.Name, v.example)
		case v.def != "":
			fmt.Fprintf(&b, "#%s=%s\n", v.Name, v.def)
		case v.group == overrideGroup:
			fmt.Fprintf(&b, "#%s=\n", v.Name)
		default:
			fmt.Fprintf(&b, "# e.g. %s=%s\n", v.Name, v.exampleOrFirst())
		}
	}
	return b.String()
}

func (v *Variable) exampleOrFirst() string {
	if v.example == "" && v.oneOf != nil {
		return v.oneOf[0]
	}
	return v.example
}

// referencePage renders docs/configuration.md from what it says before its first table.
func referencePage(t *testing.T) string {
	page := must.Get(os.ReadFile("../../docs/configuration.md"))(t)
	intro, _, _ := strings.Cut(string(page), "\n## "+Variables()[0].group+"\n")
	var b strings.Builder
	b.WriteString(intro)
	group, all := "", Variables()
	for i, v := range all {
		if v.group == overrideGroup || v.isFile() {
			continue
		}
		if v.group != group {
			group = v.group
			fmt.Fprintf(&b, "\n## %s\n\n", group)
			if note := groupNotes[group]; note != "" {
				fmt.Fprintf(&b, "%s\n\n", note)
			}
			b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
		}
		meaning := v.Meaning()
		if v.example != "" {
			meaning += " Example: `" + v.example + "`"
		}
		name := "`" + v.Name + "`"
		if i+1 < len(all) && all[i+1].isFile() {
			name += ", `…" + fileSuffix + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, code(v), strings.ReplaceAll(meaning, "<", "&lt;"))
	}
	return b.String()
}

// isFile reports whether a variable names the file of a secret that has a variable, too.
func (v *Variable) isFile() bool { return strings.HasPrefix(v.doc, "File that holds ") }

func code(v Variable) string {
	if v.def == "" || v.required {
		return v.Fallback()
	}
	return "`" + v.def + "`"
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

func TestReferenceFiles(t *testing.T) {
	for name, want := range map[string]string{"config.example.env": exampleFile(), "docs/configuration.md": referencePage(t)} {
		path := filepath.Join("..", "..", name)
		if *update {
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.OK(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got := must.Get(os.ReadFile(path))(t)
		if string(got) != want {
			t.Errorf("%s is not what the code says: run %s", name, updateCommand)
		}
	}
}

// exampleValues returns the variables of config.example.env, by whether they are set, defaults or
// examples.
func exampleValues() (set, defaults, examples map[string]string) {
	set, defaults, examples = map[string]string{}, map[string]string{}, map[string]string{}
	for _, v := range allVariables(exampleSource, exampleStream) {
		switch {
		case v.required:
			set[v.Name] = v.example
		case v.def != "" || v.group == overrideGroup:
			defaults[v.Name] = v.def
		default:
			examples[v.Name] = v.exampleOrFirst()
		}
	}
	return set, defaults, examples
}

func TestReferenceExample(t *testing.T) {
	set, defaults, examples := exampleValues()
	t.Run("has every variable that the code reads, and no other", func(t *testing.T) {
		var read []string
		type settingsIn struct {
			prefix string
			in     any
		}
		all := []settingsIn{
			{prefix, &endSettings{}}, {prefix, &Process{}}, {prefix, &Tuning{}},
			{"BRIDGE_SOURCE_A_", &sourceSettings{}}, {"BRIDGE_STREAM_ORDERS_", &streamSettings{}}, {"BRIDGE_STREAM_ORDERS_", &Tuning{}},
		}
		for _, ofBus := range NewDrivers().settings() {
			all = append(all, settingsIn{prefix, ofBus.Fields})
		}
		for _, settings := range all {
			params := must.Get(env.GetFieldParamsWithOptions(settings.in, env.Options{Prefix: settings.prefix}))(t)
			for _, p := range params {
				read = append(read, p.Key)
				if got := defaults[p.Key]; got != p.DefaultValue && settings.prefix == prefix {
					t.Errorf("%s has the default %q in the file, %q in the code", p.Key, got, p.DefaultValue)
				}
			}
		}
		for _, secret := range []string{"SOURCE_URL", "SOURCE_A_URL", "SINK_URL", "HTTP_TOKEN", "MASK_KEY", "KAFKA_SASL_PASSWORD", "KAFKA_SASL_TOKEN", "NATS_CREDS", "NATS_NKEY"} {
			read = append(read, prefix+secret+fileSuffix)
		}
		var written []string
		for _, v := range allVariables(exampleSource, exampleStream) {
			written = append(written, v.Name)
		}
		slices.Sort(read)
		slices.Sort(written)
		if !slices.Equal(read, written) {
			t.Errorf("the file has\n%v, the code reads\n%v", written, read)
		}
	})
	t.Run("is a right configuration as it stands, and the same with its defaults written out", func(t *testing.T) {
		file, warnings, err := WithFile(nil, "../../config.example.env")
		if got := parseEnvironment(file); err != nil || len(warnings) > 0 || !maps.Equal(got, set) {
			t.Errorf("the file sets %v, want %v: %v", got, set, err)
		}
		as := load(t, set)
		written := settingsOf{}
		maps.Copy(written, set)
		maps.Copy(written, defaults)
		out := load(t, written)
		for _, w := range out.Warnings {
			if !strings.HasPrefix(w.Variable, "BRIDGE_NATS_") {
				t.Errorf("warning of %s: %s", w.Variable, w.Text)
			}
		}
		out.Warnings = nil
		// Functions cannot be compared.
		for _, cfg := range []*Config{as, out} {
			cfg.Sources[0].Opener.(*mysql.Opener).Options.Password, cfg.Sink.Destinations = nil, driver.Destinations{}
			cfg.limits, cfg.others = "", ""
		}
		if !reflect.DeepEqual(out, as) {
			t.Errorf("%+v\n%+v", out, as)
		}
	})
	t.Run("has examples that are right", func(t *testing.T) {
		for name, value := range examples {
			if strings.Contains(name, "TLS") || strings.Contains(name, "SASL") || strings.HasSuffix(name, fileSuffix) || strings.HasSuffix(name, "CREDS") || strings.HasSuffix(name, "NKEY") {
				continue
			}
			env := settingsOf{}
			maps.Copy(env, set)
			env[name] = value
			switch name {
			case "BRIDGE_SOURCES":
				env["BRIDGE_STREAM_ORDERS_TABLE"] += ",a/t,b/t"
				env["BRIDGE_SOURCE_A_URL"], env["BRIDGE_SOURCE_B_URL"] = set["BRIDGE_SOURCE_URL"], set["BRIDGE_SOURCE_URL"]
			case "BRIDGE_SOURCE_A_URL":
				env["BRIDGE_SOURCES"], env["BRIDGE_STREAM_ORDERS_TABLE"] = "a", env["BRIDGE_STREAM_ORDERS_TABLE"]+",a/t"
			case "BRIDGE_SHARE":
				env["BRIDGE_CHECKPOINT_URL"] = "bus:"
			case "BRIDGE_STREAM_ORDERS_STALE_AFTER":
				env["BRIDGE_STREAM_ORDERS_MODIFIED"] = "gmt_modified"
			case "BRIDGE_STREAM_ORDERS_FIELDS":
				env["BRIDGE_STREAM_ORDERS_KEY"] = "order_no"
			case "BRIDGE_STREAM_ORDERS_PAYLOAD", "BRIDGE_STREAM_ORDERS_HEADERS", "BRIDGE_STREAM_ORDERS_DESTINATIONS":
				env["BRIDGE_STREAM_ORDERS_PAYLOAD"], env["BRIDGE_STREAM_ORDERS_KIND"], env["BRIDGE_STREAM_ORDERS_DEAD_LETTER"] = "payload", "release", "dead"
				if strings.HasSuffix(name, "DESTINATIONS") {
					env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "orders.{column:type}"
				}
			}
			load(t, env)
		}
	})
}

func TestReferenceTags(t *testing.T) {
	for _, v := range allVariables("x", "x") {
		if v.doc == "" {
			t.Errorf("%s has no doc", v.Name)
		}
		if v.min == "" {
			continue
		}
		for _, bound := range []string{v.min, v.max} {
			if n := v.bound(bound); n == 0 && strings.Trim(bound, "0s") != "" {
				t.Errorf("%s has the bound %q, which cannot be parsed", v.Name, bound)
			}
		}
		if _, isDuration := v.value.Interface().(time.Duration); isDuration && v.bound(v.min) > v.bound(v.max) {
			t.Errorf("%s has bounds in the wrong order", v.Name)
		}
	}
}

// changed returns the minimal environment with variables of a recording set otherwise.
func changed(lines []string) settingsOf {
	env := minimal()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		env[name] = value
	}
	return env
}

// TestFaults has configurations that are wrong or unwise, by what they change of a right one, with
// all that is said of them.
func TestFaults(t *testing.T) {
	configtest.Recorded(t, "testdata/faults.txt", *update, func(t *testing.T, input []string) string {
		cfg, err := Load(changed(input).Environ(), &Redactor{})
		if err != nil {
			return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "the configuration is wrong:\n"), "\n  ", "\n")[2:]
		}
		said := "fine\n"
		for _, w := range cfg.Warnings {
			said += fmt.Sprintf("warning: %s %s\n", w.Variable, w.Text)
		}
		return said
	})
}
