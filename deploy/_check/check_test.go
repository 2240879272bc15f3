// Package check renders and checks what is in deploy, with the libraries of the programs that will read it. It is a module of its
// own, because those libraries are large: `make deploy-check` runs it.
package check

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/rulefmt"
	promparser "github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("../helm/weir")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart with values in YAML, as helm template does.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	c := load(t)
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "r", Namespace: "llm", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// objects decodes what was rendered, strictly: an unknown member, a member that is there twice and a wrong type are errors. Objects
// of the Prometheus operator, which the library does not know, are only read as YAML.
func objects(t *testing.T, rendered map[string]string) (known []runtime.Object, others []map[string]any) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for name, text := range rendered {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		for doc := range strings.SplitSeq(text, "\n---\n") {
			var any map[string]any
			if err := sigsyaml.UnmarshalStrict([]byte(doc), &any); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if len(any) == 0 {
				continue
			}
			if strings.HasPrefix(any["apiVersion"].(string), "monitoring.coreos.com/") {
				others = append(others, any)
				continue
			}
			o, _, err := decoder.Decode([]byte(doc), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			known = append(known, o)
		}
	}
	return known, others
}

// full sets every value that is not set by default.
const full = `
replicas: 4
image: {repository: example.org/weir, tag: "1", pullPolicy: Always, pullSecrets: [{name: pull}]}
model: /models/qwen
flags: {max-num-seqs: 64, dtype: bfloat16, enable-prefix-caching: true, api-key: [a, b]}
env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]
credentials: "keys: []\n# end\n"
resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}}
persistence: {enabled: true, size: 1Ti, storageClass: fast, accessModes: [ReadWriteOncePod]}
volumes: [{name: models, persistentVolumeClaim: {claimName: models, readOnly: true}}]
volumeMounts: [{name: models, mountPath: /models, readOnly: true}]
service: {type: LoadBalancer, port: 80, annotations: {a: b}}
serviceMonitor: {enabled: true, interval: 5s, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {team: x}}}]}
podAnnotations: {c: d}
podLabels: {e: f}
nodeSelector: {gpu: h200}
tolerations: [{key: nvidia.com/gpu, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
priorityClassName: high
runtimeClassName: nvidia
`

// TestChart: the chart renders to objects that Kubernetes takes, with the default values and with all of them set.
func TestChart(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		known  int
		others int
	}{
		"default":                   {"", 6, 0},
		"everything":                {full, 8, 2},
		"nothing kept, own account": {"persistence: {enabled: false}\npodDisruptionBudget: {enabled: false}\nserviceAccount: {name: mine}\nexistingCredentialsSecret: keys", 4, 0},
	} {
		rendered, err := render(t, c.values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		known, others := objects(t, rendered)
		if len(known) != c.known || len(others) != c.others {
			t.Errorf("%s: %d and %d objects, want %d and %d", name, len(known), len(others), c.known, c.others)
		}
	}
}

// pod renders values and returns the container and the configuration of its flags.
func pod(t *testing.T, values string) (set *appsv1.StatefulSet, config string) {
	t.Helper()
	rendered, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	known, _ := objects(t, rendered)
	for _, o := range known {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			set = o
		case *corev1.ConfigMap:
			config = o.Data["weir.yaml"]
		}
	}
	return set, config
}

