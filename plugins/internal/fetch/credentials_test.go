package fetch

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pergola-deploy/pergola/sdk"
)

func secret(name, document string) sdk.RegistryCredentials {
	return sdk.RegistryCredentials{Secret: name, DockerConfig: []byte(document)}
}

// auths is a docker configuration with an entry for each key, whose user is that key.
func auths(keys ...string) string {
	var entries []string
	for _, key := range keys {
		entries = append(entries, fmt.Sprintf(`%q: {"username": %q, "password": "p"}`, key, key))
	}
	return `{"auths": {` + strings.Join(entries, ", ") + `}}`
}

func TestLoginsFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason               string
		keys                 []string
		registry, repository string
		want                 []string
	}{
		"Host":     {"the usual entry", []string{"r.example.org"}, "r.example.org", "charts/shop", []string{"r.example.org"}},
		"Others":   {"entries of others", []string{"s.example.org", "example.org", "r.example.org.evil.org", "r.example.orgx"}, "r.example.org", "shop", nil},
		"Port":     {"a port is part of the name", []string{"r.example.org", "r.example.org:5000"}, "r.example.org:5000", "shop", []string{"r.example.org:5000"}},
		"Schemes":  {"they mean nothing", []string{"https://r.example.org/v2/", "http://r.example.org/v1"}, "r.example.org", "shop", []string{"http://r.example.org/v1", "https://r.example.org/v2/"}},
		"Case":     {"names of hosts have no case", []string{"R.Example.org"}, "r.example.org", "shop", []string{"R.Example.org"}},
		"Hub":      {"all its names are one", []string{"https://index.docker.io/v1/", "docker.io"}, "registry-1.docker.io", "a/b", []string{"docker.io", "https://index.docker.io/v1/"}},
		"Path":     {"a path is for all below it", []string{"r.example.org/charts", "r.example.org/charts/shop", "r.example.org/other"}, "r.example.org", "charts/shop", []string{"r.example.org/charts/shop", "r.example.org/charts"}},
		"PathEnds": {"a path ends at a slash", []string{"r.example.org/charts/sho"}, "r.example.org", "charts/shop", nil},
		"Glob":     {"a star is a part of a name", []string{"*.example.org", "*.*.org", "r.example.org", "*.org", "*", "r*.example.org/charts"}, "r.example.org", "charts/shop", []string{"r.example.org", "r*.example.org/charts", "*.example.org", "*.*.org"}},
		"Letter": {
			"a question mark is a letter", []string{"?.example.org", "r.example.org"}, "r.example.org", "shop",
			[]string{"r.example.org", "?.example.org"},
		},
		"HubGlob": {
			"no star is for the whole name of Docker Hub", []string{"*.io", "*.docker.io"}, "docker.io", "a/b",
			[]string{"*.docker.io"},
		},
		"User": {"no user belongs there", []string{"me:secret@r.example.org"}, "r.example.org", "shop", []string{"me:secret@r.example.org"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := loginsFor([]sdk.RegistryCredentials{secret("a", auths(test.keys...))}, test.registry, test.repository)
			var got []string
			for _, login := range found.usable {
				got = append(got, login.Username)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(found.problems) > 0 {
				t.Errorf("%s: -want +got:\n%s%v", test.reason, diff, found.problems)
			}
		})
	}
}

func TestSecretsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	login := func(user string) string {
		return fmt.Sprintf(`{"auths": {"r.example.org": {"username": %q, "password": "p"}}}`, user)
	}
	found := loginsFor([]sdk.RegistryCredentials{
		secret("b", login("second-by-name")), secret("a", login("first-by-name")), secret("c", login("second-by-name")),
	}, "r.example.org", "shop")
	want := []auth.Credential{{Username: "second-by-name", Password: "p"}, {Username: "first-by-name", Password: "p"}}
	if diff := cmp.Diff(want, found.usable); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoginsAndProblems(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	tests := map[string]struct {
		reason, document string
		want             []auth.Credential
		problem          string
	}{
		"Auth":        {reason: "user and password together", document: `{"auths": {"r": {"auth": "` + encode([]byte("u:p:q\x00\x00")) + `"}}}`, want: []auth.Credential{{Username: "u", Password: "p:q"}}},
		"AuthWins":    {reason: "as with Docker", document: `{"auths": {"r": {"auth": "` + encode([]byte("u:p")) + `", "username": "x", "password": "y"}}}`, want: []auth.Credential{{Username: "u", Password: "p"}}},
		"Tokens":      {reason: "tokens instead", document: `{"auths": {"r": {"identitytoken": "i", "registrytoken": "t"}}}`, want: []auth.Credential{{RefreshToken: "i", AccessToken: "t"}}},
		"Empty":       {reason: "nothing to log in with, such as with a helper of Docker", document: `{"auths": {"r": {}}, "credsStore": "x"}`},
		"NoJSON":      {reason: "something else", document: "secret", problem: `Secret "s": expected a docker configuration`},
		"BadAuth":     {reason: "no base64", document: `{"auths": {"r": {"auth": "secret!"}}}`, problem: `the entry "r" has an invalid field auth`},
		"OthersAuth":  {reason: "what is wrong with others does not matter", document: `{"auths": {"s": {"auth": "secret!"}}}`},
		"UserProblem": {reason: "no user belongs there", document: `{"auths": {"me:secret@r": {"auth": "x!"}}}`, problem: `the entry "r" has`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := loginsFor([]sdk.RegistryCredentials{secret("s", test.document)}, "r", "shop")
			if diff := cmp.Diff(test.want, got.usable); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.reason, diff)
			}
			problems := strings.Join(got.problems, "; ")
			if (test.problem == "") != (problems == "") || !strings.Contains(problems, test.problem) || strings.Contains(problems, "secret") {
				t.Errorf("%s: expected the problem %q, but found %q", test.reason, test.problem, problems)
			}
		})
	}
	got := loginsFor([]sdk.RegistryCredentials{{Secret: "s", Problem: "is missing"}}, "r", "shop")
	if diff := cmp.Diff([]string{`Secret "s": is missing`}, got.problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCredentialsFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		urls    []string
		address string
		want    int
	}{
		"Same":         {"the usual entry", []string{"https://c.example.org/charts"}, "https://c.example.org/charts/index.yaml", 0},
		"Slash":        {"a slash at the end says nothing", []string{"https://c.example.org/charts/"}, "https://c.example.org/charts", 0},
		"Port":         {"that of the scheme says nothing", []string{"https://C.example.org:443"}, "https://c.example.org/x", 0},
		"OtherPort":    {"another server", []string{"https://c.example.org:8443"}, "https://c.example.org/x", -1},
		"Scheme":       {"never by http what is for https", []string{"https://c.example.org"}, "http://c.example.org/x", -1},
		"Host":         {"another server", []string{"https://c.example.org.evil.org", "https://example.org"}, "https://c.example.org/x", -1},
		"Longest":      {"the most specific", []string{"https://c.example.org", "https://c.example.org/a/b", "https://c.example.org/a"}, "https://c.example.org/a/b/c", 1},
		"Below":        {"a path ends at a slash", []string{"https://c.example.org/a"}, "https://c.example.org/ab", -1},
		"Dots":         {"nothing beside it", []string{"https://c.example.org/a"}, "https://c.example.org/a/../b", -1},
		"UserIsNoHost": {"a user that looks like a host", []string{"https://c.example.org"}, "https://c.example.org@evil.org/", -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var credentials []sdk.ChartRepositoryCredentials
			for _, u := range test.urls {
				credentials = append(credentials, sdk.ChartRepositoryCredentials{URL: u})
			}
			address, err := url.Parse(test.address)
			if err != nil {
				t.Fatal(err)
			}
			var want *sdk.ChartRepositoryCredentials
			if test.want >= 0 {
				want = &credentials[test.want]
			}
			if got := CredentialsFor(credentials, address); got != want {
				t.Errorf("%s: expected %v, but found %v", test.reason, want, got)
			}
		})
	}
}
