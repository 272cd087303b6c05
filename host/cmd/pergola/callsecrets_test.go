package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// pullContext names these Secrets.
func pullContext(names ...string) *v1alpha1.Context {
	lsContext := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	for _, name := range names {
		lsContext.RegistryPullSecrets = append(lsContext.RegistryPullSecrets, v1alpha1.LocalObjectReference{Name: name})
	}
	return lsContext
}

func TestCredentialsOfFiles(t *testing.T) {
	t.Parallel()
	const config = `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`
	data := writeFile(t, "secret.yaml", `{apiVersion: v1, kind: Secret, metadata: {name: data}, type: kubernetes.io/dockerconfigjson,
		data: {.dockerconfigjson: eyJhdXRocyI6eyJyLmV4YW1wbGUub3JnIjp7ImF1dGgiOiJiV1U2YzJWamNtVjAifX19}}`)
	text := writeFile(t, "secret.yaml", "---\n{apiVersion: v1, kind: Secret, metadata: {name: text, namespace: any}, stringData: {.dockerconfigjson: '"+config+"'}}\n---\n")
	got, err := (&callFlags{secrets: []string{data, text}}).credentialsOf(t.Context(), pullContext("text", "gone", "data"))
	if err != nil {
		t.Fatal(err)
	}
	want := &sdk.Credentials{Registries: []sdk.RegistryCredentials{
		{Secret: "text", DockerConfig: []byte(config)},
		{Secret: "gone", Problem: `Context "default/default": registryPullSecrets[1].name: there is no Secret "default/gone"; create it, or remove the entry`},
		{Secret: "data", DockerConfig: []byte(config)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	if got, err := (&callFlags{}).credentialsOf(t.Context(), pullContext()); err != nil || got == nil {
		t.Errorf("expected credentials that are none, but found %v, %v", got, err)
	}
}

func TestBadSecretFiles(t *testing.T) {
	t.Parallel()
	const secret = "t0ps3cret"
	good := writeFile(t, "good.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: pull}}")
	for reason, tc := range map[string]struct {
		files []string
		want  string
	}{
		"no file":               {[]string{"/no/where"}, "--secret: open /no/where"},
		"a docker config":       {[]string{writeFile(t, "config.json", `{"auths":{"a":{"auth":"`+secret+`"}}}`)}, "expected a Secret of v1, as"},
		"what is no base64":     {[]string{writeFile(t, "s.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: '"+secret+"!'}}")}, "expected a Secret of v1, as"},
		"an unknown field":      {[]string{writeFile(t, "s.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}, "+secret+": a}")}, "expected a Secret of v1, as"},
		"another kind":          {[]string{writeFile(t, "s.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}, "expected a Secret of v1, as"},
		"a Secret without name": {[]string{writeFile(t, "s.yaml", "{apiVersion: v1, kind: Secret}")}, "metadata.name is missing"},
		"several in a file":     {[]string{writeFile(t, "s.yaml", "{apiVersion: v1, kind: Secret}\n---\n{apiVersion: v1, kind: Secret}\n")}, "expected one object, but found several"},
		"the same name twice":   {[]string{good, good}, `the Secret "pull" is there twice`},
	} {
		got, err := (&callFlags{secrets: tc.files}).credentialsOf(t.Context(), pullContext("pull"))
		if got != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: expected an error with %q and nothing of the Secret, but found: %v", reason, tc.want, err)
		}
	}
}
