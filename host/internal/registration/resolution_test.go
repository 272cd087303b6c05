package registration

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const broker = "test.pergola.dev/v1"

// installBrokers installs a kind of objects that say in their status where they are.
func installBrokers(t *testing.T) {
	t.Helper()
	create(t, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "brokers.test.pergola.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "test.pergola.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "brokers", Singular: "broker", Kind: "Broker", ListKind: "BrokerList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: openSchema()}},
		},
	})
}

// openSchema takes any object.
func openSchema() *apiextensionsv1.CustomResourceValidation {
	return &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
	}
}

// createBroker creates a Broker, as soon as the kind is served. status is what it says there; nil for nothing.
func createBroker(t *testing.T, name string, status map[string]any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": broker, "kind": "Broker"}}
	object.SetNamespace(namespace)
	object.SetName(name)
	if status != nil {
		object.Object["status"] = status
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := admin.Create(ctx, object)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Cleanup(func() { remove(t, object) })
	return object
}

func at(url any) map[string]any { return map[string]any{"address": map[string]any{"url": url}} }

// What is wrong outside of a registration is in its conditions and in an event, which name the field, and mended when it is mended.
func TestUnresolvedHooks(t *testing.T) {
	installBrokers(t)
	withAuth := func(hook *v1alpha1.Hook, secret string) *v1alpha1.Hook {
		hook.Auth = &v1alpha1.HookAuth{SecretRef: v1alpha1.NamespacedSecretReference{Namespace: namespace, Name: secret}}
		return hook
	}
	withTLS := func(hook *v1alpha1.Hook, secret string) *v1alpha1.Hook {
		hook.TLS = &v1alpha1.HookTLS{SecretRef: &v1alpha1.NamespacedSecretReference{Namespace: namespace, Name: secret}}
		return hook
	}
	const secure = "https://hook.test/v1"
	for name, tc := range map[string]struct {
		reason string
		hook   *v1alpha1.Hook
		given  func(t *testing.T)
		why    string
		texts  []string
		mend   func(t *testing.T)
		url    string
	}{
		"service": {
			reason: "a Service that is not there", hook: refHook("v1", "Service", "late"),
			why: ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref.name: ", `"default/late"`},
			mend: func(t *testing.T) { create(t, newService("late")) }, url: "http://late.default.svc.cluster.test",
		},
		"broker": {
			reason: "an object that is not there", hook: refHook(broker, "Broker", "late"),
			why: ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref.name: ", `"default/late"`},
			mend: func(t *testing.T) { createBroker(t, "late", at("http://late.test/v2")) }, url: "http://late.test/v2",
		},
		"no address": {
			reason: "an object that does not say where it is", hook: refHook(broker, "Broker", "mute"),
			given: func(t *testing.T) { createBroker(t, "mute", nil) },
			why:   ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref: ", ".status.address.url"},
			mend: func(t *testing.T) { say(t, "mute", at("http://mute.test")) }, url: "http://mute.test",
		},
		"wrong address": {
			reason: "an object that says something else", hook: refHook(broker, "Broker", "odd"),
			given: func(t *testing.T) { createBroker(t, "odd", at(int64(5))) },
			why:   ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref: ", ".status.address.url"},
			mend: func(t *testing.T) { say(t, "odd", at("http://odd.test")) }, url: "http://odd.test",
		},
		"unencrypted": {
			reason: "credentials are not sent to an address of another scheme", hook: withAuth(refHook(broker, "Broker", "open"), "open"),
			given: func(t *testing.T) {
				createBroker(t, "open", at("http://open.test"))
				create(t, newSecret("open", map[string]string{"token": "t"}))
			},
			why: ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref: ", `"open"`, ".status.address.url", "scheme https"},
			mend: func(t *testing.T) { say(t, "open", at("https://open.test")) }, url: "https://open.test",
		},
		"no token": {
			reason: "a secret that is not there", hook: withAuth(uriHook(secure), "late-auth"),
			why: ReasonSecretNotFound, texts: []string{`spec.hook.auth.secretRef: there is no secret "late-auth" in namespace "default"; create it`},
			mend: func(t *testing.T) {
				create(t, newSecret("late-auth", map[string]string{"username": "u", "password": "p"}))
			}, url: secure,
		},
		"no certificate": {
			reason: "a secret that is not there", hook: withTLS(uriHook(secure), "late-tls"),
			why: ReasonSecretNotFound, texts: []string{"spec.hook.tls.secretRef: ", `"late-tls"`},
			mend: func(t *testing.T) { create(t, newSecret("late-tls", map[string]string{"ca.crt": authority(t)})) }, url: secure,
		},
		"wrong token": {
			reason: "a secret without what is needed", hook: withAuth(uriHook(secure), "odd-auth"),
			given: func(t *testing.T) { create(t, newSecret("odd-auth", map[string]string{"tokn": "s3cr3t"})) },
			why:   ReasonSecretInvalid, texts: []string{"spec.hook.auth.secretRef: ", `"odd-auth"`, "token"},
			mend: func(t *testing.T) { change(t, "odd-auth", map[string]string{"token": "s3cr3t"}) }, url: secure,
		},
		"wrong keys": {
			reason: "a name that is mistyped must not make the authorities of the system count", hook: withTLS(uriHook(secure), "odd-tls"),
			given: func(t *testing.T) { create(t, newSecret("odd-tls", map[string]string{"ca.pem": "s3cr3t"})) },
			why:   ReasonSecretInvalid, texts: []string{"spec.hook.tls.secretRef: ", `"odd-tls"`, "ca.crt"},
			mend: func(t *testing.T) { change(t, "odd-tls", map[string]string{"ca.crt": authority(t)}) }, url: secure,
		},
		"wrong authorities": {
			reason: "no certificate", hook: withTLS(uriHook(secure), "bad-tls"),
			given: func(t *testing.T) { create(t, newSecret("bad-tls", map[string]string{"ca.crt": "s3cr3t"})) },
			why:   ReasonSecretInvalid, texts: []string{"spec.hook.tls.secretRef: ", `"bad-tls"`, "ca.crt"},
			mend: func(t *testing.T) { change(t, "bad-tls", map[string]string{"ca.crt": authority(t)}) }, url: secure,
		},
		"everything": {
			reason: "all at once", hook: withAuth(withTLS(refHook(broker, "Broker", "all"), "all"), "all"),
			why: ReasonAddressNotResolved, texts: []string{"spec.hook.address.ref.name: ", "spec.hook.tls.secretRef: ", "spec.hook.auth.secretRef: "},
			mend: func(t *testing.T) {
				createBroker(t, "all", at("https://all.test"))
				create(t, newSecret("all", map[string]string{"ca.crt": authority(t), "token": "t"}))
			}, url: "https://all.test",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.given != nil {
				tc.given(t)
			}
			w := start(t, options{})
			registration := strings.ReplaceAll(name, " ", "-")
			register(t, registration, tc.hook, itemType)
			problem := w.notReady(itemType, tc.why)
			status := w.status(registration, ConditionHookResolved, v1alpha1.ConditionFalse, tc.why)
			w.status(registration, ConditionReady, v1alpha1.ConditionFalse, tc.why)
			for _, text := range append(tc.texts, "") {
				if message := condition(status, ConditionHookResolved).Message; !strings.Contains(message, text) || !strings.Contains(problem.Error(), text) {
					t.Errorf("%s: expected %s in %q and %q", tc.reason, text, message, problem)
				}
				w.waitForEvent(registration, tc.why, text)
			}
			if strings.Contains(problem.Error(), "s3cr3t") {
				t.Errorf("%s: a secret is told: %v", tc.reason, problem)
			}
			if status.Hook != nil {
				t.Errorf("%s: the status has the address %q", tc.reason, status.Hook.URL)
			}
			tc.mend(t)
			w.hook(itemType, tc.url)
			w.status(registration, ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
		})
	}
}

// say has a Broker say something in its status.
func say(t *testing.T, name string, status map[string]any) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": broker, "kind": "Broker"}}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
	update(t, object, func() { object.Object["status"] = status })
}

