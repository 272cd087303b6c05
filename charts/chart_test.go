package charts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestLint(t *testing.T) {
	linter := action.NewLint()
	linter.Strict, linter.KubeVersion, linter.Namespace = true, kubeVersion(t, newest), releaseNamespace
	result := linter.Run([]string{filepath.Join(testenv.Root(), "charts", "pergola")}, nil)
	for _, message := range result.Messages {
		if message.Severity > support.InfoSev {
			t.Errorf("%s: %v", message.Path, message.Err)
		}
	}
	if len(result.Errors) > 0 || result.TotalChartsLinted != 1 {
		t.Errorf("expected one chart without errors, but found %d, %v", result.TotalChartsLinted, result.Errors)
	}
}

// What is rendered without any values is what an operator gets who thinks of nothing.
// Rule (operators-guide.md#scale): By default there is one replica without an autoscaler, and Pods are spread over
// nodes and zones.
// Rule (SECURITY.md#network): By default only the metrics of the host can be reached.
func TestDefaults(t *testing.T) {
	all := mustRender(t, "", newest)
	deployment := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola")
	if scalers := all.names("HorizontalPodAutoscaler"); len(scalers) > 0 || *deployment.Spec.Replicas != 1 {
		t.Errorf("expected one replica, and no autoscaler, but found %d and %v", *deployment.Spec.Replicas, scalers)
	}
	update := deployment.Spec.Strategy.RollingUpdate
	if update == nil || update.MaxUnavailable.IntValue() != 0 || update.MaxSurge.IntValue() != 1 {
		t.Errorf("expected that an update stops nothing before the new Pod works, but found %+v", deployment.Spec.Strategy)
	}
	pod := deployment.Spec.Template.Spec
	if *pod.TerminationGracePeriodSeconds != 45 {
		t.Errorf("expected the 30s of timeouts.shutdown and 15s, but found %d", *pod.TerminationGracePeriodSeconds)
	}
	var spreadOver []string
	for _, spread := range pod.TopologySpreadConstraints {
		spreadOver = append(spreadOver, spread.TopologyKey)
		for key, value := range spread.LabelSelector.MatchLabels {
			if deployment.Spec.Template.Labels[key] != value {
				t.Errorf("%s: expected the label %s=%s, but the Pods have %v", spread.TopologyKey, key, value,
					deployment.Spec.Template.Labels)
			}
		}
	}
	if diff := cmp.Diff([]string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}, spreadOver); diff != "" {
		t.Errorf("what the Pods are spread over (-want +got):\n%s", diff)
	}
	main := pod.Containers[0]
	if main.StartupProbe.HTTPGet.Path != "/healthz" || main.LivenessProbe.HTTPGet.Path != "/healthz" ||
		main.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("expected probes of /healthz and /readyz, but found %v, %v, %v", main.StartupProbe, main.LivenessProbe,
			main.ReadinessProbe)
	}
	policy := one[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy pergola-system/pergola")
	if len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].Ports) != 1 ||
		policy.Spec.Ingress[0].Ports[0].Port.StrVal != "metrics" || len(policy.Spec.PolicyTypes) != 1 {
		t.Errorf("expected the metrics port alone, and nothing about what the Pods reach, but found %+v", policy.Spec)
	}
	pluginFiles := []any{"container", "helm", "manifest"}
	if got, want := configurationOf(t, all, "pergola")["pluginFiles"], pluginFiles; !cmp.Equal(got, want) {
		t.Errorf("expected the plugins %v, but found %v", want, got)
	}
}

// Memory is no metric, since another replica needs as much of it: it knows all items, too.
// Rule (operators-guide.md#scale): An autoscaler is opt-in, scales between its bounds by CPU at 80 %, and leaves the
// number of replicas to nothing else.
func TestAutoscaler(t *testing.T) {
	all := mustRender(t, "autoscaling: {enabled: true}", newest)
	deployment := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola")
	if deployment.Spec.Replicas != nil {
		t.Errorf("expected the autoscaler to say how many replicas there are, but found %d", *deployment.Spec.Replicas)
	}
	scaler := one[*autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler pergola-system/pergola").Spec
	if *scaler.MinReplicas != 1 || scaler.MaxReplicas != 3 || scaler.ScaleTargetRef.Name != deployment.Name {
		t.Errorf("expected 1 to 3 replicas of the Deployment, but found %+v", scaler)
	}
	if len(scaler.Metrics) != 1 || scaler.Metrics[0].Resource.Name != corev1.ResourceCPU ||
		*scaler.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("expected 80 %% of cpu alone, but found %+v", scaler.Metrics)
	}
}

