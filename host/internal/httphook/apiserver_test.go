package httphook

import (
	"context"
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
	controlPlane, admin := testenv.ForTest(t)
	for name, test := range map[string]func(*testing.T, *testenv.ControlPlane, client.Client){
		"Admission": testAdmission, "ReservedConditions": testReservedConditions, "InstallationTemplate": testInstallationTemplate,
	} {
		t.Run(name, func(t *testing.T) { test(t, controlPlane, admin) })
	}
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
func testAdmission(t *testing.T, _ *testenv.ControlPlane, admin client.Client) {
	tests := map[string]struct {
		reason, spec string
		field        string // that is wrong; empty if nothing is
	}{
		"NoHook":       {reason: "types alone", spec: "types: [example.org/a, example.org/b]"},
		"Minimal":      {reason: "all else has defaults", spec: hookSpec("")},
		"Full":         {reason: "all there is", spec: hookSpec("address: {uri: 'https://:8443/v1?a=b', ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}}\ntimeout: PT1M30.5S\ncapabilities: [pre-reconcile, finalize]\nformFactor: deployment\nconditionsFromHook: [{type: Labelled}, {type: HTTP2Ready}]\ntls: {secretRef: {namespace: hooks, name: tls}, serverName: labels.hooks.svc}\nauth: {secretRef: {namespace: hooks, name: token}}")},
		"Knative":      {reason: "any object that says where it is", spec: hookSpec("address: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, namespace: hooks, name: labels}}\nauth: {secretRef: {namespace: hooks, name: token}}")},
		"OnlyScheme":   {reason: "TLS for a Service", spec: hookSpec("address: {uri: 'https://', ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}}\nauth: {secretRef: {namespace: hooks, name: token}}")},
		"OnlyPath":     {reason: "the scheme is that of the ref", spec: hookSpec("address: {uri: /v1, ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}}")},
		"OnlyQuery":    {reason: "all else is that of the ref", spec: hookSpec("address: {uri: '?a=b@c', ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}}")},
		"IPv6":         {reason: "hosts are not only names", spec: hookSpec("address: {uri: 'http://[::1]:8080/'}")},
		"LongestTime":  {reason: "still allowed", spec: hookSpec("timeout: PT10M")},
		"ShortestTime": {reason: "still allowed", spec: hookSpec("timeout: PT0.001S")},

		"NoTypes":       {reason: "about nothing", spec: "hook: {version: v1, address: {uri: https://a}}", field: "spec.types"},
		"EmptyTypes":    {reason: "about nothing", spec: "types: []", field: "spec.types"},
		"TypeTwice":     {reason: "a slip", spec: "types: [a, a]", field: "spec.types"},
		"EmptyType":     {reason: "no type is empty", spec: "types: ['']", field: "spec.types"},
		"TemplateIsNot": {reason: "a template is an object", spec: "types: [a]\ninstallationTemplate: text", field: "spec.installationTemplate"},

		"NoVersion":      {reason: "there may be others", spec: hookSpec("version: -"), field: "spec.hook.version"},
		"VersionNumber":  {reason: "as some comment has it", spec: hookSpec("version: 1"), field: "spec.hook.version"},
		"AnotherVersion": {reason: "there is none yet", spec: hookSpec("version: v2"), field: "spec.hook.version"},

		"NoAddress":     {reason: "nowhere to ask", spec: hookSpec("address: -"), field: "spec.hook.address"},
		"EmptyAddress":  {reason: "nowhere to ask", spec: hookSpec("address: {}"), field: "spec.hook.address"},
		"EmptyURI":      {reason: "nowhere to ask", spec: hookSpec("address: {uri: ''}"), field: "spec.hook.address"},
		"RelativeURI":   {reason: "nowhere to ask", spec: hookSpec("address: {uri: /v1}"), field: "spec.hook.address"},
		"NoHost":        {reason: "a port of nobody", spec: hookSpec("address: {uri: 'http://:8080/v1'}"), field: "spec.hook.address"},
		"NoScheme":      {reason: "http or https?", spec: hookSpec("address: {uri: //hooks.example.org/v1}"), field: "spec.hook.address"},
		"WordURI":       {reason: "a host is no URI", spec: hookSpec("address: {uri: hooks.example.org}"), field: "spec.hook.address.uri"},
		"FTP":           {reason: "not HTTP", spec: hookSpec("address: {uri: 'ftp://hooks.example.org'}"), field: "spec.hook.address"},
		"File":          {reason: "not HTTP", spec: hookSpec("address: {uri: 'file:///etc/passwd'}"), field: "spec.hook.address"},
		"Password":      {reason: "it belongs into a secret", spec: hookSpec("address: {uri: 'https://user:confidential@hooks.example.org'}"), field: "spec.hook.address.uri"},
		"Fragment":      {reason: "nobody gets it", spec: hookSpec("address: {uri: 'https://hooks.example.org/#a'}"), field: "spec.hook.address.uri"},
		"Space":         {reason: "no URI", spec: hookSpec("address: {uri: 'https://hooks example.org/'}"), field: "spec.hook.address.uri"},
		"PortZero":      {reason: "no port", spec: hookSpec("address: {uri: 'https://hooks.example.org:0/'}"), field: "spec.hook.address"},
		"LastPort":      {reason: "still a port", spec: hookSpec("address: {uri: 'https://hooks.example.org:65535/'}")},
		"PortTooLarge":  {reason: "one too many", spec: hookSpec("address: {uri: 'https://hooks.example.org:65536/'}"), field: "spec.hook.address.uri"},
		"Port":          {reason: "no port", spec: hookSpec("address: {uri: 'https://hooks.example.org:99999/'}"), field: "spec.hook.address.uri"},
		"PortIsAWord":   {reason: "no port", spec: hookSpec("address: {uri: 'https://hooks.example.org:http/'}"), field: "spec.hook.address"},
		"TwoHosts":      {reason: "which one?", spec: hookSpec("address: {uri: 'https://hooks.example.org/v1', ref: {apiVersion: v1, kind: Service, namespace: hooks, name: labels}}"), field: "spec.hook.address"},
		"NoNamespace":   {reason: "a Service has one", spec: hookSpec("address: {ref: {apiVersion: v1, kind: Service, name: labels}}"), field: "spec.hook.address.ref"},
		"NoName":        {reason: "of which one?", spec: hookSpec("address: {ref: {apiVersion: v1, kind: Service, namespace: hooks}}"), field: "spec.hook.address.ref"},
		"NoAPIVersion":  {reason: "of which kind?", spec: hookSpec("address: {ref: {kind: Service, namespace: hooks, name: labels}}"), field: "spec.hook.address.ref"},
		"NameOfNothing": {reason: "no name", spec: hookSpec("address: {ref: {apiVersion: v1, kind: Service, namespace: hooks, name: ../a}}"), field: "spec.hook.address.ref.name"},

		"GoTime":       {reason: "not ISO 8601", spec: hookSpec("timeout: 15s"), field: "spec.hook.timeout"},
		"TimeNumber":   {reason: "of what unit?", spec: hookSpec("timeout: 15"), field: "spec.hook.timeout"},
		"NoTime":       {reason: "no answer could come", spec: hookSpec("timeout: PT0S"), field: "spec.hook.timeout"},
		"NegativeTime": {reason: "no answer could come", spec: hookSpec("timeout: -PT1S"), field: "spec.hook.timeout"},
		"LongTime":     {reason: "longer than a worker waits", spec: hookSpec("timeout: PT10M1S"), field: "spec.hook.timeout"},
		"Day":          {reason: "longer than a worker waits", spec: hookSpec("timeout: P1D"), field: "spec.hook.timeout"},
		"Month":        {reason: "how many days?", spec: hookSpec("timeout: P1M"), field: "spec.hook.timeout"},
		"OnlyPT":       {reason: "nothing said", spec: hookSpec("timeout: PT"), field: "spec.hook.timeout"},
		"HugeTime":     {reason: "beyond any number", spec: hookSpec("timeout: PT99999999999999999999H"), field: "spec.hook.timeout"},

		"Capability":      {reason: "the name in the seed's comment", spec: hookSpec("capabilities: [finalization]"), field: "spec.hook.capabilities"},
		"CapabilityTwice": {reason: "a slip", spec: hookSpec("capabilities: [finalize, finalize]"), field: "spec.hook.capabilities"},
		"CapabilityText":  {reason: "a list", spec: hookSpec("capabilities: finalize"), field: "spec.hook.capabilities"},

		"ConditionTwice":    {reason: "a slip", spec: hookSpec("conditionsFromHook: [{type: A}, {type: A}]"), field: "spec.hook.conditionsFromHook"},
		"ConditionCase":     {reason: "not in CamelCase", spec: hookSpec("conditionsFromHook: [{type: labelled}]"), field: "spec.hook.conditionsFromHook"},
		"ConditionDash":     {reason: "not in CamelCase", spec: hookSpec("conditionsFromHook: [{type: Is-Labelled}]"), field: "spec.hook.conditionsFromHook"},
		"LongCondition":     {reason: "no column is so wide", spec: hookSpec("conditionsFromHook: [{type: " + strings.Repeat("A", 64) + "}]"), field: "spec.hook.conditionsFromHook"},
		"ManyConditions":    {reason: "more than anybody reads", spec: hookSpec("conditionsFromHook: [" + manyConditions(17) + "]"), field: "spec.hook.conditionsFromHook"},
		"AllowedConditions": {reason: "still read", spec: hookSpec("conditionsFromHook: [" + manyConditions(16) + "]")},

		"AuthOverHTTP":    {reason: "anybody could read it", spec: hookSpec("address: {uri: 'http://hooks.example.org'}\nauth: {secretRef: {namespace: a, name: b}}"), field: "spec.hook"},
		"TLSOverHTTP":     {reason: "it would not be used", spec: hookSpec("address: {uri: 'http://hooks.example.org'}\ntls: {serverName: a}"), field: "spec.hook"},
		"AuthOfAService":  {reason: "a Service is http by default", spec: hookSpec("address: {ref: {apiVersion: v1, kind: Service, namespace: a, name: b}}\nauth: {secretRef: {namespace: a, name: b}}"), field: "spec.hook"},
		"AuthOfAPort":     {reason: "nor does a port change that", spec: hookSpec("address: {uri: '//:8443', ref: {apiVersion: v1, kind: Service, namespace: a, name: b}}\nauth: {secretRef: {namespace: a, name: b}}"), field: "spec.hook"},
		"AuthWithoutName": {reason: "which secret?", spec: hookSpec("auth: {secretRef: {namespace: a}}"), field: "spec.hook.auth.secretRef.name"},
		"AuthInline":      {reason: "no secrets in registrations", spec: hookSpec("auth: {token: confidential}"), field: "spec.hook.auth.secretRef"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := registration(t, tc.spec)
			err := admin.Create(t.Context(), object, client.DryRunAll)
			if tc.field == "" && err != nil || tc.field != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.field)) {
				t.Errorf("%s: expected that the API server finds %q wrong, but found %v", tc.reason, tc.field, err)
			}
			if strings.HasSuffix(tc.field, ".uri") && !strings.Contains(err.Error(), "neither user, password nor fragment") {
				t.Errorf("%s: expected words of what a URI has, but found %v", tc.reason, err)
			}
			if err != nil && strings.Contains(err.Error(), "rule evaluation") {
				t.Errorf("%s: a rule fails instead of saying what is wrong: %v", tc.reason, err)
			}
		})
	}
}

