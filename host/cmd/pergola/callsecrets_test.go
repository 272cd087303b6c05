package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
)

const pullConfig = `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`

func TestCredentialsOfFiles(t *testing.T) {
	t.Parallel()
	data := writeFile(t, "secret.yaml", `{apiVersion: v1, kind: Secret, metadata: {name: data}, type: kubernetes.io/dockerconfigjson,
		data: {.dockerconfigjson: eyJhdXRocyI6eyJyLmV4YW1wbGUub3JnIjp7ImF1dGgiOiJiV1U2YzJWamNtVjAifX19}}`)
	text := writeFile(t, "secret.yaml",
		"---\n{apiVersion: v1, kind: Secret, metadata: {name: text, namespace: any}, stringData: {.dockerconfigjson: '"+pullConfig+"'}}\n---\n")
	item := writeFile(t, "item.yaml", itemHead+"metadata: {name: a}\nspec: {type: t}\n")
	file := writeFile(t, "context.yaml", "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\n"+
		"metadata: {name: mine}\nregistryPullSecrets: [{name: text}, {name: gone}, {name: data}]\n")
	call, err := (&callFlags{context: file, secrets: []string{data, text}}).read(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if call.context.Name != "mine" {
		t.Errorf("expected the Context of the file, but found %q", call.context.Name)
	}
	want := &sdk.Credentials{Registries: []sdk.RegistryCredentials{
		{Secret: "text", DockerConfig: []byte(pullConfig)},
		{Secret: "gone", Problem: call.credentials.Registries[1].Problem},
		{Secret: "data", DockerConfig: []byte(pullConfig)},
	}}
	if diff := cmp.Diff(want, call.credentials); diff != "" || want.Registries[1].Problem == "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	all, err := call.secrets.registries(t.Context(), "shop")
	if err != nil || len(all) != 2 || string(all["text"].DockerConfig) != pullConfig {
		t.Errorf("expected those of all files by their names, but found %v (%v)", all, err)
	}
}

func TestBadSecretFiles(t *testing.T) {
	t.Parallel()
	const secret, wanted = "t0ps3cret", "expected a Secret of v1, as"
	const head = "{apiVersion: v1, kind: Secret"
	good := writeFile(t, "good.yaml", head+", metadata: {name: pull}}")
	for reason, tc := range map[string]struct{ text, want string }{
		"a docker config":       {`{"auths":{"a":{"auth":"` + secret + `"}}}`, wanted},
		"what is no base64":     {head + ", metadata: {name: a}, data: {a: '" + secret + "!'}}", wanted},
		"an unknown field":      {head + ", metadata: {name: a}, " + secret + ": a}", wanted},
		"another kind":          {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", wanted},
		"a Secret without name": {head + "}", "metadata.name is missing"},
		"several in a file":     {head + "}\n---\n" + head + "}\n", "expected one object, but found several"},
		"the same name twice":   {head + ", metadata: {name: pull}}", `the Secret "pull" is there twice`},
	} {
		got, err := (&callFlags{secrets: []string{good, writeFile(t, "s.yaml", tc.text)}}).readSecrets()
		if got != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: expected an error with %q and nothing of the Secret, but found: %v", reason, tc.want, err)
		}
	}
}