// By default, the host is standalone and has the definitions, unless a Landscaper does both.
func TestStandalone(t *testing.T) {
	besideLandscaper := cluster{
		version: newest.version, kinds: []string{"landscaper.gardener.cloud/v1alpha1/Installation"},
	}
	for name, test := range map[string]struct {
		at     cluster
		values string
		want   bool
	}{
		"no Landscaper":          {newest, "", true},
		"switched off":           {newest, "standalone: false", false},
		"Landscaper":             {besideLandscaper, "", false},
		"switched on":            {besideLandscaper, "standalone: true", true},
		"items in other cluster": {newest, "landscaperCluster: {kubeconfig: k}", false},
	} {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, test.values, test.at)
			host := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola").Spec.Template.Spec.Containers[0]
			isStandalone, definitions := slices.Contains(host.Args, "--standalone"), all.names("CustomResourceDefinition")
			if isStandalone != test.want || len(definitions) > 0 != test.want {
				t.Errorf("expected standalone and definitions: %t, but found arguments %v, definitions %v", test.want, host.Args,
					definitions)
			}
		})
	}
}

// The definitions of the chart are those that the host works with, and stay when the release goes.
func TestDefinitions(t *testing.T) {
	all := mustRender(t, "", newest)
	manifests, err := crds.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range manifests {
		want := object{}
		if err := yaml.Unmarshal(manifest, &want); err != nil {
			t.Fatal(err)
		}
		name := want["metadata"].(object)["name"].(string)
		found := all["CustomResourceDefinition "+name]
		if found == nil || found.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Fatalf("expected %s to be kept, but found %v", name, found)
		}
		text, err := yaml.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		got := object{}
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want["spec"], got["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := all.names("CustomResourceDefinition"); len(got) != len(manifests) {
		t.Errorf("expected %d definitions, but found %v", len(manifests), got)
	}
}

// Beside a Landscaper the chart brings the definition that a Landscaper lacks if it is told to, and no other.
func TestDefinitionThatLandscaperLacks(t *testing.T) {
	all := mustRender(t, "{standalone: false, crds: {install: deployerregistrations}}", newest)
	registrations := []string{"deployerregistrations.landscaper.gardener.cloud"}
	if got, want := all.names("CustomResourceDefinition"), registrations; !cmp.Equal(got, want) {
		t.Errorf("expected %v, but found %v", want, got)
	}
}

