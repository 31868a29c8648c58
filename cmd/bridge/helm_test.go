package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// None of these tests is parallel, but for subtests of one: until a program is executed, the child
// has the files of this process, and with them the locks of servers that other tests run here.

var update = flag.Bool("update", false, "write the manifests below deploy")

const (
	updateManifests = "go test ./cmd/bridge -run Helm -update"
	chart           = top + "deploy/helm/bridge"
)

// manifests are made from the chart with the values of an example.
var manifests = map[string]string{"deploy/kubernetes.yaml": "sidecar", "deploy/kubernetes-standby.yaml": "standby", "deploy/kubernetes-shares.yaml": "shares"}

func example(t *testing.T, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(top + "deploy/helm/examples/" + name + ".yaml"))(t)
	return path
}

// kubernetesVersion is the one that charts are rendered for and manifests are compared with.
const kubernetesVersion = "1.31"

func helm(t *testing.T, dir string, args ...string) ([]byte, error) {
	t.Helper()
	home := t.TempDir()
	program := testenv.Cached("bin", "helm")
	_, err := os.Stat(program)
	return testenv.Foreign{
		Name: "helm", Missing: err, Args: append([]string{program}, args...), Dir: dir,
		Env: []string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home},
	}.Try(t)
}

func helmTemplate(t *testing.T, chart, release string, args ...string) ([]byte, error) {
	t.Helper()
	return helm(t, chart, append([]string{"template", release, ".", "--kube-version", kubernetesVersion + ".0"}, args...)...)
}

func render(t *testing.T, args ...string) string {
	t.Helper()
	text := must.Get(helmTemplate(t, chart, "bridge", args...))(t)
	return string(text)
}

var helmSource = regexp.MustCompile(`(?m)^# Source: .*\n`)

func TestHelmMakesTheManifests(t *testing.T) {
	if _, err := helm(t, chart, "lint", "--strict", "--quiet", "."); err != nil {
		t.Error(err)
	}
	for file, name := range manifests {
		values := must.Get(os.ReadFile(example(t, name)))(t)
		intro, _, _ := strings.Cut(string(values), "\n\n")
		rendered := strings.TrimPrefix(helmSource.ReplaceAllString(render(t, "-f", example(t, name)), ""), "---\n")
		want := intro + "\n#\n# Made from the chart by `" + updateManifests + "`, with the values of deploy/helm/examples/" + name + ".yaml.\n" + rendered
		if *update {
			must.OK(t, os.WriteFile(top+file, []byte(want), 0o644))
		}
		if got := page(t, file); got != want {
			t.Errorf("%s is not what the chart says: run %s", file, updateManifests)
		}
	}
}

var helmCases = map[string][]string{
	"as it is, with a secret that exists": {"--set", "secrets.create=false,secrets.name=mine"},
	"all that there is": {
		"--set", "monitor.enabled=true,rules.enabled=true,dashboard.enabled=true,networkPolicy.enabled=true,serviceAccount.create=true",
		"--set", "http.token.secret=token,http.tls.secret=tls,http.tls.ca=true,monitor.tlsConfig.insecureSkipVerify=true",
		"--set", "standby.timeout=20s,replicas=3,standby.group=all,priorityClassName=high,nodeSelector.disk=ssd,podLabels.team=a,podAnnotations.note=b",
		"--set", "imagePullSecrets[0].name=pull,tolerations[0].operator=Exists,image.tag=v1,http.port=9090,http.token.key=value",
		"--set", "networkPolicy.from[0].podSelector.matchLabels.app=prometheus,networkPolicy.egress[0].ports[0].port=9092",
		"--set", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
		"--set", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
	},
	"a service monitor, and a volume of a class": {"--set", "monitor.enabled=true,monitor.kind=ServiceMonitor,workload=statefulset,checkpoint.storageClass=fast"},
	"without probes, annotations and files":      {"--set", "probes.liveness.enabled=false,probes.readiness.enabled=false,scrapeAnnotations=false,secrets.create=false,secrets.variables=null,env.BRIDGE_KAFKA_SASL_MECHANISM=null,env.BRIDGE_KAFKA_SASL_USERNAME=null"},
	"no workload":                                {"--set", "workload=none,rules.enabled=true"},
	"numbers and flags as variables":             {"--set", "env.BRIDGE_STREAM_ORDERS_BATCH_ROWS=1000,env.BRIDGE_MAX_INFLIGHT_BYTES=32000000,env.BRIDGE_SERVE=true,env.OTEL_SERVICE_NAME=shop"},
}

