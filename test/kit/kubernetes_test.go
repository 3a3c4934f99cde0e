package kit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const manifests = "deploy/kubernetes/"

// decode reads a manifest into its type. A key that the type does not have is an error.
func decode[T any](t *testing.T, file string) (object T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(read(t, manifests+file)), &object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

// The manifests are objects of Kubernetes, fit together, and ask a worker what it answers.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	var list struct {
		APIVersion         string              `json:"apiVersion"`
		Kind               string              `json:"kind"`
		Namespace          string              `json:"namespace"`
		Resources          []string            `json:"resources"`
		ConfigMapGenerator []map[string]any    `json:"configMapGenerator"`
		Images             []map[string]string `json:"images"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, manifests+"kustomization.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	namespace := decode[core.Namespace](t, "namespace.yaml")
	migrate := decode[batch.Job](t, "migrate.yaml")
	deployment := decode[apps.Deployment](t, "deployment.yaml")
	disruptions := decode[policy.PodDisruptionBudget](t, "disruptions.yaml")
	network := decode[networking.NetworkPolicy](t, "network.yaml")
	if want := []string{"namespace.yaml", "migrate.yaml", "deployment.yaml", "disruptions.yaml", "network.yaml"}; !slices.Equal(list.Resources, want) {
		t.Errorf("resources %q: this test decodes %q", list.Resources, want)
	}
	if namespace.Name != list.Namespace || deployment.Kind != "Deployment" || deployment.APIVersion != "apps/v1" || migrate.Kind != "Job" ||
		disruptions.Kind != "PodDisruptionBudget" || disruptions.APIVersion != "policy/v1" ||
		network.Kind != "NetworkPolicy" || network.APIVersion != "networking.k8s.io/v1" {
		t.Error("kinds or names do not match")
	}
	pod := deployment.Spec.Template
	for key, value := range deployment.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value || disruptions.Spec.Selector.MatchLabels[key] != value || network.Spec.PodSelector.MatchLabels[key] != value {
			t.Errorf("label %s", key)
		}
		for _, spread := range pod.Spec.TopologySpreadConstraints {
			if spread.LabelSelector.MatchLabels[key] != value {
				t.Errorf("label %s of the spread over %s", key, spread.TopologyKey)
			}
		}
	}
	// While the database is away no pod is ready, and a node that is emptied must not wait for it.
	if policy := disruptions.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != "AlwaysAllow" {
		t.Error("a drained node waits until the database is back")
	}
	if limit := migrate.Spec.ActiveDeadlineSeconds; limit == nil || *limit < 600 {
		t.Error("the migration has no deadline, or too short a one")
	}
	var over []string
	for _, spread := range pod.Spec.TopologySpreadConstraints {
		over = append(over, spread.TopologyKey)
	}
	if !slices.Equal(over, []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}) {
		t.Errorf("pods are spread over %q", over)
	}
	// Only Prometheus may connect, and only to the port that the probes and it use.
	if in := network.Spec.Ingress; len(network.Spec.PolicyTypes) != 1 || len(in) != 1 || len(in[0].From) != 1 || in[0].From[0].NamespaceSelector == nil ||
		len(in[0].Ports) != 1 || in[0].Ports[0].Port.StrVal != pod.Spec.Containers[0].Ports[0].Name {
		t.Errorf("the network policy lets in %+v", in)
	}
	if migrate.Spec.Template.Labels["app.kubernetes.io/component"] == pod.Labels["app.kubernetes.io/component"] {
		t.Error("the budget counts the pod that migrates")
	}
	configuration := read(t, manifests+"worker.yaml")
	graceful(t, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second, configuration)
	for _, spec := range []core.PodSpec{pod.Spec, migrate.Spec.Template.Spec} {
		c := spec.Containers[0]
		if !*spec.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") {
			t.Errorf("%s: not restricted", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("no volume %s", m.Name)
			}
		}
		if c.Image != list.Images[0]["name"] {
			t.Errorf("image %s", c.Image)
		}
	}
	if pod.Spec.Volumes[0].ConfigMap.Name != list.ConfigMapGenerator[0]["name"] {
		t.Error("the pods have another configuration")
	}

	// The worker as the pod has it, on a database that is here.
	c := pod.Spec.Containers[0]
	config := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, nil, "validate", "--config", config); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := regexp.MustCompile(`(?m)^  address: ":(\d+)"$`).FindStringSubmatch(configuration)
	if port == nil || port[1] != "8080" || c.Ports[0].ContainerPort != 8080 || pod.Annotations["prometheus.io/port"] != port[1] {
		t.Errorf("the worker listens on %q, and the pod has %+v", port, c.Ports)
	}
	local := regexp.MustCompile(`(?m)^database: .*$`).ReplaceAllString(configuration, "database: sqlite:"+filepath.Join(filepath.Dir(config), "lease.db"))
	if err := os.WriteFile(config, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.Replace(strings.Join(c.Args, "\n"), "/etc/cronlease/worker.yaml", config, 1), "\n")
	r := start(t, nil, args...)
	for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("port %v", probe.HTTPGet.Port)
		}
		eventually(t, probe.HTTPGet.Path+" is good", func() bool { status, _ := r.get(probe.HTTPGet.Path); return status == 200 })
	}
	if status, _ := r.get(pod.Annotations["prometheus.io/path"]); status != 200 {
		t.Errorf("metrics: %d", status)
	}
	r.stop(time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second)
}
