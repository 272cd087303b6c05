package httphook

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestWithAPIServer holds the tests that need one.
func TestWithAPIServer(t *testing.T) {
	_, admin := testenv.ForTest(t)
	// Rule (hooks.md#registration): `version` must be `v1`.
	// Rule (hooks.md#registration): An unknown capability is refused.
	t.Run("Admission", func(t *testing.T) { testAdmission(t, admin) })
	t.Run("ReservedConditions", func(t *testing.T) { testReservedConditions(t, admin) })
}

// registration makes a DeployerRegistration of the YAML of its spec.
func registration(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	var content map[string]any
	if err := json.Unmarshal(document, &content); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployerRegistration"))
	object.SetName("labels")
	return object
}

// hookSpec is a spec with a hook that has these fields beside, or instead of, those that it needs.
func hookSpec(fields string) string {
	all := map[string]string{"version": "version: v1", "address": "address: {uri: https://hooks.example.org}"}
	for line := range strings.Lines(fields) {
		name, _, _ := strings.Cut(line, ":")
		all[name] = strings.TrimSuffix(line, "\n")
	}
	spec := "types: [example.org/a]\nhook:\n"
	for line := range maps.Values(all) {
		if !strings.HasSuffix(line, ": -") { // which stands for its absence
			spec += "  " + line + "\n"
		}
	}
	return spec
}

