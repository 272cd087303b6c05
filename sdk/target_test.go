package sdk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// account is the content of a Target of an own type.
type account struct {
	URL     string `json:"url"`
	Token   string `json:"token"`
	Retries int    `json:"retries"`
}

func contentOf(text string) *sdk.Target {
	return &sdk.Target{Name: "prod", Type: "t", Content: []byte(text)}
}

// mustBeUsers fails unless an error about a Target is a user's mistake with the text, and without the content.
func mustBeUsers(t *testing.T, name string, err error, reason, want string) {
	t.Helper()
	var found *sdk.Error
	if !errors.As(err, &found) || found.Reason != reason || !strings.Contains(err.Error(), want) ||
		!slices.Equal(found.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}) {
		t.Errorf("%s: expected the reason %s with %q, but found %v", name, reason, want, err)
	}
	if err != nil && (strings.Contains(err.Error(), theSecret) || strings.Contains(err.Error(), "1.25")) {
		t.Errorf("%s: the error has a value: %v", name, err)
	}
}

// Rule (plugin-authors.md#own-target-types): Target.Decode reads YAML or JSON strictly. Its error names the Target and
// all wrong fields, and no values.
func TestTargetDecode(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"JSON": `{"url":"u","token":"t","retries":3}`, "YAML": "url: u\ntoken: t\nretries: 3\n",
	} {
		var got account
		err := contentOf(text).Decode(&got)
		if diff := cmp.Diff(account{"u", "t", 3}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, content (-want +got):\n%s", name, err, diff)
		}
	}
	mustBeUsers(t, "none", (*sdk.Target)(nil).Decode(&account{}), sdk.ReasonTargetMissing, "this deployer needs a Target")
	for text, want := range map[string]string{
		"":               "it is empty: set spec.config or spec.secretRef",
		theSecret:        `content of Target "prod" of type "t": expected an object`,
		"- " + theSecret: "expected an object",
		`{"token": 5, "retries": 1.25, "tokn": "` + theSecret + `"}`: "token: expected a text; " +
			`retries: expected a whole number; unknown field "tokn"; did you mean token?`,
		"token: " + theSecret + "\ntoken: b\n": "expected YAML or JSON with each field once",
		`{"token":"a","token":"b"}`:            `duplicate field "token"`,
		"token: {" + theSecret:                 "expected YAML or JSON",
	} {
		mustBeUsers(t, text, contentOf(text).Decode(&account{}), sdk.ReasonTargetInvalid, want)
	}
}

func TestTargetKubeconfig(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"kubeconfig":"k"}`, "kubeconfig: k", `{"kubeconfig":"k","region":"r"}`} {
		if got, err := contentOf(text).Kubeconfig(); string(got) != "k" || err != nil {
			t.Errorf("%s: found %q, error %v", text, got, err)
		}
	}
	_, err := (*sdk.Target)(nil).Kubeconfig()
	mustBeUsers(t, "none", err, sdk.ReasonTargetMissing, string(v1alpha1.KubernetesClusterTargetType))
	for text, want := range map[string]string{
		`{"token":"` + theSecret + `"}`:        "holds no kubeconfig",
		theSecret:                              "expected an object",
		`{"kubeconfig":["` + theSecret + `"]}`: "kubeconfig: expected a text",
		"":                                     "it is empty",
	} {
		_, err := contentOf(text).Kubeconfig()
		mustBeUsers(t, text, err, sdk.ReasonTargetInvalid, want)
	}
}

// An unknown field hides neither a wrong type nor a wrong value: the others are in the struct.
func TestConfigureRequestDecodeConfig(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]struct {
		config   account
		problems []sdk.Problem
	}{
		"":                        {account{URL: "default"}, nil},
		" \n":                     {account{URL: "default"}, nil},
		"token: t\n":              {account{"default", "t", 0}, nil},
		`{"url":"u","retries":3}`: {account{"u", "", 3}, nil},
		"url: u\nretries: x\ntokn: t\n": {account{URL: "u"}, []sdk.Problem{
			{Field: "retries", Message: "expected a whole number, but found a text"},
			{Field: "tokn", Message: "unknown field; did you mean token?"},
		}},
	} {
		config := account{URL: "default"}
		problems := (&sdk.ConfigureRequest{Document: []byte(document)}).DecodeConfig(&config)
		if diff := cmp.Diff(want.config, config) + cmp.Diff(want.problems, problems); diff != "" {
			t.Errorf("%q: -want +got:\n%s", document, diff)
		}
	}
	problems := (&sdk.ConfigureRequest{Document: []byte("{")}).DecodeConfig(&account{})
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, "expected YAML or JSON: ") {
		t.Errorf("expected one problem of the syntax, but found %v", problems)
	}
}