func TestHelmRendersWhatKubernetesTakes(t *testing.T) {
	for name, args := range helmCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustBeStrict(t, render(t, append([]string{"-f", example(t, "standby"), "--set", "standby.group=,replicas=1"}, args...)...))
		})
	}
	for file := range manifests {
		t.Run(file, func(t *testing.T) { t.Parallel(); mustBeStrict(t, page(t, file)) })
	}
}

// mustBeStrict fails the test where Kubernetes or the Prometheus operator would not take a document
// or a field of it, or bridge a variable.
func mustBeStrict(t *testing.T, text string) {
	t.Helper()
	var core []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(document, "apiVersion: monitoring.coreos.com/v1\n") {
			mustBeOperators(t, document)
			continue
		}
		core = append(core, document)
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	must.OK(t, os.WriteFile(file, []byte(strings.Join(core, "\n---\n")), 0o600))
	// No further field is allowed.
	if _, err := testenv.Fetched("kubernetes-validate", "python-kubernetes", "bin/kubernetes-validate", "--strict", "-k", kubernetesVersion, file).Try(t); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, one := range parse(t, text) {
		for _, container := range one.get("spec", "template", "spec").list("containers") {
			if container.text("name") == "bridge" {
				mustKnowVariables(t, container)
			}
		}
	}
}

// mustKnowVariables loads the configuration of a container, with a file for each secret.
func mustKnowVariables(t *testing.T, container tree) {
	t.Helper()
	env, certs := imageEnv(t), testenv.NewCerts(t)
	for _, variable := range container.list("env") {
		name, value := variable.text("name"), variable.text("value")
		switch {
		case name == "BRIDGE_HTTP_TLS_CERT":
			value = certs.ServerCert
		case name == "BRIDGE_HTTP_TLS_KEY":
			value = certs.ServerKey
		case name == "BRIDGE_HTTP_TLS_CA":
			value = certs.CA
		case strings.HasSuffix(name, "_FILE"):
			file := filepath.Join(t.TempDir(), "secret")
			must.OK(t, os.WriteFile(file, []byte("mysql://bridge:secret@db.example:3306/shop"), 0o600))
			value = file
		}
		env[name] = strings.ReplaceAll(value, "$(POD_INDEX)", "0")
	}
	if env["BRIDGE_SOURCE_URL_FILE"] == "" {
		env["BRIDGE_SOURCE_URL"] = "mysql://bridge:secret@db.example:3306/shop"
	}
	load(t, env)
}

// operatorFields are those of the resources of the Prometheus operator that the chart uses, without
// the names of labels and annotations.
var operatorFields = regexp.MustCompile(`^(apiVersion|kind|metadata\.(name|labels)|spec\.(selector\.matchLabels` +
	`|(podMetricsEndpoints|endpoints)\.(port|path|scheme|interval|scrapeTimeout|tlsConfig|relabelings\.(targetLabel|replacement))` +
	`|groups\.(name|rules\.(alert|expr|for|labels|annotations))))$`)

func mustBeFields(t *testing.T, at string, value any) {
	t.Helper()
	if operatorFields.MatchString(at) {
		return
	}
	switch value := value.(type) {
	case tree:
		for name, inner := range value {
			mustBeFields(t, strings.TrimPrefix(at+"."+name, "."), inner)
		}
	case []any:
		for _, inner := range value {
			mustBeFields(t, at, inner)
		}
	default:
		t.Errorf("the Prometheus operator has no field %s", at)
	}
}

