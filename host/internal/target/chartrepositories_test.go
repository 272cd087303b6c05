package target

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
)

func TestChartRepository(t *testing.T) {
	t.Parallel()
	const address = "https://charts.example.org/stable"
	certificate, key := newAuthority().certificate, newAuthority().key
	entry := func(fields string) string { return `{"url":"` + address + `"` + fields + `}` }
	ca := func(text string) string { return entry(`,"customCAData":` + marshal(t, text)) }
	for name, tc := range map[string]struct {
		reason, entry string
		header, ca    string
		url           string // empty for address, "-" for none
		// problem begins after the path of the entry.
		problem string
	}{
		"Nothing": {reason: "a repository may need none", entry: entry("")},
		"Header":  {reason: "inline", entry: entry(`,"authHeader":"Basic ` + password + `"`), header: "Basic " + password},
		"HeaderEnd": {
			reason: "files end with an end of line", entry: entry(`,"authHeader":" Basic ` + password + `\r\n"`),
			header: "Basic " + password,
		},
		"Secret": {reason: "the default key", entry: entry(`,"secretRef":{"name":"header"}`), header: "Bearer " + password},
		"SecretKey": {
			reason: "a key of its own", entry: entry(`,"secretRef":{"name":"header","key":"other"}`),
			header: "Other " + password,
		},
		"CA": {reason: "an authority of one's own", entry: ca(base64Of(certificate)), ca: certificate},
		"Bundle": {
			reason: "several, with comments", entry: ca(base64Of("# one\n" + certificate + "# two\n" + certificate)),
			ca: certificate + certificate,
		},
		"WithKey": {reason: "nobody needs the key", entry: ca(base64Of(key + certificate)), ca: certificate},

		"HeaderAndSecret": {
			reason: "nobody guesses", entry: entry(`,"authHeader":"` + password + `","secretRef":{"name":"header"}`),
			problem: `: has both authHeader and secretRef; remove one of them`,
		},
		"HeaderLines": {
			reason: "it could add headers", entry: entry(`,"authHeader":"` + password + `\r\nX-Other: a"`),
			problem: `.authHeader: has a control character, such as an end of line, which no header can have; remove it`,
		},
		"HeaderDelete": {
			reason: "no header has it", entry: entry(`,"authHeader":"` + password + `\u007fa"`),
			problem: `.authHeader: has a control character, such as an end of line, which no header can have; remove it`,
		},
		"HeaderLong": {
			reason: "no server takes it", entry: entry(`,"authHeader":"` + strings.Repeat("x", maxHeader+1) + `"`),
			problem: `.authHeader: has 16385 bytes; at most 16384 are allowed`,
		},
		"HeaderLongest": {
			reason: "a bound is no mistake", entry: entry(`,"authHeader":"` + strings.Repeat("x", maxHeader) + `"`),
			header: strings.Repeat("x", maxHeader),
		},
		"HeaderNumber": {
			url: "-", reason: "YAML made it so", entry: entry(`,"authHeader":31337`),
			problem: `.authHeader: expected a text, found a number (quotes make it a text); correct it`,
		},
		"SecretMissing": {
			reason: "it may still come", entry: entry(`,"secretRef":{"name":"gone"}`),
			problem: `.secretRef.name: there is no Secret "shop/gone"; create it, or remove the entry`,
		},
		"KeyMissing": {
			reason: "the key is told", entry: entry(`,"secretRef":{"name":"header","key":"typo"}`),
			problem: `.secretRef: Secret "shop/header": has no key "typo"; add it, or correct ` +
				`configurations.helmChartRepoCredentials.auths[0].secretRef.key`,
		},
		"SecretEmpty": {
			reason: "nothing to send", entry: entry(`,"secretRef":{"name":"header","key":"empty"}`),
			problem: `.secretRef: Secret "shop/header": empty: is empty; put the value of the header Authorization into it`,
		},
		"SecretBinary": {
			reason: "it could not be sent to the plugin", entry: entry(`,"secretRef":{"name":"header","key":"binary"}`),
			problem: `.secretRef: Secret "shop/header": binary: is not UTF-8; expected the value of the header Authorization`,
		},
		"NoURL": {
			url: "-", reason: "nobody knows who gets it", entry: `{"authHeader":"` + password + `"}`,
			problem: `.url: is missing; it says which repository the credentials are for`,
		},
		"UserURL": {
			reason: "it would end up in messages", entry: `{"url":"https://me:` + password + `@charts.example.org/a"}`,
			url:     "https://charts.example.org/a",
			problem: `.url: has a user in it; put the credentials into authHeader or secretRef`,
		},
		"BadURL": {
			url: "-", reason: "a parser would quote it", entry: `{"url":"https://` + password + `\u007f/"}`,
			problem: `.url: is no URL; expected one such as https://charts.example.org`,
		},
		"HostURL": {
			url: "-", reason: "there is no host", entry: `{"url":"https://"}`,
			problem: `.url: expected https:// or http:// and a host`,
		},
		"BareURL": {
			url: "-", reason: "what is before the colon is no scheme", entry: `{"url":"me:` + password + `@charts.example.org"}`,
			problem: `.url: expected https:// or http:// and a host`,
		},
		"OtherURL": {
			url: "-", reason: "registries have credentials of their own", entry: `{"url":"oci://r.example.org/charts"}`,
			problem: `.url: expected https:// or http:// and a host`,
		},
		"NotBase64": {
			reason: "it is not quoted", entry: ca(password + "!"),
			problem: `.customCAData: is not valid base64; expected certificates in PEM, in base64`,
		},
		"BarePEM": {
			reason: "a common mistake", entry: ca(certificate),
			problem: `.customCAData: is PEM as such; encode it in base64, as in the certificate-authority-data of a kubeconfig`,
		},
		"NoPEM": {
			reason: "base64 of something else", entry: ca(base64Of(password)),
			problem: `.customCAData: holds no certificate in PEM once decoded from base64, or one that cannot be parsed`,
		},
		"BadPEM": {
			reason: "a certificate that is none", entry: ca(base64Of(certificate + "-----BEGIN " +
				"CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
			problem: `.customCAData: holds no certificate in PEM once decoded from base64, or one that cannot be parsed`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := strings.TrimPrefix(cmp.Or(tc.url, address), "-")
			want := sdk.ChartRepositoryCredentials{URL: url, AuthHeader: tc.header}
			if tc.ca != "" {
				want.CAData = []byte(tc.ca)
			}
			if tc.problem != "" {
				want.Problem = `Context "shop/default": configurations.helmChartRepoCredentials.auths[0]` + tc.problem
			}
			reader := &secretMap{byName: map[string]*corev1.Secret{
				"header": opaque("authHeader", "Bearer "+password+"\n", "other", "Other "+password, "empty", " \n", "binary",
					password+"\xff"),
			}}
			got, err := Credentials(t.Context(), reader, withRepositories(newContext(), `{"auths":[`+tc.entry+`]}`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(&sdk.Credentials{ChartRepositories: []sdk.ChartRepositoryCredentials{want}},
				got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestChartRepositories(t *testing.T) {
	t.Parallel()
	const root = `Context "shop/default": configurations.helmChartRepoCredentials`
	many := "{" + strings.TrimSuffix(strings.Repeat(`"url":"https://a"},{`, maxEntries+1), ",{")
	for name, tc := range map[string]struct {
		reason, document string
		want             []sdk.ChartRepositoryCredentials
	}{
		"Null": {"nothing is named", `null`, nil},
		"Order": {"one spoils no other", `{"auths":[{"url":"https://a","authHeader":"1"},{},{"url":"https://b"}],"other":1}`,
			[]sdk.ChartRepositoryCredentials{
				{URL: "https://a", AuthHeader: "1"},
				{Problem: root + `.auths[1].url: is missing; it says which repository the credentials are for`},
				{URL: "https://b"},
			}},
		"List": {
			"the whole cannot be read", `["` + password + `"]`,
			[]sdk.ChartRepositoryCredentials{{Problem: root + `: expected an object, found a list; correct it`}},
		},
		"NotJSON": {
			"a parser would quote it", password,
			[]sdk.ChartRepositoryCredentials{{Problem: root + `: is no valid JSON; correct it`}},
		},
		"TooMany": {
			"each may cost a request", `{"auths":[` + many + `]}`,
			append(slices.Repeat([]sdk.ChartRepositoryCredentials{{URL: "https://a"}}, maxEntries),
				sdk.ChartRepositoryCredentials{
					Problem: root + `.auths: has 51 entries, of which only the first 50 count; remove some`,
				}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Credentials(t.Context(), &secretMap{}, withRepositories(newContext(), tc.document))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(&sdk.Credentials{ChartRepositories: tc.want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// What a plugin sees of the Context has neither the configuration nor the copy that kubectl keeps of it.
func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	lsContext := withRepositories(newContext("pull"), `{"auths":[{"url":"https://a","authHeader":"`+password+`"}]}`)
	lsContext.ObjectMeta = metav1.ObjectMeta{Name: "default", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: password, "mine": "stays",
	}}
	before := marshal(t, lsContext)
	got := marshal(t, WithoutCredentials(lsContext))
	if strings.Contains(got, password) || !strings.Contains(got, "stays") ||
		!strings.Contains(got, `"configurations":{"other":{}}`) || !strings.Contains(got, "pull") {
		t.Errorf("expected all but the credentials, but found %s", got)
	}
	if marshal(t, lsContext) != before {
		t.Error("the Context itself was changed")
	}
	if plain := newContext("pull"); WithoutCredentials(plain) != plain {
		t.Error("expected a Context without credentials as it is")
	}
}
