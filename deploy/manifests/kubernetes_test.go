package manifests

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kinds are the types that an object may have. A kind that is missing here fails the test.
var kinds = map[string]func() any{
	"v1/Namespace":                           func() any { return new(corev1.Namespace) },
	"v1/ServiceAccount":                      func() any { return new(corev1.ServiceAccount) },
	"v1/ConfigMap":                           func() any { return new(corev1.ConfigMap) },
	"v1/Service":                             func() any { return new(corev1.Service) },
	"apps/v1/Deployment":                     func() any { return new(appsv1.Deployment) },
	"apps/v1/StatefulSet":                    func() any { return new(appsv1.StatefulSet) },
	"policy/v1/PodDisruptionBudget":          func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy":     func() any { return new(networkingv1.NetworkPolicy) },
	"autoscaling/v2/HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"keda.sh/v1alpha1/ScaledObject":          func() any { return new(scaledObject) },
}

// scaledObject is KEDA's kind, as far as it is used here (keda.sh/v1alpha1).
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		PollingInterval int32 `json:"pollingInterval"`
		Fallback        struct {
			FailureThreshold int32 `json:"failureThreshold"`
			Replicas         int32 `json:"replicas"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string            `json:"type"`
			Name       string            `json:"name"`
			MetricType string            `json:"metricType"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// pods is a workload's pod template with what it belongs to.
type pods struct {
	kind, name string
	selector   *metav1.LabelSelector
	template   corev1.PodTemplateSpec
}

// rendering is one kustomization as the cluster would get it.
type rendering struct {
	objects []any
	configs map[string]*corev1.ConfigMap
	pods    []pods
}

func render(t *testing.T, dir string) rendering {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(deploy, dir))
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	out := rendering{configs: map[string]*corev1.ConfigMap{}}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimPrefix(r.GetGvk().Group+"/"+r.GetGvk().Version+"/"+r.GetGvk().Kind, "/")
		make, ok := kinds[kind]
		if !ok {
			t.Fatalf("%s: %s %s is of a kind that this test has no type for", dir, kind, r.GetName())
		}
		o := make()
		if err := yaml.UnmarshalStrict(text, o); err != nil {
			t.Fatalf("%s: %s %s: %v", dir, kind, r.GetName(), err)
		}
		out.add(o)
	}
	if len(out.pods) == 0 && !strings.Contains(dir, "nats") {
		t.Fatalf("%s holds no workload", dir)
	}
	return out
}

func (r *rendering) add(o any) {
	r.objects = append(r.objects, o)
	switch o := o.(type) {
	case *corev1.ConfigMap:
		r.configs[o.Name] = o
	case *appsv1.Deployment:
		r.pods = append(r.pods, pods{"Deployment", o.Name, o.Spec.Selector, o.Spec.Template})
	case *appsv1.StatefulSet:
		r.pods = append(r.pods, pods{"StatefulSet", o.Name, o.Spec.Selector, o.Spec.Template})
	}
}

// selected are the workloads whose pods a selector takes.
func (r *rendering) selected(t *testing.T, s *metav1.LabelSelector) []pods {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	var out []pods
	for _, p := range r.pods {
		if selector.Matches(labels.Set(p.template.Labels)) {
			out = append(out, p)
		}
	}
	return out
}

// overlays are the kustomizations that an operator applies; folders are all of them.
var (
	overlays = []string{"kubernetes/overlays/single", "kubernetes/overlays/cluster"}
	folders  = append([]string{"kubernetes/worker", "kubernetes/nats"}, overlays...)
)

func TestEveryObjectIsStrictlyOfItsType(t *testing.T) {
	t.Parallel()
	for _, dir := range folders {
		r := render(t, dir)
		for _, o := range r.objects {
			named := o.(metav1.Object)
			if slices.Contains(overlays, dir) {
				if _, isNamespace := o.(*corev1.Namespace); !isNamespace && named.GetNamespace() != "toolsearch" {
					t.Errorf("%s: %T %s is in namespace %q", dir, o, named.GetName(), named.GetNamespace())
				}
			}
		}
	}
}

// TestStrictnessShows checks that the reading is as strict as it says.
func TestStrictnessShows(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a field that is not":           "apiVersion: apps/v1\nkind: Deployment\nspec: {replica: 3}\n",
		"a field in a place of another": "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {readinessProbe: {}}}}\n",
		"a field given twice":           "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3, replicas: 4}\n",
		"another type":                  "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: three}\n",
	} {
		if yaml.UnmarshalStrict([]byte(text), new(appsv1.Deployment)) == nil {
			t.Errorf("%s is let through", name)
		}
	}
}