// What is wrong with a registration is refused by the API server, which names the field.
func testAdmission(t *testing.T, admin client.Client) {
	const (
		ref  = "ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}"
		auth = "\nauth: {secretRef: {namespace: hooks, name: token}}"
		// A template of a Landscaper comes back as it was written, whatever is in it.
		template = "types: [example.org/a]\ninstallationTemplate: {blueprint: {ref: {resourceName: deployer-blueprint}}, " +
			"importDataMappings: {values: {replicas: 9007199254740991, ratio: 1.5, none: null}}, unknown: [1, {a: true}]}"
	)
	uri := func(text string) string { return hookSpec("address: {uri: '" + text + "'}") }
	combined := func(text string) string { return hookSpec("address: {uri: '" + text + "', " + ref + "}") }
	conditions := func(of string) string { return hookSpec("conditionsFromHook: [" + of + "]") }
	const sixteen = "{type: A}, {type: B}, {type: C}, {type: D}, {type: E}, {type: F}, {type: G}, {type: H}, {type: I}, " +
		"{type: J}, {type: K}, {type: L}, {type: M}, {type: R}, {type: O}, {type: P}"
	// By the field that is wrong; empty for those that are right.
	for field, specs := range map[string][]string{
		"": {
			"types: [example.org/a, example.org/b]", template, hookSpec(""), uri("http://[::1]:8080/"), uri("https://a:65535/"),
			hookSpec("address: {uri: 'https://:8443/v1?a=b', " + ref + "}\ntimeout: PT1M30.5S\nformFactor: deployment\n" +
				"capabilities: [pre-reconcile, finalize]\nconditionsFromHook: [{type: Labelled}, {type: HTTP2Ready}]\n" +
				"tls: {secretRef: {namespace: hooks, name: tls}, serverName: labels.hooks.svc}" + auth),
			hookSpec("address: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, namespace: hooks, name: labels}}" +
				auth),
			hookSpec("address: {uri: 'https://', " + ref + "}" + auth), combined("/v1"), combined("?a=b@c"),
			hookSpec("timeout: PT10M"), hookSpec("timeout: PT0.001S"), conditions(sixteen),
		},
		"spec.types": {"hook: {version: v1, address: {uri: https://a}}",
			"types: []", "types: [a, a]", "types: ['']"},
		"spec.installationTemplate": {"types: [a]\ninstallationTemplate: text"},
		"spec.hook.version":         {hookSpec("version: -"), hookSpec("version: 1"), hookSpec("version: v2")},
		"spec.hook.address": {hookSpec("address: -"), hookSpec("address: {}"), uri(""), uri("/v1"), uri("http://:8080/v1"),
			uri("//a/v1"), uri("ftp://a"), uri("file:///etc/passwd"), uri("https://a:0/"), uri("https://a:http/"),
			combined("https://a/v1")},
		"spec.hook.address.uri": {uri("hooks.example.org"),
			uri("https://user:confidential@a"), uri("https://a/#a"), uri("https://a b/"), uri("https://a:65536/")},
		"spec.hook.address.ref": {hookSpec("address: {ref: {apiVersion: v1, kind: Service, name: labels}}"),
			hookSpec("address: {ref: {apiVersion: v1, kind: Service, namespace: hooks}}"),
			hookSpec("address: {ref: {kind: Service, namespace: hooks, name: labels}}"),
			hookSpec("address: {ref: {apiVersion: v1, kind: Service, namespace: hooks, name: ../a}}")},
		"spec.hook.timeout": {hookSpec("timeout: 15s"), hookSpec("timeout: 15"), hookSpec("timeout: PT0S"),
			hookSpec("timeout: -PT1S"), hookSpec("timeout: PT10M1S"), hookSpec("timeout: P1D"), hookSpec("timeout: PT"),
			hookSpec("timeout: PT99999999999999999999H")},
		"spec.hook.capabilities": {hookSpec("capabilities: [finalization]"),
			hookSpec("capabilities: [finalize, finalize]"), hookSpec("capabilities: finalize")},
		"spec.hook.conditionsFromHook": {conditions("{type: A}, {type: A}"), conditions("{type: labelled}"),
			conditions("{type: Is-Labelled}"), conditions("{type: " + strings.Repeat("A", 64) + "}"),
			conditions(sixteen + ", {type: Q}")},
		"spec.hook": { // credentials would be sent unencrypted
			hookSpec("address: {uri: 'http://a'}" + auth), hookSpec("address: {uri: 'http://a'}\ntls: {serverName: a}"),
			hookSpec("address: {" + ref + "}" + auth), hookSpec("address: {uri: '//:8443', " + ref + "}" + auth),
		},
		"spec.hook.auth.secretRef": {hookSpec("auth: {secretRef: {namespace: a}}"), hookSpec("auth: {token: confidential}")},
	} {
		for _, spec := range specs {
			object := registration(t, spec)
			written := object.DeepCopy()
			err := admin.Create(t.Context(), object, client.DryRunAll)
			if diff := cmp.Diff(written.Object["spec"], object.Object["spec"]); field == "" && diff != "" {
				t.Errorf("spec (-written +read):\n%s", diff)
			}
			if field == "" && err != nil || field != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field)) {
				t.Errorf("expected that the API server finds %q wrong, but found %v in\n%s", field, err, spec)
			}
			if strings.HasSuffix(field, ".uri") && !strings.Contains(err.Error(), "neither user, password nor fragment") {
				t.Errorf("expected words of what a URI has, but found %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "rule evaluation") {
				t.Errorf("a rule fails instead of saying what is wrong: %v", err)
			}
		}
	}
}

// A hook must not report what the host says itself: the types of conditions in the source of package contract.
func testReservedConditions(t *testing.T, admin client.Client) {
	files, err := filepath.Glob(filepath.Join(testenv.Root(), "host", "internal", "contract", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	declaration := regexp.MustCompile(`(?m)^\tCondition\w+ +v1alpha1\.ConditionType = "(\w+)"$`)
	var reserved []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declaration.FindAllSubmatch(source, -1) {
			reserved = append(reserved, string(match[1]))
		}
	}
	if !slices.Contains(reserved, string(contract.ConditionReady)) ||
		!slices.Contains(reserved, string(contract.ConditionFinalized)) {
		t.Fatalf("expected all conditions of the host, but found %v", reserved)
	}
	for _, conditionType := range reserved {
		object := registration(t, hookSpec("conditionsFromHook: [{type: "+conditionType+"}]"))
		if err := admin.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("expected that the API server refuses %s, but found %v: add it to the rule of the CRD", conditionType, err)
		}
	}
}
