package chartserver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/charts"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{
		Auth: Bearer, User: user, Password: password, IdentityToken: "identity", TokensElsewhere: true,
	})
	if _, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain")); err != nil {
		t.Fatal(err)
	}
	const manifest = "/v2/charts/plain/manifests/1.0.0"
	refused := get(t, registry.Server, manifest, "")
	if refused.status != http.StatusUnauthorized {
		t.Fatalf("without a token the registry answers %d, want 401", refused.status)
	}
	want := `Bearer realm="` + registry.Tokens().URL() + `/token",service="` + registry.Host() + `",scope="repository:charts/plain:pull"`
	if got := refused.header.Get("WWW-Authenticate"); got != want {
		t.Errorf("the registry asks for %s, want %s", got, want)
	}

	ask := func(scope string) *url.Values {
		return &url.Values{"service": {registry.Host()}, "scope": {scope}}
	}
	const pull = "repository:charts/plain:pull"
	tests := []struct {
		name   string
		reason string
		get    func() *response
		token  int // the status of the token service
		pull   int // what the registry answers with the token
	}{
		{
			name: "basic", reason: "user and password get a token", token: 200, pull: 200,
			get: func() *response {
				return get(t, registry.Tokens(), "/token?"+ask(pull).Encode(), BasicAuth(user, password))
			},
		},
		{
			name: "two scopes", reason: "a token may be for more than what is asked for", token: 200, pull: 200,
			get: func() *response {
				q := ask(pull + ",push")
				q.Add("scope", "repository:other:pull")
				return get(t, registry.Tokens(), "/token?"+q.Encode(), BasicAuth(user, password))
			},
		},
		{
			name: "another scope", reason: "a token is for what it was given for", token: 200, pull: 401,
			get: func() *response {
				return get(t, registry.Tokens(), "/token?"+ask("repository:charts/other:pull").Encode(), BasicAuth(user, password))
			},
		},
		{
			name: "another action", reason: "who may push may not pull", token: 200, pull: 401,
			get: func() *response {
				return get(t, registry.Tokens(), "/token?"+ask("repository:charts/plain:push").Encode(), BasicAuth(user, password))
			},
		},
		{
			name: "another service", reason: "the service knows one registry", token: 400,
			get: func() *response {
				return get(t, registry.Tokens(), "/token?service=elsewhere", BasicAuth(user, password))
			},
		},
		{
			name: "nobody", reason: "somebody has to ask", token: 401,
			get: func() *response { return get(t, registry.Tokens(), "/token?"+ask(pull).Encode(), "") },
		},
		{
			name: "password grant", reason: "OAuth2 does as well", token: 200, pull: 200,
			get: func() *response {
				form := ask(pull)
				form.Set("grant_type", "password")
				form.Set("username", user)
				form.Set("password", password)
				return post(t, registry.Tokens(), "/token", *form)
			},
		},
		{
			name: "identity token", reason: "an identity token stands for user and password", token: 200, pull: 200,
			get: func() *response {
				form := ask(pull)
				form.Set("grant_type", "refresh_token")
				form.Set("refresh_token", "identity")
				return post(t, registry.Tokens(), "/token", *form)
			},
		},
		{
			name: "wrong identity token", reason: "the right one only", token: 401,
			get: func() *response {
				form := ask(pull)
				form.Set("grant_type", "refresh_token")
				form.Set("refresh_token", "other")
				return post(t, registry.Tokens(), "/token", *form)
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := tt.get()
			if answer.status != tt.token {
				t.Fatalf("%s: the token service answers %d, want %d", tt.reason, answer.status, tt.token)
			}
			if tt.token != http.StatusOK {
				return
			}
			token := "Bearer " + decode(t, answer.body)["token"].(string)
			pulled := get(t, registry.Server, manifest, token)
			if pulled.status != tt.pull {
				t.Errorf("%s: the registry answers %d, want %d", tt.reason, pulled.status, tt.pull)
			}
			if tt.pull != http.StatusOK && !strings.Contains(pulled.header.Get("WWW-Authenticate"), `error="insufficient_scope"`) {
				t.Errorf("the registry does not say what the token lacks: %s", pulled.header.Get("WWW-Authenticate"))
			}
			registry.ExpireTokens()
			if got := get(t, registry.Server, manifest, token).status; got != http.StatusUnauthorized {
				t.Errorf("with a token that has expired the registry answers %d, want 401", got)
			}
		})
	}
}

func TestTokensForAnybody(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{Auth: Bearer})
	if _, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, registry.Server, "/v2/charts/plain/manifests/1.0.0", "").status; got != http.StatusUnauthorized {
		t.Errorf("without a token the registry answers %d, want 401", got)
	}
	if _, err := helmClient(t, registry, "", "").Pull(registry.Ref("charts/plain", "1.0.0")); err != nil {
		t.Errorf("what is public can be pulled with a token for anybody: %v", err)
	}
	if registry.Count(Token) == 0 {
		t.Error("nobody has asked for a token")
	}
}