// A Deployment for each plugin has that plugin alone, and all that belongs to it.
// Rule (operators-guide.md#scale): With a Deployment per plugin each has an autoscaler with bounds of its own.
func TestDeploymentPerPlugin(t *testing.T) {
	all := mustRender(t, `
deploymentPerPlugin: true
autoscaling: {enabled: true, maxReplicas: 3}
plugins: {helm: {deployment: {minReplicas: 2, maxReplicas: 5, resources: {requests: {cpu: 1, memory: 2Gi}}}}}
extraPlugins:
  roses: {image: {repository: example.org/roses, tag: v1}}
  hooks: {image: {repository: example.org/hooks, tag: v1}, everywhere: true}
`, newest)
	want := []string{
		"pergola-system/pergola-container", "pergola-system/pergola-helm", "pergola-system/pergola-manifest",
		"pergola-system/pergola-roses",
	}
	for _, kind := range []string{"Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget"} {
		if diff := cmp.Diff(want, all.names(kind)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	for plugin, files := range map[string][]any{"helm": {"helm", "hooks"}, "roses": {"hooks", "roses"}} {
		if diff := cmp.Diff(files, configurationOf(t, all, "pergola-"+plugin)["pluginFiles"]); diff != "" {
			t.Errorf("files of %s (-want +got):\n%s", plugin, diff)
		}
	}
	scaler := one[*autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler pergola-system/pergola-helm")
	if *scaler.Spec.MinReplicas != 2 || scaler.Spec.MaxReplicas != 5 {
		t.Errorf("expected 2 to 5 replicas, but found %+v", scaler.Spec)
	}
	helm := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola-helm").Spec.Template
	roses := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola-roses").Spec.Template
	if memory := helm.Spec.Containers[0].Resources.Requests.Memory().String(); memory != "2Gi" {
		t.Errorf("expected the resources of its own, but found %s", memory)
	}
	if diff := cmp.Diff([]string{"plugin-hooks", "plugin-roses", "plugins"},
		containerNames(roses.Spec.InitContainers)); diff != "" {
		t.Errorf("who fills the plugin directory of roses (-want +got):\n%s", diff)
	}
	if helm.Labels["app.kubernetes.io/component"] != "helm" || roses.Labels["app.kubernetes.io/component"] != "roses" {
		t.Errorf("expected Pods that can be told apart, but found %v and %v", helm.Labels, roses.Labels)
	}
}

// Names that are too long are cut off, and stay different.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("a", 62)
	for name, test := range map[string]struct {
		reason, values string
		deployments    int
	}{
		"fullname": {
			reason: "what is cut off tells the plugins apart",
			values: "{deploymentPerPlugin: true, fullnameOverride: b" + long + "}", deployments: 3,
		},
		"plugins": {
			reason: "the same of volumes and containers", deployments: 1,
			values: fmt.Sprintf("extraPlugins: {%[1]sb: {image: {repository: r, tag: t}}, "+
				"%[1]sc: {image: {repository: r, tag: t}}}", long),
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, test.values, newest)
			deployments := all.names("Deployment")
			if len(deployments) != test.deployments {
				t.Errorf("%s: expected %d Deployments, but found %v", test.reason, test.deployments, deployments)
			}
			for _, deployment := range deployments {
				pod := one[*appsv1.Deployment](t, all, "Deployment "+deployment).Spec.Template.Spec
				names := containerNames(pod.InitContainers)
				if distinct := slices.Compact(slices.Sorted(slices.Values(names))); len(distinct) != len(names) {
					t.Errorf("%s: expected containers of different names, but found %v", test.reason, names)
				}
				_, own, _ := strings.Cut(deployment, "/")
				for _, name := range append(names, own, all.names("Namespace")[0]) {
					if len(name) > 63 {
						t.Errorf("%s: expected at most 63 characters, but found %s", test.reason, name)
					}
				}
			}
		})
	}
}

// Plugins of others come into the plugin directory in each of the three ways.
func TestExtraPlugins(t *testing.T) {
	all := mustRender(t, `
extraPlugins:
  roses: {image: {repository: example.org/roses, digest: "`+digest+`"}}
  lilies: {mode: imageVolume, image: {repository: example.org/lilies, tag: v1}, path: /bin/lilies, file: lily}
  tulips: {mode: inImage}
`, newest)
	pod := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola").Spec.Template.Spec
	if diff := cmp.Diff([]string{"plugin-roses", "plugins"}, containerNames(pod.InitContainers)); diff != "" {
		t.Fatalf("who fills the plugin directory, ours last (-want +got):\n%s", diff)
	}
	own := pod.InitContainers[1]
	args := []string{
		"plugins", "install", "--to=/to", "/plugins/container", "/plugins/helm", "lily=/from/lilies/bin/lilies",
		"/plugins/manifest", "roses=/from/roses/roses", "/plugins/tulips",
	}
	if diff := cmp.Diff(args, own.Args); diff != "" || own.Image != pod.Containers[0].Image {
		t.Errorf("what %s installs (-want +got):\n%s", own.Image, diff)
	}
	if roses := pod.InitContainers[0]; roses.Image != "example.org/roses@"+digest ||
		!slices.Equal(roses.Args, []string{"install", "--to=/to", "--as=roses"}) {
		t.Errorf("expected the plugin to install itself, but found %s %v", roses.Image, roses.Args)
	}
	volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "plugin-lilies" })]
	if volume.Image == nil || volume.Image.Reference != "example.org/lilies:v1" {
		t.Errorf("expected the volume of an image, but found %+v", volume)
	}
	if diff := cmp.Diff([]any{"container", "helm", "lily", "manifest", "roses", "tulips"},
		configurationOf(t, all, "pergola")["pluginFiles"]); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Without locks two Pods must not be there at the same time, which an update would bring about.
