package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// The files that run bridge in containers are compared with the configuration, because no test
// starts an engine.

const top = "../../"

// tree is a YAML document; get and list return an empty one where there is nothing.
type tree map[string]any

func (t tree) get(keys ...string) tree {
	for _, key := range keys {
		t, _ = t[key].(tree)
	}
	return t
}

func (t tree) list(key string) (all []tree) {
	items, _ := t[key].([]any)
	for _, item := range items {
		one, _ := item.(tree)
		all = append(all, one)
	}
	return all
}

func (t tree) text(key string) string {
	text, _ := t[key].(string)
	return text
}

func documents(t *testing.T, file string) []tree {
	t.Helper()
	text := must.Get(os.ReadFile(top + file))(t)
	return parse(t, string(text))
}

func imageEnv(t *testing.T) settingsOf {
	t.Helper()
	text := must.Get(os.ReadFile(top + "Dockerfile"))(t)
	env := settingsOf{}
	for _, word := range strings.Fields(string(text)) {
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "BRIDGE_") {
			env[name] = value
		}
	}
	if len(env) == 0 {
		t.Fatal("the Dockerfile sets no variable")
	}
	return env
}

// mustBeAnywhere fails the test unless an image is named without the host of a registry.
func mustBeAnywhere(t *testing.T, image string) {
	t.Helper()
	if first, _, ok := strings.Cut(image, "/"); image == "" || ok && strings.ContainsAny(first, ".:") {
		t.Errorf("image %q", image)
	}
}

func TestComposeFile(t *testing.T) {
	services := documents(t, "compose.yaml")[0].get("services")
	bridges := 0
	for name, service := range services {
		service, _ := service.(tree)
		mustBeAnywhere(t, service.text("image"))
		if service["build"] == nil {
			continue
		}
		bridges++
		env := imageEnv(t)
		for variable, value := range service.get("environment") {
			text, ok := value.(string)
			if !ok {
				t.Errorf("%s: %s is not text", name, variable)
			}
			env[variable] = text
		}
		volumes, _ := service["volumes"].([]any)
		_, volume, _ := strings.Cut(volumes[0].(string), ":")
		cfg := load(t, env)
		if len(cfg.Warnings) > 0 || path.Dir(cfg.CheckpointPath) != volume {
			t.Errorf("%s: the checkpoint is %s, the volume %s; warnings: %v", name, cfg.CheckpointPath, volume, cfg.Warnings)
		}
		needed := slices.Collect(maps.Keys(service.get("depends_on")))
		for _, host := range slices.Concat(needed, cfg.Sink.Servers) {
			if host, _, _ := strings.Cut(host, ":"); services[host] == nil {
				t.Errorf("%s: no service %s", name, host)
			}
		}
	}
	if bridges != 2 {
		t.Errorf("%d bridges", bridges)
	}
}

// TestKubernetesManifests: bridges without rights, with their secrets as files, the checkpoint on a
// volume, probes that ask for life and readiness, and a port for named peers alone. That the
// configuration is right TestHelmRendersWhatKubernetesTakes shows, and the rest the manifests
// themselves.
func TestKubernetesManifests(t *testing.T) {
	const rights = "map[allowPrivilegeEscalation:false capabilities:map[drop:[ALL]] readOnlyRootFilesystem:true " +
		"runAsGroup:65532 runAsNonRoot:true runAsUser:65532 seccompProfile:map[type:RuntimeDefault]]"
	for _, file := range []string{"deploy/kubernetes.yaml", "deploy/kubernetes-standby.yaml"} {
		byKind := make(map[string]tree)
		for _, one := range documents(t, file) {
			byKind[one.text("kind")] = one.get("spec")
		}
		set := byKind["StatefulSet"]
		if set == nil {
			set = byKind["Deployment"]
		}
		pod := set.get("template", "spec")
		containers := pod.list("containers")
		bridge := containers[slices.IndexFunc(containers, func(c tree) bool { return c.text("name") == "bridge" })]
		for _, container := range containers {
			mustBeAnywhere(t, container.text("image"))
		}
		mounts := map[string]string{}
		for _, mount := range bridge.list("volumeMounts") {
			mounts[mount.text("name")] = mount.text("mountPath")
		}
		env := imageEnv(t)
		for _, variable := range bridge.list("env") {
			name, value := variable.text("name"), variable.text("value")
			if folder := path.Dir(value); strings.HasSuffix(name, "_FILE") && (folder == "/" || folder != mounts["secrets"] && folder != mounts["token"]) {
				t.Errorf("%s: %s is in no volume of secrets", file, name)
			} else if strings.Contains(value, "secret") && !strings.HasSuffix(name, "_FILE") {
				t.Errorf("%s: %s shows a secret", file, name)
			}
			env[name] = value
		}
		if _, at, _ := strings.Cut(env["BRIDGE_CHECKPOINT_URL"], ":"); path.Dir(path.Clean(at)) != mounts["checkpoint"] {
			t.Errorf("%s: the checkpoint %s is not in %v", file, at, mounts)
		}
		if env["BRIDGE_STANDBY"] != "" && env["BRIDGE_HTTP_TOKEN_FILE"] == "" {
			t.Errorf("%s: a group without a token", file)
		}
		if got := fmt.Sprint(map[string]any(bridge.get("securityContext"))); got != rights || pod["automountServiceAccountToken"] != false ||
			pod.get("securityContext")["fsGroup"] != 65532 || pod.get("securityContext")["runAsNonRoot"] != true {
			t.Errorf("%s: %s, %v", file, got, pod.get("securityContext"))
		}
		ports := bridge.list("ports")
		if want := strings.TrimPrefix(imageEnv(t)["BRIDGE_HTTP_ADDR"], ":"); len(ports) != 1 || fmt.Sprint(ports[0]["containerPort"]) != want {
			t.Errorf("%s: ports %v, want %s", file, ports, want)
		}
		for probe, want := range map[string]string{"livenessProbe": "/livez", "readinessProbe": "/readyz"} {
			if get := bridge.get(probe, "httpGet"); get.text("path") != want || get.text("port") != ports[0].text("name") {
				t.Errorf("%s: %s %v", file, probe, get)
			}
		}
		// A policy holds for the whole pod: without a rule nobody would reach the application.
		policy := byKind["NetworkPolicy"]
		rules := policy.list("ingress")
		if !reflect.DeepEqual(policy.get("podSelector"), set.get("selector")) || len(rules) != len(containers) || len(rules[0].list("from")) == 0 ||
			rules[0].list("ports")[0]["port"] != ports[0]["containerPort"] {
			t.Errorf("%s: %v", file, policy)
		}
	}
}

