package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// settings are values with which the tests render everything that there is.
var settings = map[string]string{
	"defaults":   "",
	"standalone": "standalone: true",
	"everything": `
identity: prod
standalone: true
targetSelectors:
- targets: [{name: a, namespace: b}]
  labels: [{key: environment, operator: in, values: [prod]}]
  annotations: [{key: paused, operator: "!"}]
locking: {prefix: pergola-}
hostConfiguration:
  verification: off
  workers: 7
  timeouts: {pickup: none, shutdown: 2m}
  continuousReconcile: {jitter: 5m}
  client: {qps: 1000000, burst: 2000}
  log: {level: debug, format: text}
  pprofAddress: 127.0.0.1:6060
  tracing: {endpoint: "collector.example.org:4317", sampleRatio: 0.5}
targetServiceAccount: deployer
statusPage: {enabled: true, ingressFrom: [{podSelector: {}}], hostNames: [status.example.org]}
autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 10, targetMemoryUtilizationPercentage: 90}
plugins:
  helm:
    workers: 5
    memory: 20Gi
    openFiles: 4096
    sha256: abababababababababababababababababababababababababababababababab
    environment: [HELM_REGISTRY_CONFIG]
    confinement: {mode: required, read: [/etc/helm]}
    config: {apiVersion: helm.pergola.dev/v1alpha1, kind: HelmConfiguration, chartCache: {size: 1Gi}}
  container: {config: {resources: {limits: {memory: 512Mi}}}}
  mock: {enabled: true}
extraPlugins:
  roses: {image: {repository: example.org/roses, tag: v1}, file: rose}
  lilies: {mode: imageVolume, image: {repository: example.org/lilies, tag: v1}}
  tulips:
    {mode: pulled, image: {repository: example.org/tulips, tag: v1}, path: bin/tulips,
     sha256: cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd}
imagePullSecrets: [{name: registry}]
extraEnv: [{name: HELM_REGISTRY_CONFIG, value: /etc/helm/config.json}]
extraVolumes: [{name: helm, emptyDir: {}}]
extraVolumeMounts: [{name: helm, mountPath: /etc/helm}]
rbac:
  targetTokenNamespaces: [shop]
  extraRules: [{apiGroups: [serving.knative.dev], resources: [services], verbs: [get, watch]}]
networkPolicy: {ingressFrom: [{namespaceSelector: {}}], egress: [{}]}
metrics: {dashboard: {enabled: true}}
extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-extra", namespace: pergola-system}}
`,
	"no locks": "{locking: {enabled: false}}",
	"a Deployment per plugin": "{deploymentPerPlugin: true, " +
		"extraPlugins: {roses: {image: {repository: example.org/roses, tag: v1}}}}",
	"some namespaces": "{standalone: true, namespaces: [shop], " +
		"locking: {enabled: false}, autoscaling: {enabled: false}}",
	"DeployItems elsewhere": "landscaperCluster: {kubeconfig: \"{}\"}",
}

// A host can use what the chart renders as its configuration.
func TestHostConfiguration(t *testing.T) {
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, values, newest)
			checked := 0
			for _, secret := range all.names("Secret") {
				text, isConfiguration := one[*corev1.Secret](t, all, "Secret "+secret).StringData["host.yaml"]
				if !isConfiguration {
					continue
				}
				file := filepath.Join(t.TempDir(), "host.yaml")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				check := exec.CommandContext(t.Context(), filepath.Join(binaries, "pergola"), "config", "check", file)
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s\n%s", secret, err, out, text)
				}
				checked++
			}
			if deployments := all.names("Deployment"); checked != len(deployments) {
				t.Errorf("expected a configuration for each of %v, but found %d", deployments, checked)
			}
		})
	}
}

// What an operator writes for the container deployer goes before what the chart knows.
func TestContainerConfiguration(t *testing.T) {
	config := func(values string) object {
		plugins := configurationOf(t, mustRender(t, values, newest), "pergola")["plugins"].(object)
		return plugins["container"].(object)["config"].(object)
	}
	own := config("plugins: {container: {config: {strict: false, " +
		"initContainer: {image: example.org/helper:v1, imagePullPolicy: Never}}}}")
	init := own["initContainer"].(object)
	if init["image"] != "example.org/helper:v1" || init["imagePullPolicy"] != "Never" || own["strict"] != false ||
		own["kind"] != "ContainerConfiguration" {
		t.Errorf("expected what the operator says, and the rest of the chart, but found %v", own)
	}
	if init := config("")["initContainer"].(object); init["image"] != "ghcr.io/pergola-deploy/container-helper:0.0.0-dev" {
		t.Errorf("expected the helper of the same version, but found %v", init)
	}
}

// A cluster without the policies of the host gets a line about it.
func TestNoteAboutAdmissionPolicies(t *testing.T) {
	for at, want := range map[string]bool{"v1.29.0": true, "v1.37.0": false} {
		files, err := render(t, "", cluster{version: at})
		if err != nil {
			t.Fatal(err)
		}
		notes := files["pergola/templates/NOTES.txt"]
		if strings.Contains(notes, "This cluster has no ValidatingAdmissionPolicies") != want {
			t.Errorf("%s: expected a line about policies: %t, but found\n%s", at, want, notes)
		}
	}
}

// The notes name the commands that come next, for what was installed.
func TestNotes(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		want   []string
	}{
		"beside a Landscaper": {
			"standalone: false",
			[]string{"port-forward deployment/pergola 8080", "It carries out the jobs that a Landscaper sets"},
		},
		"alone": {"", []string{"kubectl get deployitems -A --watch", "`helm uninstall` leaves"}},
		"with a page": {
			"{deploymentPerPlugin: true, statusPage: {enabled: true, port: 9999}}",
			[]string{"port-forward deployment/pergola-container 9999"},
		},
		"some namespaces": {
			"namespaces: [shop, tools]",
			[]string{
				"It serves the namespaces shop, tools alone", "system:serviceaccount:pergola-system:pergola\n",
				"`pergola remove --namespaces shop,tools` deletes", "remove --namespaces shop --with-deployed", "pergola cleanup",
			},
		},
		"accounts": {
			"deploymentPerPlugin: true",
			[]string{"are other ones than without", "system:serviceaccount:pergola-system:pergola-helm\n"},
		},
		"elsewhere": {"landscaperCluster: {kubeconfig: k}", []string{"DeployItems of another cluster"}},
		"apart": {
			"deploymentPerPlugin: true",
			[]string{"rollout status deployment/pergola-container", "rollout status deployment/pergola-manifest"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := render(t, test.values, newest)
			if err != nil {
				t.Fatal(err)
			}
			notes := files["pergola/templates/NOTES.txt"]
			missing := slices.DeleteFunc(test.want, func(want string) bool { return strings.Contains(notes, want) })
			if len(missing) > 0 || strings.Contains(notes, "\n\n\n") {
				t.Errorf("expected %q, but found\n%s", missing, notes)
			}
		})
	}
}