// TestChartPods: what the values mean for the pods.
func TestChartPods(t *testing.T) {
	set, config := pod(t, full)
	spec := set.Spec.Template.Spec
	if *set.Spec.Replicas != 4 || *spec.TerminationGracePeriodSeconds != 15+120+10 || len(set.Spec.VolumeClaimTemplates) != 1 || spec.Containers[0].Image != "example.org/weir:1" {
		t.Errorf("%+v", set.Spec)
	}
	var flags map[string]any
	if err := yaml.Unmarshal([]byte(config), &flags); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"model": "/models/qwen", "max-num-seqs": 64, "host": "0.0.0.0", "drain-delay": "15s", "shutdown-timeout": "120s", "credentials": "/etc/weir/credentials/credentials.yaml"} {
		if flags[name] != want {
			t.Errorf("%s: %v, want %v", name, flags[name], want)
		}
	}
	other, _ := pod(t, full+"\ndrainSeconds: 5")
	if a, b := set.Spec.Template.Annotations["checksum/config"], other.Spec.Template.Annotations["checksum/config"]; a == b || a == "" {
		t.Errorf("a change of flags does not replace the pods: %q, %q", a, b)
	}
	other, _ = pod(t, strings.Replace(full, "keys: []", "keys:  []", 1))
	if a, b := set.Spec.Template.Annotations["checksum/config"], other.Spec.Template.Annotations["checksum/config"]; a != b {
		t.Error("a change of keys replaces the pods, which read the file again by themselves")
	}
}

// TestChartRefuses: values that cannot be are errors, with their names.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 2":                                  "replica",
		"replicas: many":                              "replicas",
		"flags: {port: 80}":                           "port",
		"flags: {Max: 80}":                            "Max",
		"image: {repository: \"\", tag: x}":           "repository",
		"persistence: {size: big}":                    "size",
		"service: {type: Internet}":                   "type",
		"persistence: {accessModes: [ReadWriteMany]}": "accessModes",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// TestAlerts: Prometheus takes the alert rules, and the chart has the same ones.
func TestAlerts(t *testing.T) {
	text := read(t, "../prometheus/alerts.yaml")
	groups, errs := rulefmt.Parse([]byte(text), false, model.UTF8Validation, promparser.NewParser(promparser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	rules := 0
	for _, g := range groups.Groups {
		rules += len(g.Rules)
	}
	if rules < 5 {
		t.Errorf("%d rules", rules)
	}
	if read(t, "../helm/weir/files/alerts.yaml") != text {
		t.Error("deploy/helm/weir/files/alerts.yaml is not deploy/prometheus/alerts.yaml: copy it")
	}
	for _, file := range []string{"../prometheus/prometheus.yaml", "../compose/prometheus.yaml"} {
		if _, err := config.Load(read(t, file), slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestCompose: the compose file is one, its files exist, and it wants a key.
func TestCompose(t *testing.T) {
	loadFile := func(env ...string) error {
		o, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithEnv(env))
		if err != nil {
			return err
		}
		p, err := o.LoadProject(context.Background())
		if err != nil {
			return err
		}
		if len(p.Services) != 6 {
			t.Errorf("%d services", len(p.Services))
		}
		for _, s := range p.Services {
			for _, v := range s.Volumes {
				if v.Type != "bind" {
					continue
				}
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
			}
		}
		return nil
	}
	if err := loadFile("WEIR_API_KEY=k"); err != nil {
		t.Error(err)
	}
	if err := loadFile(); err == nil || !strings.Contains(err.Error(), "set a key that clients send") {
		t.Errorf("without a key: %v", err)
	}
}

// TestContainerfile: the container file is parsed without a warning, copies only files that exist, and its last stage is not root's.
func TestContainerfile(t *testing.T) {
	text := read(t, "../../Containerfile")
	res, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range res.Warnings {
		t.Errorf("%s", w.Short)
	}
	stage, user := 0, ""
	for _, n := range res.AST.Children {
		switch strings.ToLower(n.Value) {
		case "from":
			stage, user = stage+1, ""
		case "user":
			user = n.Next.Value
		case "copy":
			if len(n.Flags) > 0 && strings.HasPrefix(n.Flags[0], "--from") {
				continue
			}
			for at := n.Next; at.Next != nil; at = at.Next {
				if _, err := os.Stat(filepath.Join("../..", at.Value)); err != nil {
					t.Errorf("COPY %s: %v", at.Value, err)
				}
			}
		}
	}
	if stage != 2 || user == "" || user == "root" || strings.HasPrefix(user, "0") {
		t.Errorf("%d stages, user %q", stage, user)
	}
}