func mustBeOperators(t *testing.T, document string) {
	t.Helper()
	o := parse(t, document)[0]
	mustBeFields(t, "", o)
	switch spec := o.get("spec"); o.text("kind") {
	case "PodMonitor", "ServiceMonitor":
		list := map[string]string{"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}[o.text("kind")]
		endpoints := spec.list(list)
		if len(spec) != 2 || len(endpoints) != 1 || endpoints[0].text("port") != "bridge" ||
			!strings.HasPrefix(endpoints[0].list("relabelings")[0].text("replacement"), "bridge/") {
			t.Errorf("%s", document)
		}
	case "PrometheusRule":
		if groups := spec.list("groups"); len(groups) != 1 || len(groups[0].list("rules")) < 20 {
			t.Errorf("the rules %s", document)
		}
	default:
		t.Errorf("the kind %s", o.text("kind"))
	}
}

func TestHelmRulesLeadToTheRunbookThatIsGiven(t *testing.T) {
	text := render(t, "--set", "rules.enabled=true,rules.runbook=https://wiki.example/bridge", "--show-only", "templates/rules.yaml")
	if !strings.Contains(text, "runbook_url: https://wiki.example/bridge#lag-grows") || strings.Contains(text, "docs/operations.md") {
		t.Error(text)
	}
	_, spec, _ := strings.Cut(text, "\nspec:\n")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(regexp.MustCompile(`(?m)^  `).ReplaceAllString(spec, "")), 0o600))
	if _, err := testenv.Promtool(dir, "check", "rules", "rules.yaml").Try(t); err != nil {
		t.Error(err)
	}
}

// TestHelmSidecarOfAnotherChart renders a chart that has this one as a dependency.
func TestHelmSidecarOfAnotherChart(t *testing.T) {
	snippet := regexp.MustCompile("(?s)```yaml\n# templates/deployment.yaml\n(.*?)```").FindStringSubmatch(page(t, "deploy/helm/bridge/README.md"))
	values := regexp.MustCompile("(?s)```yaml\n# values.yaml\n(.*?)```").FindStringSubmatch(page(t, "deploy/helm/bridge/README.md"))
	if snippet == nil || values == nil {
		t.Fatal("README.md of the chart has no snippet")
	}
	parent := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(parent, name)
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
	write("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: bridge, version: 0.1.0}]\n")
	write("values.yaml", values[1])
	write("templates/deployment.yaml", snippet[1])
	must.OK(t, os.CopyFS(filepath.Join(parent, "charts", "bridge"), os.DirFS(chart)))
	text := must.Get(helmTemplate(t, parent, "shop"))(t)
	mustBeStrict(t, string(text))
	if n := bytes.Count(text, []byte("kind: Deployment")); n != 1 || !bytes.Contains(text, []byte("name: shop-application")) || !bytes.Contains(text, []byte("/etc/bridge/secrets/source-url")) {
		t.Errorf("%d workloads\n%s", n, text)
	}
}

func parse(t *testing.T, text string) (all []tree) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var one tree
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		all = append(all, one)
	}
}

// TestHelmValues has arguments for helm, a template and words of it, with the rendered lines that
// have one of the words, or the refusal. What a person reads behind an install is a template, too.
func TestHelmValues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bridge")
	const shown = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: notes }\ndata:\n  notes: |\n    {{- tpl (.Files.Get \"NOTES\") . | nindent 4 }}\n"
	must.OK(t, errors.Join(os.CopyFS(dir, os.DirFS(chart)), os.Rename(filepath.Join(dir, "templates/NOTES.txt"), filepath.Join(dir, "NOTES")),
		os.WriteFile(filepath.Join(dir, "templates/notes.yaml"), []byte(shown), 0o600)))
	configtest.Recorded(t, "testdata/helm.txt", *update, func(t *testing.T, input []string) (said string) {
		template, words, _ := strings.Cut(input[1], ": ")
		text, err := helmTemplate(t, dir, "shop", append(strings.Fields(input[0]), "--show-only", "templates/"+template)...)
		if err != nil {
			text = []byte(err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(strings.Split(words, " | "), func(word string) bool { return strings.Contains(line, word) }) {
				said += strings.TrimSpace(line) + "\n"
			}
		}
		for _, command := range regexp.MustCompile(`/bridge (\w+)`).FindAllStringSubmatch(string(text), -1) {
			mustCall(t, nil, exitFine, "", "help "+command[1])
		}
		return said
	})
}
