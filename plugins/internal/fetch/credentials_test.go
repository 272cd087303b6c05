package fetch

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/cases"
)

func secret(name, document string) sdk.RegistryCredentials {
	return sdk.RegistryCredentials{Secret: name, DockerConfig: []byte(document)}
}

func TestLoginsFor(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/logins.yaml", func(t *testing.T, c struct {
		Keys                 []string
		Registry, Repository string
		Want                 []string
	},
	) {
		var entries, got []string
		for _, key := range c.Keys { // whose users are the keys
			entries = append(entries, fmt.Sprintf(`%q: {"username": %q, "password": "p"}`, key, key))
		}
		document := `{"auths": {` + strings.Join(entries, ", ") + `}}`
		found := loginsFor([]sdk.RegistryCredentials{secret("a", document)}, c.Registry, c.Repository)
		for _, login := range found.usable {
			got = append(got, login.Username)
		}
		if diff := cmp.Diff(c.Want, got); diff != "" || len(found.problems) > 0 {
			t.Errorf("-want +got:\n%s%v", diff, found.problems)
		}
	})
}

func TestSecretsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	login := func(name, user string) sdk.RegistryCredentials {
		return secret(name, fmt.Sprintf(`{"auths": {"r.example.org": {"username": %q, "password": "p"}}}`, user))
	}
	found := loginsFor([]sdk.RegistryCredentials{login("b", "first"), login("a", "second"), login("c", "first")},
		"r.example.org", "shop")
	want := []auth.Credential{{Username: "first", Password: "p"}, {Username: "second", Password: "p"}}
	if diff := cmp.Diff(want, found.usable); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoginsAndProblems(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/docker.yaml", func(t *testing.T, c struct {
		Document string
		Want     []auth.Credential
		Problem  string
	},
	) {
		got := loginsFor([]sdk.RegistryCredentials{secret("s", c.Document)}, "r", "shop")
		if diff := cmp.Diff(c.Want, got.usable); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		problems := strings.Join(got.problems, "; ")
		if (c.Problem == "") != (problems == "") || !strings.Contains(problems, c.Problem) ||
			strings.Contains(problems, "secret") {
			t.Errorf("expected the problem %q, but found %q", c.Problem, problems)
		}
	})
	got := loginsFor([]sdk.RegistryCredentials{{Secret: "s", Problem: "is missing"}}, "r", "shop")
	if diff := cmp.Diff([]string{`Secret "s": is missing`}, got.problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCredentialsFor(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/repositories.yaml", func(t *testing.T, c struct {
		URLs          []string
		Address, Want string
	},
	) {
		var credentials []sdk.ChartRepositoryCredentials
		for _, u := range c.URLs {
			credentials = append(credentials, sdk.ChartRepositoryCredentials{URL: u})
		}
		address, err := url.Parse(c.Address)
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		if got := CredentialsFor(credentials, address); got != nil {
			found = got.URL
		}
		if found != c.Want {
			t.Errorf("expected %q, but found %q", c.Want, found)
		}
	})
}