func manyConditions(n int) string {
	var all []string
	for i := range n {
		all = append(all, "{type: C"+strings.Repeat("x", i)+"}")
	}
	return strings.Join(all, ", ")
}

// A hook must not report what the host says itself.
func testReservedConditions(t *testing.T, _ *testenv.ControlPlane, admin client.Client) {
	reserved := hostConditions(t)
	if !slices.Contains(reserved, string(contract.ConditionReady)) || !slices.Contains(reserved, string(contract.ConditionFinalized)) {
		t.Fatalf("expected all conditions of the host, but found %v", reserved)
	}
	for _, conditionType := range reserved {
		object := registration(t, hookSpec("conditionsFromHook: [{type: "+conditionType+"}]"))
		if err := admin.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("expected that the API server refuses %s, but found %v: add it to the rule of the CRD", conditionType, err)
		}
	}
}

// hostConditions reads the source of package contract for the types of conditions that it knows.
func hostConditions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(), "host", "internal", "contract", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	declaration := regexp.MustCompile(`(?m)^\tCondition\w+ +v1alpha1\.ConditionType = "(\w+)"$`)
	var found []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declaration.FindAllSubmatch(source, -1) {
			found = append(found, string(match[1]))
		}
	}
	return found
}

// A template of a Landscaper comes back as it was written, whatever is in it.
func testInstallationTemplate(t *testing.T, _ *testenv.ControlPlane, admin client.Client) {
	object := registration(t, `
types: [example.org/a]
installationTemplate:
  blueprint: {ref: {resourceName: deployer-blueprint}}
  componentDescriptor: {ref: {repositoryContext: {type: ociRegistry, baseUrl: example.org}, componentName: example.org/d, version: v0.1.0}}
  imports: {targets: [{name: cluster, target: ''}], data: []}
  importDataMappings: {values: {replicas: 9007199254740991, ratio: 1.5, none: null}}
  unknown: [1, {a: true}]
`)
	want := object.DeepCopy()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), object); err != nil {
			t.Error(err)
		}
	})
	// The host's own write, which knows nothing of the template, does not change it either.
	var read v1alpha1.DeployerRegistration
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), &read); err != nil {
		t.Fatal(err)
	}
	read.Status = v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: 1, Hook: &v1alpha1.HookStatus{URL: "https://hooks.example.org"},
		Deployers: []v1alpha1.RegisteredDeployer{{Type: "example.org/a", Plugin: "a", Version: "1", Replicas: 2}},
	}
	if err := admin.Status().Update(t.Context(), &read); err != nil {
		t.Fatal(err)
	}
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(object.GroupVersionKind())
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
		t.Errorf("spec (-written +read):\n%s", diff)
	}
	if url, _, err := unstructured.NestedString(got.Object, "status", "hook", "url"); url != "https://hooks.example.org" {
		t.Errorf("the status has the URL %q (%v)", url, err)
	}
}