func TestWithoutLocks(t *testing.T) {
	all := mustRender(t, "locking: {enabled: false}", newest)
	strategy := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola").Spec.Strategy
	if strategy.Type != appsv1.RecreateDeploymentStrategyType || strategy.RollingUpdate != nil {
		t.Errorf("expected the old Pod to end before the new one begins, but found %+v", strategy)
	}
}

// What runs in the namespace of the container deployer comes from users: it may do what the deployer needs, and nobody
// reaches it.
func TestContainerPods(t *testing.T) {
	all := mustRender(t, "", newest)
	if level := all["Namespace pergola-pods"].GetLabels()["pod-security.kubernetes.io/enforce"]; level != "baseline" {
		t.Errorf("expected the level baseline of Pod Security, but found %q", level)
	}
	policy := one[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy pergola-pods/pergola").Spec
	if len(policy.PodSelector.MatchLabels) > 0 || len(policy.Ingress) > 0 ||
		!slices.Equal(policy.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("expected that nobody reaches any Pod, but found %+v", policy)
	}
}

// The status page has no login, so that others reach it only if the operator says who.
// Rule (SECURITY.md#network): Only sources named by the operator reach the status page.
func TestStatusPage(t *testing.T) {
	for name, test := range map[string]struct {
		values, address string
		rules           int
	}{
		"off":             {values: "", rules: 1},
		"by port-forward": {values: "statusPage: {enabled: true}", address: "127.0.0.1:9080", rules: 1},
		"for some": {
			values: "statusPage: {enabled: true, ingressFrom: [{podSelector: {}}]}", address: ":9080", rules: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, test.values, newest)
			page, _ := configurationOf(t, all, "pergola")["statusPage"].(object)
			if address, _ := page["listenAddress"].(string); address != test.address {
				t.Errorf("expected the address %q, but found %q", test.address, address)
			}
			ingress := one[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy pergola-system/pergola").Spec.Ingress
			if len(ingress) != test.rules || test.rules == 2 &&
				(ingress[1].Ports[0].Port.StrVal != "status-page" || len(ingress[1].From) != 1) {
				t.Errorf("expected %d rules, but found %+v", test.rules, ingress)
			}
		})
	}
}

// With DeployItems in another cluster the host has two kubeconfigs.
func TestLandscaperCluster(t *testing.T) {
	all := mustRender(t, "landscaperCluster: {kubeconfig: \"apiVersion: v1\\nkind: Config\\n\"}", newest)
	pod := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola").Spec.Template.Spec
	want := []string{
		"host", "--config=/etc/pergola/configuration/host.yaml",
		"--kubeconfig=/etc/pergola/landscaper-cluster/kubeconfig", "--host-kubeconfig=/etc/pergola/own-cluster/kubeconfig",
	}
	if diff := cmp.Diff(want, pod.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	secret := one[*corev1.Secret](t, all, "Secret pergola-system/pergola-landscaper-cluster")
	if got := secret.StringData["kubeconfig"]; got != "apiVersion: v1\nkind: Config\n" {
		t.Errorf("expected the kubeconfig as it is, but found %q", got)
	}
	if roles := all.names("ClusterRole"); len(roles) > 0 {
		t.Errorf("expected no rights in the cluster without DeployItems, but found %v", roles)
	}
}

func containerNames(containers []corev1.Container) []string {
	var names []string
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

// configurationOf returns the HostConfiguration of a Deployment.
func configurationOf(t *testing.T, all objects, deployment string) object {
	t.Helper()
	secret := one[*corev1.Secret](t, all, fmt.Sprintf("Secret %s/%s-configuration", releaseNamespace, deployment))
	config := object{}
	if err := yaml.UnmarshalStrict([]byte(secret.StringData["host.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	return config
}