// TestComponents renders what only an overlay can take in, each with the workers.
func TestComponents(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"keda", "cpu"} {
		fs := filesys.MakeFsInMemory()
		for _, f := range append(glob(t, "kubernetes", "worker", "*"), glob(t, "kubernetes", "autoscaling", component, "*")...) {
			rel, err := filepath.Rel(deploy, f)
			if err != nil {
				t.Fatal(err)
			}
			if err := fs.WriteFile("/"+rel, []byte(read(t, rel))); err != nil {
				t.Fatal(err)
			}
		}
		text := "resources: [../worker]\ncomponents: [../autoscaling/" + component + "]\n"
		if err := fs.WriteFile("/kubernetes/test/kustomization.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/kubernetes/test")
		if err != nil {
			t.Fatalf("%s: %v", component, err)
		}
		scalers := 0
		for _, r := range resources.Resources() {
			if kind := r.GetKind(); kind != "ScaledObject" && kind != "HorizontalPodAutoscaler" {
				continue
			}
			scalers++
			target, err := r.GetString("spec.scaleTargetRef.name")
			if err != nil || target != "toolsearch-worker" {
				t.Errorf("%s: scales %q, %v", component, target, err)
			}
		}
		if scalers != 1 {
			t.Errorf("%s: %d scalers", component, scalers)
		}
	}
}

func TestScalersMeetTheWorkers(t *testing.T) {
	t.Parallel()
	r := render(t, "kubernetes/overlays/cluster")
	for _, o := range r.objects {
		s, ok := o.(*scaledObject)
		if !ok {
			continue
		}
		if s.Spec.ScaleTargetRef.Kind != "Deployment" || s.Spec.ScaleTargetRef.Name != "toolsearch-worker" {
			t.Errorf("it scales %+v", s.Spec.ScaleTargetRef)
		}
		if s.Spec.MinReplicaCount < 2 || s.Spec.MaxReplicaCount <= s.Spec.MinReplicaCount {
			t.Errorf("between %d and %d workers", s.Spec.MinReplicaCount, s.Spec.MaxReplicaCount)
		}
		for _, trigger := range s.Spec.Triggers {
			if trigger.Type == "prometheus" && strings.Contains(trigger.Metadata["query"], "toolsearch_queue_jobs") {
				return
			}
		}
	}
	t.Error("nothing scales by the depth of the queue")
}

func TestSelectorsMeetPods(t *testing.T) {
	t.Parallel()
	for _, dir := range overlays {
		r := render(t, dir)
		for _, o := range r.objects {
			var s *metav1.LabelSelector
			name := fmt.Sprintf("%s: %T %s", dir, o, o.(metav1.Object).GetName())
			switch o := o.(type) {
			case *corev1.Service:
				s = metav1.SetAsLabelSelector(o.Spec.Selector)
				for _, p := range r.selected(t, s) {
					for _, port := range o.Spec.Ports {
						checkPort(t, name, p, port.TargetPort)
					}
				}
			case *policyv1.PodDisruptionBudget:
				s = o.Spec.Selector
			case *networkingv1.NetworkPolicy:
				s = &o.Spec.PodSelector
				checkPolicy(t, name, &r, o)
			case *appsv1.Deployment:
				s = o.Spec.Selector
			case *appsv1.StatefulSet:
				s = o.Spec.Selector
			default:
				continue
			}
			if n := len(r.selected(t, s)); n != 1 {
				t.Errorf("%s selects %d workloads, want 1", name, n)
			}
		}
		for _, p := range r.pods {
			for _, spread := range p.template.Spec.TopologySpreadConstraints {
				if found := r.selected(t, spread.LabelSelector); len(found) != 1 || found[0].name != p.name {
					t.Errorf("%s: %s spreads over %d workloads, want itself", dir, p.name, len(found))
				}
			}
		}
	}
}

func checkPort(t *testing.T, name string, p pods, port intstr.IntOrString) {
	t.Helper()
	for _, c := range p.template.Spec.Containers {
		for _, have := range c.Ports {
			if port.StrVal == have.Name || port.IntVal == have.ContainerPort {
				return
			}
		}
	}
	t.Errorf("%s: no container of %s has port %s", name, p.name, port.String())
}