// change replaces the content of a secret.
func change(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	update(t, secret, func() {
		secret.Data = map[string][]byte{}
		for key, value := range data {
			secret.Data[key] = []byte(value)
		}
	})
}

// What the schema refuses today may be there from before, or with somebody else's CustomResourceDefinition.
func TestInvalidSpecs(t *testing.T) {
	relaxSchema(t)
	const sound = `{"version": "v1", "address": {"uri": "http://hook.test"}`
	for name, tc := range map[string]struct {
		reason string
		hook   string
		fields []string
	}{
		"version":            {"there is one version", `{"version": "v2", "address": {"uri": "http://hook.test"}}`, []string{"spec.hook.version: "}},
		"no address":         {"it is needed", `{"version": "v1", "address": {}}`, []string{"spec.hook.address: "}},
		"relative address":   {"there is nothing that it is relative to", `{"version": "v1", "address": {"uri": "/v1"}}`, []string{"spec.hook.address.uri: "}},
		"password":           {"it is for a secret", `{"version": "v1", "address": {"uri": "https://u:s3cr3t@hook.test"}}`, []string{"spec.hook.address.uri: "}},
		"host":               {"the reference says it", `{"version": "v1", "address": {"uri": "http://hook.test", "ref": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "kubernetes"}}}`, []string{"spec.hook.address.uri: "}},
		"timeout":            {"it is no duration", sound + `, "timeout": "soon"}`, []string{"spec.hook.timeout: "}},
		"years":              {"nobody waits so long", sound + `, "timeout": "P1Y"}`, []string{"spec.hook.timeout: "}},
		"capability":         {"there is no such phase", sound + `, "capabilities": ["finalize", "finalization"]}`, []string{"spec.hook.capabilities[1]: "}},
		"condition of ours":  {"the host sets it", sound + `, "conditionsFromHook": [{"type": "Ready"}]}`, []string{"spec.hook.conditionsFromHook[0].type: "}},
		"odd condition":      {"it is no name", sound + `, "conditionsFromHook": [{"type": "Fine"}, {"type": "not fine"}]}`, []string{"spec.hook.conditionsFromHook[1].type: "}},
		"service's secret":   {"a Service speaks no https", `{"version": "v1", "address": {"ref": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "kubernetes"}}, "auth": {"secretRef": {"namespace": "default", "name": "a"}}}`, []string{"spec.hook.address: "}},
		"everything at once": {"all that is wrong", `{"version": "v2", "address": {}, "timeout": "soon", "capabilities": ["x"]}`, []string{"spec.hook.version: ", "spec.hook.address: ", "spec.hook.timeout: ", "spec.hook.capabilities[0]: "}},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, options{})
			registration := strings.NewReplacer(" ", "-", "'", "").Replace(name)
			object := &unstructured.Unstructured{}
			document := `{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DeployerRegistration", "metadata": {"name": "` + registration +
				`"}, "spec": {"types": ["` + string(itemType) + `"], "hook": ` + tc.hook + `}}`
			if err := object.UnmarshalJSON([]byte(document)); err != nil {
				t.Fatal(err)
			}
			create(t, object)
			problem := w.notReady(itemType, ReasonInvalid)
			status := w.status(registration, ConditionReady, v1alpha1.ConditionFalse, ReasonInvalid)
			for _, field := range tc.fields {
				if message := condition(status, ConditionReady).Message; !strings.Contains(message, field) || !strings.Contains(problem.Message, field) {
					t.Errorf("%s: expected %s in %q", tc.reason, field, message)
				}
				w.waitForEvent(registration, ReasonInvalid, field)
			}
			if strings.Contains(problem.Error(), "s3cr3t") {
				t.Errorf("%s: a secret is told: %v", tc.reason, problem)
			}
		})
	}
}