func TestDockerfileRunsWhatThereIs(t *testing.T) {
	text := must.Get(os.ReadFile(top + "Dockerfile"))(t)
	for _, line := range strings.Split(string(text), "\n") {
		if _, list, ok := strings.Cut(line, "CMD ["); ok {
			words := strings.Split(strings.TrimRight(list, "]"), ", ")
			last := strings.Trim(words[len(words)-1], `"`)
			mustCall(t, nil, exitFine, "", "help "+last)
		}
	}
}

func page(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(top + file))(t)
	return string(text)
}

// TestEventsPageShowsTheGoldenEvents: each kind with its subject, and one of each other format.
func TestEventsPageShowsTheGoldenEvents(t *testing.T) {
	text := page(t, "docs/events.md")
	fence := "```"
	examples := regexp.MustCompile("(?s)<!-- (event/testdata/[a-z_/]+\\.golden\\.json) -->\n"+fence+"(?:json)?\n(.*?)"+fence).FindAllStringSubmatch(text, -1)
	types, others := "", 0
	for _, example := range examples {
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(example[2])); err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		if want := strings.TrimSpace(page(t, example[1])); strings.TrimSpace(got.String()) != want {
			t.Errorf("%s\ngot  %s\nwant %s", example[1], got.String(), want)
		}
		if strings.Count(example[1], "/") == 3 {
			others++
			continue
		}
		types += example[2]
		if subject := subjectOf(t, example[2]); !strings.Contains(text, example[0]+"\n\nOn NATS: `"+subject+"`\n") {
			t.Errorf("%s is not followed by its subject %s", example[1], subject)
		}
	}
	if blocks := strings.Count(text, fence+"json"); len(examples)-others != blocks || others != 2 {
		t.Errorf("%d of %d examples name their file, %d of other formats do", len(examples)-others, blocks, others)
	}
	for _, kind := range []string{"AddedEvent", "ModifiedEvent", "DeletedEvent", "TOMBSTONE", "ABSENT_IN_SNAPSHOT", "PublishedEvent"} {
		if !strings.Contains(types, kind) {
			t.Errorf("no example of an %s", kind)
		}
	}
}

func subjectOf(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Meta struct {
			Type   string
			Source struct{ DomainID string }
		}
	}
	must.OK(t, json.Unmarshal([]byte(body), &e))
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_DOMAIN_ID", e.Meta.Source.DomainID))
	return cfg.Route(&cfg.Streams[0], cfg.Streams[0].Tables[0])(&event.Event{Type: e.Meta.Type})
}

func TestEventsPageListsTheHeaders(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/events.md"), "## Headers")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := regexp.MustCompile("(?m)^\\| `([a-z-]+)`").FindAllStringSubmatch(table, -1)
	var want []string
	new(sink.Headers).Each(&sink.Message{Form: 1, Server: "s"}, func(name, _ string) {
		want = append(want, name)
		if name == sink.HeaderOrigin {
			want = append(want, sink.HeaderList)
		}
	})
	for i, name := range want {
		if i >= len(listed) || listed[i][1] != name {
			t.Fatalf("headers %v, want %v", listed, want)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("headers %v, want %v", listed, want)
	}
}

// TestLinksLeadToWhatThereIs: a link to a file names one that is there, and one to a section of a
// page a section that it has.
func TestLinksLeadToWhatThereIs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]+))?\)`)
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
	entries := must.Get(os.ReadDir(top + "docs"))(t)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".md") {
			pages = append(pages, "docs/"+entry.Name())
		}
	}
	there := make(map[string][]string)
	for _, from := range pages {
		for _, target := range link.FindAllStringSubmatch(page(t, from), -1) {
			to := from
			if target[1] != "" {
				to = path.Join(path.Dir(from), target[1])
			}
			if _, err := os.Stat(top + to); err != nil {
				t.Errorf("%s: %v", from, err)
				continue
			}
			if target[2] == "" || !strings.HasSuffix(to, ".md") {
				continue
			}
			if there[to] == nil {
				there[to] = sections(page(t, to))
			}
			if !slices.Contains(there[to], target[2]) {
				t.Errorf("%s links to %s#%s, which is not there", from, to, target[2])
			}
		}
	}
}

var (
	headings  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	anchorIDs = regexp.MustCompile(`<a id="([^"]+)">`)
)

// sections returns the anchors of a page: those of its headings and its own.
func sections(text string) (anchors []string) {
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, strings.ReplaceAll(noAnchors.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	for _, id := range anchorIDs.FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, id[1])
	}
	return anchors
}