// checkPolicy checks that a policy's peers in its own namespace are there, with the ports that it opens.
func checkPolicy(t *testing.T, name string, r *rendering, o *networkingv1.NetworkPolicy) {
	t.Helper()
	own := r.selected(t, &o.Spec.PodSelector)
	for _, rule := range o.Spec.Ingress {
		for _, port := range rule.Ports {
			for _, p := range own {
				checkPort(t, name, p, *port.Port)
			}
		}
		for _, from := range rule.From {
			if from.NamespaceSelector == nil && from.PodSelector != nil && len(r.selected(t, from.PodSelector)) == 0 {
				t.Errorf("%s: lets in %v, which is nobody", name, from.PodSelector)
			}
		}
	}
	for _, rule := range o.Spec.Egress {
		for _, to := range rule.To {
			if to.NamespaceSelector != nil || to.PodSelector == nil {
				continue
			}
			peers := r.selected(t, to.PodSelector)
			if len(peers) == 0 {
				t.Errorf("%s: lets out to %v, which is nobody", name, to.PodSelector)
			}
			for _, port := range rule.Ports {
				for _, p := range peers {
					checkPort(t, name, p, *port.Port)
				}
			}
		}
	}
}

// TestWorkersReachTheBus checks that both ends of the policy let a worker through to the client port.
func TestWorkersReachTheBus(t *testing.T) {
	t.Parallel()
	for _, dir := range overlays {
		r := render(t, dir)
		var out, in bool
		for _, o := range r.objects {
			policy, ok := o.(*networkingv1.NetworkPolicy)
			if !ok {
				continue
			}
			for _, rule := range policy.Spec.Egress {
				for _, to := range rule.To {
					if policy.Name == "toolsearch-worker" && to.NamespaceSelector == nil && to.PodSelector != nil {
						peers := r.selected(t, to.PodSelector)
						out = out || len(peers) == 1 && peers[0].name == "nats" && rule.Ports[0].Port.IntValue() == 4222
					}
				}
			}
			for _, rule := range policy.Spec.Ingress {
				for _, from := range rule.From {
					if policy.Name == "nats" && from.NamespaceSelector == nil {
						peers := r.selected(t, from.PodSelector)
						in = in || rule.Ports[0].Port.StrVal == "client" &&
							slices.ContainsFunc(peers, func(p pods) bool { return p.name == "toolsearch-worker" })
					}
				}
			}
		}
		if !out || !in {
			t.Errorf("%s: out of the worker %v, into the bus %v", dir, out, in)
		}
	}
}

func TestPods(t *testing.T) {
	t.Parallel()
	for _, dir := range overlays {
		r := render(t, dir)
		for _, p := range r.pods {
			name := dir + ": " + p.name
			spec := p.template.Spec
			checkHardened(t, name, spec)
			checkVolumes(t, name, &r, spec)
			for _, c := range spec.Containers {
				checkVariables(t, name, &r, c)
				checkImage(t, name, c.Image)
				for what, probe := range map[string]*corev1.Probe{
					"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe,
				} {
					if probe == nil {
						t.Errorf("%s has no %s probe", name, what)
						continue
					}
					if probe.HTTPGet != nil {
						checkPort(t, name+" "+what, p, probe.HTTPGet.Port)
					}
				}
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: requests or the limit of memory are missing", name)
				}
			}
		}
	}
}

func checkHardened(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	isTrue := func(b *bool) bool { return b != nil && *b }
	isFalse := func(b *bool) bool { return b != nil && !*b }
	pod := spec.SecurityContext
	if pod == nil || !isTrue(pod.RunAsNonRoot) || pod.RunAsUser == nil || *pod.RunAsUser == 0 ||
		pod.SeccompProfile == nil || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the pod's security context is not that of the restricted standard", name)
	}
	if !isFalse(spec.AutomountServiceAccountToken) {
		t.Errorf("%s: a token of the Kubernetes API is mounted", name)
	}
	for _, c := range spec.Containers {
		s := c.SecurityContext
		if s == nil || !isFalse(s.AllowPrivilegeEscalation) || !isTrue(s.ReadOnlyRootFilesystem) || s.Capabilities == nil ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: container %s may more than it needs", name, c.Name)
		}
	}
}