// relaxSchema lets any spec of a registration pass, until the end of the test.
func relaxSchema(t *testing.T) {
	t.Helper()
	definition := registrationDefinition(t)
	sound := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	replace := func(spec apiextensionsv1.JSONSchemaProps) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := admin.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			t.Fatal(err)
		}
		before := definition.DeepCopy()
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		if err := admin.Patch(ctx, definition, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { replace(sound); waitForSchema(t, true) })
	replace(*openSchema().OpenAPIV3Schema)
	waitForSchema(t, false)
}

// registrationDefinition is the CustomResourceDefinition of registrations as it is installed.
func registrationDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := testenv.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == "DeployerRegistration" {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
				t.Fatal(err)
			}
			return definition
		}
	}
	t.Fatal("there is no definition")
	return nil
}

// waitForSchema waits until the API server refuses a registration without types, or does not any more.
func waitForSchema(t *testing.T, strict bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		bad := &v1alpha1.DeployerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
		if err := admin.Create(ctx, bad, client.DryRunAll); (err != nil) == strict {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the schema is not in force")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A registration without types is of no use, whether it has a hook or not.
func TestRegistrationWithoutTypes(t *testing.T) {
	relaxSchema(t)
	w := start(t, options{})
	register(t, "idle", nil)
	status := w.status("idle", ConditionReady, v1alpha1.ConditionFalse, ReasonInvalid)
	if c := condition(status, ConditionReady); !strings.Contains(c.Message, "spec.types: ") {
		t.Errorf("expected the field in %q", c.Message)
	}
	w.waitForEvent("idle", ReasonInvalid, "spec.types: ")
}
