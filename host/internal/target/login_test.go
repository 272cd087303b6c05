package target

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// oidcContent returns content with an oidcConfig that is sound but for these fields of it.
func oidcContent(fields ...string) string {
	config := map[string]string{
		"server": `"https://example.org:6443"`, "caData": fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(authority())),
		"serviceAccount": `{"name":"deployer"}`,
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		config[name] = value
	}
	lines := []string{"oidcConfig:"}
	for name, value := range config {
		lines = append(lines, "  "+name+": "+value)
	}
	return strings.Join(lines, "\n")
}

// TestServiceAccountOfTheOperator: whoever writes a Target acts as nobody else than the operator says.
// Rule (SECURITY.md#authors-of-items): With `targetServiceAccount` a Target of the own cluster acts as that one alone.
func TestServiceAccountOfTheOperator(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, content, refused string }{
		{"it need not be named", `{"selfConfig":{}}`, ""},
		{"it may be named", selfContent, ""},
		{"no other one may", `{"selfConfig":{"serviceAccount":{"name":"admin"}}}`, selfField},
		{"an empty one is none", `{"selfConfig":{"serviceAccount":{}}}`, ""},
		{"nor for another cluster, which may be this one under another name",
			oidcContent(`serviceAccount: {"name":"admin"}`), oidcField},
		{"there it need not be named, either", oidcContent(`serviceAccount: null`), ""},
	} {
		_, login, problems := sanitize(v1alpha1.KubernetesClusterTargetType, []byte(tc.content), "deployer")
		if tc.refused == "" {
			if len(problems) > 0 || login == nil || login.serviceAccount != "deployer" {
				t.Errorf("%s: found %+v, %v", tc.reason, login, problems)
			}
			continue
		}
		want := []problem{invalid(tc.refused+".serviceAccount.name", `is not "deployer", the only ServiceAccount of the `+
			`namespace that the operator of the host allows; leave serviceAccount out`)}
		if diff := cmp.Diff(want, problems, cmp.AllowUnexported(problem{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	cluster := &clientcmdv1.Cluster{Server: "https://example.org:6443", CertificateAuthorityData: authority()}
	self := func(expiration int64) outcome {
		return outcome{login: &login{field: selfField, serviceAccount: "deployer", expiration: expiration}}
	}
	oidc := func(expiration int64, cluster *clientcmdv1.Cluster, audiences ...string) outcome {
		return outcome{login: &login{
			field: oidcField, serviceAccount: "deployer", expiration: expiration, cluster: cluster, audiences: audiences,
		}}
	}
	const (
		longest    = `{"selfConfig":{"serviceAccount":{"name":"deployer"},"expirationSeconds":4294967296}}`
		other      = `{"selfConfig":{"serviceAccount":{"name":"deployer","namespace":"t0ps3cret"}}}`
		twice      = `{"selfConfig":{"serviceAccount":{"name":"a"},"serviceaccount":{"name":"b"}}}`
		outOfRange = "oidcConfig.expirationSeconds: expected a whole number from 600 to 4294967296"
		noWhole    = "oidcConfig.expirationSeconds: expected a whole number, but found another number"
		noHTTPS    = "oidcConfig.server: is no https URL; write https://HOST:PORT"
		noName     = "is no name that a ServiceAccount can have: lower case letters, digits, '-' and '.'"
		noAudience = ": expected a text that is not empty"
	)
	checkContent(t, v1alpha1.KubernetesClusterTargetType, map[string]contentCase{
		"oidc":       {"The defaults are Landscaper's.", oidcContent(), oidc(86400, cluster)},
		"everything": {"", oidcContent("audience: [a, b]", "expirationSeconds: 3600"), oidc(3600, cluster, "a", "b")},
		"self":       {"The cluster is the host's.", selfContent, self(86400)},
		"longest":    {"The API server's bound.", longest, self(1 << 32)},
		"no caData": {"Public certificates exist.",
			oidcContent(`caData: ""`), oidc(86400, &clientcmdv1.Cluster{Server: cluster.Server})},
		"both": {"Nobody guesses.",
			oidcContent() + "\nselfConfig: {}", fails("content: has both oidcConfig and selfConfig; remove one of them")},
		"bare beside": {"Nobody guesses.",
			sound + oidcContent(), fails("content: is a kubeconfig and has oidcConfig or selfConfig too; remove one of them")},
		"no object":  {"", `{"selfConfig":"t0ps3cret"}`, fails("selfConfig: expected an object, but found a text")},
		"empty self": {"", `{"selfConfig":{}}`, fails("selfConfig.serviceAccount.name: is missing")},
		"empty oidc": {"",
			`{"oidcConfig":{}}`, fails("oidcConfig.server: is missing", "oidcConfig.serviceAccount.name: is missing")},
		"http":          {"No token in clear text.", oidcContent("server: http://t0ps3cret"), fails(noHTTPS)},
		"no host":       {"client-go would dial nothing.", oidcContent("server: 'https://:6443'"), fails(noHTTPS)},
		"not parseable": {"The error would quote it.", oidcContent(`server: "https://t0ps3cret\x7f"`), fails(noHTTPS)},
		"user": {"A password would be shown in messages.", oidcContent("server: https://u:t0ps3cret@example.org"),
			fails("oidcConfig.server: has a user or a password; remove it, as the token is the credential")},
		"query": {"client-go would drop it.", oidcContent("server: https://example.org?t0ps3cret"),
			fails("oidcConfig.server: has a query or a fragment; remove it")},
		"too short": {"The API server would refuse.", oidcContent("expirationSeconds: 599"), fails(outOfRange)},
		"too long":  {"The API server would refuse.", oidcContent("expirationSeconds: 4294967297"), fails(outOfRange)},
		"octal": {"Octal for one parser, decimal for another.", oidcContent("expirationSeconds: 07777"),
			fails("oidcConfig.expirationSeconds: expected a whole number, but found a text")},
		"huge": {"More than 64 bits.", oidcContent("expirationSeconds: 99999999999999999999"), fails(noWhole)},
		// Rule (SECURITY.md#authors-of-items): A Target of the own cluster acts as a ServiceAccount of its own
		// namespace.
		"account namespace": {"Another namespace is not possible.",
			other, fails("selfConfig.serviceAccount.namespace: is not known; expected only name")},
		"account name": {"The name is part of a URL.",
			`{"selfConfig":{"serviceAccount":{"name":"../secrets"}}}`, fails("selfConfig.serviceAccount.name: " + noName)},
		"all at once": {
			"", "oidcConfig: {server: 'http://t0ps3cret', caData: '1', serviceAccount: {name: A}, " +
				"audience: ['', a, ''], expirationSeconds: 9, audiences: []}",
			fails(
				"oidcConfig.audiences: is not known; expected only server, caData, serviceAccount, audience, expirationSeconds",
				noHTTPS, "oidcConfig.caData: is not valid base64; expected certificates in PEM, in base64",
				"oidcConfig.audience[0]"+noAudience, "oidcConfig.audience[2]"+noAudience,
				"oidcConfig.serviceAccount.name: "+noName, outOfRange,
			),
		},
		"wrong type": {"The field is told, and not the value.",
			oidcContent("audience: [t0ps3cret, [t0ps3cret]]"), fails("oidcConfig.audience: expected a text, but found a list")},
		"duplicate keys": {"Parsers differ about which counts.", twice,
			fails("content.selfConfig.serviceaccount: the key appears twice (keys that differ only in case count as equal)")},
	})
}

func TestOwnCluster(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := func(c rest.Config) *rest.Config {
		c.BearerToken, c.BearerTokenFile, c.Username, c.Password = "t0ps3cret", "/t0ps3cret", "u", "t0ps3cret"
		c.CertData, c.KeyData = []byte("t0ps3cret"), []byte("t0ps3cret")
		c.Impersonate = rest.ImpersonationConfig{UserName: "t0ps3cret"}
		c.ExecProvider = &clientcmdapi.ExecConfig{Command: "t0ps3cret"}
		return &c
	}
	for name, tc := range map[string]struct {
		reason  string
		config  *rest.Config
		want    *clientcmdv1.Cluster
		wantErr bool
	}{
		// Rule (SECURITY.md#authors-of-items): A Target of the own cluster gets none of the host's credentials.
		"credentials": {
			reason: "None of the host's credentials gets through.",
			config: credentials(rest.Config{Host: "https://u:t0ps3cret@example.org", TLSClientConfig: rest.TLSClientConfig{
				CAData: authority(), ServerName: "name",
			}}),
			want: &clientcmdv1.Cluster{Server: "https://example.org", CertificateAuthorityData: authority(),
				TLSServerName: "name"},
		},
		"file": {"In a cluster the authority is in a file, which no plugin may be told to read.",
			&rest.Config{Host: "https://10.0.0.1:443", TLSClientConfig: rest.TLSClientConfig{CAFile: file}},
			&clientcmdv1.Cluster{Server: "https://10.0.0.1:443", CertificateAuthorityData: authority()}, false},
		"data and file": {"As in client-go, data counts before a file.",
			&rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: authority(), CAFile: "/missing"}},
			&clientcmdv1.Cluster{Server: "https://a", CertificateAuthorityData: authority()}, false},
		"file missing": {"A file that is missing is no reason to trust everybody.",
			&rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: file + ".missing"}}, nil, true},
		"insecure": {"client-go refuses an authority beside it.",
			&rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{Insecure: true, CAData: authority()}},
			&clientcmdv1.Cluster{Server: "https://a", InsecureSkipTLSVerify: true}, false},
		"host and port": {"Without a scheme the client certificate decides, which the plugin does not get.",
			&rest.Config{Host: "a:6443", TLSClientConfig: rest.TLSClientConfig{CertFile: "/cert"}},
			&clientcmdv1.Cluster{Server: "https://a:6443"}, false},
		"proxy": {"kubectl proxy is the operator's choice.",
			&rest.Config{Host: "127.0.0.1:8001"}, &clientcmdv1.Cluster{Server: "http://127.0.0.1:8001"}, false},
		"no host": {reason: "There must be one.", config: &rest.Config{}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ownCluster(tc.config)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wantErr {
				t.Errorf("%s\nownCluster(): %v (-want +got):\n%s", tc.reason, err, diff)
			}
		})
	}
}

// loggedIn is the content that a plugin gets: the text, or what becomes of the login.
func loggedIn(t failer, text string, l *login) string {
	t.Helper()
	if l == nil {
		return text
	}
	if text != "" || l.serviceAccount == "" || l.expiration < minExpiration {
		t.Fatalf("unexpected text %q or login %v", text, l)
	}
	cluster := l.cluster
	if cluster == nil {
		cluster = &clientcmdv1.Cluster{Server: "https://own"}
	}
	content := encode(map[string]any{"kubeconfig": tokenKubeconfig("target", "", cluster, "token")})
	return content
}
