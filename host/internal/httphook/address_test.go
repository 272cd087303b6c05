package httphook

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const hooksNamespace = "hooks"

// referenceTo names an object in the namespace of hooks.
func referenceTo(apiVersion, kind, name string) *v1alpha1.HookReference {
	return &v1alpha1.HookReference{APIVersion: apiVersion, Kind: kind, Namespace: hooksNamespace, Name: name}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newService("labels"),
		broker("informed", at("https://informed.example.org:8443/base?a=b")), broker("silent", map[string]any{}),
		broker("number", at(int64(7))), broker("garbage", at("garbage")), broker("ftp", at("ftp://a")),
		broker("unreadable", at("http://confidential%zz/")),
		broker("password", at("https://user:confidential@hooks.example.org")),
	).Build()
	service, other := referenceTo("v1", "Service", "labels"), referenceTo("test.pergola.dev/v1", "Broker", "informed")
	brokerOf := func(name string) *v1alpha1.HookReference { return referenceTo("test.pergola.dev/v1", "Broker", name) }
	for name, tc := range map[string]struct {
		reason string
		uri    string
		ref    *v1alpha1.HookReference
		want   string
		fails  string // what the error has; empty for none
	}{
		// Rule (hooks.md#registration): `address.uri` alone is the endpoint.
		"OnlyURI": {reason: "the URI as it is",
			uri: "https://a:8443/v1%2Fa?token=a", want: "https://a:8443/v1%2Fa?token=a"},
		// Rule (hooks.md#registration): `address.ref` may be a Service.
		"Service": {reason: "its name in the cluster, port 80",
			ref: service, want: "http://labels.hooks.svc.cluster.test"},
		// Rule (hooks.md#registration): `address.ref` may be an object with an address in its status.
		"Addressable": {reason: "what the status says", ref: other, want: "https://informed.example.org:8443/base?a=b"},
		"Port": {reason: "the sample of Scoby",
			ref: service, uri: "http://:8080/v1", want: "http://labels.hooks.svc.cluster.test:8080/v1"},
		// Rule (hooks.md#registration): Of both, the URI replaces scheme, port and path of the reference.
		"Combined": {reason: "each part of the URI replaces its own",
			ref: other, uri: "http://:80/v1?c=d", want: "http://informed.example.org:80/v1?c=d"},
		"OnlyPath": {reason: "the rest stays", ref: other, uri: "/v1", want: "https://informed.example.org:8443/v1?a=b"},

		"OtherScheme": {reason: "not HTTP", uri: "file:///etc/passwd", fails: `"file"`},
		"BadURI":      {reason: "no URI", uri: "http://confidential%zz/", fails: "cannot be read"},
		"Password": {reason: "it belongs into a secret",
			uri: "https://user:confidential@hooks.example.org", fails: "secret"},
		"NoSuchService": {reason: "it may come",
			ref: referenceTo("v1", "Service", "nobody"), fails: `the Service "nobody" in namespace "hooks" cannot be read`},
		"NotInformed":    {reason: "it may be informed", ref: brokerOf("silent"), fails: "is not set yet"},
		"WrongType":      {reason: "no text", ref: brokerOf("number"), fails: "a text"},
		"GarbageURL":     {reason: "nowhere to ask", ref: brokerOf("garbage"), fails: `but found "garbage"`},
		"OtherSchemeURL": {reason: "not HTTP", ref: brokerOf("ftp"), fails: `"ftp"`},
		"UnreadableURL": {reason: "nowhere to ask, and not to be shown",
			ref: brokerOf("unreadable"), fails: "cannot be read"},
		"PasswordInside": {reason: "somebody has put it there", ref: brokerOf("password"), fails: "without user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseURL(tc.uri)
			if err == nil && tc.ref != nil {
				got, err = resolve(t.Context(), live, *tc.ref, got, "cluster.test")
			}
			switch {
			case tc.fails == "" && (err != nil || got.String() != tc.want):
				t.Errorf("%s: expected %s, but found %v (%v)", tc.reason, tc.want, got, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails) ||
				strings.Contains(err.Error(), "confidential")):
				t.Errorf("%s: expected an error with %q and no secret, but found %v", tc.reason, tc.fails, err)
			}
		})
	}
}