// checkVolumes follows mounts to volumes, and volumes to the keys of generated ConfigMaps.
func checkVolumes(t *testing.T, name string, r *rendering, spec corev1.PodSpec) {
	t.Helper()
	has := map[string]bool{"data": name == "kubernetes/overlays/single: nats" || name == "kubernetes/overlays/cluster: nats"}
	for _, v := range spec.Volumes {
		has[v.Name] = true
		var config *corev1.ConfigMapProjection
		switch {
		case v.ConfigMap != nil:
			config = &corev1.ConfigMapProjection{LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items}
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					config = s.ConfigMap
				}
			}
		}
		if config == nil {
			continue
		}
		have, ok := r.configs[config.Name]
		if !ok {
			t.Errorf("%s: volume %s is of ConfigMap %s, which is not rendered", name, v.Name, config.Name)
			continue
		}
		for _, item := range config.Items {
			if _, ok := have.Data[item.Key]; !ok {
				t.Errorf("%s: ConfigMap %s has no %s", name, config.Name, item.Key)
			}
		}
	}
	for _, c := range spec.Containers {
		for _, m := range c.VolumeMounts {
			if !has[m.Name] {
				t.Errorf("%s: mounts %s, which is no volume", name, m.Name)
			}
		}
	}
}

// checkVariables checks that $(NAME) stands after NAME, which is what makes the kubelet replace it.
func checkVariables(t *testing.T, name string, r *rendering, c corev1.Container) {
	t.Helper()
	known := map[string]bool{}
	for _, e := range c.Env {
		rest := e.Value
		for {
			_, after, found := strings.Cut(rest, "$(")
			if !found {
				break
			}
			used, tail, _ := strings.Cut(after, ")")
			if !known[used] {
				t.Errorf("%s: %s uses $(%s) before it is set", name, e.Name, used)
			}
			rest = tail
		}
		if from := e.ValueFrom; from != nil && from.ConfigMapKeyRef != nil && (from.ConfigMapKeyRef.Optional == nil || !*from.ConfigMapKeyRef.Optional) {
			if _, ok := r.configs[from.ConfigMapKeyRef.Name]; !ok {
				t.Errorf("%s: %s is of ConfigMap %s, which is not rendered", name, e.Name, from.ConfigMapKeyRef.Name)
			}
		}
		if known[e.Name] {
			t.Errorf("%s: %s is set twice", name, e.Name)
		}
		known[e.Name] = true
	}
}

// checkImage wants a version.
func checkImage(t *testing.T, name, image string) {
	t.Helper()
	_, tag, found := strings.Cut(image, ":")
	if !found || tag == "latest" || !strings.ContainsAny(tag, "0123456789") || strings.Count(tag, ".") < 2 {
		t.Errorf("%s: image %q is not pinned to a version", name, image)
	}
	if strings.Count(image, "/") > 1 {
		t.Errorf("%s: image %q names a registry", name, image)
	}
}

// TestDrainsHaveTime compares the worker's own bound, in the rendered settings, with what the cluster grants.
func TestDrainsHaveTime(t *testing.T) {
	t.Parallel()
	for _, dir := range overlays {
		r := render(t, dir)
		for _, p := range r.pods {
			if p.name != "toolsearch-worker" {
				continue
			}
			granted := time.Duration(*p.template.Spec.TerminationGracePeriodSeconds) * time.Second
			found := false
			for name, c := range r.configs {
				if !strings.HasPrefix(name, "toolsearch-worker-") {
					continue
				}
				found = true
				checkDrain(t, dir, []byte(c.Data["toolsearch.yaml"]), granted)
			}
			if !found {
				t.Errorf("%s: the workers have no settings", dir)
			}
		}
	}
}

// checkDrain wants ten seconds more than the drain takes, for telemetry to be flushed and the process to end.
func checkDrain(t *testing.T, name string, settings []byte, granted time.Duration) {
	t.Helper()
	var s struct {
		Worker struct {
			DrainTimeout string `json:"drain_timeout"`
		} `json:"worker"`
	}
	if err := yaml.Unmarshal(settings, &s); err != nil {
		t.Fatal(err)
	}
	drain, err := time.ParseDuration(s.Worker.DrainTimeout)
	if err != nil {
		t.Fatalf("%s: worker.drain_timeout: %v", name, err)
	}
	if granted < drain+10*time.Second {
		t.Errorf("%s: a drain may take %s, and the process is killed after %s", name, drain, granted)
	}
}
