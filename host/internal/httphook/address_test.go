package httphook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const hooksNamespace = "hooks"

// referenceTo names an object in the namespace of hooks.
func referenceTo(apiVersion, kind, name string) *v1alpha1.HookReference {
	return &v1alpha1.HookReference{APIVersion: apiVersion, Kind: kind, Namespace: hooksNamespace, Name: name}
}

// Number 11 of the checklist.
func testResolve(t *testing.T, controlPlane *testenv.ControlPlane, admin client.Client) {
	const addressable = "example.org/v1"
	createAddressables(t, controlPlane, admin)
	service := referenceTo("v1", "Service", "labels")
	other := referenceTo(addressable, "Addressable", "informed")
	tests := map[string]struct {
		reason  string
		uri     string
		ref     *v1alpha1.HookReference
		want    string
		field   string // of the error; empty for none
		missing bool
		message string // what the message has
	}{
		"OnlyURI":      {reason: "the URI as it is", uri: "https://hooks.example.org:8443/v1%2Fa?token=a", want: "https://hooks.example.org:8443/v1%2Fa?token=a"},
		"Service":      {reason: "its name in the cluster, port 80", ref: service, want: "http://labels.hooks.svc.cluster.test"},
		"Addressable":  {reason: "what the status says", ref: other, want: "https://informed.example.org:8443/base?a=b"},
		"Port":         {reason: "the sample of Scoby", ref: service, uri: "http://:8080/v1", want: "http://labels.hooks.svc.cluster.test:8080/v1"},
		"Combined":     {reason: "each part of the URI replaces its own", ref: other, uri: "http://:80/v1?c=d", want: "http://informed.example.org:80/v1?c=d"},
		"OnlyScheme":   {reason: "the rest stays", ref: other, uri: "http://", want: "http://informed.example.org:8443/base?a=b"},
		"OnlyPath":     {reason: "the rest stays", ref: other, uri: "/v1", want: "https://informed.example.org:8443/v1?a=b"},
		"OnlyQuery":    {reason: "the rest stays", ref: other, uri: "?c=d", want: "https://informed.example.org:8443/base?c=d"},
		"ClusterScope": {reason: "a kind without namespaces", ref: &v1alpha1.HookReference{APIVersion: addressable, Kind: "Everywhere", Name: "informed"}, want: "https://everywhere.example.org"},

		"Neither":         {reason: "nowhere to ask", message: "neither"},
		"HostTwice":       {reason: "which one?", ref: service, uri: "http://hooks.example.org/v1", field: "uri", message: `"hooks.example.org"`},
		"RelativeURI":     {reason: "nowhere to ask", uri: "/v1", field: "uri", message: "absolute"},
		"BadURI":          {reason: "no URI", uri: "http://confidential%zz/", field: "uri", message: "cannot be read"},
		"Password":        {reason: "it belongs into a secret", uri: "https://user:confidential@hooks.example.org", field: "uri", message: "secret"},
		"NoSuchService":   {reason: "it may come", ref: referenceTo("v1", "Service", "nobody"), field: "ref.name", missing: true, message: `Service "hooks/nobody"`},
		"NoSuchObject":    {reason: "it may come", ref: referenceTo(addressable, "Addressable", "nobody"), field: "ref.name", missing: true, message: `Addressable "hooks/nobody"`},
		"NoSuchKind":      {reason: "it may be installed", ref: referenceTo("nobody.example.org/v1", "Nobody", "labels"), field: "ref.kind", missing: true, message: `"Nobody"`},
		"NotInformed":     {reason: "it may be informed", ref: referenceTo(addressable, "Addressable", "silent"), field: "ref", missing: true, message: ".status.address.url"},
		"EmptyURL":        {reason: "it may be informed", ref: referenceTo(addressable, "Addressable", "empty"), field: "ref", missing: true, message: ".status.address.url"},
		"WrongType":       {reason: "no text", ref: referenceTo(addressable, "Addressable", "number"), field: "ref", message: "a text"},
		"StatusIsAText":   {reason: "no object", ref: referenceTo(addressable, "Addressable", "text"), field: "ref", message: "a text"},
		"RelativeURL":     {reason: "nowhere to ask", ref: referenceTo(addressable, "Addressable", "relative"), field: "ref", message: "absolute"},
		"GarbageURL":      {reason: "nowhere to ask", ref: referenceTo(addressable, "Addressable", "garbage"), field: "ref", message: `expected an absolute URL that names a host, such as https://hooks.example.org/v1, but found "garbage"`},
		"UnreadableURL":   {reason: "nowhere to ask, and not to be shown", ref: referenceTo(addressable, "Addressable", "unreadable"), field: "ref", message: "absolute"},
		"PasswordInside":  {reason: "somebody has put it there", ref: referenceTo(addressable, "Addressable", "password"), field: "ref", message: "without user"},
		"NoNamespace":     {reason: "of which Service?", ref: &v1alpha1.HookReference{APIVersion: "v1", Kind: "Service", Name: "labels"}, field: "ref.namespace", message: "Service"},
		"NoNamespaceToo":  {reason: "of which object?", ref: &v1alpha1.HookReference{APIVersion: addressable, Kind: "Addressable", Name: "informed"}, field: "ref.namespace", message: "Addressable"},
		"NamespaceOfNone": {reason: "the kind has none", ref: referenceTo(addressable, "Everywhere", "informed"), field: "ref.namespace", message: "remove it"},
		"EmptyRef":        {reason: "of what?", ref: &v1alpha1.HookReference{}, field: "ref", message: "apiVersion"},
		"BadAPIVersion":   {reason: "no version", ref: referenceTo("a/b/c", "Addressable", "informed"), field: "ref", message: `"a/b/c"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := httphook.Resolve(t.Context(), admin, v1alpha1.HookAddress{URI: tc.uri, Ref: tc.ref}, "cluster.test")
			if tc.want != "" {
				if err != nil || got.String() != tc.want {
					t.Errorf("%s: expected %s, but found %v (%v)", tc.reason, tc.want, got, err)
				}
				return
			}
			var wrong *httphook.AddressError
			if !errors.As(err, &wrong) {
				t.Fatalf("%s: expected an error of the address, but found %v (%v)", tc.reason, err, got)
			}
			if wrong.Field != tc.field || wrong.Missing != tc.missing || !strings.Contains(wrong.Message, tc.message) || strings.Contains(err.Error(), "confidential") {
				t.Errorf("%s: expected an error of %q with %q, missing: %t, and no secret, but found %#v", tc.reason, tc.field, tc.message, tc.missing, wrong)
			}
		})
	}
}

// createAddressables creates a Service and objects of two kinds that say where they are.
func createAddressables(t *testing.T, controlPlane *testenv.ControlPlane, admin client.Client) {
	t.Helper()
	definition := func(kind, plural string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
		everything := true
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.org"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.org", Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &everything}},
				}},
			},
		}
	}
	_, err := envtest.InstallCRDs(controlPlane.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		definition("Addressable", "addressables", apiextensionsv1.NamespaceScoped), definition("Everywhere", "everywheres", apiextensionsv1.ClusterScoped),
	}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(url any) any { return map[string]any{"address": map[string]any{"url": url}} }
	object := func(kind, namespace, name string, status any) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": kind, "status": status}}
		out.SetNamespace(namespace)
		out.SetName(name)
		return out
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hooksNamespace}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "labels", Namespace: hooksNamespace}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		object("Addressable", hooksNamespace, "informed", at("https://informed.example.org:8443/base?a=b")),
		object("Addressable", hooksNamespace, "silent", map[string]any{}),
		object("Addressable", hooksNamespace, "empty", at("")),
		object("Addressable", hooksNamespace, "number", at(int64(7))),
		object("Addressable", hooksNamespace, "text", "fine"),
		object("Addressable", hooksNamespace, "relative", at("/v1")),
		object("Addressable", hooksNamespace, "garbage", at("garbage")),
		object("Addressable", hooksNamespace, "unreadable", at("http://confidential%zz/")),
		object("Addressable", hooksNamespace, "password", at("https://user:confidential@hooks.example.org")),
		object("Everywhere", "", "informed", at("https://everywhere.example.org")),
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// What the host may not read may be allowed later.
func testResolveForbidden(t *testing.T, controlPlane *testenv.ControlPlane, _ client.Client) {
	config := rest.CopyConfig(controlPlane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	nobody, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = httphook.Resolve(t.Context(), nobody, v1alpha1.HookAddress{Ref: referenceTo("v1", "Service", "labels")}, "cluster.test")
	var wrong *httphook.AddressError
	if !errors.As(err, &wrong) || !wrong.Missing || wrong.Field != "ref" || !strings.Contains(wrong.Message, "may not read") {
		t.Errorf("expected an error that says what is not allowed, but found %v", err)
	}
}

// An API server that is down says nothing about an address.
func TestResolveFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	reader, err := client.New(&rest.Config{Host: server.URL}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, ref := range []*v1alpha1.HookReference{referenceTo("v1", "Service", "labels"), referenceTo("example.org/v1", "Addressable", "labels")} {
		_, err = httphook.Resolve(ctx, reader, v1alpha1.HookAddress{Ref: ref}, "cluster.test")
		var wrong *httphook.AddressError
		if err == nil || errors.As(err, &wrong) || !strings.Contains(err.Error(), ref.Kind+` "hooks/labels"`) {
			t.Errorf("expected a failure that names the object and does not blame the address, but found %v", err)
		}
	}
}
